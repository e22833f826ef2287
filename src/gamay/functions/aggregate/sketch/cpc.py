"""DISTINCTCOUNTCPCSKETCH and DISTINCTCOUNTRAWCPCSKETCH: distinct counts by CPC sketches, the most compact serialised ones.

    DISTINCTCOUNTCPCSKETCH(x [, lgK = 12 | 'nominalEntries=4096;accumulatorThreshold=2'])

Over BYTES, serialised sketches are merged. nominalEntries is rounded up to a power of two. accumulatorThreshold has no
effect. See `gamay.functions.sketch.cpc`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import HashNumbers
from gamay.functions.aggregate.per_group import Sketches, SketchPerGroup, SketchState
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.aggregate_spi import AggregateTraits
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.compact import base64_texts
from gamay.functions.sketch.cpc import DEFAULT_LG_K, CpcSketch, add_values, coupons, hashable, parse, united
from gamay.functions.sketch.parameters import Number, lg_k_parameter
from gamay.functions.sketch.registers import rounded
from gamay.functions.vector import EncodedVector, Values, Vector
from gamay.model.types import DataType

LG_K = Number(DEFAULT_LG_K, 4, 26)
_COUPON_BITS = 32


class CpcState(SketchState):
    """The sketches of groups. `_known` numbers the (group, coupon) pairs that the sketches contain."""

    def __init__(self, kind: "CpcKind", num_groups: int) -> None:
        super().__init__(kind, num_groups)
        self._lg_k = kind.lg_k
        self._known = HashNumbers()
        self._dictionary: Values = None
        self._entries: tuple[Vector, Array] | None = None

    def add(self, groups: Array, values: Vector | EncodedVector) -> None:
        """Add single values, or sketches as BYTES."""
        if values.type is DataType.BYTES:
            super().add(groups, values)
            return
        if isinstance(values, EncodedVector) and len(values.dictionary) <= max(len(values), 1024):
            if self._entries is None or values.dictionary.values is not self._dictionary:
                self._dictionary, self._entries = values.dictionary.values, self._prepared(values.dictionary)
            vector, rows = self._entries[0], values.ids
            found = self._entries[1][rows]
        else:
            vector, found = self._prepared(values.decode() if isinstance(values, EncodedVector) else values)
            rows = np.arange(len(vector))
        keys = (groups << _COUPON_BITS) | found
        keys[found < 0] = -1
        before = self._known.count
        numbers = self._known.number(keys)
        new = np.flatnonzero((numbers >= before) & (keys >= 0))
        _, first = np.unique(numbers[new], return_index=True)
        new = new[first]
        add_values(self._sketches, groups[new], vector, rows[new], self._lg_k)

    def _prepared(self, vector: Vector) -> tuple[Vector, Array]:
        vector = hashable(vector)
        return vector, coupons(vector, self._lg_k)


@dataclass(frozen=True, slots=True)
class CpcKind:
    """CPC sketches of one size."""

    lg_k: int
    is_idempotent = True
    parse = staticmethod(parse)

    def allocate(self, num_groups: int) -> CpcState:
        return CpcState(self, num_groups)

    def merged(self, own: CpcSketch | None, others: Iterable[CpcSketch]) -> CpcSketch:
        some = list(others) if own is None else [own, *others]
        return some[0] if len(some) == 1 else united(some, self.lg_k)


def _union_of_one(sketch: "CpcSketch | None", lg_k: int) -> CpcSketch:
    return united([] if sketch is None else [sketch], lg_k)


def _count(lg_k: int) -> Callable[[Sketches], Vector]:
    def result(sketches: Sketches) -> Vector:
        counts = [_union_of_one(sketch, lg_k).get_estimate() for sketch in sketches]
        return Vector(DataType.LONG, rounded(np.array(counts, np.float64)))

    return result


def _raw(lg_k: int) -> Callable[[Sketches], Vector]:
    return lambda sketches: Vector(
        DataType.STRING, base64_texts(_union_of_one(sketch, lg_k).serialize() for sketch in sketches)
    )


def _bind(call: Call, arg_types: Sequence[ValueType]) -> SketchPerGroup[CpcSketch]:
    require_one_argument(call, arg_types, 1)
    lg_k = lg_k_parameter(call, LG_K)
    result, result_type = (_raw(lg_k), DataType.STRING) if "raw" in call.name else (_count(lg_k), DataType.LONG)
    traits = AggregateTraits(result_type, f"cpc {lg_k}", is_of_distinct_values=True)
    return SketchPerGroup(CpcKind(lg_k), result, traits)


_NAMES = ("distinctCountCpcSketch", "distinctCountRawCpcSketch")
register_aggregate([*_NAMES, *(f"{name}MV" for name in _NAMES)], _bind)
