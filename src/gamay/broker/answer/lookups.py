"""Rewrites lookUp for servers: with the resolved dimension table and the type of the result."""

from collections.abc import Callable, Sequence

from gamay.base.errors import ErrorCode, QueryError, counted, nearest
from gamay.broker.routes.route import TableRoute
from gamay.functions.expression import LOOKUP, Call, Expression, Literal
from gamay.model.schema.schema import FieldSpec
from gamay.model.table.table_name import raw_table_name
from gamay.model.types import DataType

_FORM = "lookUp('dimensionTable', 'column', 'keyColumn', x), with a column and an expression more for each column of the key"


def looked_up(call: Call, routes_of: Callable[[str], Sequence[TableRoute]]) -> Expression:
    """Rewrite lookUp('table', 'column', 'key', x, …) to the form that servers evaluate.

    routes_of: returns the routes of a table that the sender may use; its errors propagate. Raises QueryError 700 if the
    table is not a dimension table, the column does not exist, or the named keys are not the primary key.
    """
    args = call.args
    if len(args) < 4 or len(args) % 2:
        raise _wrong(f"it cannot have {counted(len(args), 'argument')}; write {_FORM}")
    table, column = _text(args[0], 1), _text(args[1], 2)
    route = next((one for one in routes_of(table) if one.config.is_dim_table), None)
    if route is None:
        raise _wrong(
            f"'{table}' is not a dimension table; set isDimTable: true in its config, or write "
            f"IN_SUBQUERY(x, 'SELECT IDSET(y) FROM {table}') = 1"
        )
    raw = raw_table_name(route.table)
    field = _field(route, raw, column)
    keys = route.schema.primary_key_columns
    named = [_text(arg, 3 + 2 * i) for i, arg in enumerate(args[2::2])]
    if [name.lower() for name in named] != [name.lower() for name in keys]:
        pairs = ", ".join(f"'{key}', {_letter(i)}" for i, key in enumerate(keys))
        raise _wrong(
            f"the primary key of '{raw}' is ({', '.join(keys)}), not ({', '.join(named)}); "
            f"write lookUp('{raw}', '{field.name}', {pairs})"
        )
    constants = (
        Literal(route.table, DataType.STRING),
        Literal(field.name, DataType.STRING),
        Literal(field.data_type.value, DataType.STRING),
        Literal(not field.single_value, DataType.BOOLEAN),
    )
    return Call(LOOKUP, (*constants, *args[3::2]))


def _letter(position: int) -> str:
    return "xyz"[position] if position < 3 else f"x{position + 1}"


def _field(route: TableRoute, table: str, column: str) -> FieldSpec:
    fields = {field.name.lower(): field for field in route.schema.stored_fields}
    found = fields.get(column.lower())
    if found is None:
        names = [field.name for field in fields.values()]
        hint = nearest(column, names) or f" It has: {', '.join(sorted(names)[:20])}"
        raise _wrong(f"the dimension table '{table}' has no column '{column}'.{hint}")
    return found


def _text(argument: Expression, position: int) -> str:
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        return argument.value
    raise _wrong(f"argument {position} must be a name in quotes; write {_FORM}")


def _wrong(detail: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Function 'lookUp': {detail}")
