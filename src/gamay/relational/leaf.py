"""Interface to the single-table engine: the query of a scan, and its answer as Arrow columns."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.convert import convert, placeholder, repeat, to_vector
from gamay.functions.expression import FILTERED, Call, Expression, Literal, replaced
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.answer.response import ResultTable
from gamay.relational.plan import Field, Leaf, Node, Scan, with_children
from gamay.sql.query import OrderBy, Query, SelectItem, Shape

LEAF_LIMIT = 2147483647

ARROW_TYPES = {
    DataType.INT: pa.int32(),
    DataType.LONG: pa.int64(),
    DataType.TIMESTAMP: pa.int64(),
    DataType.FLOAT: pa.float32(),
    DataType.DOUBLE: pa.float64(),
    DataType.BOOLEAN: pa.bool_(),
    DataType.STRING: pa.string(),
    DataType.JSON: pa.string(),
    DataType.MAP: pa.string(),
    DataType.BYTES: pa.binary(),
    DataType.UUID: pa.binary(),
}
"""Arrow types of columns above the leaves; BIG_DECIMAL is a decimal of the required scale."""


def query_of(scan: Scan) -> Query:
    """Return the single-table query for the rows of a scan."""
    names = scan.column_names
    items = tuple(SelectItem(names[each.column], each.id) for each in scan.fields)
    return Query(
        scan.table,
        items,
        where=condition_of(scan.where, names),
        order_by=tuple(OrderBy(replaced(key.expression, names), key.descending, key.nulls_last) for key in scan.order_by),
        limit=LEAF_LIMIT if scan.limit is None else scan.limit,
        offset=scan.offset,
    )


def with_leaf_queries(node: Node, change: Callable[[Query], Query]) -> Node:
    """Return an operator with each of its leaf queries changed."""
    if isinstance(node, Leaf):
        return replace(node, query=change(node.query))
    return with_children(node, lambda child: with_leaf_queries(child, change))


def shaped(query: Query, weight: int) -> Query:
    """Return a query with its shape: everything but the literals of WHERE. weight: of the shape, in caches.

    Queries with FILTER clauses have no shape: those narrow WHERE, and their constants are evaluated at binding.
    """
    if any(isinstance(item.expression, Call) and item.expression.name == FILTERED for item in query.select):
        return query
    form = None if query.where is None else _form(query.where)
    behind = (query.table, query.select, query.distinct, query.group_by, query.having, query.order_by)
    shape = Shape(_Leaf(weight), (form, behind, query.limit, query.offset))
    return replace(query, shape=shape, varies_only_in_where=True)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """Template of leaf queries; the rest of the shape identifies them."""

    weight: int


def _form(expression: Expression) -> Hashable:
    """Return the form of an expression: everything but its literals."""
    if isinstance(expression, Call):
        return expression.name, *map(_form, expression.args)
    return None if isinstance(expression, Literal) else expression


def condition_of(conditions: Sequence[Expression], names: Mapping[Expression, Expression]) -> Expression | None:
    """Return the conjunction of conditions for WHERE, over the names of a table; None without conditions."""
    written = [replaced(each, dict(names)) for each in conditions]
    if not written:
        return None
    return written[0] if len(written) == 1 else Call("and", tuple(written))


def to_arrow(table: ResultTable, fields: Sequence[Field]) -> pa.Table:
    """Return an answer as an Arrow table with the ids and types of fields.

    TIMESTAMPs are milliseconds, as stored; BIG_DECIMALs are decimals of the required scale.
    """
    arrays = [array_of_vector(column, each.type[0]) for column, each in zip(table.columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, names=[each.id for each in fields])


def array_of_vector(column: Vector, to: DataType) -> pa.Array:
    """Return values as an Arrow array, nulls and lists included."""
    is_null = column.type is not to and column.nulls is not None and bool(column.nulls.all())  # a NULL, of any type
    if is_null or DataType.UNKNOWN in (column.type, to):
        return pa.nulls(len(column), ARROW_TYPES.get(to, pa.int32()))
    vector = to_vector(convert(column, to), len(column)) if column.type is not to else column
    mask = vector.nulls
    if to is DataType.BIG_DECIMAL:
        values = _decimals([None if mask is not None and vector.offsets is None and mask[row] else each
                            for row, each in enumerate(vector.values)])  # fmt: skip
        mask = mask if vector.offsets is not None else None
    elif isinstance(vector.values, np.ndarray):
        plain = mask if vector.offsets is None else None
        values = pa.array(vector.values, ARROW_TYPES[to], mask=plain)
        mask = None if vector.offsets is None else mask
    else:
        values = vector.values
    if vector.offsets is not None:
        offsets = pa.array(vector.offsets.astype(np.int32, copy=False), pa.int32())
        return pa.ListArray.from_arrays(offsets, values, mask=None if mask is None else pa.array(mask))
    if mask is not None and mask.any():
        return pc.if_else(pa.array(~mask), values, pa.scalar(None, values.type))
    return values


def _decimals(values: Sequence[Decimal | None]) -> pa.Array:
    """Convert BIG_DECIMALs to decimals of one scale, and the -Infinity of no rows to null. Raises QueryError 200."""
    try:
        found = pa.array([None if each is None or not each.is_finite() else each for each in values])
    except pa.ArrowInvalid:  # beyond 76 digits
        found = None
    if found is None or pa.types.is_decimal256(found.type):
        message = "a BIG_DECIMAL of more than 38 digits cannot be joined or computed with"
        raise QueryError(ErrorCode.QUERY_EXECUTION, message)
    return found.cast(pa.decimal128(1)) if len(found) == 0 or pa.types.is_null(found.type) else found


def vector_of(array: pa.Array, data_type: DataType, multi_value: bool) -> Vector:
    """Convert an Arrow array to a vector; the inverse of `array_of_vector`."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        if isinstance(array, pa.ChunkedArray):  # of no rows
            array = pa.array([], array.type)
    nulls = np.asarray(array.is_null()) if array.null_count else None
    if multi_value:
        if nulls is not None:
            array = pc.if_else(pc.is_null(array), pa.scalar([], array.type), array)
        offsets = np.asarray(array.offsets, dtype=np.int32)
        values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        inner = vector_of(values, data_type, False)
        return Vector(data_type, inner.values, offsets - offsets[0], nulls)
    if data_type is DataType.UNKNOWN:
        return Vector(DataType.STRING, repeat("null", DataType.STRING, len(array)), None, np.ones(len(array), np.bool_))
    if data_type is DataType.BIG_DECIMAL:
        out = np.empty(len(array), dtype=object)
        out[:] = [placeholder(data_type) if each is None else _stripped(each) for each in array.to_pylist()]
        return Vector(data_type, out, None, nulls)
    array = array.cast(ARROW_TYPES[data_type])
    if nulls is not None:
        array = array.fill_null(pa.scalar(placeholder(data_type), array.type))
    return Vector(data_type, array if not data_type.is_fixed_width else _numpy(array), None, nulls)


def _stripped(number: Decimal) -> Decimal:
    """Strip the trailing zeros that the common scale of a column added."""
    text = f"{number:f}"  # normalize() would round to the 28 digits of the context
    return Decimal(text.rstrip("0").rstrip(".")) if "." in text else number


def _numpy(array: pa.Array) -> "np.ndarray[Any, np.dtype[Any]]":
    return np.asarray(array.to_numpy(zero_copy_only=False))
