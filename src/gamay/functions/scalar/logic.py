"""AND, OR, NOT, tests for null, CASE, COALESCE, NULLIF, LEAST and GREATEST: the functions to which a null is a value."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.comparison import check_constant, comparable_type, compare
from gamay.functions.scalar.convert import convert, python_values, to_vector
from gamay.functions.scalar.define import check_count, type_of, wrong
from gamay.functions.scalar.types import common_type, single_values
from gamay.functions.vector import Operand, Scalar, Vector, concat, take
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
    """Return (true, null) of a condition for each row: bool [n] each, null rows not true."""
    vector = to_vector(convert(operand, BOOLEAN), num_rows)
    nulls = np.zeros(num_rows, np.bool_) if vector.nulls is None else vector.nulls
    return vector.values & ~nulls, nulls


def _conditions(values: Any, nulls: Any) -> Vector:
    return Vector(BOOLEAN, values & ~nulls, None, nulls if nulls.any() else None)


def _and(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    false, nulls = np.zeros(num_rows, np.bool_), np.zeros(num_rows, np.bool_)
    for arg in args:
        true, null = _truth(arg, num_rows)
        false |= ~true & ~null
        nulls |= null
    return _conditions(~false, nulls & ~false)


def _or(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    any_true, nulls = np.zeros(num_rows, np.bool_), np.zeros(num_rows, np.bool_)
    for arg in args:
        true, null = _truth(arg, num_rows)
        any_true |= true
        nulls |= null
    return _conditions(any_true, nulls & ~any_true)


def _not(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    true, null = _truth(args[0], num_rows)
    return _conditions(~true, null)


_register(("and",), 1, None, _boolean, _and)
_register(("or",), 1, None, _boolean, _or)
_register(("not",), 1, 1, _boolean, _not)


def _is_truth(wanted: bool, negated: bool) -> Compute:
    def compute(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
        true, null = _truth(args[0], num_rows)
        found = true if wanted else ~true & ~null
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
            vectors = [to_vector(arg, num_rows) for arg in args]
            same = same | (compare("equals", vectors[0], vectors[1], num_rows) & ~left & ~right)
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
    """The common type of branches given as (type, is a constant); text constants take the type of the others."""
    firm = [data_type for data_type, constant in branches if not (constant and data_type is DataType.STRING)]
    common = common_type(firm if any(t is not DataType.UNKNOWN for t in firm) else [t for t, _ in branches])
    if common is None:
        shown = ", ".join(dict.fromkeys(t.value for t, _ in branches))
        raise wrong(name, f"the branches have no common type: {shown}")
    return DataType.STRING if common is DataType.UNKNOWN else common


def _case_type(call: Call, types: Sequence[ValueType]) -> DataType:
    singles = single_values(call, types)
    if len(singles) % 2 == 0:
        raise wrong("case", "pairs of condition and value, then the value of ELSE, are needed")
    positions = [*range(1, len(singles) - 1, 2), len(singles) - 1]
    result = _branch_type("case", [(singles[i], isinstance(call.args[i], Literal)) for i in positions])
    for i in positions:
        check_constant("case", call.args[i], result)
    return result


def choose(choice: Any, branches: Sequence[Operand], result: DataType, num_rows: int) -> Vector:
    """Gather row i from branch choice[i]: int [n]."""
    columns = []
    for branch in branches:
        if isinstance(branch, Scalar):
            columns.append(to_vector(convert(branch, result), 1))  # one entry stands for all rows
        else:
            columns.append(to_vector(convert(branch, result), num_rows))
    starts = np.concatenate([[0], np.cumsum([len(column) for column in columns])])
    constant = np.array([isinstance(branch, Scalar) for branch in branches])
    rows = starts[choice] + np.where(constant[choice], 0, np.arange(num_rows))
    nulls = None
    if any(column.nulls is not None for column in columns):
        flags = [np.zeros(len(c), np.bool_) if c.nulls is None else c.nulls for c in columns]
        nulls = np.concatenate(flags)[rows]
        nulls = nulls if nulls.any() else None
    return Vector(result, take(concat([column.values for column in columns]), rows), None, nulls)


def _case(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    branches = [*args[1:-1:2], args[-1]]
    choice = np.full(num_rows, len(branches) - 1, dtype=np.int64)
    for i in range(len(branches) - 2, -1, -1):
        true, _ = _truth(args[2 * i], num_rows)
        choice[true] = i
    return choose(choice, branches, result, num_rows)


_register(("case", "caseWhen"), 1, None, _case_type, _case)


def _coalesce_type(call: Call, types: Sequence[ValueType]) -> DataType:
    singles = single_values(call, types)
    common = common_type(singles)
    return DataType.STRING if common is None or common is DataType.UNKNOWN else common


def _coalesce(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
    choice = np.full(num_rows, len(args) - 1, dtype=np.int64)
    for i in range(len(args) - 2, -1, -1):
        choice[~_null_rows(args[i], num_rows)] = i
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
        nulls = nulls | compare("equals", vector, args[1], num_rows)
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
        return DataType.DOUBLE  # FLOAT does not hold every INT
    return common


def _extreme(comparison: str) -> Compute:
    def compute(call: Call, args: Sequence[Operand], num_rows: int, result: DataType) -> Operand:
        best = to_vector(convert(args[0], result), num_rows)
        for arg in args[1:]:
            other = to_vector(convert(arg, result), num_rows)
            better = compare(comparison, other, best, num_rows)
            better = (better | _null_rows(best, num_rows)) & ~_null_rows(other, num_rows)
            best = choose(better.astype(np.int64), [best, other], result, num_rows)
        return best

    return compute


_register(("least",), 1, None, _extreme_type, _extreme("lessthan"))
_register(("greatest",), 1, None, _extreme_type, _extreme("greaterthan"))
