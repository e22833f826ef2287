"""`m['k']`, which is `item(m, 'k')`: the value that a map has at a key, as the column's declaration says."""

from collections.abc import Callable, Sequence

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import ITEM, Call, Column, Expression, Literal
from gamay.model.field_spec import FieldSpec
from gamay.model.types import DataType

WRITTEN = "it is written m['key'] or item(m, 'key'), of a column of type MAP and a constant text"
_ARGUMENTS = 2


def typed_item(args: Sequence[Expression], field: Callable[[str], FieldSpec | None]) -> Call:
    """Return the call that reads a value of a map, with the type of the column's values and their default.

    args: those of `item`, the columns resolved. field: gives a column's declaration, None where there is none.
    Raises QueryError for what is no map and no key.
    """
    if len(args) != _ARGUMENTS:
        raise _wrong(f"{WRITTEN}; {len(args)} argument(s) are given")
    column, key = args
    spec = field(column.name) if isinstance(column, Column) else None
    if spec is None or spec.data_type is not DataType.MAP:
        what = f"'{column.name}' is no MAP" if isinstance(column, Column) else "argument 1 is no column"
        raise _wrong(
            f"{what}; {WRITTEN}. Write jsonExtractScalar(x, '$.key', 'STRING') for JSON, arrayElementAtInt(x, 1) and its "
            "kin for multi-value columns"
        )
    if not isinstance(key, Literal) or not isinstance(key.value, str):
        raise _wrong(f"the key is no constant text; {WRITTEN}")
    value = spec.child_fields["value"]
    default = Literal(value.default_null_value, value.data_type)
    return Call(ITEM, (column, key, Literal(value.data_type.value, DataType.STRING), default))


def or_null(item: Call) -> Call:
    """Return a call that `typed_item` made, with NULL in place of the default."""
    return Call(ITEM, (*item.args[:-1], Literal(None, DataType.UNKNOWN)))


def with_typed_items(expression: Expression, field: Callable[[str], FieldSpec | None]) -> Expression:
    """Return an expression of columns whose items of maps are read as `typed_item` says; a key that is missing is null."""
    if not isinstance(expression, Call):
        return expression
    args = tuple(with_typed_items(arg, field) for arg in expression.args)
    if expression.name == "item":
        return or_null(typed_item(args, field))
    return expression if args == expression.args else Call(expression.name, args)


def _wrong(detail: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Function 'item': {detail}")
