"""Aggregates that merge serialised integer-tuple sketches: the number of keys, and sums and means of their numbers.

    DISTINCTCOUNTTUPLESKETCH(sketch [, lgK = 14])                 the number of keys
    DISTINCTCOUNTRAWINTEGERSUMTUPLESKETCH(sketch [, lgK = 14])    the sketch itself, in BASE64
    SUMVALUESINTEGERSUMTUPLESKETCH(sketch [, lgK = 14])           the sum of all keys' numbers
    AVGVALUEINTEGERSUMTUPLESKETCH(sketch [, lgK = 14])            the mean of the keys' numbers

Instead of lgK, 'nominalEntries=16384;accumulatorThreshold=2' may be given; nominalEntries is rounded up to a power of
two. Numbers of equal keys are added. Empty: 0. toIntegerSumTupleSketch builds sketches; `gamay.functions.sketch.compact`
documents the format.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.sketch.entries import MergedState, decode_entries, encode_entries
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.aggregate.totals.totals import flatten
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.compact import base64_texts, tuple_bytes
from gamay.functions.sketch.entries import THETA_MAX, Entries, Mode, estimates, merged, selected
from gamay.functions.sketch.parameters import Number, lg_k_parameter
from gamay.functions.sketch.registers import rounded
from gamay.functions.vector import Operand, Vector
from gamay.model.types import DataType

LG_K = Number(14, 4, 24)


@dataclass(frozen=True, slots=True)
class TupleSketch(KeepsState):
    """An aggregate of integer-tuple sketches. The partial is `Entries` with numbers."""

    k: int
    result: Callable[[Entries], Vector]
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> MergedState:
        return MergedState(self.k, THETA_MAX, Mode.SUM, num_groups)

    def update(self, state: MergedState, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        state.update(*flatten(groups, args[0], num_rows))

    def seal(self, state: MergedState) -> Entries:
        return state.finished()

    def select(self, partial: Entries, groups: Array) -> Entries:
        return selected(partial, groups)

    def merge(self, partials: Sequence[Entries], maps: Sequence[GroupIds], num_groups: int) -> Entries:
        return merged(partials, maps, num_groups, self.k)

    def finish(self, partial: Entries) -> Vector:
        return self.result(partial)

    def encode(self, partial: Entries) -> list[pa.Array]:
        return encode_entries(partial)

    def decode(self, arrays: Sequence[pa.Array]) -> Entries:
        return decode_entries(list(arrays))


def _totals(entries: Entries) -> Array:
    assert entries.numbers is not None
    return np.bincount(entries.groups, weights=entries.numbers, minlength=entries.num_groups)


def _count(entries: Entries) -> Vector:
    return Vector(DataType.LONG, rounded(estimates(entries)))


def _raw(entries: Entries) -> Vector:
    return Vector(DataType.STRING, base64_texts(tuple_bytes(entries, Mode.SUM)))


def _sum(entries: Entries) -> Vector:
    return Vector(DataType.LONG, rounded(_totals(entries) / (entries.thetas / float(THETA_MAX))))


def _average(entries: Entries) -> Vector:
    return Vector(DataType.LONG, rounded(_totals(entries) / np.maximum(entries.counts, 1)))


def _tuple_sketch(result: Callable[[Entries], Vector], result_type: DataType) -> Callable[..., TupleSketch]:
    def bind(call: Call, arg_types: Sequence[ValueType]) -> TupleSketch:
        data_type, _ = require_one_argument(call, arg_types, 1)
        if data_type is not DataType.BYTES:
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                f"Aggregate '{call.name}' merges integer tuple sketches in BYTES, its argument is {data_type.value}; "
                "build them with toIntegerSumTupleSketch",
            )
        lg_k = lg_k_parameter(call, LG_K)
        return TupleSketch(1 << lg_k, result, AggregateTraits(result_type, f"tuple {lg_k}"))

    return bind


for _names, _result, _type in (
    (("distinctCountTupleSketch",), _count, DataType.LONG),
    (("distinctCountRawIntegerSumTupleSketch",), _raw, DataType.STRING),
    (("sumValuesIntegerSumTupleSketch",), _sum, DataType.LONG),
    (("avgValueIntegerSumTupleSketch",), _average, DataType.LONG),
):
    register_aggregate(_names, _tuple_sketch(_result, _type))
