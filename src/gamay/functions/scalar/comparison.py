"""Comparisons, IN, BETWEEN, and the meaning of conditions on multi-value columns.

Numbers compare by value regardless of type; a constant is read as the type that it is compared with
(`gamay.functions.scalar.coerce`), text compared with a number is parsed as one. NaN equals itself and is greater than all
numbers. A condition on a multi-value argument holds if any of its values matches; `<>` and NOT IN if none is equal.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import array_of, convert_values, repeat, to_vector
from gamay.functions.expression import Call, Expression, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.coerce import Coerced, coerced
from gamay.functions.scalar.define import type_of
from gamay.functions.scalar.types import common_type
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, take_rows, union_nulls
from gamay.kernels.rows.filter import mark_among, mark_id_range
from gamay.model.types import DataType

BOOLEAN = DataType.BOOLEAN
Mask = Any  # bool ndarray
# up to this many comparisons of a whole column beat a look-up in a sorted set
_COMPARED_MOST = 64


# -- the core: two arrays of one type, or an array and a constant of that type


def _mask(result: Any) -> Mask:
    """Return an Arrow or NumPy condition as a bool ndarray."""
    if isinstance(result, np.ndarray):
        return result.astype(np.bool_, copy=False)
    return np.asarray(result.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _has_nan(values: Any) -> bool:
    return bool(isinstance(values, np.ndarray) and values.dtype.kind == "f" and np.isnan(values).any())


def _equal(left: Values, right: Any) -> Mask:
    if not isinstance(left, np.ndarray):
        return _mask(pc.equal(left, right))
    same = np.asarray(left == right, dtype=np.bool_)
    return same | (np.isnan(left) & np.isnan(right)) if _has_nan(right) else same


_is_nan = np.frompyfunc(lambda number: number.is_nan(), 1, 1)


def _decimals_ordered(function: "np.ufunc", left: Values, right: Any) -> Mask:
    """Compare BIG_DECIMALs, which are NaN where a DOUBLE was; Python refuses to order NaN, which is greatest here."""
    right = np.asarray(right, dtype=object)
    left_nan, right_nan = np.asarray(_is_nan(left), np.bool_), np.asarray(_is_nan(right), np.bool_)
    if not (left_nan.any() or right_nan.any()):
        return np.asarray(function(left, right), dtype=np.bool_)
    zero = np.array(Decimal(0), dtype=object)
    below = np.asarray(function(np.where(left_nan, zero, left), np.where(right_nan, zero, right)), dtype=np.bool_)
    return (~left_nan & (below | right_nan)) if function is np.less else (right_nan | (~left_nan & below))


def _less(left: Values, right: Any) -> Mask:
    if not isinstance(left, np.ndarray):
        return _mask(pc.less(left, right))
    if left.dtype == object:
        return _decimals_ordered(np.less, left, right)
    below = np.asarray(left < right, dtype=np.bool_)
    return below | (np.isnan(right) & ~np.isnan(left)) if _has_nan(right) else below


def _less_or_equal(left: Values, right: Any) -> Mask:
    if not isinstance(left, np.ndarray):
        return _mask(pc.less_equal(left, right))
    if left.dtype == object:
        return _decimals_ordered(np.less_equal, left, right)
    below = np.asarray(left <= right, dtype=np.bool_)
    return below | np.isnan(right) if _has_nan(right) else below


_COMPARE: dict[str, Callable[[Values, Any], Mask]] = {
    "equals": _equal,
    "notequals": lambda left, right: ~_equal(left, right),
    "lessthan": _less,
    "lessthanorequal": _less_or_equal,
    # as complements, so that NaN on the left is above all numbers
    "greaterthan": lambda left, right: ~_less_or_equal(left, right),
    "greaterthanorequal": lambda left, right: ~_less(left, right),
}
MIRRORED = {
    "lessthan": "greaterthan",
    "lessthanorequal": "greaterthanorequal",
    "greaterthan": "lessthan",
    "greaterthanorequal": "lessthanorequal",
}


def compare(name: str, left: Operand, right: Operand, num_rows: int) -> Mask:
    """Compare row by row; returns bool, one for each single value, or for each value of a multi-value side."""
    if isinstance(left, Scalar) and not isinstance(right, Scalar):
        return compare(MIRRORED.get(name, name), right, left, num_rows)
    if isinstance(right, Scalar) and not isinstance(left, Scalar):
        if isinstance(left, Vector):
            return _with_constant(name, left, right)
        values = left.dictionary.values
        if left.dictionary.ascends and isinstance(values, np.ndarray) and values.dtype != object:
            return _ids_with_constant(name, left, values, right)
        return _with_constant(name, left.decode(), right)
    data_type = comparable_type(left.type, right.type)
    one, other = (to_vector(operand, num_rows) for operand in (left, right))
    if one.type in _REALS and other.type in _LONGS:
        return _compare_whole(MIRRORED.get(name, name), other.values, one.values)
    if one.type in _LONGS and other.type in _REALS:
        return _compare_whole(name, one.values, other.values)
    return _COMPARE[name](*(convert_values(c.values, c.type, data_type) for c in (one, other)))


_LONGS = (DataType.LONG, DataType.TIMESTAMP)
_REALS = (DataType.FLOAT, DataType.DOUBLE)
_EXACT_DOUBLES = 2.0**53
_ABOVE_LONGS = 2.0**63


def _compare_whole(name: str, whole: Values, real: Values) -> Mask:
    """Compare LONGs with doubles exactly, including LONGs that no double represents."""
    near, wide = whole.astype(np.float64), real.astype(np.float64)
    if np.abs(near).max(initial=0.0) < _EXACT_DOUBLES:
        return _COMPARE[name](near, wide)
    order = np.where(near > wide, np.int8(1), np.int8(-1))  # NaN is greater than every number
    tied = np.flatnonzero((near == wide) & (wide < _ABOVE_LONGS))
    order[tied] = np.sign(whole[tied] - wide[tied].astype(np.int64))
    return _COMPARE[name](order, 0)


def comparable_type(left: DataType, right: DataType) -> DataType:
    """Return the type in which two columns are compared; raises QueryError if there is none."""
    common = common_type([left, right])
    if common is DataType.FLOAT and left is not right:
        return DataType.DOUBLE  # which holds each INT
    if common is not None:
        return common
    if left.is_binary and right.is_binary:
        return DataType.BYTES
    if left.is_binary or right.is_binary:
        if left.is_text or right.is_text:
            return left if left.is_binary else right
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"{left.value} cannot be compared with {right.value}")
    if DataType.BOOLEAN in (left, right) or DataType.TIMESTAMP in (left, right):
        other = left if right in (DataType.BOOLEAN, DataType.TIMESTAMP) else right
        special = right if other is left else left
        return (
            special if other.is_text else (DataType.DOUBLE if other in (DataType.FLOAT, DataType.DOUBLE) else DataType.LONG)
        )
    return DataType.STRING if left.is_text and right.is_text else DataType.DOUBLE


# for a constant c between two values: the comparison with the value next to it that `x < c` means, by whether c is above
# it
_BESIDE = {
    ("less", True): "lessthanorequal",
    ("less", False): "lessthan",
    ("great", True): "greaterthan",
    ("great", False): "greaterthanorequal",
}


def _with_constant(name: str, vector: Vector, constant: Scalar) -> Mask:
    """Compare with a constant, read as the vector's type."""
    name, value = _beside(name, constant, vector.type)
    values = vector.values
    if value is None:
        return np.full(len(values), name == "notequals")
    if isinstance(values, np.ndarray):
        return _COMPARE[name](values, np.asarray(value, dtype=values.dtype))
    return _COMPARE[name](values, pa.scalar(value, values.type))


