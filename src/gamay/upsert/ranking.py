"""Which of two segments wins when rows of one key have equal comparison values.

The same segment: the later row. Two segments that were consumed: the greater sequence number. Otherwise the segment that
was created later, at equal times one that was uploaded over one that was consumed, and of two uploaded ones that with the
name of an uploaded realtime segment; if all is equal, the row that is there stays.
"""

import re
from dataclasses import dataclass

_CONSUMED = re.compile(r"(?:(?!__).)+__(\d+)__(\d+)__\d{8}T\d{4}Z")
_UPLOADED = re.compile(r".+?__.+?__\d+__\d{8}T\d{4}Z__.+")


@dataclass(frozen=True, slots=True)
class SegmentRank:
    """What decides ties. sequence: of a consumed segment, else None. created_ms: its creation time in the cluster's records,
    for OFFLINE tables its push time. is_standard: whether its name is that of an uploaded realtime segment.
    """

    sequence: int | None
    created_ms: int
    is_standard: bool

    @classmethod
    def of(cls, name: str, created_ms: int) -> "SegmentRank":
        """Return the rank of a segment by its name and time."""
        sequence = sequence_of(name)
        return cls(sequence, created_ms, sequence is None and _UPLOADED.fullmatch(name) is not None)

    def beats(self, other: "SegmentRank") -> bool:
        """Whether a row of this segment takes the place of one of the other with equal comparison values."""
        if self.sequence is not None and other.sequence is not None:
            return self.sequence > other.sequence
        if self.created_ms != other.created_ms:
            return self.created_ms > other.created_ms
        if (self.sequence is None) != (other.sequence is None):
            return self.sequence is None
        return self.is_standard and not other.is_standard


def sequence_of(name: str) -> int | None:
    """Return the sequence number in the name of a consumed segment; None for other names."""
    consumed = _CONSUMED.fullmatch(name)
    return int(consumed.group(2)) if consumed else None


def partition_of(name: str) -> int | None:
    """Return the partition in the name of a consumed or an uploaded realtime segment; None for other names."""
    consumed = _CONSUMED.fullmatch(name)
    if consumed:
        return int(consumed.group(1))
    return int(name.split("__")[-3]) if _UPLOADED.fullmatch(name) else None
