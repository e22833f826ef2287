"""The formats of date-time columns: the two syntaxes of `format`, and of `granularity`."""

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import Enum

from gamay.base.errors import InvalidConfigError, nearest
from gamay.base.recently_used import remembered
from gamay.model.schema.joda import JodaPattern, joda_pattern
from gamay.model.units import TimeUnit
from gamay.model.zones import EPOCH, parse_timestamp, time_zone, zone_id

__all__ = [
    "ISO_PATTERN",
    "DateTimeFormat",
    "DateTimeKind",
    "Granularity",
    "JodaPattern",
    "joda_pattern",
    "sane_time",
    "time_zone",
]

_SANE_FROM_MS = 31_536_000_000  # 1971-01-01T00:00Z
_SANE_TO_MS = 3_187_296_000_000  # 2071-01-01T00:00Z


def sane_time(millis: int) -> bool:
    """Whether a time is in 1971 to 2071: others are assumed to result from a wrong unit or format."""
    return _SANE_FROM_MS <= millis <= _SANE_TO_MS


class DateTimeKind(Enum):
    """The kind of a date-time value."""

    EPOCH = "EPOCH"  # a count of units since 1970
    SIMPLE_DATE_FORMAT = "SIMPLE_DATE_FORMAT"  # text in a pattern
    TIMESTAMP = "TIMESTAMP"  # milliseconds since 1970, shown as text


_ZONE_SUFFIX = re.compile(r"\s*tz\(\s*(.+?)\s*\)\s*$", re.IGNORECASE)
ISO_PATTERN = "yyyy-MM-dd'T'HH:mm:ss.SSSZZ"
"""The output pattern of SIMPLE_DATE_FORMAT without a pattern."""
_TIME_ORDER = "yMdHmsS"


