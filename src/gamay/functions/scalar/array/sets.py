"""Arrays as sets and sequences: positions, overlap, intersection, union, removal, and filtering of elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gamay.base.errors import QueryError
from gamay.base.recently_used import remembered
from gamay.functions.arguments import check_count, wrong
from gamay.functions.conditions import parse_condition
from gamay.functions.convert import convert, to_vector
from gamay.functions.distinct import distinct
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.expression import Call, Column, Expression, Literal, walk
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.array.arrays import rows_of, select_values, select_where, unique_values
from gamay.functions.scalar.array.making import joined
from gamay.functions.scalar.comparison import any_of_row, compare
from gamay.functions.scalar.define import each, lists, scalar, type_of
from gamay.functions.scalar.types import common_type
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, concat, take, union_nulls
from gamay.model.types import DataType

STRING, INT, LONG, FLOAT, DOUBLE, BOOLEAN = (
    DataType.STRING,
    DataType.INT,
    DataType.LONG,
    DataType.FLOAT,
    DataType.DOUBLE,
    DataType.BOOLEAN,
)
_TYPES = (("Int", INT), ("Long", LONG), ("Float", FLOAT), ("Double", DOUBLE), ("String", STRING))


def _equal_to(vector: Vector, wanted: Any) -> Any:
    """Compare each element with the value of its row."""
    other: Operand
    if isinstance(wanted, np.ndarray) and wanted.ndim == 0:
        other = Scalar(wanted.item(), vector.type)
    else:
        other = Vector(vector.type, take(wanted, rows_of(vector)))
    return compare("equals", Vector(vector.type, vector.values), other, len(vector.values))


def _indexes_of(vector: Vector, wanted: Any) -> Vector:
    """The positions of all equal elements, from 0."""
    assert vector.offsets is not None
    places = np.arange(len(vector.values)) - vector.offsets[:-1][rows_of(vector)]
    return select_values(Vector(INT, places.astype(np.int32), vector.offsets, vector.nulls), _equal_to(vector, wanted))


def _remove(vector: Vector, wanted: Any) -> Vector:
    """The array without the first equal element."""
    hits = np.flatnonzero(_equal_to(vector, wanted))
    _, first = np.unique(rows_of(vector)[hits], return_index=True)
    kept = np.ones(len(vector.values), np.bool_)
    kept[hits[first]] = False
    return select_values(vector, kept)


def _union(*vectors: Vector) -> Vector:
    """The distinct elements of all arrays, in order of first appearance."""
    return unique_values(joined(vectors))


for _suffix, _type in _TYPES:
    _pair = (lists(_type), each(_type))
    scalar(f"arrayIndexesOf{_suffix}", params=_pair, returns=INT, multi_value=True)(_indexes_of)
    scalar(f"arrayRemove{_suffix}", params=_pair, returns=_type, multi_value=True)(_remove)
    scalar(f"arrayUnion{_suffix}", params=(lists(_type), lists(_type)), returns=_type, variadic=True, multi_value=True)(
        _union
    )


def _elements(left: Vector, right: Vector) -> tuple[Any, Any]:
    """Return a number for each element of both, equal for equal elements of the same row: int64."""
    codes, entries = distinct(Vector(left.type, concat([left.values, right.values])))
    span = max(len(entries), 1)
    split = len(left.values)
    return rows_of(left) * span + codes[:split], rows_of(right) * span + codes[split:]


def _found_in(left: Vector, right: Vector) -> Any:
    """Return which elements of the left arrays are in the right array of the same row."""
    return np.isin(*_elements(left, right))


def _repeats(elements: Any) -> Any:
    """Return the number of equal elements directly before each: int64."""
    places = np.arange(len(elements))
    is_first = np.append(True, elements[1:] != elements[:-1])[: len(elements)]
    return places - np.maximum.accumulate(np.where(is_first, places, 0))


@scalar("intersectIndices", params=(lists(INT), lists(INT)), returns=INT, multi_value=True)
def intersect_indices(a: Vector, b: Vector) -> Vector:
    """The multiset intersection of both arrays, which must ascend."""
    left, right = _elements(a, b)
    most = max(len(left), len(right), 1)
    return select_values(a, np.isin(left * most + _repeats(left), right * most + _repeats(right)))


def _overlap_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    name = "isEqualSet" if call.name == "isequalset" else "arraysOverlap"
    check_count(name, len(types), 2, 2)
    if not types[0][1] or not types[1][1]:
        raise wrong(name, "both arguments must be multi-value")
    if common_type([types[0][0], types[1][0]]) is None:
        raise wrong(name, f"{types[0][0].value} cannot be compared with {types[1][0].value}")
    return BOOLEAN, False


def _overlap(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    common = common_type([arg.type for arg in args])
    assert common is not None
    left, right = (to_vector(convert(arg, common), num_rows) for arg in args)
    return Vector(BOOLEAN, any_of_row(_found_in(left, right), left.offsets), None, union_nulls(args))


register_scalar(["arraysOverlap"], ScalarFunction("arraysOverlap", 2, 2, _overlap_type, _overlap))


@scalar("isEqualSet", params=(lists(None), lists(None)), returns=_overlap_type)
def is_equal_set(a: Vector, b: Vector) -> Vector:
    """Whether the lists have the same elements, regardless of order and number."""
    common = common_type([a.type, b.type])
    assert common is not None
    left, right = (to_vector(convert(vector, common), len(vector)) for vector in (a, b))
    differs = any_of_row(~_found_in(left, right), left.offsets) | any_of_row(~_found_in(right, left), right.offsets)
    return Vector(BOOLEAN, ~differs)


# -- filterMv


@remembered()
def _element_condition(text: str) -> Expression:
    """Return a condition on `v`, the element; raises QueryError."""
    condition = _renamed(parse_condition("filterMv", text))
    others = sorted({part.name for part in walk(condition) if isinstance(part, Column) and part.name != "v"})
    if others:
        raise wrong("filterMv", f"'{text}' may name the element v only, not {', '.join(others)}")
    return condition


def _renamed(expression: Expression) -> Expression:
    if isinstance(expression, Column):
        return Column("v") if expression.name.lower() == "v" else expression
    if isinstance(expression, Call):
        return Call(expression.name, tuple(map(_renamed, expression.args)))
    return expression


def _filter_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("filterMv", len(types), 2, 2)
    if not types[0][1]:
        raise wrong("filterMv", "argument 1 must be multi-value")
    text = call.args[1]
    if not isinstance(text, Literal) or not isinstance(text.value, str):
        raise wrong("filterMv", "the condition must be a constant text such as 'v > 5 AND v <> 7'")
    condition = _element_condition(text.value)
    try:
        result = result_type(condition, lambda _: (types[0][0], False))
    except QueryError as error:
        raise wrong("filterMv", f"in '{text.value}': {error}") from error
    if result != (BOOLEAN, False):
        raise wrong("filterMv", f"'{text.value}' is not a condition")
    return types[0][0], True


def _filter(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    _filter_type(call, [type_of(arg) for arg in args])
    text = args[1]
    assert isinstance(text, Scalar)
    condition = _element_condition(str(text.value))

    def test(values: Vector) -> Any:
        flags = evaluate(condition, lambda _: values, len(values))
        if isinstance(flags, Scalar):
            return np.full(len(values), bool(flags.value))
        vector = flags.decode() if isinstance(flags, EncodedVector) else flags
        return vector.values if vector.nulls is None else vector.values & ~vector.nulls

    return select_where(args[0], num_rows, test)


register_scalar(["filterMv"], ScalarFunction("filterMv", 2, 2, _filter_type, _filter, can_fold=False))
