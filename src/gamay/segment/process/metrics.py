"""Aggregation of a metric to one value for each group of rows."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import InvalidConfigError
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.registry import bind_aggregate
from gamay.functions.vector import Vector, take
from gamay.kernels.group import rollup
from gamay.model.schema.schema import FieldSpec
from gamay.model.table.merging import MergeFunction, MetricMerge
from gamay.model.types import DataType
from gamay.segment.encode.storage_form import Stored, concat_stored, decimals_of, fixed_dtype, from_python
from gamay.segment.write.row_subset import GivenColumn

_NUMBERS = {MergeFunction.SUM: rollup.SUM, MergeFunction.MIN: rollup.MIN, MergeFunction.MAX: rollup.MAX}
_GROUPS_AT_ONCE = 1 << 12
_EXACT = Context(1_000_000, Emax=MAX_EMAX, Emin=MIN_EMIN)


@dataclass(frozen=True, slots=True)
class MetricRows:
    """A metric of grouped rows.

    values: in stored form, one for each row; nulls: bool. groups: int64 in [0, num_groups); no group is empty. times:
    int64, the times of rows for FIRST and LAST.
    """

    spec: FieldSpec
    values: Stored
    nulls: Array
    groups: Array
    num_groups: int
    times: Callable[[], Array]


def merged(rows: MetricRows, how: MetricMerge) -> GivenColumn:
    """Return the metric with one value for each group, null if all its rows are.

    Raises InvalidConfigError for a type that the function does not support, and for a sum out of the type's range;
    QueryError for bytes that are not a sketch.
    """
    spec, function = rows.spec, how.function
    if not function.takes(spec.data_type):
        raise InvalidConfigError(
            f"the metric '{spec.name}' is {spec.data_type.value}, which {function.value} cannot aggregate: set "
            f"{spec.name}.aggregationType"
        )
    present = np.flatnonzero(~rows.nulls)
    nulls = np.ones(rows.num_groups, np.bool_)
    nulls[rows.groups[present]] = False
    if function in (MergeFunction.FIRST_WITH_TIME, MergeFunction.LAST_WITH_TIME):
        found = _at_time(rows, present, is_last=function is MergeFunction.LAST_WITH_TIME)
    elif function.is_sketch:
        found = _sketches(rows, present, how)
    elif spec.data_type is DataType.BIG_DECIMAL:
        found = _decimals(rows, present, function)
    elif function is MergeFunction.AVG:
        found = _means(rows, present)
    else:
        found = _totals(rows, function)
    return GivenColumn(spec, _filled(spec, found, nulls), nulls)


def _filled(spec: FieldSpec, values: Stored, nulls: Array) -> Stored:
    """Insert the default for null groups. values: those of the other groups, in stored form."""
    default = from_python(spec.default_null_value, spec.data_type)
    dtype = fixed_dtype(spec.data_type)
    if dtype is not None:
        whole = np.full(len(nulls), default, dtype)
        whole[~nulls] = values
        return whole
    if not nulls.any():
        return values
    places = np.cumsum(~nulls) - 1
    places[nulls] = len(values)
    return take(concat_stored([values, pa.array([default], pa.binary())]), places)


def _totals(rows: MetricRows, function: MergeFunction) -> Array:
    spec = rows.spec
    totals, filled = np.zeros(rows.num_groups, rows.values.dtype), np.zeros(rows.num_groups, np.uint8)
    largest = np.iinfo(totals.dtype).max if totals.dtype.kind == "i" else 0
    wrong = rollup.roll_up(
        _NUMBERS[function], rows.groups, np.ascontiguousarray(rows.values), rows.nulls, largest, totals, filled
    )
    if wrong >= 0:
        raise InvalidConfigError(
            f"a sum of the metric '{spec.name}' is too large for {spec.data_type.value}: make it LONG or DOUBLE, or set "
            f"{spec.name}.aggregationType"
        )
    return np.asarray(totals[filled != 0])


def _means(rows: MetricRows, present: Array) -> Array:
    """Return means; those of integers are truncated towards zero."""
    groups = rows.groups[present]
    counts = np.bincount(groups, minlength=rows.num_groups)
    values = rows.values[present]
    some = counts > 0
    if values.dtype.kind == "f":
        sums = np.bincount(groups, values.astype(np.float64), rows.num_groups)
        return (sums[some] / counts[some]).astype(values.dtype)
    # A sum of integers may exceed 64 bits where the mean does not, so the contributions to the mean are summed instead.
    wholes, rests = np.zeros(rows.num_groups, np.int64), np.zeros(rows.num_groups, np.int64)
    whole, rest = np.divmod(values.astype(np.int64), counts[groups])
    np.add.at(wholes, groups, whole)
    np.add.at(rests, groups, rest)
    more, left = np.divmod(rests[some], counts[some])
    floors = wholes[some] + more
    return np.asarray(floors + ((floors < 0) & (left > 0))).astype(values.dtype)


def _decimals(rows: MetricRows, present: Array, function: MergeFunction) -> pa.Array:
    """Return exact sums, minima or maxima as plain decimal texts."""
    groups = rows.groups[present]
    order = np.argsort(groups, kind="stable")
    _, starts = np.unique(groups[order], return_index=True)
    numbers = np.array([*decimals_of(take(rows.values, present[order]).to_pylist()), None], object)[:-1]
    if not len(numbers):
        return pa.array([], pa.binary())
    verb: Any = {MergeFunction.SUM: np.add, MergeFunction.MIN: np.minimum, MergeFunction.MAX: np.maximum}[function]
    with localcontext(_EXACT):
        found = verb.reduceat(numbers, starts)
    return pa.array([_plain(number, rows.spec).encode() for number in found], pa.binary())


def _plain(number: Decimal, spec: FieldSpec) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text and not spec.allow_trailing_zeros else text


def _at_time(rows: MetricRows, present: Array, *, is_last: bool) -> Stored:
    """Return the value of the row with the least or greatest time; for equal times, of the first or last such row."""
    groups = rows.groups[present]
    order = np.lexsort((present, rows.times()[present], groups))
    edges = np.flatnonzero(np.diff(groups[order], append=-1) if is_last else np.diff(groups[order], prepend=-1))
    return take(rows.values, present[order][edges])


def _sketches(rows: MetricRows, present: Array, how: MetricMerge) -> pa.Array:
    """Merge serialised sketches; a group with a single sketch keeps it unchanged."""
    groups = rows.groups[present]
    order = present[np.argsort(groups, kind="stable")]
    of_order = rows.groups[order]
    found, starts, counts = np.unique(of_order, return_index=True, return_counts=True)
    pieces = [take(rows.values, order[starts[counts == 1]])]
    several = np.flatnonzero(counts > 1)
    aggregate, decode = _aggregate_of(how)
    for begin in range(0, len(several), _GROUPS_AT_ONCE):
        chosen = several[begin : begin + _GROUPS_AT_ONCE]
        lengths = counts[chosen]
        numbers = np.repeat(np.arange(len(chosen), dtype=np.int32), lengths)
        places = order[np.arange(len(numbers)) + np.repeat(starts[chosen] - np.cumsum(lengths) + lengths, lengths)]
        state = aggregate.allocate(len(chosen))
        aggregate.update(state, numbers, [Vector(DataType.BYTES, take(rows.values, places))], len(places))
        texts = aggregate.finish(aggregate.seal(state)).values
        pieces.append(pa.array([decode(text) for text in texts.to_pylist()], pa.binary()))
    # groups with one sketch come first, then the others: restore their order
    place = np.empty(len(found), np.int64)
    place[np.concatenate([np.flatnonzero(counts == 1), several])] = np.arange(len(found))
    return take(concat_stored(pieces), place)


def _aggregate_of(how: MetricMerge) -> "tuple[Any, Callable[[str], bytes]]":
    """Return the aggregate function that merges sketches, and the function that converts its results to bytes."""
    name, arguments, is_hex = _CALLS[how.function]
    call = Call(name, (Column("sketch"), *arguments(how.parameters)))
    return bind_aggregate(call, [(DataType.BYTES, False)]), bytes.fromhex if is_hex else base64.b64decode


def _none(_: Mapping[str, float]) -> tuple[Literal, ...]:
    return ()


def _theta(given: Mapping[str, float]) -> tuple[Literal, ...]:
    text = ";".join(f"{key}={value:g}" if value % 1 else f"{key}={int(value)}" for key, value in given.items())
    return (Literal(text, DataType.STRING),) if text else ()


def _tuple(given: Mapping[str, float]) -> tuple[Literal, ...]:
    entries = given.get("nominalEntries")
    return () if entries is None else (Literal(max(4, int(entries - 1).bit_length()), DataType.INT),)


def _number(key: str, *before: Literal) -> Callable[[Mapping[str, float]], tuple[Literal, ...]]:
    def arguments(given: Mapping[str, float]) -> tuple[Literal, ...]:
        return before if key not in given else (*before, Literal(int(given[key]), DataType.INT))

    return arguments


_MEDIAN = Literal(50, DataType.INT)  # has no effect on the resulting sketch
_CALLS: Mapping[MergeFunction, tuple[str, Callable[[Mapping[str, float]], tuple[Literal, ...]], bool]] = {
    MergeFunction.HLL: ("distinctcountrawhll", _none, True),
    MergeFunction.HLL_PLUS: ("distinctcountrawhllplus", _none, True),
    MergeFunction.ULL: ("distinctcountrawull", _none, False),
    MergeFunction.THETA: ("distinctcountrawthetasketch", _theta, False),
    MergeFunction.TUPLE: ("distinctcountrawintegersumtuplesketch", _tuple, False),
    MergeFunction.CPC: ("distinctcountrawcpcsketch", _number("lgK"), False),
    MergeFunction.KLL: ("percentilerawkll", _number("K", _MEDIAN), False),
    MergeFunction.T_DIGEST: ("percentilerawtdigest", _number("compressionFactor", _MEDIAN), True),
}
