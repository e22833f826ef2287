"""ARRAYAGG, LISTAGG and STUNION: the values of each group, in the order in which they arrive.

`ARRAYAGG(x, 'TYPE' [, distinct])` is an array of them as TYPE, `LISTAGG(x, 'separator' [, distinct])` their text; with
distinct only the first of equal values is kept. STUNION(geometry) is the union of geometries. Lists are flattened. Rows
of a segment arrive in its order; the order of segments is undefined. Empty: an empty array, empty text, an empty
point.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.coding import decimal_texts, decimals
from gamay.functions.aggregate.totals.numeric import require_arguments, require_one_argument
from gamay.functions.aggregate.totals.totals import flatten
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.convert import array_of, convert
from gamay.functions.distinct import distinct
from gamay.functions.expression import Call, Literal
from gamay.functions.geometry import Geometry, deserialize, geo_library, serialize
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.text import to_text
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, concat, take
from gamay.model.schema.default_null import COLUMN_TYPES
from gamay.model.types import DataType

_COMPACT_ROWS = 1 << 20
# larger concatenations reserve memory first; finding distinct values takes several times the memory of the values
_RESERVED_ROWS = 1 << 16
_DISTINCT_FACTOR = 7


@dataclass(frozen=True, slots=True, eq=False)
class CollectedPartial:
    """The values of all groups concatenated, those of group g at [offsets[g], offsets[g + 1]): offsets int64."""

    values: Values
    offsets: Array


class Collected:
    """Values of one segment with their groups, in the order of arrival."""

    def __init__(self, data_type: DataType, num_groups: int, distinct_only: bool) -> None:
        self._num_groups = num_groups
        self._type = data_type
        self._distinct_only = distinct_only
        self._groups: list[Array] = []
        self._values: list[Values] = []
        self._waiting = 0

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self._num_groups = num_groups

    def add(self, groups: Array, values: Values) -> None:
        """Add values: groups int64 [n]."""
        self._groups.append(groups)
        self._values.append(values)
        self._waiting += len(groups)
        if self._distinct_only and self._waiting > _COMPACT_ROWS:
            self._compact()

    def combine(self, other: "Collected") -> None:
        """Append the values that another state has collected."""
        for groups, values in zip(other._groups, other._values, strict=True):
            self.add(groups, values)

    def partial(self) -> CollectedPartial:
        """Return the collected values, ordered by group."""
        self._compact()
        groups, values = (self._groups[0], self._values[0]) if self._groups else _nothing(self._type)
        return _by_groups(groups, values, self._num_groups)

    def _compact(self) -> None:
        if not self._groups:
            return
        if self._waiting > _RESERVED_ROWS:
            held = sum(part.nbytes for part in (*self._groups, *self._values))
            guard.reserve("states of aggregates", (_DISTINCT_FACTOR if self._distinct_only else 1) * held)
        groups, values = np.concatenate(self._groups), concat(self._values)
        if self._distinct_only:
            groups, values = _first_of_equal(groups, values, self._type)
        self._groups, self._values, self._waiting = [groups], [values], 0


def _nothing(data_type: DataType) -> tuple[Array, Values]:
    return np.zeros(0, np.int64), array_of([], data_type)


def _first_of_equal(groups: Array, values: Values, data_type: DataType) -> tuple[Array, Values]:
    codes, entries = distinct(Vector(data_type, values))
    kept = np.sort(np.unique(groups * max(len(entries), 1) + codes, return_index=True)[1])
    return groups[kept], take(values, kept)


def _by_groups(groups: Array, values: Values, num_groups: int) -> CollectedPartial:
    offsets = np.zeros(num_groups + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=num_groups), out=offsets[1:])
    if num_groups > 1:
        values = take(values, np.argsort(groups, kind="stable"))
    return CollectedPartial(values, offsets)


@dataclass(frozen=True, slots=True)
class OfCollected(KeepsState):
    """An aggregate of the values of each group. argument_type: the type that the values are converted to."""

    argument_type: DataType
    distinct_only: bool
    result: Callable[[CollectedPartial], Vector]
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> Collected:
        return Collected(self.argument_type, num_groups, self.distinct_only)

    def update(self, state: Collected, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        groups, operand = flatten(groups, args[0], num_rows)
        converted = convert(operand, self.argument_type)
        assert not isinstance(converted, Scalar)
        of_rows = np.zeros(len(converted), np.int64) if groups is None else groups.astype(np.int64)
        values = converted.decode().values if isinstance(converted, EncodedVector) else converted.values
        if self.distinct_only:
            of_rows, values = _first_of_equal(of_rows, values, self.argument_type)
        state.add(of_rows, values)

    def seal(self, state: Collected) -> CollectedPartial:
        return state.partial()

    def select(self, partial: CollectedPartial, groups: Array) -> CollectedPartial:
        lengths = np.diff(partial.offsets)[groups]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.arange(offsets[-1]) + np.repeat(partial.offsets[groups] - offsets[:-1], lengths)
        return CollectedPartial(take(partial.values, positions), offsets)

    def merge(self, partials: Sequence[CollectedPartial], maps: Sequence[GroupIds], num_groups: int) -> CollectedPartial:
        state = Collected(self.argument_type, num_groups, self.distinct_only)
        for partial, groups in zip(partials, maps, strict=True):
            state.add(np.repeat(groups.astype(np.int64), np.diff(partial.offsets)), partial.values)
        return state.partial()

    def finish(self, partial: CollectedPartial) -> Vector:
        return self.result(partial)

    def encode(self, partial: CollectedPartial) -> list[pa.Array]:
        decimal = self.argument_type is DataType.BIG_DECIMAL
        values = decimal_texts(partial.values) if decimal else pa.array(partial.values)
        return [pa.LargeListArray.from_arrays(pa.array(partial.offsets, pa.int64()), values)]

    def decode(self, arrays: Sequence[pa.Array]) -> CollectedPartial:
        values, offsets = arrays[0].flatten(), np.asarray(arrays[0].offsets)
        if self.argument_type is DataType.BIG_DECIMAL:
            stored = decimals(values)
        else:
            in_arrow = self.argument_type.is_text or self.argument_type.is_binary
            stored = values if in_arrow else values.to_numpy(zero_copy_only=False)
        return CollectedPartial(stored, offsets.astype(np.int64) - int(offsets[0]))


# -- results


def _as_array(data_type: DataType) -> Callable[[CollectedPartial], Vector]:
    return lambda partial: Vector(data_type, partial.values, partial.offsets)


def _as_text(separator: str) -> Callable[[CollectedPartial], Vector]:
    def join(partial: CollectedPartial) -> Vector:
        lists = pa.LargeListArray.from_arrays(pa.array(partial.offsets, pa.int64()), partial.values)
        return Vector(DataType.STRING, pc.binary_join(lists, separator))

    return join


def _union(partial: CollectedPartial) -> Vector:
    shapely = geo_library("shapely")
    values = partial.values.to_pylist()
    bounds = partial.offsets.tolist()
    return Vector(
        DataType.BYTES,
        pa.array([_united(shapely, values[a:b]) for a, b in pairwise(bounds)], pa.binary()),
    )


def _united(shapely: Any, geometries: Sequence[bytes]) -> bytes:
    try:
        parsed = [deserialize(data) for data in geometries]
        if len({geometry.is_geography for geometry in parsed}) > 1:
            raise ValueError("a geometry and a geography cannot be united; use toGeometry or toSphericalGeography")
        united = shapely.union_all([geometry.shape for geometry in parsed]) if parsed else shapely.Point()
        return serialize(Geometry(united, bool(parsed) and parsed[0].is_geography))
    except (ValueError, shapely.errors.ShapelyError) as error:
        raise QueryError(ErrorCode.QUERY_EXECUTION, f"Aggregate 'stUnion': {error}") from error


# -- binding


def _wrong(call: Call, detail: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}': {detail}")


def _is_distinct(call: Call) -> bool:
    argument = call.args[2] if len(call.args) > 2 else Literal(False, DataType.BOOLEAN)
    given = argument.value if isinstance(argument, Literal) else None
    if isinstance(given, str) and given.lower() in ("true", "false", "distinct"):
        return given.lower() != "false"
    if not isinstance(given, bool):
        raise _wrong(call, f"the third argument, distinct, is true or false, not {to_text(argument)}")
    return given


def _convertible(source: DataType, to: DataType) -> bool:
    return source is to or source.is_text or to.is_text or source.is_binary == to.is_binary


def _of_collected(
    argument_type: DataType,
    distinct_only: bool,
    result: Callable[[CollectedPartial], Vector],
    result_type: DataType,
    as_lists: bool = False,
) -> OfCollected:
    traits = AggregateTraits(result_type, ("collected values", argument_type, distinct_only), as_lists)
    return OfCollected(argument_type, distinct_only, result, traits)


def _bind_array(call: Call, arg_types: Sequence[ValueType]) -> OfCollected:
    require_arguments(call, 2, 3, "arrayagg(x, 'STRING')")
    source, _ = require_one_argument(call, arg_types, 2)
    named = call.args[1].value if isinstance(call.args[1], Literal) else None
    target = next((known for known in COLUMN_TYPES if isinstance(named, str) and known.value == named.upper()), None)
    if target is None:
        known = ", ".join(f"'{known.value}'" for known in COLUMN_TYPES)
        raise _wrong(call, f"the second argument is the type of the elements, {known}, not {to_text(call.args[1])}")
    if not _convertible(source, target):
        raise _wrong(call, f"{source.value} cannot be converted to {target.value}")
    return _of_collected(target, _is_distinct(call), _as_array(target), target, as_lists=True)


def _bind_list(call: Call, arg_types: Sequence[ValueType]) -> OfCollected:
    require_one_argument(call, arg_types, 2)
    separator = call.args[1].value if len(call.args) > 1 and isinstance(call.args[1], Literal) else ","
    if not isinstance(separator, str):
        raise _wrong(call, f"the separator is a text, not {to_text(call.args[1])}")
    return _of_collected(DataType.STRING, _is_distinct(call), _as_text(separator), DataType.STRING)


def _bind_union(call: Call, arg_types: Sequence[ValueType]) -> OfCollected:
    source, _ = require_one_argument(call, arg_types)
    if not source.is_binary:
        raise _wrong(call, f"the argument must be a geometry, which is BYTES, not {source.value}")
    geo_library("shapely")
    return _of_collected(DataType.BYTES, True, _union, DataType.BYTES)


register_aggregate(["arrayAgg"], _bind_array)
register_aggregate(["listAgg"], _bind_list)
register_aggregate(["ST_Union"], _bind_union)
