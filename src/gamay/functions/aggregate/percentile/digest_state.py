"""Digests of groups while rows are added: rows wait in a buffer, and are merged when they are many.

What t-digests and quantile digests do not have in common is told by a `DigestKind`. Digests of all groups lie in the same
arrays, so that a kernel merges all of them at once.
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
        """What messages call such a digest."""
        ...

    def points(self, values: Array) -> Array:
        """Return numbers as what is kept of them, in the same order."""
        ...

    def grown(self, digests: D | None, num_groups: int) -> D:
        """Return digests, or none, with empty ones behind them."""
        ...

    def of_points(self, points: SortedPoints) -> D: ...

    def merged(self, parts: Sequence[D], maps: Sequence[GroupIds], num_groups: int) -> D:
        """Merge: entry i of parts[k] goes to group maps[k][i]."""
        ...

    def parse(self, data: bytes) -> Any:
        """Read one digest; raises ValueError for bytes that are none."""
        ...

    def side_by_side(self, parsed: Sequence[Any]) -> D:
        """Return digests that were read as those of groups 0, 1, …"""
        ...


class DigestState:
    """Digests of groups, None as long as there is none, and the values that wait."""

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
        """Add a batch of rows: of numbers, or of BYTES with serialised digests."""
        if operand.type is not DataType.BYTES:
            self._take(self._buffer.update(groups, operand, num_rows))
            return
        for of_rows, parsed in parsed_rows(self._kind.name, self._kind.parse, groups, operand, num_rows):
            self._merge(self._kind.side_by_side(parsed), of_rows)

    def combine(self, other: "DigestState") -> None:
        """Add the digests of another thread over the same groups."""
        self._merge(other.digests(), self._every)

    def digests(self) -> Any:
        """Return the digests of everything that was added."""
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
