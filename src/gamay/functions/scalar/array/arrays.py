"""Functions of multi-value arguments: one result for each row's list."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import check_count, check_elements, wrong
from gamay.functions.convert import array_of, convert, placeholder, to_vector
from gamay.functions.distinct import distinct
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.comparison import is_in
from gamay.functions.scalar.define import const, lists, scalar
from gamay.functions.scalar.types import common_type
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, concat, take, union_nulls
from gamay.model.types import DataType

STRING, INT, LONG, FLOAT, DOUBLE, BOOLEAN = (
    DataType.STRING,
    DataType.INT,
    DataType.LONG,
    DataType.FLOAT,
    DataType.DOUBLE,
    DataType.BOOLEAN,
)


def _lengths(vector: Vector) -> Any:
    assert vector.offsets is not None
    return np.diff(vector.offsets)


def per_row(function: "np.ufunc", values: Any, offsets: Any, empty: Any) -> Any:
    """Reduce the values of each row with a ufunc; `empty` is the result of a row without values."""
    if len(values) == 0:
        return np.full(len(offsets) - 1, empty, dtype=values.dtype)
    filled = np.flatnonzero(np.diff(offsets) > 0)
    result = np.full(len(offsets) - 1, empty, dtype=values.dtype)
    # reduceat needs starts within the array and non-empty rows; the ends are then the next starts
    if len(filled):
        result[filled] = function.reduceat(values, np.asarray(offsets)[:-1][filled])
    return result


@scalar("arrayLength", "cardinality", params=(lists(None),), returns=INT)
def array_length(vector: Vector) -> Any:
    return _lengths(vector)


@scalar("arraySum", params=(lists(DOUBLE),), returns=DOUBLE)
def array_sum(vector: Vector) -> Any:
    return per_row(np.add, vector.values, vector.offsets, 0.0)


def _whole_sums(name: str, vector: Vector) -> Any:
    """Return the sum of each row in the type of the elements; raises QueryError if it overflows."""
    sums = per_row(np.add, vector.values.astype(np.int64), vector.offsets, 0)
    limits = np.iinfo(vector.values.dtype)
    if vector.type is LONG:  # a wrapped sum is far from the floating-point one
        is_beyond = np.abs(per_row(np.add, vector.values.astype(np.float64), vector.offsets, 0) - sums) > limits.max
    else:
        is_beyond = (sums < limits.min) | (sums > limits.max)
    if is_beyond.any():
        raise QueryError(
            ErrorCode.QUERY_EXECUTION, f"Function '{name}': the sum of a row does not fit {vector.type.value}; use arraySum"
        )
    return sums


@scalar("arraySumInt", params=(lists(INT),), returns=INT)
def array_sum_int(vector: Vector) -> Any:
    return _whole_sums("arraySumInt", vector)


@scalar("arraySumLong", params=(lists(LONG),), returns=LONG)
def array_sum_long(vector: Vector) -> Any:
    return _whole_sums("arraySumLong", vector)


@scalar("arrayAverage", params=(lists(DOUBLE),), returns=DOUBLE)
def array_average(vector: Vector) -> Any:
    with np.errstate(invalid="ignore"):
        return per_row(np.add, vector.values, vector.offsets, 0.0) / _lengths(vector)


def _element(call: Call, types: Sequence[ValueType]) -> ValueType:
    return types[0][0], False


def _extreme(function: "np.ufunc", largest: bool) -> Callable[[Vector], Any]:
    def compute(vector: Vector) -> Any:
        empty = placeholder(vector.type)
        missing = _lengths(vector) == 0
        nulls = missing if missing.any() else None
        if isinstance(vector.values, np.ndarray):
            return Vector(vector.type, per_row(function, vector.values, vector.offsets, empty), None, nulls)
        ranks, ascending = ranked(vector)
        none = -1 if largest else len(ascending)
        found = per_row(function, ranks, vector.offsets, none)
        values = concat([ascending, array_of([empty], vector.type)])
        return Vector(vector.type, take(values, np.where(found == none, len(ascending), found)), None, nulls)

    return compute


scalar("arrayMin", params=(lists(None),), returns=_element)(_extreme(np.minimum, False))
scalar("arrayMax", params=(lists(None),), returns=_element)(_extreme(np.maximum, True))


def ranked(vector: Vector) -> tuple[Any, Values]:
    """Return the rank of each value among the distinct ones, int64, and these in ascending order."""
    codes, entries = distinct(Vector(vector.type, vector.values))
    if isinstance(entries.values, np.ndarray):
        order = np.argsort(entries.values, kind="stable")
    else:
        order = np.asarray(pc.array_sort_indices(entries.values)).astype(np.int64)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return position[codes], take(entries.values, order)


def select_values(vector: Vector, kept: Any) -> Vector:
    """Return the lists restricted to the values for which `kept` is true."""
    assert vector.offsets is not None
    before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)
    return Vector(vector.type, take(vector.values, np.flatnonzero(kept)), before[vector.offsets], vector.nulls)


def select_where(operand: Operand, num_rows: int, test: Callable[[Vector], Any]) -> Operand:
    """Return the lists restricted to values that pass `test`, which is applied to dictionary entries if there are any."""
    if isinstance(operand, EncodedVector) and operand.offsets is not None and len(operand.dictionary) <= len(operand.ids):
        kept = test(operand.dictionary)[operand.ids]
        before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)
        return EncodedVector(operand.ids[kept], operand.dictionary, before[operand.offsets], operand.nulls)
    vector = to_vector(operand, num_rows)
    return select_values(vector, test(Vector(vector.type, vector.values)))


def _value_in_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("valueIn", len(types), 2, None)
    if not types[0][1]:
        raise wrong("valueIn", "argument 1 must be multi-value")
    if not all(isinstance(arg, Literal) for arg in call.args[1:]):
        raise wrong("valueIn", "the listed values must be constants")
    return types[0][0], True


def _value_in(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    listed = [arg for arg in args[1:] if isinstance(arg, Scalar) and arg.value is not None]
    return select_where(args[0], num_rows, lambda values: is_in(values, listed))


register_scalar(
    ["valueIn"], ScalarFunction("valueIn", 2, None, _value_in_type, _value_in, is_deterministic=True, can_fold=False)
)


# -- elements


def _element_at(data_type: DataType) -> Callable[[Vector, int], Vector]:
    def compute(vector: Vector, position: int) -> Vector:
        """Return the element at a position from 1; 0 or an empty text for rows without it."""
        lengths = _lengths(vector)
        inside = (position >= 1) & (lengths >= position)
        padded = concat([vector.values, array_of(["" if data_type is STRING else 0], data_type)])
        assert vector.offsets is not None
        index = np.where(inside, vector.offsets[:-1] + position - 1, len(padded) - 1)
        return Vector(data_type, take(padded, index))

    return compute


for _suffix, _type in (("Int", INT), ("Long", LONG), ("Float", FLOAT), ("Double", DOUBLE), ("String", STRING)):
    scalar(f"arrayElementAt{_suffix}", params=(lists(_type), const(INT)), returns=_type)(_element_at(_type))


def _contains(vector: Vector, wanted: Any) -> Any:
    fits = is_in(vector, [Scalar(wanted, vector.type)])
    return per_row(np.logical_or, fits, vector.offsets, False)


for _suffix, _type in (("Int", INT), ("Long", LONG), ("String", STRING)):
    scalar(f"arrayContains{_suffix}", params=(lists(_type), const(_type)), returns=BOOLEAN)(_contains)


def _index_of(vector: Vector, wanted: Any) -> Any:
    """Return the first position of the wanted element, from 0; -1 if there is none."""
    fits = is_in(vector, [Scalar(wanted, vector.type)])
    assert vector.offsets is not None
    place = np.arange(len(fits)) - np.repeat(vector.offsets[:-1], _lengths(vector))
    none = np.iinfo(np.int64).max
    first = per_row(np.minimum, np.where(fits, place, none), vector.offsets, none)
    return np.where(first == none, -1, first)


for _suffix, _type in (("Int", INT), ("Long", LONG), ("String", STRING)):
    scalar(f"arrayIndexOf{_suffix}", params=(lists(_type), const(_type)), returns=INT)(_index_of)


def rows_of(vector: Vector) -> Any:
    """Return the row of each value: int64."""
    return np.repeat(np.arange(len(vector)), _lengths(vector))


def _ordered(vector: Vector) -> Vector:
    ranks, _ = ranked(vector)
    return Vector(vector.type, take(vector.values, np.lexsort((ranks, rows_of(vector)))), vector.offsets, vector.nulls)


def _reversed(vector: Vector) -> Vector:
    assert vector.offsets is not None
    # mirror the positions within each row
    first, last = (np.repeat(bound, _lengths(vector)) for bound in (vector.offsets[:-1], vector.offsets[1:]))
    order = first.astype(np.int64) + last - 1 - np.arange(len(first)) if len(first) else np.zeros(0, np.int64)
    return Vector(vector.type, take(vector.values, order), vector.offsets, vector.nulls)


def unique_values(vector: Vector) -> Vector:
    """Return the lists without repeats; the first of equal elements is kept."""
    codes, entries = distinct(Vector(vector.type, vector.values))
    _, first = np.unique(rows_of(vector) * max(len(entries), 1) + codes, return_index=True)
    kept = np.zeros(len(codes), np.bool_)
    kept[first] = True
    return select_values(vector, kept)


for _suffix, _type in (("Int", INT), ("Long", LONG), ("String", STRING)):
    for _verb, _body in (("Sort", _ordered), ("Reverse", _reversed), ("Distinct", unique_values)):
        scalar(f"array{_verb}{_suffix}", params=(lists(_type),), returns=_type, multi_value=True)(_body)


# -- array literals


def _literal_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("array", len(types), 1, None)
    of_elements = [data_type for data_type, _ in types]
    common = common_type(of_elements)
    if common is None and all(isinstance(arg, Literal) and not isinstance(arg.value, bool) for arg in call.args):
        common = STRING  # as in HISTOGRAM(x, ARRAY['-Infinity', 0, 10])
    if common is None or any(multi_value for _, multi_value in types):
        raise wrong("array", "the elements must be single values of one type")
    return (STRING if common is DataType.UNKNOWN else common), True


def _array(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    element, _ = _literal_type(call, [(arg.type, False) for arg in args])
    constant = all(isinstance(arg, Scalar) for arg in args)
    rows = 1 if constant else num_rows
    check_elements("array", len(args) * num_rows)
    columns = [to_vector(convert(arg, element), rows).values for arg in args]
    # the first elements of all rows, then the second ones, ...: transposed
    across = np.arange(rows * len(columns)).reshape(len(columns), rows).T.ravel()
    values = take(concat(columns), np.tile(across, num_rows) if constant else across)
    return Vector(element, values, np.arange(num_rows + 1, dtype=np.int32) * len(columns), union_nulls(args))


register_scalar(
    ["arrayValueConstructor", "array"],
    ScalarFunction("array", 1, None, _literal_type, _array, is_deterministic=True, can_fold=False),
)
