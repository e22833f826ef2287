"""PERCENTILEKLL and PERCENTILERAWKLL: percentiles from KLL sketches of Apache DataSketches.

A third argument is k, 200 by default, which determines size and error. PERCENTILERAWKLL is the sketch itself, in base64,
in the format of all DataSketches libraries for sketches of doubles. An argument of BYTES holds such sketches, which are
merged; empty bytes are an empty sketch. Up to k values of a group the percentile is exact and one of them; beyond,
sketches choose at random what they keep. NaN is skipped. Empty: NaN, and an empty sketch.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.lookup import lookup_values, numbers
from gamay.functions.aggregate.per_group import Sketches, SketchPerGroup, SketchState
from gamay.functions.aggregate.percentile.points import bring_together, buffer_rows, starts_of
from gamay.functions.aggregate.percentile.sorted_values import percentile_of
from gamay.functions.aggregate.totals.numeric import require_arguments, require_number
from gamay.functions.aggregate_spi import AggregateTraits
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.compact import base64_texts
from gamay.functions.sketch.kll import KllSketch, new_sketch, parse
from gamay.functions.sketch.parameters import Number, number_parameter
from gamay.functions.vector import EncodedVector, Vector, take
from gamay.model.types import DataType

_K = Number(200, 8, 65_535)


class KllState(SketchState):
    """The sketch of each group, and rows that are buffered to update it with many at once."""

    def __init__(self, kind: "KllKind", num_groups: int) -> None:
        super().__init__(kind, num_groups)
        self._k = kind.k
        self._waiting: list[tuple[Array, Array]] = []
        self._waiting_rows = 0

    def add(self, groups: Array, values: Vector | EncodedVector) -> None:
        """Add numbers, or sketches as BYTES."""
        if values.type is DataType.BYTES:
            super().add(groups, values)
            return
        if isinstance(values, EncodedVector):
            doubles = take(lookup_values(values.dictionary).astype(np.float64), values.ids)
        else:
            # a copy, as blocks may lie in buffers that are reused
            doubles = numbers(values.type, values.values).astype(np.float64)
        self._waiting.append((groups.astype(np.int32), doubles))
        self._waiting_rows += len(doubles)
        if self._waiting_rows > buffer_rows(len(self._sketches)):
            self.finished()

    def finished(self) -> Sketches:
        """Return the sketch of each group, with all buffered rows added."""
        if self._waiting_rows == 0:
            return self._sketches
        groups = np.concatenate([part for part, _ in self._waiting])
        values = np.concatenate([part for _, part in self._waiting])
        self._waiting, self._waiting_rows = [], 0
        starts = starts_of(groups, len(self._sketches))
        gathered = bring_together(groups, starts, values)
        for group in np.flatnonzero(np.diff(starts)).tolist():
            if self._sketches[group] is None:
                self._sketches[group] = new_sketch(self._k)
            self._sketches[group].update(gathered[starts[group] : starts[group + 1]])
        return self._sketches


@dataclass(frozen=True, slots=True)
class KllKind:
    """KLL sketches of doubles, of one size."""

    k: int
    is_idempotent = False
    parse = staticmethod(parse)

    def allocate(self, num_groups: int) -> KllState:
        return KllState(self, num_groups)

    def merged(self, own: KllSketch | None, others: Iterable[KllSketch]) -> KllSketch:
        merged = new_sketch(self.k) if own is None else own
        for sketch in others:
            merged.merge(sketch)
        return merged


def _raw(k: int) -> Callable[[Sketches], Vector]:
    return lambda sketches: Vector(
        DataType.STRING, base64_texts((sketch or new_sketch(k)).serialize() for sketch in sketches)
    )


def _quantile(q: float) -> Callable[[Sketches], Vector]:
    def result(sketches: Sketches) -> Vector:
        results = [np.nan if sketch is None or sketch.is_empty() else sketch.get_quantile(q, True) for sketch in sketches]
        return Vector(DataType.DOUBLE, np.array(results, np.float64))

    return result


# -- binding


def _bind(call: Call, arg_types: Sequence[ValueType]) -> SketchPerGroup[KllSketch]:
    percentile = percentile_of(call)
    require_arguments(call, 2, 3)
    if [data_type for data_type, _ in arg_types] != [DataType.BYTES]:
        require_number(call, arg_types, 2)
    k = number_parameter(call, 2, "k", _K)
    raw = "raw" in call.name
    result, result_type = (_raw(k), DataType.STRING) if raw else (_quantile(percentile / 100), DataType.DOUBLE)
    return SketchPerGroup(KllKind(k), result, AggregateTraits(result_type, f"kll {k}"))


register_aggregate(["percentileKLL", "percentileKLLMV"], _bind, suffixed=True)
register_aggregate(["percentileRawKLL", "percentileRawKLLMV"], _bind, suffixed=True)
