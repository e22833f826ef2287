"""Names of segments consumed from a stream: `<raw table>__<partition>__<sequence>__<creation time>`.

Sequence numbers of a partition start at 0 and may have gaps; order segments by sequence number, never by the time,
which has a resolution of minutes.
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
"""Base of the partition number of segments that one consumer fills from a whole topic; the topic's index is added."""

Place: TypeAlias = tuple[int, str]
"""The place of a message in a table's streams: the partition, as in `LlcName`, and the offset as text."""


@dataclass(frozen=True, slots=True, order=True)
class LlcName:
    """The parts of a segment's name.

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
        """Return the parts, or None if the name has another form."""
        return _parse(name)

    @classmethod
    def must_parse(cls, name: str) -> "LlcName":
        """Return the parts. Raises ValueError if the name has another form."""
        parsed = cls.parse(name)
        if parsed is None:
            raise ValueError(
                f"'{name}' is not the name of a segment consumed from a stream (table__partition__sequence__time)"
            )
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
        """Return the index of the topic that the rows come from."""
        return self.partition - STREAM_LEVEL if self.is_stream_level else self.partition // PARTITIONS_PER_TOPIC

    @property
    def is_stream_level(self) -> bool:
        """Whether the rows come from all partitions of the topic, consumed as a whole."""
        return self.partition >= STREAM_LEVEL

    @property
    def stream_partition(self) -> int:
        """Return the partition of the topic that the rows come from; 0 if the topic is consumed as a whole."""
        return 0 if self.is_stream_level else self.partition % PARTITIONS_PER_TOPIC


@lru_cache(1 << 14)  # every change of an ideal state parses the names in it
def _parse(name: str) -> LlcName | None:
    parts = name.split(_SEPARATOR)
    if len(parts) != 4 or not parts[0] or not _is_number(parts[1]) or not _is_number(parts[2]):
        return None
    if _TIME.fullmatch(parts[3]) is None:
        return None
    return LlcName(parts[0], int(parts[1]), int(parts[2]), parts[3])


def partition_of(name: str) -> int | None:
    """Return the table's partition in a segment's name, or None.

    Besides the names above, those of segments uploaded into a REALTIME table contain it:
    `<prefix>__<table>__<partition>__<time>__<suffix>`.
    """
    parsed = LlcName.parse(name)
    if parsed is not None:
        return None if parsed.is_stream_level else parsed.partition
    parts = name.split(_SEPARATOR)
    return int(parts[2]) if len(parts) == 5 and _is_number(parts[2]) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
