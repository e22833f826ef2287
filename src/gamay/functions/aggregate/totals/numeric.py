"""COUNT, SUM, MIN, MAX, AVG and MINMAXRANGE with their variants for multi-value columns, BOOLAND and BOOLOR.

Without groups a NaN makes MIN and MAX NaN; within groups it is skipped. Empty: COUNT and SUM 0, MIN +Infinity, MAX, AVG
and MINMAXRANGE -Infinity, BOOLAND true, BOOLOR false.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.lookup import INTEGERS
from gamay.functions.aggregate.totals.totals import Needs, Totals, TotalsPartial, unsigned
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState, Sent
from gamay.functions.expression import Call, Literal, Star
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.text import to_text
from gamay.functions.vector import Operand, Vector, numpy_dtype
from gamay.kernels.group.aggregation import add_values, bound_values
from gamay.model.types import DataType

_EXACT_SUM_MAX = float(1 << 62)
_NOTHING = np.empty(0)


def _count(partial: TotalsPartial) -> Array | None:
    return partial.counts


def _sum(partial: TotalsPartial) -> Array | None:
    return partial.sums


def _low(partial: TotalsPartial) -> Array | None:
    return partial.lows


def _high(partial: TotalsPartial) -> Array | None:
    return partial.highs


def _average(partial: TotalsPartial) -> Array:
    counts, sums = _required(partial.counts), _required(partial.sums)
    if len(counts) == 1 and counts.item():  # avoids the overhead of array operations
        return np.array([float(sums.item()) / counts.item()])
    return np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)


def _range(partial: TotalsPartial) -> Array:
    with np.errstate(invalid="ignore"):  # infinity minus itself is NaN, as intended
        return _required(partial.highs) - _required(partial.lows)


def _all_true(partial: TotalsPartial) -> Array:
    return np.asarray(_required(partial.lows) > 0)


def _any_true(partial: TotalsPartial) -> Array:
    return np.asarray(_required(partial.highs) > 0)


def _traits(result_type: DataType, state_kind: str = "totals") -> AggregateTraits:
    return AggregateTraits(result_type, state_kind, is_bounded=True)


_OF_DOUBLES = _traits(DataType.DOUBLE)


@dataclass(frozen=True, slots=True)
class Numeric(KeepsState):
    """An aggregate computed from totals.

    needs: the totals required; several `Numeric` of one argument may share a `Totals` with the union of their needs.
    argument_type: None if rows are counted regardless of values. is_multi_value: the argument is lists.
    """

    name: str
    needs: Needs
    result: Callable[[TotalsPartial], Array | None]
    argument_type: DataType | None
    is_multi_value: bool = False
    traits: AggregateTraits = field(default=_OF_DOUBLES, compare=False)

    def allocate(self, num_groups: int) -> Totals:
        return Totals(self.needs, self.argument_type, num_groups)

    def update(self, state: Totals, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        state.update(groups, args[0] if args else None, num_rows)

    def seal(self, state: Totals) -> TotalsPartial:
        return state.partial(self.needs)

    def only(self, partial: TotalsPartial) -> TotalsPartial:
        """Return the totals that this aggregate needs, from totals that may hold more."""
        return TotalsPartial(*[f if is_kept else None for is_kept, f in zip(self.keeps, _fields(partial), strict=True)])

    @property
    def keeps(self) -> tuple[bool, ...]:
        """Whether a partial has counts, sums, lows and highs, in that order."""
        return _kept(self.needs)

    def select(self, partial: TotalsPartial, groups: Array) -> TotalsPartial:
        return TotalsPartial(*(None if field is None else field[groups] for field in _fields(partial)))

    def merge(self, partials: Sequence[TotalsPartial], maps: Sequence[GroupIds], num_groups: int) -> TotalsPartial:
        if not partials:
            return self.seal(self.allocate(num_groups))
        kept = partials[0]  # all hold exactly what is needed
        counts = sums = lows = highs = None
        if kept.counts is not None:
            counts = _merged_sums([partial.counts for partial in partials], maps, num_groups, np.int64)
        if kept.sums is not None:
            sums = _merged_sums([partial.sums for partial in partials], maps, num_groups, self._sum_dtype)
        if kept.lows is not None:
            lows = _merged_bounds([partial.lows for partial in partials], maps, np.full(num_groups, np.inf), _NOTHING)
        if kept.highs is not None:
            highs = _merged_bounds([partial.highs for partial in partials], maps, _NOTHING, np.full(num_groups, -np.inf))
        return TotalsPartial(counts, sums, lows, highs)

    def finish(self, partial: TotalsPartial) -> Vector:
        result = _required(self.result(partial))
        result_type = self.traits.result_type
        return Vector(result_type, result.astype(numpy_dtype(result_type), copy=False))

    def encode(self, partial: TotalsPartial) -> list[Sent]:
        return [field for field in _fields(partial) if field is not None]

    def decode(self, arrays: Sequence[Sent]) -> TotalsPartial:
        given = iter(arrays)
        return TotalsPartial(*[next(given) if is_kept else None for is_kept in self.keeps])

    @property
    def _sum_dtype(self) -> Any:
        return np.int64 if self.argument_type in INTEGERS else np.float64


@cache
def _kept(needs: Needs) -> tuple[bool, ...]:
    """Return whether each field of a partial is kept; cached, as iterating over a Flag costs more than sending one."""
    return tuple([need in needs for need in Needs])


def _fields(partial: TotalsPartial) -> tuple[Array | None, ...]:
    return partial.counts, partial.sums, partial.lows, partial.highs


def _required(field: Array | None) -> Array:
    if field is None:
        raise ValueError("the partial comes from another aggregate: a total is missing")
    return field


def _merged_sums(fields: Sequence[Array | None], maps: Sequence[GroupIds], num_groups: int, dtype: Any) -> Array:
    """Return the sums of groups; integers stay exact while no group's sum can overflow."""
    given = [_required(field) for field in fields]
    if num_groups == 1 and all(len(field) == 1 for field in given):
        total = sum([field.item() for field in given])  # exact for integers, which do not overflow in Python
        whole = isinstance(total, int) and abs(total) <= _EXACT_SUM_MAX
        return np.array([total], dtype if whole else np.float64)
    exact = all(field.dtype == np.int64 for field in given)
    if exact and sum(float(np.abs(field.astype(np.float64)).sum()) for field in given) > _EXACT_SUM_MAX:
        exact = False
    merged = np.zeros(num_groups, dtype if exact else np.float64)
    for addends, groups in zip(given, maps, strict=True):
        add_values(unsigned(groups), addends.astype(merged.dtype, copy=False), merged, 0)
    return merged