def _ids_with_constant(name: str, vector: EncodedVector, entries: "np.ndarray[Any, Any]", constant: Scalar) -> Mask:
    """Compare with a constant by its rank among the entries of the dictionary, which are ascending numbers."""
    name, value = _beside(name, constant, vector.type)
    number = np.asarray(0 if value is None else value, dtype=entries.dtype)
    low, high = (int(entries.searchsorted(number, side)) for side in ("left", "right"))
    first = {"greaterthan": high, "lessthan": 0, "lessthanorequal": 0}.get(name, low)
    last = {"lessthan": low, "greaterthan": len(entries), "greaterthanorequal": len(entries)}.get(name, high)
    if value is None or first >= last:
        return np.full(len(vector.ids), name == "notequals")
    if last - first == len(entries):
        return np.full(len(vector.ids), name != "notequals")
    marks = np.empty(len(vector.ids), np.bool_)
    mark_id_range(vector.ids, first, last, marks)
    return ~marks if name == "notequals" else marks


def _beside(name: str, constant: Scalar, target: DataType) -> tuple[str, Any]:
    """Return the comparison with a constant as one with a value of the target's type.

    A constant between two values becomes a comparison with a neighbour; it equals no value, which is then None.
    """
    found = _coerced(constant, target)
    if found.side == 0:
        return name, found.value
    if name in ("equals", "notequals"):
        return name, None
    return _BESIDE["less" if name.startswith("less") else "great", found.side > 0], found.value


