"""PERCENTILE and MODE: exact, from the sorted values of each group and how often each occurs.

They give DOUBLEs, which hold whole numbers up to 2^53; PERCENTILELONG and MODELONG, of whole numbers, give LONGs.
PERCENTILE does not interpolate: it is the value at index floor(n * p / 100) in ascending order, the last one for p = 100.
MODE is the most frequent value; of several, 'MIN' (the default), 'MAX' or 'AVG'. All NaN are one value, the greatest.
Empty: -Infinity, for LONGs the smallest one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.choose.ordering import number_keys, numbers_of
from gamay.functions.aggregate.lookup import INTEGERS
from gamay.functions.aggregate.percentile.points import PointBuffer, SortedPoints, bring_together, groups_of, starts_of
from gamay.functions.aggregate.totals.numeric import require_arguments, require_number
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.text import to_text
from gamay.functions.vector import Operand, Vector, numpy_dtype
from gamay.kernels.group.points import add_heaviest, heaviest_points, merge_runs, point_at, sort_weighted_runs, unite_points
from gamay.model.types import DataType


class SortedState:
    """Every value of each group, as int64 keys that sort as the values do."""

    def __init__(self, num_groups: int) -> None:
        self._num_groups = num_groups
        self._buffer = PointBuffer(_keys, num_groups, keeps_all=True)
        self._sorted: list[SortedPoints] = []

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self._sorted += self._buffer.regroup(num_groups)
        self._num_groups = num_groups

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        """Add a batch of rows."""
        self._sorted += self._buffer.update(groups, operand, num_rows)

    def combine(self, other: "SortedState") -> None:
        """Add the values of another thread over the same groups."""
        self._buffer.take_counts(other._buffer)
        self._sorted.append(other.points())

    def points(self) -> SortedPoints:
        """Return all values added."""
        self._sorted += self._buffer.flush()
        every = np.arange(self._num_groups, dtype=np.int32)
        if len(self._sorted) == 1 and len(self._sorted[0].starts) == len(every) + 1:
            self._sorted = [_united(self._sorted[0])]
        else:
            maps = [every[: len(part.starts) - 1] for part in self._sorted]
            self._sorted = [merge_points(self._sorted, maps, self._num_groups)]
        return self._sorted[0]


def _keys(values: Array) -> Array:
    return number_keys(values + 0.0 if values.dtype.kind == "f" else values)  # -0.0 becomes 0.0


def _united(points: SortedPoints) -> SortedPoints:
    """Return the points with equal values merged; overwrites the arrays."""
    starts = np.empty_like(points.starts)
    unite_points(points.starts, points.values, points.weights, starts)
    stop = int(starts[-1])
    if stop == len(points.values):
        return points
    return SortedPoints(starts, points.values[:stop].copy(), points.weights[:stop].copy())


def merge_points(partials: Sequence[SortedPoints], maps: Sequence[GroupIds], num_groups: int) -> SortedPoints:
    """Merge: entry i of partials[k] goes to group maps[k][i]. The values of each entry ascend."""
    filled = [(partial, groups) for partial, groups in zip(partials, maps, strict=True) if len(partial.values)]
    if not filled:
        return SortedPoints(np.zeros(num_groups + 1, np.int64), np.empty(0, np.int64), np.empty(0))
    parts: list[tuple[SortedPoints, Array]] = []
    for partial, groups in filled:
        entries = np.full(num_groups, -1, np.int64)
        entries[groups] = np.arange(len(groups))
        if (entries >= 0).sum() < len(groups):  # several entries go to one group
            return _sorted_anew([partial for partial, _ in filled], [groups for _, groups in filled], num_groups)
        parts.append((partial, entries))
    if len(parts) == 1:
        nothing = SortedPoints(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0))
        parts.append((nothing, np.full(num_groups, -1, np.int64)))
    of_groups = np.arange(num_groups)
    while len(parts) > 1:  # pairwise, so that each point is moved a logarithmic number of times
        pairs = [(_merged(one, other), of_groups) for one, other in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(parts) // 2 * 2 :]
    return parts[0][0]


def _merged(one: tuple[SortedPoints, Array], other: tuple[SortedPoints, Array]) -> SortedPoints:
    """Merge two lists of points, given the entry of each group in both."""
    (left, left_entries), (right, right_entries) = one, other
    room = len(left.values) + len(right.values)
    starts = np.empty(len(left_entries) + 1, np.int64)
    values, weights = np.empty(room, np.int64), np.empty(room)
    columns = [(part.starts, part.values, part.weights) for part in (left, right)]
    merge_runs(columns[0], columns[1], left_entries, right_entries, starts, values, weights)
    stop = int(starts[-1])
    if 2 * stop < room:  # release what is not used
        return SortedPoints(starts, values[:stop].copy(), weights[:stop].copy())
    return SortedPoints(starts, values[:stop], weights[:stop])


def _sorted_anew(partials: Sequence[SortedPoints], maps: Sequence[GroupIds], num_groups: int) -> SortedPoints:
    of_points = [groups[groups_of(partial.starts)] for partial, groups in zip(partials, maps, strict=True)]
    groups = np.concatenate(of_points).astype(np.int32, copy=False)
    starts = starts_of(groups, num_groups)
    values = bring_together(groups, starts, np.concatenate([partial.values for partial in partials]))
    weights = bring_together(groups, starts, np.concatenate([partial.weights for partial in partials]))
    sort_weighted_runs(starts, values, weights)
    return _united(SortedPoints(starts, values, weights))


_OF_DOUBLES = AggregateTraits(DataType.DOUBLE, "sorted values")
_OF_LONGS = AggregateTraits(DataType.LONG, "sorted values")


@dataclass(frozen=True, slots=True)
class OfSorted(KeepsState):
    """An aggregate that is computed from the sorted values of each group. The partial is `SortedPoints`."""

    name: str
    parameter: float | str
    argument_type: DataType
    result: Callable[[Array, SortedPoints], Array]
    traits: AggregateTraits = _OF_DOUBLES

    def allocate(self, num_groups: int) -> SortedState:
        return SortedState(num_groups)

    def seal(self, state: SortedState) -> SortedPoints:
        return state.points()

    def select(self, partial: SortedPoints, groups: Array) -> SortedPoints:
        lengths = np.diff(partial.starts)[groups]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        points = np.repeat(partial.starts[:-1][groups] - starts[:-1], lengths) + np.arange(starts[-1])
        return SortedPoints(starts, partial.values[points], partial.weights[points])

    def merge(self, partials: Sequence[SortedPoints], maps: Sequence[GroupIds], num_groups: int) -> SortedPoints:
        return merge_points(partials, maps, num_groups)

    def finish(self, partial: SortedPoints) -> Vector:
        values = numbers_of(partial.values, is_float=self.argument_type in _FLOATS)
        result_type = self.traits.result_type
        return Vector(result_type, self.result(values.astype(numpy_dtype(result_type), copy=False), partial))

    def encode(self, partial: SortedPoints) -> list[pa.Array]:
        offsets = pa.array(partial.starts.astype(np.int32))
        return [pa.ListArray.from_arrays(offsets, pa.array(column)) for column in (partial.values, partial.weights)]

    def decode(self, arrays: Sequence[pa.Array]) -> SortedPoints:
        values, weights = arrays
        starts = np.concatenate([[0], np.cumsum(values.value_lengths().to_numpy(), dtype=np.int64)])
        return SortedPoints(starts, values.flatten().to_numpy(), weights.flatten().to_numpy())


_FLOATS = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL})


# -- results


def _at(values: Array, places: Array) -> Array:
    nothing = -np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).min
    results = np.full(len(places), nothing, values.dtype)
    occupied = places >= 0
    results[occupied] = values[places[occupied]]
    return results


def _percentile(p: float) -> Callable[[Array, SortedPoints], Array]:
    def result(values: Array, points: SortedPoints) -> Array:
        places = np.empty(len(points.starts) - 1, np.int64)
        point_at(points.starts, points.weights, p, places)
        # 0 and -0 are equal, so either may be there: never show -0
        return np.add(_at(values, places), 0, dtype=values.dtype)

    return result


def _mode(reducer: str) -> Callable[[Array, SortedPoints], Array]:
    def result(values: Array, points: SortedPoints) -> Array:
        firsts, lasts, counts = (np.empty(len(points.starts) - 1, np.int64) for _ in range(3))
        heaviest_points(points.starts, points.weights, firsts, lasts, counts)
        if reducer != "AVG":
            return _at(values, firsts if reducer == "MIN" else lasts)
        sums = np.zeros(len(counts))
        add_heaviest(points.starts, values, points.weights, sums)
        return np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)

    return result


# -- binding


def percentile_of(call: Call, position: int = 1) -> float:
    """Return the percentile argument of a call; raises QueryError unless it is a literal from 0 to 100."""
    argument = call.args[position] if len(call.args) > position else None
    if (
        isinstance(argument, Literal)
        and isinstance(argument.value, int | float | str)
        and not isinstance(argument.value, bool)
    ):
        try:
            p = float(argument.value)
        except ValueError:
            p = -1.0
        if 0 <= p <= 100:
            return p
    raise QueryError(
        ErrorCode.QUERY_VALIDATION,
        f"Aggregate '{call.name}' needs a percentile from 0 to 100 as its second argument, as in {call.name}(x, 95)",
    )


def _bind_percentile(call: Call, arg_types: Sequence[ValueType]) -> OfSorted:
    p = percentile_of(call)
    require_arguments(call, 2, 2)
    data_type, traits = _of(call, arg_types)
    return OfSorted(call.name, p, data_type, _percentile(p), traits)


def _of(call: Call, arg_types: Sequence[ValueType]) -> tuple[DataType, AggregateTraits]:
    """Return the type of the values, and what is made of them."""
    data_type = require_number(call, arg_types, 1)
    if not call.name.endswith("long"):
        return data_type, _OF_DOUBLES
    if data_type not in INTEGERS:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Aggregate '{call.name}' needs whole numbers, {to_text(call.args[0])} is {data_type.value}; "
            f"write {call.name.removesuffix('long')}",
        )
    return data_type, _OF_LONGS


def _bind_mode(call: Call, arg_types: Sequence[ValueType]) -> OfSorted:
    data_type, traits = _of(call, arg_types)
    given = call.args[1] if len(call.args) > 1 else Literal("MIN", DataType.STRING)
    reducer = given.value if isinstance(given, Literal) else None
    allowed = ("MIN", "MAX") if traits is _OF_LONGS else ("MIN", "MAX", "AVG")
    if not isinstance(reducer, str) or reducer.upper() not in allowed:
        ways = f"{', '.join(map(repr, allowed[:-1]))} or '{allowed[-1]}'"
        raise QueryError(
            ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}' resolves ties by {ways}, not {to_text(given)}"
        )
    return OfSorted(call.name, reducer.upper(), data_type, _mode(reducer.upper()), traits)


register_aggregate(["percentile", "percentileMV"], _bind_percentile, suffixed=True)
register_aggregate(["percentileLong"], _bind_percentile)
register_aggregate(["mode", "modeLong"], _bind_mode)