def _merged_bounds(fields: Sequence[Array | None], maps: Sequence[GroupIds], lows: Array, highs: Array) -> Array:
    """Lower `lows` or raise `highs`, whichever is not empty. NaN, which occurs only without groups, is kept."""
    merged = lows if len(lows) else highs
    for bounds, groups in zip(fields, maps, strict=True):
        bound_values(unsigned(groups), _required(bounds), lows, highs)
    for bounds, groups in zip(fields, maps, strict=True):
        merged[groups[np.isnan(_required(bounds))]] = np.nan
    return merged


# -- binding

_FUNCTIONS: dict[str, tuple[Needs, Callable[[TotalsPartial], Array | None]]] = {
    "sum": (Needs.SUM, _sum),
    "sum0": (Needs.SUM, _sum),
    "min": (Needs.LOW, _low),
    "max": (Needs.HIGH, _high),
    "avg": (Needs.COUNT | Needs.SUM, _average),
    "minmaxrange": (Needs.LOW | Needs.HIGH, _range),
}


def require_arguments(call: Call, least: int, most: int, example: str = "") -> None:
    """Raise QueryError if a call has too few or too many arguments, constants included. example: a valid call."""
    if not least <= len(call.args) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Aggregate '{call.name}' takes {wanted} argument{'' if most == 1 else 's'}, not {len(call.args)}"
            f"{example and f'; write {example}'}",
        )