def _coerced(constant: Scalar, target: DataType) -> Coerced:
    try:
        return coerced(constant.value, constant.type, target)
    except ValueError as reason:
        message = f"{constant.value!r} cannot be compared with {target.value}: {reason}"
        raise QueryError(ErrorCode.QUERY_VALIDATION, message) from reason


def check_constant(name: str, argument: Expression, data_type: DataType) -> None:
    """Raise QueryError 700 if an argument is a constant text that is invalid for the type that it is compared with."""
    if not isinstance(argument, Literal) or not isinstance(argument.value, str) or data_type.is_text:
        return
    if data_type is DataType.UNKNOWN:
        return
    try:
        coerced(argument.value, DataType.STRING, data_type)
    except ValueError as reason:
        raise wrong(name, f"'{argument.value}' cannot be read as {data_type.value}: {reason}") from reason


def among(values: Any, wanted: Any) -> Mask:
    """Return which numbers are among others of the same type; NaN is not."""
    if len(wanted) > _COMPARED_MOST:
        return np.isin(values, wanted)
    found = np.empty(len(values), np.bool_)
    mark_among(np.ascontiguousarray(values), wanted, found)
    return found


def is_in(vector: Vector, constants: Sequence[Scalar]) -> Mask:
    """Return which values are among the constants, read as the vector's type."""
    found = [_coerced(constant, vector.type) for constant in constants]
    values = [one.value for one in found if one.side == 0]
    if isinstance(vector.values, np.ndarray) and vector.values.dtype != object:
        wanted = np.array(values, dtype=vector.values.dtype)
        mask = among(vector.values, wanted)
        return mask | np.isnan(vector.values) if _has_nan(wanted) else mask
    if isinstance(vector.values, np.ndarray):
        wanted_set = set(values)
        return np.array([value in wanted_set for value in vector.values], dtype=np.bool_)
    return _mask(pc.is_in(vector.values, value_set=array_of(values, vector.type)))


# -- multi-value, nulls and registration


def any_of_row(mask: Mask, offsets: Any) -> Mask:
    """Return for each row whether any of its values matches; false for an empty row."""
    before = np.concatenate([[0], np.cumsum(mask)])
    return before[offsets[1:]] > before[offsets[:-1]]


def condition(
    args: Sequence[Operand], num_rows: int, test: Callable[[Sequence[Operand]], Mask], *, negative: bool = False
) -> Operand:
    """Apply a test to single values, or to the values of one multi-value argument: any must pass, or with `negative` all.

    A NULL constant makes the whole condition null, a null row its own result.
    """
    if any(isinstance(arg, Scalar) and arg.value is None for arg in args):
        return Scalar(None, BOOLEAN)
    if all(isinstance(arg, Scalar) for arg in args):
        first = args[0]
        assert isinstance(first, Scalar)
        widened = [Vector(first.type, repeat(first.value, first.type, 1)), *args[1:]]
        return Scalar(bool(test(widened)[0]), BOOLEAN)
    lists = [arg for arg in args if not isinstance(arg, Scalar) and arg.offsets is not None]
    nulls = union_nulls(args)
    if not lists:
        return Vector(BOOLEAN, test(args), None, nulls)
    offsets = lists[0].offsets
    fits = test(args)
    return Vector(BOOLEAN, ~any_of_row(~fits, offsets) if negative else any_of_row(fits, offsets), None, nulls)


def check_lists(call: Call, types: Sequence[ValueType]) -> None:
    """Raise QueryError unless only one argument is multi-value: the first, or either side of a binary comparison."""
    lists = [i for i, (_, multi_value) in enumerate(types) if multi_value]
    if not lists:
        return
    others = [arg for i, arg in enumerate(call.args) if i != lists[0]]
    if len(lists) > 1 or (lists[0] > 0 and len(types) > 2) or not all(isinstance(arg, Literal) for arg in others):
        raise QueryError(ErrorCode.QUERY_VALIDATION, "A multi-value column is compared with constants only")


