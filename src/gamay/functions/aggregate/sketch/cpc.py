"""DISTINCTCOUNTCPCSKETCH and DISTINCTCOUNTRAWCPCSKETCH: distinct counts by CPC sketches, the smallest when stored.

    DISTINCTCOUNTCPCSKETCH(x [, lgK = 12 | 'nominalEntries=4096;accumulatorThreshold=2'])

Over BYTES, serialised sketches are merged. nominalEntries is rounded up to a power of two. accumulatorThreshold has no
effect. See `gamay.functions.sketch.cpc`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import HashNumbers
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.aggregate.totals.totals import flatten
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.compact import base64_texts
from gamay.functions.sketch.cpc import DEFAULT_LG_K, CpcSketch, add_values, coupons, hashable, parse, united
from gamay.functions.sketch.parameters import Number, lg_k_parameter
from gamay.functions.sketch.registers import rounded
from gamay.functions.vector import EncodedVector, Operand, Values, Vector
from gamay.model.types import DataType

Sketches: TypeAlias = "list[CpcSketch | None]"

LG_K = Number(DEFAULT_LG_K, 4, 26)
_COUPON_BITS = 32


class CpcState:
    """A sketch for each group, None while it is empty. merging: the values are serialised sketches."""

    def __init__(self, lg_k: int, merging: bool, num_groups: int) -> None:
        self.sketches: Sketches = [None] * num_groups
        self._lg_k = lg_k
        self._merging = merging
        self._known = HashNumbers()
        self._dictionary: Values = None
        self._entries: tuple[Vector, Array] | None = None

    def grow(self, num_groups: int) -> None:
        self.sketches += [None] * (num_groups - len(self.sketches))

    def update(self, groups: GroupIds | None, values: Vector | EncodedVector) -> None:
        """Add single values."""
        of_rows = np.zeros(len(values), np.int64) if groups is None else groups.astype(np.int64)
        if self._merging:
            self._merge(of_rows, values)
            return
        if isinstance(values, EncodedVector) and len(values.dictionary) <= max(len(values), 1024):
            if self._entries is None or values.dictionary.values is not self._dictionary:
                self._dictionary, self._entries = values.dictionary.values, self._prepared(values.dictionary)
            vector, rows = self._entries[0], values.ids
            found = self._entries[1][rows]
        else:
            vector, found = self._prepared(values.decode() if isinstance(values, EncodedVector) else values)
            rows = np.arange(len(vector))
        keys = (of_rows << _COUPON_BITS) | found
        keys[found < 0] = -1
        before = self._known.count
        numbers = self._known.number(keys)
        new = np.flatnonzero((numbers >= before) & (keys >= 0))
        _, first = np.unique(numbers[new], return_index=True)
        new = new[first]
        add_values(self.sketches, of_rows[new], vector, rows[new], self._lg_k)

    def combine(self, other: "CpcState") -> None:
        self.sketches = merged_sketches([self.sketches, other.sketches], None, len(self.sketches), self._lg_k)

    def _prepared(self, vector: Vector) -> tuple[Vector, Array]:
        vector = hashable(vector)
        return vector, coupons(vector, self._lg_k)

    def _merge(self, groups: Array, values: Vector | EncodedVector) -> None:
        data = (values.decode() if isinstance(values, EncodedVector) else values).values.to_pylist()
        pairs = dict.fromkeys(zip(groups.tolist(), data, strict=True))
        known = {one: parse(one) for one in dict.fromkeys(data)}
        parsed = [known[one] for _, one in pairs]
        maps = [np.arange(len(self.sketches)), np.array([group for group, _ in pairs], np.int64)]
        self.sketches = merged_sketches([self.sketches, parsed], maps, len(self.sketches), self._lg_k)


def merged_sketches(parts: Sequence[Sketches], maps: Sequence[Array] | None, num_groups: int, lg_k: int) -> Sketches:
    """Merge: sketch i of parts[k] goes to group maps[k][i], or to group i."""
    gathered: list[list[CpcSketch]] = [[] for _ in range(num_groups)]
    for k, part in enumerate(parts):
        places = range(len(part)) if maps is None else maps[k].tolist()
        for group, sketch in zip(places, part, strict=True):
            if sketch is not None:
                gathered[group].append(sketch)
    return [None if not some else some[0] if len(some) == 1 else united(some, lg_k) for some in gathered]


@dataclass(frozen=True, slots=True)
class CpcCount(KeepsState):
    """The partial is a list of sketches, None where there is nothing."""

    lg_k: int
    raw: bool
    merging: bool
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> CpcState:
        return CpcState(self.lg_k, self.merging, num_groups)

    def update(self, state: CpcState, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        state.update(*flatten(groups, args[0], num_rows))

    def seal(self, state: CpcState) -> Sketches:
        return state.sketches

    def select(self, partial: Sketches, groups: Array) -> Sketches:
        return [partial[group] for group in groups.tolist()]

    def merge(self, partials: Sequence[Sketches], maps: Sequence[GroupIds], num_groups: int) -> Sketches:
        return merged_sketches(partials, maps, num_groups, self.lg_k)

    def finish(self, partial: Sketches) -> Vector:
        results = [united([] if sketch is None else [sketch], self.lg_k) for sketch in partial]
        if self.raw:
            return Vector(DataType.STRING, base64_texts(result.serialize() for result in results))
        return Vector(DataType.LONG, rounded(np.array([result.get_estimate() for result in results], np.float64)))

    def encode(self, partial: Sketches) -> list[pa.Array]:
        return [pa.array([None if sketch is None else sketch.serialize() for sketch in partial], pa.binary())]

    def decode(self, arrays: Sequence[pa.Array]) -> Sketches:
        return [parse(data) if data else None for data in arrays[0].to_pylist()]


def _bind(call: Call, arg_types: Sequence[ValueType]) -> CpcCount:
    data_type, _ = require_one_argument(call, arg_types, 1)
    lg_k = lg_k_parameter(call, LG_K)
    raw = "raw" in call.name
    traits = AggregateTraits(DataType.STRING if raw else DataType.LONG, f"cpc {lg_k}", is_of_distinct_values=True)
    return CpcCount(lg_k, raw, data_type is DataType.BYTES, traits)


_NAMES = ("distinctCountCpcSketch", "distinctCountRawCpcSketch")
register_aggregate([*_NAMES, *(f"{name}MV" for name in _NAMES)], _bind)