def require_one_argument(call: Call, arg_types: Sequence[ValueType], parameters: int = 0) -> ValueType:
    """Return the type of the only per-row argument, which at most `parameters` constants follow.

    Raises QueryError for any other number of arguments, and for parameters that are not constants.
    """
    require_arguments(call, 1, 1 + parameters)
    if isinstance(call.args[0], Star):
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}' takes an expression, not *")
    if len(arg_types) > 1:
        varying = next(arg for arg in call.args[1:] if not isinstance(arg, Literal))
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"The arguments of '{call.name}' after the first must be constants, {to_text(varying)} is not",
        )
    return arg_types[0]


def require_number(call: Call, arg_types: Sequence[ValueType], parameters: int = 0) -> DataType:
    """Return the type of the only per-row argument, which must be a number, BOOLEAN or TIMESTAMP; raises QueryError.

    parameters: the maximum number of constants that follow it.
    """
    data_type, _ = require_one_argument(call, arg_types, parameters)
    require_number_at(call, 0, data_type)
    return data_type


def require_numbers(call: Call, arg_types: Sequence[ValueType], count: int) -> list[DataType]:
    """Return the types of all arguments, which must be `count` numbers, BOOLEAN or TIMESTAMP; raises QueryError."""
    require_arguments(call, count, count)
    for position, (data_type, _) in enumerate(arg_types):
        require_number_at(call, position, data_type)
    return [data_type for data_type, _ in arg_types]


def require_number_at(call: Call, position: int, data_type: DataType) -> None:
    """Raise QueryError unless the argument at a position, which has this type, is a number, BOOLEAN or TIMESTAMP."""
    if data_type in INTEGERS or data_type.is_numeric:
        return
    is_only = len(call.args) == 1
    what = "its argument" if is_only else to_text(call.args[position])
    cast = f"CAST({to_text(call.args[position])} AS DOUBLE)"
    hint = ""
    if data_type is DataType.MAP:
        hint = f"; name one of its values, {to_text(call.args[position])}['key']"
    elif data_type.is_text and is_only and call.name in ("min", "max"):
        hint = f"; write {call.name}string({to_text(call.args[position])}), or {call.name}({cast})"
    elif data_type.is_text:
        hint = f"; write {f'{call.name}({cast})' if is_only else cast}"
    raise QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}' needs numbers, {what} is {data_type.value}{hint}")


def _bind(call: Call, arg_types: Sequence[ValueType]) -> Numeric:
    name = call.name.removesuffix("mv")
    needs, result = _FUNCTIONS[name]
    return Numeric(name, needs, result, require_number(call, arg_types), arg_types[0][1])


def _bind_count(call: Call, arg_types: Sequence[ValueType]) -> Numeric:
    if len(call.args) != 1:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION, f"Aggregate 'count' takes * or one expression, not {len(call.args)} arguments"
        )
    return COUNT_ROWS


def _bind_count_values(call: Call, arg_types: Sequence[ValueType]) -> Numeric:
    data_type, is_multi_value = require_one_argument(call, arg_types)
    return Numeric("count", Needs.COUNT, _count, data_type, is_multi_value, _traits(DataType.LONG))


def _bind_truth(call: Call, arg_types: Sequence[ValueType]) -> Numeric:
    data_type, is_multi_value = require_one_argument(call, arg_types)
    if data_type is not DataType.BOOLEAN:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Aggregate '{call.name}' needs BOOLEAN, its argument is {data_type.value}; write CAST(x AS BOOLEAN)",
        )
    needs, result = (Needs.LOW, _all_true) if call.name == "booland" else (Needs.HIGH, _any_true)
    return Numeric(call.name, needs, result, data_type, is_multi_value, _traits(DataType.BOOLEAN))


COUNT_ROWS = Numeric("count", Needs.COUNT, _count, None, traits=_traits(DataType.LONG, "rows"))

# Without null handling COUNT(x) is COUNT(*): x is not evaluated.
register_aggregate(["count"], _bind_count, arguments=lambda call: ())
register_aggregate(["countMV"], _bind_count_values)
register_aggregate(
    ["sum", "$SUM0", "min", "max", "avg", "minMaxRange", "sumMV", "minMV", "maxMV", "avgMV", "minMaxRangeMV"], _bind
)
register_aggregate(["boolAnd", "boolOr"], _bind_truth)