def _register(names: Sequence[str], least: int, most: int | None, compute: Callable[..., Operand]) -> None:
    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        check_count(names[0], len(types), least, most)
        left = types[0][0]
        check_lists(call, types)
        check_constant(names[0], call.args[0], types[1][0])
        for argument, (right, _) in zip(call.args[1:], types[1:], strict=True):
            if DataType.UNKNOWN not in (left, right):
                comparable_type(left, right)
            check_constant(names[0], argument, left)
        return BOOLEAN, False

    def checked(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        result_type(call, [type_of(arg) for arg in args])
        return compute(args, num_rows)

    has_several = most != 2  # one of which may decide although another is null
    register_scalar(names, ScalarFunction(names[0], least, most, result_type, checked, accepts_nulls=has_several))


def _comparison(name: str) -> Callable[[Sequence[Operand], int], Operand]:
    def compute(args: Sequence[Operand], num_rows: int) -> Operand:
        return condition(
            args, num_rows, lambda parts: compare(name, parts[0], parts[1], num_rows), negative=name == "notequals"
        )

    return compute


for _name in _COMPARE:
    _register((_name,), 2, 2, _comparison(_name))


# x BETWEEN a AND b is the negation of x < a OR x > b
_OUTSIDE = ("lessthan", "greaterthan")


def _is_three_valued(args: Sequence[Operand]) -> bool:
    """Whether a single value is compared with several, some of which may be null: the others may still decide."""
    if any(not isinstance(arg, Scalar) and arg.offsets is not None for arg in args):
        return False
    if all(isinstance(arg, Scalar) and arg.value is not None for arg in args[1:]):
        return False
    return any(arg.value is None if isinstance(arg, Scalar) else arg.nulls is not None for arg in args)


def _any_of(names: Sequence[str], args: Sequence[Operand], num_rows: int, *, negated: bool = False) -> Operand:
    """Return whether any comparison of the first argument with another holds: null if none does, and one is unknown."""
    rows = 1 if all(isinstance(arg, Scalar) for arg in args) else num_rows
    holds, unknown = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    for name, other in zip(names, args[1:], strict=True):
        if any(isinstance(arg, Scalar) and arg.value is None for arg in (args[0], other)):
            unknown[:] = True
            continue
        nulls = union_nulls((args[0], other))
        if nulls is not None:
            unknown |= nulls
        known = np.arange(rows) if nulls is None else np.flatnonzero(~nulls)
        # the placeholder of a null need not be comparable
        holds[known] |= compare(name, take_rows(args[0], known), take_rows(other, known), len(known))
    unknown &= ~holds
    if rows == 1 and isinstance(args[0], Scalar):
        return Scalar(None if unknown[0] else bool(holds[0]) != negated, BOOLEAN)
    return Vector(BOOLEAN, holds ^ negated, None, unknown if unknown.any() else None)


def _between(args: Sequence[Operand], num_rows: int) -> Operand:
    if _is_three_valued(args):
        return _any_of(_OUTSIDE, args, num_rows, negated=True)

    def test(parts: Sequence[Operand]) -> Mask:
        low = compare("greaterthanorequal", parts[0], parts[1], num_rows)
        return low & compare("lessthanorequal", parts[0], parts[2], num_rows)

    return condition(args, num_rows, test)


def _in(args: Sequence[Operand], num_rows: int) -> Operand:
    if _is_three_valued(args):
        return _any_of(("equals",) * (len(args) - 1), args, num_rows)
    return condition(args, num_rows, lambda parts: _among(parts, num_rows))


def _not_in(args: Sequence[Operand], num_rows: int) -> Operand:
    if _is_three_valued(args):
        return _any_of(("equals",) * (len(args) - 1), args, num_rows, negated=True)
    return condition(args, num_rows, lambda parts: ~_among(parts, num_rows), negative=True)


def _among(parts: Sequence[Operand], num_rows: int) -> Mask:
    constants = [part for part in parts[1:] if isinstance(part, Scalar)]
    if len(constants) == len(parts) - 1:
        first = parts[0]
        if isinstance(first, EncodedVector):
            return is_in(first.dictionary, constants)[first.ids]
        return is_in(to_vector(first, num_rows), constants)
    found = compare("equals", parts[0], parts[1], num_rows)
    for part in parts[2:]:
        found = found | compare("equals", parts[0], part, num_rows)
    return found


_register(("between",), 3, 3, _between)
_register(("in",), 2, None, _in)
_register(("notin",), 2, None, _not_in)
