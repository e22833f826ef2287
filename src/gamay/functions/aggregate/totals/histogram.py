"""HISTOGRAM: the number of values in each bin, as a DOUBLE_ARRAY.

`HISTOGRAM(x, ARRAY[e0, e1, ..., ek])` has the bins [e0, e1), [e1, e2), ... and finally [ek-1, ek] with both edges;
`HISTOGRAM(x, low, high, n)` has n bins of equal width. Values outside and NaN are not counted. Edges may be 'Infinity'
and '-Infinity'. Empty: all 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.lookup import lookup_values, numbers
from gamay.functions.aggregate.totals.numeric import require_number
from gamay.functions.aggregate.totals.totals import flatten, unsigned
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.expression import Call, Expression, Literal
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.vector import EncodedVector, Operand, Values, Vector
from gamay.kernels.group.histogram import count_bins, count_coded_bins, find_bins
from gamay.model.types import DataType

_BINS_MAX = 1 << 16


class HistogramState:
    """Counts of values per bin: int64 [num_groups, number of bins]."""

    def __init__(self, edges: Array, per_width: float, num_groups: int) -> None:
        self.counts = np.zeros((num_groups, len(edges) - 1), np.int64)
        self._edges = edges
        self._per_width = per_width
        self._dictionary: Values = None
        self._of_ids: Array = np.empty(0, np.int32)

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        counts = np.zeros((num_groups, self.counts.shape[1]), np.int64)
        counts[: len(self.counts)] = self.counts
        self.counts = counts

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        """Add a batch of rows."""
        groups, values = flatten(None if groups is None else unsigned(groups), operand, num_rows)
        of_rows = np.zeros(len(values), np.uint8) if groups is None else groups
        if isinstance(values, EncodedVector) and len(values.dictionary) <= max(len(values), 1024):
            if values.dictionary.values is not self._dictionary:
                self._dictionary = values.dictionary.values
                self._of_ids = self._bins(lookup_values(values.dictionary))
            count_coded_bins(of_rows, values.ids, self._of_ids, self.counts)
            return
        vector = values.decode() if isinstance(values, EncodedVector) else values
        count_bins(of_rows, self._bins(numbers(vector.type, vector.values)), self.counts)

    def combine(self, other: "HistogramState") -> None:
        """Add the counts of another thread over the same groups."""
        self.counts += other.counts

    def _bins(self, values: Array) -> Array:
        bins = np.empty(len(values), np.int32)
        find_bins(values, self._edges, self._per_width, bins)
        return bins


@dataclass(frozen=True, slots=True)
class Histogram(KeepsState):
    """The HISTOGRAM aggregate. The partial is the counts: int64 [num_groups, number of bins]."""

    edges: tuple[float, ...]
    per_width: float
    traits = AggregateTraits(DataType.DOUBLE, result_is_multi_value=True)

    def allocate(self, num_groups: int) -> HistogramState:
        return HistogramState(np.array(self.edges), self.per_width, num_groups)

    def seal(self, state: HistogramState) -> Array:
        return state.counts

    def select(self, partial: Array, groups: Array) -> Array:
        return np.asarray(partial[groups])

    def merge(self, partials: Sequence[Array], maps: Sequence[GroupIds], num_groups: int) -> Array:
        merged = np.zeros((num_groups, len(self.edges) - 1), np.int64)
        for partial, groups in zip(partials, maps, strict=True):
            np.add.at(merged, groups, partial)
        return merged

    def finish(self, partial: Array) -> Vector:
        offsets = np.arange(len(partial) + 1, dtype=np.int64) * (len(self.edges) - 1)
        return Vector(DataType.DOUBLE, partial.reshape(-1).astype(np.float64), offsets)

    def encode(self, partial: Array) -> list[pa.Array]:
        return [pa.FixedSizeListArray.from_arrays(pa.array(partial.reshape(-1)), len(self.edges) - 1)]

    def decode(self, arrays: Sequence[pa.Array]) -> Array:
        return np.asarray(arrays[0].flatten().to_numpy().reshape(len(arrays[0]), len(self.edges) - 1))


# -- binding


def _invalid(call: Call, what: str) -> QueryError:
    return QueryError(
        ErrorCode.QUERY_VALIDATION, f"{what}; write {call.name}(x, ARRAY[0, 1, 10]) or {call.name}(x, 0, 100, 10)"
    )


def _constant(call: Call, argument: Expression) -> float:
    value = argument.value if isinstance(argument, Literal) else None
    try:
        number = float(value) if value is not None and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise _invalid(call, f"Edges of '{call.name}' must be numbers")
    return number


def _bind(call: Call, arg_types: Sequence[ValueType]) -> Histogram:
    if len(call.args) not in (2, 4):
        raise _invalid(call, f"Aggregate '{call.name}' takes 2 or 4 arguments, not {len(call.args)}")
    require_number(call, arg_types, 3)
    if len(call.args) == 2:
        array = call.args[1]
        if not isinstance(array, Call) or array.name != "arrayvalueconstructor":
            raise _invalid(call, f"The second of two arguments of '{call.name}' is an array of edges")
        edges = tuple(_constant(call, edge) for edge in array.args)
        if len(edges) < 2 or any(left >= right for left, right in pairwise(edges)):
            raise _invalid(call, f"'{call.name}' needs at least two edges in ascending order")
        if len(edges) > _BINS_MAX:
            raise _invalid(call, f"'{call.name}' has {_BINS_MAX} bins at most")
        return Histogram(edges, 0.0)
    low, high = (_constant(call, edge) for edge in call.args[1:3])
    count = call.args[3].value if isinstance(call.args[3], Literal) else None
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _BINS_MAX:
        raise _invalid(call, f"The number of bins of '{call.name}' is a whole number from 1 to {_BINS_MAX}")
    if not (low < high and math.isfinite(high - low)):
        raise _invalid(call, f"The lower bound of '{call.name}' must be below the upper, and both must be finite")
    edges = (*(low + (high - low) * i / count for i in range(count)), high)
    if any(left >= right for left, right in pairwise(edges)):
        raise _invalid(call, f"The bins of '{call.name}' are too narrow for a DOUBLE")
    return Histogram(edges, count / (high - low))


register_aggregate(["histogram"], _bind, arguments=lambda call: call.args[:1])
