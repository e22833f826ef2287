"""Tie-breaking between segments whose rows of one key have equal comparison values.

In the same segment: the later row wins. Of two consumed segments: the greater sequence number. Otherwise the segment
created later; at equal times an uploaded one over a consumed one, and of two uploaded ones that with the
name of an uploaded realtime segment; if all is equal, the existing row stays.
"""

import re
from dataclasses import dataclass

import numpy as np

from gamay.base.arrays import Array

_CONSUMED = re.compile(r"(?:(?!__).)+__(\d+)__(\d+)__\d{8}T\d{4}Z")
_UPLOADED = re.compile(r".+?__.+?__\d+__\d{8}T\d{4}Z__.+")


@dataclass(frozen=True, slots=True)
class SegmentRank:
    """Rank of a segment in ties. sequence: of a consumed segment, else None. created_ms: its creation time in the cluster's
    records, for OFFLINE tables its push time. is_standard: whether its name is that of an uploaded realtime segment.
    """

    sequence: int | None
    created_ms: int
    is_standard: bool

    @classmethod
    def of(cls, name: str, created_ms: int) -> "SegmentRank":
        """Return the rank of a segment by its name and time."""
        sequence = sequence_of(name)
        return cls(sequence, created_ms, sequence is None and _UPLOADED.fullmatch(name) is not None)


class Ranks:
    """The ranks of segments by ordinal, so that one is compared with all others in one operation."""

    def __init__(self) -> None:
        self._sequences: Array = np.empty(0, np.int64)  # -1: not a consumed segment
        self._created_ms: Array = np.empty(0, np.int64)
        self._is_standard: Array = np.empty(0, np.bool_)

    def put(self, number: int, rank: SegmentRank) -> None:
        """Set the rank of a segment."""
        if number >= len(self._sequences):
            room = 2 * number + 1
            self._sequences, self._created_ms, self._is_standard = (
                np.resize(ranks, room) for ranks in (self._sequences, self._created_ms, self._is_standard)
            )
        self._sequences[number] = -1 if rank.sequence is None else rank.sequence
        self._created_ms[number], self._is_standard[number] = rank.created_ms, rank.is_standard

    def beaten_by(self, rank: SegmentRank, count: int) -> Array:
        """Return which of the first segments lose against a segment of this rank: bool [count].

        Its rows replace theirs with equal comparison values.
        """
        sequences, created_ms = self._sequences[:count], self._created_ms[:count]
        is_consumed = sequences >= 0
        standard = rank.is_standard & ~self._is_standard[:count]
        kinds = np.where(is_consumed == (rank.sequence is None), rank.sequence is None, standard)
        wins: Array = np.where(created_ms == rank.created_ms, kinds, created_ms < rank.created_ms)
        if rank.sequence is not None:
            wins = np.where(is_consumed, sequences < rank.sequence, wins)
        return wins


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
