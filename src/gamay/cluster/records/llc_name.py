"""Names of segments made from a stream: `<raw table>__<partition>__<sequence>__<creation time>`.

Sequences of a partition begin at 0 and have no holes that anybody may rely on; order segments by sequence, never by
the time, which has only minutes.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias

_SEPARATOR = "__"
_TIME_FORMAT = "%Y%m%dT%H%MZ"
_TIME = re.compile(r"\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3])[0-5]\dZ", re.ASCII)
PARTITIONS_PER_TOPIC = 10_000
STREAM_LEVEL = 1_000_000_000
"""What the partition is of segments that one consumer fills with a whole topic: this, and the topic's index."""

Place: TypeAlias = tuple[int, str]
"""Where a message of a table's streams is: the partition, as in `LlcName`, and the offset as text."""


@dataclass(frozen=True, slots=True, order=True)
class LlcName:
    """The parts of a name.

    partition: `topic index * PARTITIONS_PER_TOPIC + partition of the stream`, or STREAM_LEVEL plus the topic index.
    time: UTC, to the minute.
    """

    table: str
    partition: int
    sequence: int
    time: str

    def __str__(self) -> str:
        return _SEPARATOR.join((self.table, str(self.partition), str(self.sequence), self.time))

    @classmethod
    def new(cls, table: str, partition: int, sequence: int, now_ms: int) -> "LlcName":
        """Return the name of a segment that is created now. table: raw name."""
        return cls(table, partition, sequence, datetime.fromtimestamp(now_ms / 1000, UTC).strftime(_TIME_FORMAT))

    @classmethod
    def parse(cls, name: str) -> "LlcName | None":
        """Return the parts, or None when the name is of another kind."""
        return _parse(name)

    @classmethod
    def must_parse(cls, name: str) -> "LlcName":
        """Return the parts. Raises ValueError when the name is of another kind."""
        parsed = cls.parse(name)
        if parsed is None:
            raise ValueError(f"'{name}' is not the name of a segment made from a stream (table__partition__sequence__time)")
        return parsed

    def next(self, now_ms: int) -> "LlcName":
        """Return the name of the segment that follows in the same partition."""
        return LlcName.new(self.table, self.partition, self.sequence + 1, now_ms)

    @property
    def created_ms(self) -> int:
        """Return the time of the name, in milliseconds."""
        return int(datetime.strptime(self.time, _TIME_FORMAT).replace(tzinfo=UTC).timestamp() * 1000)

    @property
    def topic_index(self) -> int:
        """Return which of the table's topics the rows come from."""
        return self.partition - STREAM_LEVEL if self.is_stream_level else self.partition // PARTITIONS_PER_TOPIC

    @property
    def is_stream_level(self) -> bool:
        """Whether the rows come from all partitions of the topic, read as one."""
        return self.partition >= STREAM_LEVEL

    @property
    def stream_partition(self) -> int:
        """Return the partition of the topic that the rows come from; 0 where all are read as one."""
        return 0 if self.is_stream_level else self.partition % PARTITIONS_PER_TOPIC


@lru_cache(1 << 14)  # every change of an ideal state asks for the names in it
def _parse(name: str) -> LlcName | None:
    parts = name.split(_SEPARATOR)
    if len(parts) != 4 or not parts[0] or not _is_number(parts[1]) or not _is_number(parts[2]):
        return None
    if _TIME.fullmatch(parts[3]) is None:
        return None
    return LlcName(parts[0], int(parts[1]), int(parts[2]), parts[3])


def partition_of(name: str) -> int | None:
    """Return the table's partition that a segment's name tells, None when it tells none.

    Besides the names above, those of segments uploaded into a REALTIME table tell it:
    `<prefix>__<table>__<partition>__<time>__<suffix>`.
    """
    parsed = LlcName.parse(name)
    if parsed is not None:
        return None if parsed.is_stream_level else parsed.partition
    parts = name.split(_SEPARATOR)
    return int(parts[2]) if len(parts) == 5 and _is_number(parts[2]) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
