"""AND, OR, NOT, tests for null, CASE, COALESCE, NULLIF, LEAST and GREATEST: functions that accept nulls as values."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import convert, python_values, to_vector
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.comparison import check_constant, comparable_type, compare
from gamay.functions.scalar.define import type_of
from gamay.functions.scalar.types import common_type, single_values
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, concat, sorted_distinct, take
from gamay.kernels.rows.masks import choose_marked, replace_chosen, replace_chosen_by
from gamay.model.types import DataType

BOOLEAN = DataType.BOOLEAN
Compute = Callable[[Call, Sequence[Operand], int, DataType], Operand]
TypeRule = Callable[[Call, Sequence[ValueType]], DataType]


def _register(names: Sequence[str], least: int, most: int | None, rule: TypeRule, compute: Compute) -> None:
    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        check_count(names[0], len(types), least, most)
        return rule(call, types), False

    def checked(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        result, _ = result_type(call, [type_of(arg) for arg in args])
        if all(isinstance(arg, Scalar) for arg in args):
            return _first(to_vector(compute(call, args, 1, result), 1), result)
        return compute(call, args, num_rows, result)

    register_scalar(names, ScalarFunction(names[0], least, most, result_type, checked, accepts_nulls=True))


def _first(vector: Vector, result: DataType) -> Scalar:
    if vector.nulls is not None and vector.nulls[0]:
        return Scalar(None, result)
    return Scalar(python_values(vector.values)[0], result)


def _boolean(call: Call, types: Sequence[ValueType]) -> DataType:
    single_values(call, types)
    return BOOLEAN


def _truth(operand: Operand, num_rows: int) -> tuple[Any, Any]:
    """Return (true, null) of a condition for each row: bool [n] each, null rows not true; None if nothing is null."""
    vector = to_vector(convert(operand, BOOLEAN), num_rows)
    if vector.nulls is None:
        return vector.values, None
    return vector.values & ~vector.nulls, vector.nulls


def _conditions(values: Any, nulls: Any) -> Vector:
    if nulls is None or not nulls.any():
        return Vector(BOOLEAN, values)
    return Vector(BOOLEAN, values & ~nulls, None, nulls)


def _either_null(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def _and(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    true, nulls = _truth(args[0], num_rows)
    possible = true if nulls is None else true | nulls
    for arg in args[1:]:
        also, null = _truth(arg, num_rows)
        possible = possible & (also if null is None else also | null)
        nulls = _either_null(nulls, null)
    return _conditions(possible, None if nulls is None else nulls & possible)


def _or(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    any_true, nulls = _truth(args[0], num_rows)
    for arg in args[1:]:
        true, null = _truth(arg, num_rows)
        any_true = any_true | true
        nulls = _either_null(nulls, null)
    return _conditions(any_true, None if nulls is None else nulls & ~any_true)


def _not(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    true, null = _truth(args[0], num_rows)
    return _conditions(~true, null)


_register(("and",), 1, None, _boolean, _and)
_register(("or",), 1, None, _boolean, _or)
_register(("not",), 1, 1, _boolean, _not)


def _is_truth(wanted: bool, negated: bool) -> Compute:
    def compute(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
        true, null = _truth(args[0], num_rows)
        found = true if wanted else ~true if null is None else ~true & ~null
        return Vector(BOOLEAN, ~found if negated else found)

    return compute


for _name, _wanted, _negated in (
    ("isTrue", True, False),
    ("isNotTrue", True, True),
    ("isFalse", False, False),
    ("isNotFalse", False, True),
):
    _register((_name,), 1, 1, _boolean, _is_truth(_wanted, _negated))


def _null_rows(operand: Operand, num_rows: int) -> Any:
    if isinstance(operand, Scalar):
        return np.full(num_rows, operand.value is None)
    return np.zeros(num_rows, np.bool_) if operand.nulls is None else operand.nulls


def _any_value(call: Call, types: Sequence[ValueType]) -> DataType:
    return BOOLEAN


_register(("isNull",), 1, 1, _any_value, lambda call, args, n, result: Vector(BOOLEAN, _null_rows(args[0], n)))
_register(("isNotNull",), 1, 1, _any_value, lambda call, args, n, result: Vector(BOOLEAN, ~_null_rows(args[0], n)))


def _distinct_from(negated: bool) -> Compute:
    def compute(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
        left, right = (_null_rows(arg, num_rows) for arg in args)
        either_unknown = any(isinstance(arg, Scalar) and arg.value is None for arg in args)
        same = left & right
        if not either_unknown:
            constants = all(isinstance(arg, Scalar) for arg in args)
            first = to_vector(args[0], num_rows) if constants else args[0]
            same = same | (compare("equals", first, args[1], num_rows) & ~left & ~right)
        return Vector(BOOLEAN, same if negated else ~same)

    return compute


def _comparable(call: Call, types: Sequence[ValueType]) -> DataType:
    left, right = single_values(call, types)
    if DataType.UNKNOWN not in (left, right):
        comparable_type(left, right)
    check_constant(call.name, call.args[0], right)
    check_constant(call.name, call.args[1], left)
    return BOOLEAN


_register(("isDistinctFrom",), 2, 2, _comparable, _distinct_from(False))
_register(("isNotDistinctFrom",), 2, 2, _comparable, _distinct_from(True))


# -- choosing among values


def _branch_type(name: str, branches: Sequence[tuple[DataType, bool]]) -> DataType:
    """Return the common type of branches given as (type, is a constant); text constants take the type of the others."""
    firm = [data_type for data_type, constant in branches if not (constant and data_type is DataType.STRING)]
    common = common_type(firm if any(t is not DataType.UNKNOWN for t in firm) else [t for t, _ in branches])
    if common is None:
        shown = ", ".join(dict.fromkeys(t.value for t, _ in branches))
        raise wrong(name, f"the branches have no common type: {shown}")
    return DataType.STRING if common is DataType.UNKNOWN else common


def _case_type(call: Call, types: Sequence[ValueType]) -> DataType:
    singles = single_values(call, types)
    if len(singles) % 2 == 0:
        raise wrong("case", "it takes pairs of condition and value, then the value of ELSE")
    positions = [*range(1, len(singles) - 1, 2), len(singles) - 1]
    result = _branch_type("case", [(singles[i], isinstance(call.args[i], Literal)) for i in positions])
    for i in positions:
        check_constant("case", call.args[i], result)
    return result


def choose(choice: Any, branches: Sequence[Operand], result: DataType, num_rows: int) -> Vector | EncodedVector:
    """Return the value of branch choice[i] for each row i: unsigned [n]; encoded if all branches are constants."""
    if all(isinstance(branch, Scalar) for branch in branches) and result is not DataType.BIG_DECIMAL:
        return _constants(choice, [convert(branch, result) for branch in branches], result)
    # a constant's single entry serves all rows
    columns = [to_vector(convert(branch, result), 1 if isinstance(branch, Scalar) else num_rows) for branch in branches]
    nulls = None
    if any(column.nulls is not None for column in columns):
        flags = [np.zeros(1, np.bool_) if column.nulls is None else column.nulls for column in columns]
        nulls = _picked(choice, flags)
        nulls = nulls if nulls.any() else None
    if result.is_fixed_width:
        return Vector(result, _picked(choice, [column.values for column in columns]), None, nulls)
    starts = np.concatenate([[0], np.cumsum([len(column) for column in columns])])
    constant = np.array([isinstance(branch, Scalar) for branch in branches])
    rows = starts[choice] + np.where(constant[choice], 0, np.arange(num_rows))
    return Vector(result, take(concat([column.values for column in columns]), rows), None, nulls)


def _picked(choice: Any, columns: Sequence[Any]) -> Any:
    """Return columns[choice[i]][i] for each row i; a column of one entry serves all rows."""
    out = np.empty(len(choice), columns[0].dtype)
    out[:] = columns[-1]
    for place, column in enumerate(columns[:-1]):
        if len(column) == 1:
            replace_chosen(choice, place, column[0], out)
        else:
            replace_chosen_by(choice, place, column, out)
    return out


def _constants(choice: Any, constants: Sequence[Operand], result: DataType) -> EncodedVector:
    """Return chosen constants, dictionary-encoded."""
    values = concat([to_vector(constant, 1).values for constant in constants])
    entries, places = sorted_distinct(Vector(result, values))
    missing = np.array([isinstance(constant, Scalar) and constant.value is None for constant in constants])
    nulls = missing[choice] if missing.any() else None
    ids = take(places.astype(np.min_scalar_type(len(entries))), choice)
    return EncodedVector(
        ids, Vector(result, entries, ascends=True), None, nulls if nulls is not None and nulls.any() else None
    )


def _first_that_holds(conditions: Sequence[Any], num_rows: int) -> Any:
    """Return for each row the position of the first true condition (bool [n]), or the number of conditions if none is."""
    choice = np.full(num_rows, len(conditions), np.min_scalar_type(len(conditions)))
    for place in range(len(conditions) - 1, -1, -1):
        choose_marked(conditions[place].view(np.uint8), choice.dtype.type(place), choice)
    return choice


def _case(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    choice = _first_that_holds([_truth(condition, num_rows)[0] for condition in args[:-1:2]], num_rows)
    return choose(choice, [*args[1:-1:2], args[-1]], result, num_rows)


_register(("case", "caseWhen"), 1, None, _case_type, _case)


def _coalesce_type(call: Call, types: Sequence[ValueType]) -> DataType:
    singles = single_values(call, types)
    common = common_type(singles)
    return DataType.STRING if common is None or common is DataType.UNKNOWN else common


def _coalesce(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    choice = _first_that_holds([~_null_rows(arg, num_rows) for arg in args[:-1]], num_rows)
    return choose(choice, args, result, num_rows)


_register(("coalesce",), 1, None, _coalesce_type, _coalesce)


def _first_type(call: Call, types: Sequence[ValueType]) -> DataType:
    first = single_values(call, types)[0]
    check_constant("nullIf", call.args[1], first)
    return DataType.STRING if first is DataType.UNKNOWN else first


def _null_if(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    vector = to_vector(convert(args[0], result), num_rows)
    nulls = _null_rows(vector, num_rows)
    if not (isinstance(args[1], Scalar) and args[1].value is None):
        # the placeholder of a null equals nothing
        nulls = nulls | (compare("equals", vector, args[1], num_rows) & ~_null_rows(args[1], num_rows))
    return Vector(result, vector.values, None, nulls if nulls.any() else None)


_register(("nullIf",), 2, 2, _first_type, _null_if)


def _extreme_type(call: Call, types: Sequence[ValueType]) -> DataType:
    singles = [t for t in single_values(call, types) if t is not DataType.UNKNOWN]
    common = common_type(singles)
    if common is None or (DataType.TIMESTAMP in singles and common is not DataType.TIMESTAMP):
        raise wrong(call.name, f"no common type of {', '.join(dict.fromkeys(t.value for t in singles))}")
    if common is DataType.UNKNOWN:
        return DataType.STRING
    if len(set(singles)) > 1 and common is DataType.FLOAT:
        return DataType.DOUBLE  # FLOAT cannot represent every INT
    return common


def _extreme(comparison: str) -> Compute:
    def compute(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
        best = to_vector(convert(args[0], result), num_rows)
        for arg in args[1:]:
            other = to_vector(convert(arg, result), num_rows)
            better = compare(comparison, other, best, num_rows)
            better = (better | _null_rows(best, num_rows)) & ~_null_rows(other, num_rows)
            best = to_vector(choose(better.view(np.uint8), [best, other], result, num_rows), num_rows)
        return best

    return compute


_register(("least",), 1, None, _extreme_type, _extreme("lessthan"))
_register(("greatest",), 1, None, _extreme_type, _extreme("greaterthan"))
