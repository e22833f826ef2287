"""MINLONG, MAXLONG, MINSTRING, MAXSTRING, ANYVALUE, FIRSTWITHTIME, LASTWITHTIME, EXPRMIN and EXPRMAX: one value of a group.

Results do not depend on how rows are divided among segments. ANYVALUE is the least value. `FIRSTWITHTIME(x, t, 'TYPE')`
is x of the row with the smallest t, as a TYPE (BOOLEAN, INT, LONG, FLOAT, DOUBLE or STRING), LASTWITHTIME of the largest;
where several rows have that t, the first takes the smallest x and the last the largest. `EXPRMIN(x, m1, m2, ...)` and
EXPRMAX do the same with one measure or more, and return one row. Text is compared by UTF-8 bytes, NaN is greatest. Empty:
MINLONG the largest and MAXLONG the smallest LONG; FIRSTWITHTIME and LASTWITHTIME the smallest INT or LONG, NaN, false or
empty text; the others null.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.choose.least import (
    LeastRows,
    LeastState,
    decode_least,
    encode_least,
    merge_least,
    select_least,
    spread,
)
from gamay.functions.aggregate.distinct.pairs import no_values
from gamay.functions.aggregate.lookup import INTEGERS
from gamay.functions.aggregate.totals.numeric import require_arguments, require_number_at
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.vector import Operand, Vector
from gamay.model.types import DataType

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_INT_MIN = -(1 << 31)
_EMPTY_BY_TYPE: dict[DataType, Any] = {
    DataType.BOOLEAN: False,
    DataType.INT: _INT_MIN,
    DataType.LONG: _LONG_MIN,
    DataType.FLOAT: math.nan,
    DataType.DOUBLE: math.nan,
    DataType.STRING: "",
}


@dataclass(frozen=True, slots=True)
class Chosen(KeepsState):
    """The value of the last argument in the least (or greatest) row of each group.

    order: the positions of the arguments in the order of comparison. empty: the result without rows; None for null.
    """

    order: tuple[int, ...]
    types: tuple[DataType, ...]
    descending: bool
    empty: Any
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> LeastState:
        return LeastState(self.types, self.descending, num_groups)

    def update(self, state: LeastState, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        state.update(groups, [args[place] for place in self.order], num_rows)

    def seal(self, state: LeastState) -> LeastRows:
        return state.rows()

    def select(self, partial: LeastRows, groups: Array) -> LeastRows:
        return select_least(partial, groups)

    def merge(self, partials: Sequence[LeastRows], maps: Sequence[GroupIds], num_groups: int) -> LeastRows:
        return merge_least(partials, maps, num_groups, self.types, self.descending)

    def finish(self, partial: LeastRows) -> Vector:
        values = partial.columns[-1]
        if values.type is not self.traits.result_type:
            values = _cast(values, self.traits.result_type)
        return spread(values, partial.groups, partial.num_groups, self.empty)

    def encode(self, partial: LeastRows) -> list[pa.Array]:
        return encode_least(partial)

    def decode(self, arrays: Sequence[pa.Array]) -> LeastRows:
        return decode_least(self.types, arrays)


def _cast_call(to: DataType) -> Call:
    return Call("cast", (Column("x"), Literal(to.value, DataType.STRING)))


def _cast(values: Vector, to: DataType) -> Vector:
    if len(values) == 0:
        return no_values(to)
    cast = evaluate(_cast_call(to), lambda _: values, len(values))
    assert isinstance(cast, Vector)
    return cast


# -- binding


def _invalid(message: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, message)


def _bind_long(call: Call, arg_types: Sequence[ValueType]) -> Chosen:
    require_arguments(call, 1, 1)
    data_type, _ = arg_types[0]
    if data_type not in INTEGERS:
        raise _invalid(
            f"Aggregate '{call.name}' needs whole numbers, its argument is {data_type.value}; write "
            f"{call.name[:3]}(x), or {call.name}(CAST(x AS LONG))"
        )
    descending = call.name == "maxlong"
    empty = _LONG_MIN if descending else _LONG_MAX
    return Chosen((0,), (data_type,), descending, empty, AggregateTraits(DataType.LONG))


def _bind_string(call: Call, arg_types: Sequence[ValueType]) -> Chosen:
    require_arguments(call, 1, 1)
    data_type, _ = arg_types[0]
    if not data_type.is_text:
        raise _invalid(
            f"Aggregate '{call.name}' needs text, its argument is {data_type.value}; write "
            f"{call.name[:3]}(x), or {call.name}(CAST(x AS STRING))"
        )
    return Chosen((0,), (data_type,), call.name == "maxstring", None, AggregateTraits(DataType.STRING))


def _bind_any(call: Call, arg_types: Sequence[ValueType]) -> Chosen:
    require_arguments(call, 1, 1)
    data_type, _ = arg_types[0]
    _require_ordered(call, data_type)
    return Chosen((0,), (data_type,), False, None, AggregateTraits(data_type))


def _timed_arguments(call: Call) -> tuple[Expression, ...]:
    return call.args[:2]


def _bind_timed(call: Call, arg_types: Sequence[ValueType]) -> Chosen:
    require_arguments(call, 3, 3, f"{call.name}(x, time, 'STRING')")
    (data_type, _), time = arg_types
    require_number_at(call, 1, time[0])
    _require_ordered(call, data_type)
    _require_single(call, arg_types)
    named = call.args[2].value if isinstance(call.args[2], Literal) else None
    wanted = next((known for known in _EMPTY_BY_TYPE if isinstance(named, str) and known.value == named.upper()), None)
    if wanted is None:
        names = ", ".join(f"'{known.value}'" for known in _EMPTY_BY_TYPE)
        raise _invalid(f"The third argument of '{call.name}' is the type of the first: {names}")
    if wanted is not data_type:
        result_type(_cast_call(wanted), lambda _: (data_type, False))
    types, traits = (time[0], data_type), AggregateTraits(wanted)
    return Chosen((1, 0), types, call.name == "lastwithtime", _EMPTY_BY_TYPE[wanted], traits)


def _bind_expr(call: Call, arg_types: Sequence[ValueType]) -> Chosen:
    if len(call.args) < 2:
        raise _invalid(f"Aggregate '{call.name}' takes an expression and the measures by which its row is chosen")
    for data_type, _ in arg_types:
        _require_ordered(call, data_type)
    _require_single(call, arg_types)
    order = (*range(1, len(arg_types)), 0)
    types = tuple(arg_types[place][0] for place in order)
    return Chosen(order, types, call.name == "exprmax", None, AggregateTraits(types[-1]))


def _require_ordered(call: Call, data_type: DataType) -> None:
    if not (data_type.is_fixed_width or data_type.is_text or data_type.is_binary or data_type is DataType.BIG_DECIMAL):
        raise _invalid(f"Aggregate '{call.name}' does not take {data_type.value}")


def _require_single(call: Call, arg_types: Sequence[ValueType]) -> None:
    if any(is_multi_value for _, is_multi_value in arg_types):
        raise _invalid(f"Aggregate '{call.name}' takes single values, not lists")


register_aggregate(["minLong", "maxLong"], _bind_long)
register_aggregate(["minString", "maxString"], _bind_string)
register_aggregate(["anyValue"], _bind_any)
register_aggregate(["firstWithTime", "lastWithTime"], _bind_timed, arguments=_timed_arguments)
register_aggregate(["exprMin", "exprMax"], _bind_expr, arguments=lambda call: call.args)
