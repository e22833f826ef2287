"""DISTINCTCOUNTBITMAP, DISTINCTCOUNTOFFHEAP and SEGMENTPARTITIONEDDISTINCTCOUNT: exact distinct counts by other names.

    DISTINCTCOUNTBITMAP(x)                  over BYTES, the number of values in the union of serialised roaring bitmaps
    DISTINCTCOUNTOFFHEAP(x [, 'initialCapacity=10000;hashBits=64'])
    SEGMENTPARTITIONEDDISTINCTCOUNT(x)      the sum of the counts of the segments: right if they have no value in common

Where Pinot counts 32-bit or 64-bit hashes, Gamay counts the values themselves, so the parameters of OFFHEAP have no effect.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.distinct import VALUES, DistinctAggregate, count_distinct, of_values
from gamay.functions.aggregate.distinct.pairs import Pairs
from gamay.functions.aggregate.per_group import SketchPerGroup, SketchState
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.aggregate_spi import Aggregate, AggregateTraits, GroupIds, KeepsState
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.compact import not_a_sketch
from gamay.functions.sketch.parameters import Number, text_parameters
from gamay.functions.vector import Vector
from gamay.model.types import DataType

_OFF_HEAP = {"initialCapacity": Number(10_000, 1, (1 << 31) - 1), "hashBits": Number(64, 32, 128)}


@dataclass(frozen=True, slots=True)
class BitmapKind:
    """Roaring bitmaps of 32 bits."""

    is_idempotent = True

    def allocate(self, num_groups: int) -> SketchState:
        return SketchState(self, num_groups)

    def merged(self, own: BitMap | None, others: Iterable[BitMap]) -> BitMap:
        return BitMap.union(BitMap() if own is None else own, *others)

    def parse(self, data: bytes) -> BitMap:
        try:
            return BitMap.deserialize(data)
        except (ValueError, IndexError) as error:
            raise not_a_sketch("roaring bitmap", data, error) from error


def _sizes(bitmaps: list[BitMap | None]) -> Vector:
    most = np.iinfo(np.int32).max
    return Vector(DataType.INT, np.array([0 if bits is None else min(len(bits), most) for bits in bitmaps], np.int32))


_MERGED_BITMAPS = SketchPerGroup(BitmapKind(), _sizes, AggregateTraits(DataType.INT, "bitmaps", is_of_distinct_values=True))


@dataclass(frozen=True, slots=True)
class SumOfSegments(KeepsState):
    """The sum of the segments' distinct counts. Partial: int64 [num_groups]. It shares the state of DISTINCTCOUNT."""

    argument_type: DataType
    traits = AggregateTraits(DataType.LONG, VALUES, is_of_distinct_values=True, adds_up_segments=True)

    def allocate(self, num_groups: int) -> Pairs:
        return Pairs(self.argument_type, num_groups, False)

    def seal(self, state: Pairs) -> Array:
        return count_distinct(state.partial()).astype(np.int64)

    def select(self, partial: Array, groups: Array) -> Array:
        return np.asarray(partial[groups])

    def merge(self, partials: Sequence[Array], maps: Sequence[GroupIds], num_groups: int) -> Array:
        merged = np.zeros(num_groups, np.int64)
        for partial, groups in zip(partials, maps, strict=True):
            np.add.at(merged, groups, partial)
        return merged

    def finish(self, partial: Array) -> Vector:
        return Vector(DataType.LONG, partial)

    def encode(self, partial: Array) -> list[pa.Array]:
        return [pa.array(partial)]

    def decode(self, arrays: Sequence[pa.Array]) -> Array:
        return np.asarray(arrays[0].to_numpy())


def _bind_bitmap(call: Call, arg_types: Sequence[ValueType]) -> Aggregate:
    data_type, _ = require_one_argument(call, arg_types)
    if data_type is DataType.BYTES:
        return _MERGED_BITMAPS
    return of_values(data_type, count_distinct, DataType.INT)


def _bind_off_heap(call: Call, arg_types: Sequence[ValueType]) -> DistinctAggregate:
    data_type, _ = require_one_argument(call, arg_types, 1)
    text_parameters(call, 1, _OFF_HEAP)
    return of_values(data_type, count_distinct, DataType.INT)


def _bind_partitioned(call: Call, arg_types: Sequence[ValueType]) -> SumOfSegments:
    data_type, _ = require_one_argument(call, arg_types)
    return SumOfSegments(data_type)


register_aggregate(["distinctCountBitmap", "distinctCountBitmapMV"], _bind_bitmap)
register_aggregate(["distinctCountOffHeap"], _bind_off_heap)
register_aggregate(["segmentPartitionedDistinctCount"], _bind_partitioned)