@dataclass(frozen=True)
class DateTimeFormat:
    """A parsed `format`. `unit` and `size` apply to EPOCH only, `pattern` and `time_zone` to SIMPLE_DATE_FORMAT only.

    pattern: None for ISO 8601. text: as the user wrote it, or generated; two formats are equal if they have the same
    meaning.
    """

    kind: DateTimeKind
    unit: TimeUnit = TimeUnit.MILLISECONDS
    size: int = 1
    pattern: JodaPattern | None = None
    time_zone: tzinfo = UTC
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.text:
            object.__setattr__(self, "text", self._written())

    def _written(self) -> str:
        if self.kind is DateTimeKind.EPOCH:
            return f"{self.size}:{self.unit.name}:EPOCH"
        if self.kind is DateTimeKind.TIMESTAMP:
            return "TIMESTAMP"
        return f"SIMPLE_DATE_FORMAT|{self.pattern.pattern if self.pattern else ''}|{zone_id(self.time_zone)}"

    @classmethod
    def parse(cls, text: str) -> "DateTimeFormat":
        """Parse either syntax: `1:DAYS:EPOCH` (begins with a digit) or `EPOCH|DAYS|1`; raises InvalidConfigError."""
        return _parse_format(text)

    @property
    def sorts_like_time(self) -> bool:
        """Whether the pattern's letters go from the longest unit to the shortest, so that its texts sort like times."""
        if self.pattern is None:
            return True
        ranks = [_TIME_ORDER.index(t.letter) for t in self.pattern.tokens if t.letter and t.letter in _TIME_ORDER]
        return ranks == sorted(ranks)

    def to_millis(self, value: float | str) -> int:
        """Return epoch milliseconds of a column value, a number or text; raises ValueError."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 20130131.0 equals 20130131 for a pattern, too
        if self.kind is DateTimeKind.EPOCH:
            try:
                return self.unit.to_millis(_count(value) * self.size)
            except (ValueError, OverflowError):
                raise ValueError(
                    f"'{value}' is not a number of {self.unit.name}, which the format '{self.text}' asks for"
                ) from None
        if self.kind is DateTimeKind.TIMESTAMP:
            return value if isinstance(value, int) else parse_timestamp(str(value))
        if self.pattern is not None:
            return self.pattern.parse(str(value), self.time_zone)
        return _parse_iso(str(value), self.time_zone)

    def from_millis(self, millis: int) -> int | str:
        """Return the column value of a time, rounded down to the unit.

        EPOCH: int. SIMPLE_DATE_FORMAT: text (an INT or LONG column holds it as a number). TIMESTAMP: int, the milliseconds.
        """
        if self.kind is DateTimeKind.EPOCH:
            return self.unit.from_millis(millis) // self.size
        if self.kind is DateTimeKind.TIMESTAMP:
            return millis
        return (self.pattern or joda_pattern(ISO_PATTERN)).print(millis, self.time_zone)


TIMESTAMP_FORMAT = DateTimeFormat(DateTimeKind.TIMESTAMP, text="TIMESTAMP")


def _count(value: float | str) -> int:
    """Return a whole number, rounding down numbers with a fraction or an exponent; raises ValueError, OverflowError."""
    if isinstance(value, str):
        if "_" in value:
            raise ValueError("only Python reads 1_000 as a number")
        try:
            return int(value)
        except ValueError:
            value = float(value)
    return math.floor(value)


# forms of dates that Python does not parse: a year, a month, a day of a year; perhaps followed by a time
_ISO_PERIOD = re.compile(r"(\d{4})(?:-(?:(?P<month>\d\d)|(?P<day>\d{3})))?(?P<time>T.*)?", re.ASCII)


def _first_day(period: "re.Match[str]") -> str:
    """Return the first day of a year or month, or a day of a year, as a date; raises ValueError."""
    year = int(period[1])
    day = date(year, int(period["month"] or 1), 1) + timedelta(days=int(period["day"] or 1) - 1)
    if day.year != year:
        raise ValueError(f"{year} has no day {period['day']}")
    return day.isoformat()


def _parse_iso(text: str, zone: tzinfo) -> int:
    try:
        period = _ISO_PERIOD.fullmatch(text)
        moment = datetime.fromisoformat(text if period is None else _first_day(period) + (period["time"] or ""))
    except (ValueError, OverflowError):
        raise ValueError(f"'{text}' is not an ISO 8601 time such as 2013-01-31T05:15:00Z") from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=zone)) - EPOCH) // timedelta(milliseconds=1)


@remembered()
def _parse_format(text: str) -> DateTimeFormat:
    stripped = text.strip()
    colon = stripped[:1].isdigit()
    parts = stripped.split(":", 3) if colon else stripped.split("|")
    if colon and len(parts) < 3:
        raise _bad_format(text, "a size, a unit and a kind are needed")
    kind = _kind(text, parts[2] if colon else parts[0])
    if kind is DateTimeKind.TIMESTAMP:
        return DateTimeFormat(kind, text=text)
    if kind is DateTimeKind.EPOCH:
        if len(parts) > 3:
            raise _bad_format(text, f"nothing may follow {'EPOCH' if colon else 'the size'}")
        size, unit = (
            (parts[0], parts[1]) if colon else ([*parts, "1"][2] if len(parts) > 1 else "1", [*parts, "MILLISECONDS"][1])
        )
        return DateTimeFormat(kind, TimeUnit.parse(unit), _size(text, size), text=text)
    if colon:
        pattern, zone = _split_zone(parts[3] if len(parts) > 3 else "")
    else:
        # a pattern may contain the separator only in quotes, which is unlikely; more than three parts are a mistake
        if len(parts) > 3:
            raise _bad_format(text, "at most a pattern and a zone may follow SIMPLE_DATE_FORMAT")
        pattern, zone = [*parts, "", ""][1:3]
    return DateTimeFormat(
        kind, pattern=joda_pattern(pattern) if pattern else None, time_zone=time_zone(zone or "UTC"), text=text
    )


def _split_zone(pattern: str) -> tuple[str, str]:
    match = _ZONE_SUFFIX.search(pattern)
    return (pattern[: match.start()], match[1]) if match else (pattern, "")


def _kind(text: str, name: str) -> DateTimeKind:
    try:
        return DateTimeKind(name.strip().upper())
    except ValueError:
        raise _bad_format(text, f"'{name}' is not a kind.{nearest(name, [k.value for k in DateTimeKind])}") from None


def _size(text: str, digits: str) -> int:
    if not (digits.strip().isascii() and digits.strip().isdigit()) or int(digits) == 0:
        raise _bad_format(text, f"the size '{digits}' is not a positive whole number")
    return int(digits)


def _bad_format(text: str, reason: str) -> InvalidConfigError:
    return InvalidConfigError(
        f"'{text}' is not a date-time format ({reason}); write for example '1:DAYS:EPOCH', "
        f"'1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd tz(America/Chicago)', 'EPOCH|DAYS|1', "
        f"'SIMPLE_DATE_FORMAT|yyyy-MM-dd|America/Chicago' or 'TIMESTAMP'"
    )


@dataclass(frozen=True)
class Granularity:
    """The bucket that times are meant to be grouped by; `text` is as the user wrote it."""

    size: int
    unit: TimeUnit
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.text:
            object.__setattr__(self, "text", f"{self.size}:{self.unit.name}")

    @classmethod
    def parse(cls, text: str) -> "Granularity":
        """Parse `15:MINUTES`, `MINUTES|15` or `MINUTES`; raises InvalidConfigError."""
        stripped = text.strip()
        if ":" in stripped:
            size, _, unit = stripped.partition(":")
        else:
            unit, _, size = stripped.partition("|")
        size = size or "1"
        if not (size.strip().isascii() and size.strip().isdigit()) or int(size) == 0:
            raise InvalidConfigError(
                f"'{text}' is not a granularity: the size '{size}' is not a positive whole number; "
                "write for example '15:MINUTES' or 'MINUTES|15'"
            )
        return cls(int(size), TimeUnit.parse(unit), text)

    @property
    def millis(self) -> int:
        """The bucket's length in milliseconds, rounded down."""
        return self.unit.to_millis(self.size)
