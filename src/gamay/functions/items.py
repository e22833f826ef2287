"""Items: `m['k']`, which is `item(m, 'k')`, the value of a map at a key, typed by the column's declaration.

`a[1]` is the first value of a multi-value column, by `arrayElementAtInt` and its variants for other types.
"""

from collections.abc import Callable, Sequence

from gamay.base.errors import ErrorCode, QueryError, counted
from gamay.functions.expression import ITEM, Call, Column, Expression, Literal
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType

WRITTEN = (
    "write m['key'] or item(m, 'key'), of a column of type MAP and a constant text, or a[1], of a multi-value "
    "column and a constant position from 1"
)
_ARGUMENTS = 2
_ELEMENTS = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.STRING)


def typed_item(args: Sequence[Expression], field: Callable[[str], FieldSpec | None]) -> Call:
    """Return the call that reads a value of a map, with the type and default of the column's values.

    Values of a multi-value column are read by position, with 0 or '' beyond its end. args: those of `item`, with resolved
    columns. field: returns a column's declaration, None if there is none. Raises QueryError for other arguments.
    """
    if len(args) != _ARGUMENTS:
        raise _wrong(f"{WRITTEN}, not {counted(len(args), 'argument')}")
    column, key = args
    spec = field(column.name) if isinstance(column, Column) else None
    if spec is not None and not spec.single_value:
        return element(column, spec.data_type, key)
    if spec is None or spec.data_type is not DataType.MAP:
        what = f"'{column.name}' is not a MAP" if isinstance(column, Column) else "argument 1 is not a column"
        raise _wrong(
            f"{what}; {WRITTEN}. Write jsonExtractScalar(x, '$.key', 'STRING') for JSON, arrayElementAtInt(x, 1) and its "
            "kin for multi-value columns"
        )
    value = spec.child_fields["value"]
    return of_map(column, value.data_type, key, Literal(value.default_null_value, value.data_type))


def of_map(column: Expression, values: DataType, key: Expression, default: Literal) -> Call:
    """Return the call that reads the value, of type `values`, at a key of a map. Raises QueryError if the key is invalid."""
    if not isinstance(key, Literal) or not isinstance(key.value, str):
        raise _wrong(f"the key is not a constant text; {WRITTEN}")
    return Call(ITEM, (column, key, Literal(values.value, DataType.STRING), default))


def element(array: Expression, values: DataType, position: Expression) -> Call:
    """Return the call that reads an array's value, of type `values`. Raises QueryError if the position is invalid."""
    if not isinstance(position, Literal) or type(position.value) is not int:
        raise _wrong(f"the position is not a constant whole number; {WRITTEN}")
    if values not in _ELEMENTS:
        raise _wrong(f"values of {values.value} cannot be read by position, only INT, LONG, FLOAT, DOUBLE and STRING")
    return Call(f"arrayelementat{values.value.lower()}", (array, position))


def or_null(item: Call) -> Call:
    """Return a call made by `typed_item`, with NULL instead of the default."""
    return Call(ITEM, (*item.args[:-1], Literal(None, DataType.UNKNOWN)))


def with_typed_items(expression: Expression, field: Callable[[str], FieldSpec | None]) -> Expression:
    """Type the map items in an expression of columns as `typed_item` does, with null for missing keys."""
    if not isinstance(expression, Call):
        return expression
    args = tuple(with_typed_items(arg, field) for arg in expression.args)
    if expression.name == "item":
        item = typed_item(args, field)
        return or_null(item) if item.name == ITEM else item
    return expression if args == expression.args else Call(expression.name, args)


def _wrong(detail: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Function 'item': {detail}")
