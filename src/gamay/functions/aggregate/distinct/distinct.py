"""DISTINCTCOUNT, DISTINCTSUM and DISTINCTAVG: exact, from the distinct values of each group.

Empty: DISTINCTCOUNT and DISTINCTSUM 0, DISTINCTAVG NaN.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.pairs import (
    Pairs,
    PairsPartial,
    decode_pairs,
    encode_pairs,
    merge_pairs,
    select_pairs,
)
from gamay.functions.aggregate.lookup import numbers
from gamay.functions.aggregate.totals.numeric import require_number, require_one_argument
from gamay.functions.aggregate.totals.totals import unsigned
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.vector import EncodedVector, Vector
from gamay.kernels.group.aggregation import count_groups
from gamay.model.types import DataType

VALUES = "values"
COUNTED_VALUES = "counted values"
"""Values of `AggregateTraits.state` whose states are `Pairs`."""


@dataclass(frozen=True, slots=True)
class DistinctAggregate(KeepsState):
    """Aggregate computed from the distinct values of each group; with `counted`, also from how often each occurs."""

    argument_type: DataType
    result: Callable[[PairsPartial], Array | Vector]
    traits: AggregateTraits
    counted: bool = False

    def allocate(self, num_groups: int) -> Pairs:
        return Pairs(self.argument_type, num_groups, self.counted)

    def seal(self, state: Pairs) -> PairsPartial:
        return state.partial()

    def select(self, partial: PairsPartial, groups: Array) -> PairsPartial:
        return select_pairs(partial, groups)

    def merge(self, partials: Sequence[PairsPartial], maps: Sequence[GroupIds], num_groups: int) -> PairsPartial:
        return merge_pairs(partials, maps, num_groups)

    def finish(self, partial: PairsPartial) -> Vector:
        result = self.result(partial)
        return result if isinstance(result, Vector) else Vector(self.traits.result_type, result)

    def encode(self, partial: PairsPartial) -> list[pa.Array]:
        return encode_pairs(partial)

    def decode(self, arrays: Sequence[pa.Array]) -> PairsPartial:
        return decode_pairs(self.argument_type, arrays)


def of_values(argument_type: DataType, result: Callable[[PairsPartial], Any], result_type: DataType) -> DistinctAggregate:
    """Return an aggregate of distinct values; all of these share one state."""
    return DistinctAggregate(argument_type, result, AggregateTraits(result_type, VALUES, is_of_distinct_values=True))


# -- results


def _as_doubles(partial: PairsPartial) -> Array:
    values = partial.values.decode() if isinstance(partial.values, EncodedVector) else partial.values
    return numbers(values.type, values.values).astype(np.float64)


def counts_of(partial: PairsPartial) -> Array:
    """Return how often each value occurs; raises ValueError if counts were not kept."""
    if partial.counts is None:
        raise ValueError("the partial comes from another aggregate: it has no counts")
    return partial.counts


def count_distinct(partial: PairsPartial) -> Array:
    """Return the number of values of each group: int32 [num_groups]."""
    counts = np.zeros(partial.num_groups, np.int32)
    count_groups(unsigned(partial.groups), counts, 0)
    return counts


def _distinct_sum(partial: PairsPartial) -> Array:
    # bincount of no values returns integers
    return np.bincount(partial.groups, weights=_as_doubles(partial), minlength=partial.num_groups).astype(np.float64)


def _distinct_average(partial: PairsPartial) -> Array:
    with np.errstate(invalid="ignore"):  # 0 / 0 is NaN, the result for no rows
        return np.asarray(_distinct_sum(partial) / count_distinct(partial))


# -- binding


def _bind_distinct_count(call: Call, arg_types: Sequence[ValueType]) -> DistinctAggregate:
    data_type, _ = require_one_argument(call, arg_types)
    return of_values(data_type, count_distinct, DataType.INT)


def _bind_distinct_sum(call: Call, arg_types: Sequence[ValueType]) -> DistinctAggregate:
    return of_values(require_number(call, arg_types), _distinct_sum, DataType.DOUBLE)


def _bind_distinct_average(call: Call, arg_types: Sequence[ValueType]) -> DistinctAggregate:
    return of_values(require_number(call, arg_types), _distinct_average, DataType.DOUBLE)


register_aggregate(["distinctCount", "distinctCountMV"], _bind_distinct_count)
register_aggregate(["distinctSum", "distinctSumMV"], _bind_distinct_sum)
register_aggregate(["distinctAvg", "distinctAvgMV"], _bind_distinct_average)
