"""PERCENTILEKLL and PERCENTILERAWKLL: percentiles from KLL sketches of Apache DataSketches.

A third argument is k, 200 when not given, which decides on size and error. PERCENTILERAWKLL is the sketch itself, in base64,
as all libraries of DataSketches read and write sketches of doubles. An argument of BYTES holds such sketches, which are
merged; empty bytes hold nothing. Up to k values of a group the percentile is one of them and exact; beyond, sketches choose
at random what they keep. NaN is passed over. Empty: NaN, and an empty sketch.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.lookup import lookup_values, numbers
from gamay.functions.aggregate.percentile.points import bring_together, buffer_rows, starts_of
from gamay.functions.aggregate.percentile.sorted_values import percentile_of
from gamay.functions.aggregate.totals.numeric import require_arguments, require_number
from gamay.functions.aggregate.totals.totals import flatten, unsigned
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.deferred import datasketches
from gamay.functions.sketch.kll import merge_bytes, new_sketch
from gamay.functions.sketch.parameters import Number, number_parameter
from gamay.functions.vector import EncodedVector, Operand, Vector, take
from gamay.model.types import DataType

Sketches: TypeAlias = list[Any]  # a kll_doubles_sketch for each group, None where there was no row

_K = Number(200, 8, 65_535)


class KllState:
    """The sketch of each group, and rows that wait until a group has many at once."""

    def __init__(self, k: int, num_groups: int) -> None:
        self._k = k
        self._sketches: Sketches = [None] * num_groups
        self._waiting: list[tuple[Array, Array]] = []
        self._waiting_rows = 0

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self._sketches += [None] * (num_groups - len(self._sketches))

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        """Add a batch of rows."""
        groups, values = flatten(None if groups is None else unsigned(groups), operand, num_rows)
        of_rows = np.zeros(len(values), np.int32) if groups is None else groups.astype(np.int32)
        if values.type is DataType.BYTES:
            self._merge_serialized(of_rows, values.decode() if isinstance(values, EncodedVector) else values)
            return
        if isinstance(values, EncodedVector):
            doubles = take(lookup_values(values.dictionary).astype(np.float64), values.ids)
        else:
            # a copy, as blocks may lie in buffers that are used again
            doubles = numbers(values.type, values.values).astype(np.float64)
        self._waiting.append((of_rows, doubles))
        self._waiting_rows += len(doubles)
        if self._waiting_rows > buffer_rows(len(self._sketches)):
            self._flush()

    def combine(self, other: "KllState") -> None:
        """Add the sketches of another thread over the same groups."""
        for group, sketch in enumerate(other.sketches()):
            if sketch is not None:
                self._of(group).merge(sketch)

    def sketches(self) -> Sketches:
        """Return the sketch of each group."""
        self._flush()
        return self._sketches

    def _flush(self) -> None:
        if self._waiting_rows == 0:
            return
        groups = np.concatenate([part for part, _ in self._waiting])
        values = np.concatenate([part for _, part in self._waiting])
        self._waiting, self._waiting_rows = [], 0
        starts = starts_of(groups, len(self._sketches))
        gathered = bring_together(groups, starts, values)
        for group in np.flatnonzero(np.diff(starts)).tolist():
            self._of(group).update(gathered[starts[group] : starts[group + 1]])

    def _merge_serialized(self, groups: Array, values: Vector) -> None:
        for group, data in zip(groups.tolist(), values.values.to_pylist(), strict=True):
            merge_bytes(self._of(group), data)

    def _of(self, group: int) -> Any:
        if self._sketches[group] is None:
            self._sketches[group] = new_sketch(self._k)
        return self._sketches[group]


def merge_sketches(partials: Sequence[Sketches], maps: Sequence[GroupIds], num_groups: int, k: int) -> Sketches:
    """Merge: entry i of partials[j] goes to group maps[j][i]."""
    merged: Sketches = [None] * num_groups
    for partial, groups in zip(partials, maps, strict=True):
        for group, sketch in zip(groups.tolist(), partial, strict=True):
            if sketch is not None:
                if merged[group] is None:
                    merged[group] = new_sketch(k)
                merged[group].merge(sketch)
    return merged


@dataclass(frozen=True, slots=True)
class KllPercentile(KeepsState):
    """A percentile from KLL sketches, or with `raw` these themselves. The partial is `Sketches`."""

    percentile: float
    k: int
    raw: bool
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> KllState:
        return KllState(self.k, num_groups)

    def seal(self, state: KllState) -> Sketches:
        return state.sketches()

    def select(self, partial: Sketches, groups: Array) -> Sketches:
        return [partial[group] for group in groups.tolist()]

    def merge(self, partials: Sequence[Sketches], maps: Sequence[GroupIds], num_groups: int) -> Sketches:
        return merge_sketches(partials, maps, num_groups, self.k)

    def finish(self, partial: Sketches) -> Vector:
        if self.raw:
            empty = new_sketch(self.k)
            texts = [base64.b64encode((sketch or empty).serialize()).decode() for sketch in partial]
            return Vector(DataType.STRING, pa.array(texts, pa.string()))
        q = self.percentile / 100
        results = [np.nan if sketch is None or sketch.is_empty() else sketch.get_quantile(q, True) for sketch in partial]
        return Vector(DataType.DOUBLE, np.array(results, np.float64))

    def encode(self, partial: Sketches) -> list[pa.Array]:
        return [pa.array([None if sketch is None else sketch.serialize() for sketch in partial], pa.binary())]

    def decode(self, arrays: Sequence[pa.Array]) -> Sketches:
        read = datasketches().kll_doubles_sketch.deserialize
        return [None if data is None else read(data) for data in arrays[0].to_pylist()]


# -- binding


def _bind(call: Call, arg_types: Sequence[ValueType]) -> KllPercentile:
    percentile = percentile_of(call)
    require_arguments(call, 2, 3)
    if [data_type for data_type, _ in arg_types] != [DataType.BYTES]:
        require_number(call, arg_types, 2)
    k = number_parameter(call, 2, "k", _K)
    raw = "raw" in call.name
    return KllPercentile(percentile, k, raw, AggregateTraits(DataType.STRING if raw else DataType.DOUBLE, f"kll {k}"))


register_aggregate(["percentileKLL", "percentileKLLMV"], _bind, suffixed=True)
register_aggregate(["percentileRawKLL", "percentileRawKLLMV"], _bind, suffixed=True)
