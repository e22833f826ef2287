"""Digests of groups while rows are added: rows are buffered, and merged when the buffer is full.

`DigestKind` covers the differences between t-digests and quantile digests. Digests of all groups share the same arrays,
so that one kernel call merges all of them.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.percentile.points import PointBuffer, SortedPoints
from gamay.functions.aggregate.percentile.serialized import parsed_rows
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.vector import Operand
from gamay.model.types import DataType

D = TypeVar("D")


class DigestKind(Protocol[D]):
    """Adapter to the digests of groups."""

    @property
    def name(self) -> str:
        """The name of such a digest in messages."""
        ...

    def points(self, values: Array) -> Array:
        """Return the points that represent numbers, in the same order."""
        ...

    def grown(self, digests: D | None, num_groups: int) -> D:
        """Return digests (None for none), extended by empty ones."""
        ...

    def of_points(self, points: SortedPoints) -> D: ...

    def merged(self, parts: Sequence[D], maps: Sequence[GroupIds], num_groups: int) -> D:
        """Merge: entry i of parts[k] goes to group maps[k][i]."""
        ...

    def parse(self, data: bytes) -> Any:
        """Deserialise one digest; raises ValueError for invalid bytes."""
        ...

    def side_by_side(self, parsed: Sequence[Any]) -> D:
        """Return parsed digests as those of groups 0, 1, …"""
        ...


class DigestState:
    """Digests of groups, None until the first is made, and the buffered values."""

    def __init__(self, kind: DigestKind[Any], num_groups: int) -> None:
        self._kind = kind
        self._every = np.arange(num_groups, dtype=np.int32)
        self._digests: Any = None
        self._buffer = PointBuffer(kind.points, num_groups)

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self._take(self._buffer.regroup(num_groups))
        self._every = np.arange(num_groups, dtype=np.int32)
        if self._digests is not None:
            self._digests = self._kind.grown(self._digests, num_groups)

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        """Add a batch of rows: numbers, or serialised digests as BYTES."""
        if operand.type is not DataType.BYTES:
            self._take(self._buffer.update(groups, operand, num_rows))
            return
        for of_rows, parsed in parsed_rows(self._kind.name, self._kind.parse, groups, operand, num_rows):
            self._merge(self._kind.side_by_side(parsed), of_rows)

    def combine(self, other: "DigestState") -> None:
        """Add the digests of another thread over the same groups."""
        self._merge(other.digests(), self._every)

    def digests(self) -> Any:
        """Return the digests of all rows added."""
        self._take(self._buffer.flush())
        return self._kind.grown(None, len(self._every)) if self._digests is None else self._digests

    def _take(self, ready: Sequence[SortedPoints]) -> None:
        for points in ready:
            added = self._kind.of_points(points)
            if self._digests is None:
                self._digests = added
            else:
                self._digests = self._kind.merged([self._digests, added], [self._every] * 2, len(self._every))

    def _merge(self, others: Any, groups: Array) -> None:
        self._digests = self._kind.merged([self.digests(), others], [self._every, groups], len(self._every))
