"""Aggregates of one library-made sketch object per group; a `SketchKind` adapts them.

Every sketch object has a method `serialize`, which returns bytes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.totals.totals import flatten
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.vector import EncodedVector, Operand, Vector

S = TypeVar("S")

Sketches: TypeAlias = list[Any]  # the sketch of each group, None for empty groups


class SketchKind(Protocol[S]):
    """Adapter to sketches of one kind and size; equal adapters make equal sketches."""

    @property
    def is_idempotent(self) -> bool:
        """Whether merging a sketch twice is equivalent to merging it once."""
        ...

    def allocate(self, num_groups: int) -> "SketchState":
        """Return an empty state."""
        ...

    def merged(self, own: S | None, others: Iterable[S]) -> S:
        """Return the union of one or more sketches; may modify `own`, but no other."""
        ...

    def parse(self, data: bytes) -> S:
        """Deserialise a sketch; raises QueryError 200 for invalid bytes."""
        ...


class SketchState:
    """The sketch of each group. This class merges serialised sketches; kinds built from values override `add`."""

    def __init__(self, kind: SketchKind[Any], num_groups: int) -> None:
        self._kind = kind
        self._sketches: Sketches = [None] * num_groups

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self._sketches += [None] * (num_groups - len(self._sketches))

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        """Add a batch of rows."""
        groups, values = flatten(groups, operand, num_rows)
        self.add(np.zeros(len(values), np.int64) if groups is None else groups.astype(np.int64), values)

    def add(self, groups: Array, values: Vector | EncodedVector) -> None:
        """Add single values, here sketches as BYTES; empty bytes are an empty sketch. groups: int64, of each value."""
        rows = (values.decode() if isinstance(values, EncodedVector) else values).values.to_pylist()
        pairs: Iterable[tuple[int, bytes]] = zip(groups.tolist(), rows, strict=True)
        parse = self._kind.parse
        if self._kind.is_idempotent:
            pairs, parse = dict.fromkeys(pairs), cache(parse)
        of_groups: dict[int, list[bytes]] = {}
        for group, data in pairs:
            if data:
                of_groups.setdefault(group, []).append(data)
        for group, serialized in of_groups.items():
            self._sketches[group] = self._kind.merged(self._sketches[group], map(parse, serialized))

    def combine(self, other: "SketchState") -> None:
        """Add the sketches of another thread over the same groups."""
        for group, sketch in enumerate(other.finished()):
            if sketch is not None:
                self._sketches[group] = self._kind.merged(self._sketches[group], [sketch])

    def finished(self) -> Sketches:
        """Return the sketch of each group."""
        return self._sketches


@dataclass(frozen=True, slots=True)
class SketchPerGroup(KeepsState, Generic[S]):
    """Aggregate of a sketch for each group. State and partial hold a list of sketches, None for empty groups."""

    kind: SketchKind[S]
    result: Callable[[list[S | None]], Vector]
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> SketchState:
        return self.kind.allocate(num_groups)

    def seal(self, state: SketchState) -> Sketches:
        return state.finished()

    def select(self, partial: Sketches, groups: Array) -> Sketches:
        return [partial[group] for group in groups.tolist()]

    def merge(self, partials: Sequence[Sketches], maps: Sequence[GroupIds], num_groups: int) -> Sketches:
        of_groups: list[list[S]] = [[] for _ in range(num_groups)]
        for partial, groups in zip(partials, maps, strict=True):
            for group, sketch in zip(groups.tolist(), partial, strict=True):
                if sketch is not None:
                    of_groups[group].append(sketch)
        return [self.kind.merged(None, some) if some else None for some in of_groups]

    def finish(self, partial: Sketches) -> Vector:
        return self.result(partial)

    def encode(self, partial: Sketches) -> list[pa.Array]:
        serialized = [None if sketch is None else sketch.serialize() for sketch in partial]
        return [pa.array(serialized, pa.binary())]

    def decode(self, arrays: Sequence[pa.Array]) -> Sketches:
        return [self.kind.parse(data) if data else None for data in arrays[0].to_pylist()]
