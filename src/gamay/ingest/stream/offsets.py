"""Offsets of a partition, and the criteria by which a table config selects where consumption starts."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.units import parse_period


class Offset(Protocol):
    """A position in one partition, ordered among the offsets of that partition and stored as text in records.

    Offsets need be neither numeric nor contiguous. `str()` returns the text that the stream's `parse_offset` accepts.
    """

    def __lt__(self, other: Any, /) -> bool: ...

    def __le__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True, order=True)
class IntegerOffset:
    """The offset of streams that number their messages."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


def parse_integer_offset(text: str) -> IntegerOffset:
    """Parse an offset stored as decimal text; raises InvalidConfigError for any other text."""
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII):
        raise InvalidConfigError(f"'{text}' is not an offset of this stream; its offsets are whole numbers from 0")
    return IntegerOffset(int(text))


class OffsetKind(Enum):
    """A kind of offset criterion."""

    SMALLEST = "smallest"
    LARGEST = "largest"
    PERIOD = "period"
    TIMESTAMP = "timestamp"


_DATETIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:?\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class OffsetCriteria:
    """A criterion for the offset at which consumption starts.

    millis: for PERIOD, the milliseconds before now; for TIMESTAMP, milliseconds since 1970 in UTC; else 0.
    """

    kind: OffsetKind
    millis: int = 0

    @classmethod
    def parse(cls, text: str) -> "OffsetCriteria":
        """Parse `smallest`, `largest`, a period (`2d`), a time (`2026-01-31T10:00:00.000Z`) or milliseconds since 1970.

        Raises InvalidConfigError that lists the valid forms, and suggests the equivalent of Kafka's own terms.
        """
        word = text.strip().lower()
        if word in ("smallest", "largest"):
            return cls(OffsetKind(word))
        if re.fullmatch(r"\d{1,18}", word, re.ASCII):
            return cls(OffsetKind.TIMESTAMP, int(word))
        if _DATETIME.fullmatch(text.strip()):
            try:
                at = datetime.fromisoformat(text.strip())
            except ValueError as error:
                raise InvalidConfigError(f"'{text}' is not a point in time: {error}") from None
            return cls(OffsetKind.TIMESTAMP, int(at.timestamp() * 1000))
        try:
            return cls(OffsetKind.PERIOD, parse_period(word))
        except InvalidConfigError:
            instead = {"earliest": "smallest", "latest": "largest"}.get(word)
            hint = f" Write '{instead}'." if instead else nearest(word, ("smallest", "largest"))
            raise InvalidConfigError(
                f"'{text}' is no offset criterion; use smallest, largest, a period such as '2d', a time such as "
                f"'2026-01-31T10:00:00.000Z', or milliseconds since 1970.{hint}"
            ) from None

    def timestamp_ms(self, now_ms: int) -> int | None:
        """Return the time to start reading from, in milliseconds since 1970; None for SMALLEST and LARGEST."""
        if self.kind is OffsetKind.PERIOD:
            return now_ms - self.millis
        return self.millis if self.kind is OffsetKind.TIMESTAMP else None

    def __str__(self) -> str:
        if self.kind in (OffsetKind.SMALLEST, OffsetKind.LARGEST):
            return str(self.kind.value)
        return f"{self.kind.value} {self.millis} ms"


SMALLEST = OffsetCriteria(OffsetKind.SMALLEST)
LARGEST = OffsetCriteria(OffsetKind.LARGEST)
