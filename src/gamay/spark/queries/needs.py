"""The columns of each table that a query needs, and a condition that all rows it needs satisfy.

Both may include more than is needed, never less: Spark evaluates the unchanged query. The condition consists of the parts
of WHERE that concern one column of a table, in a SELECT that reads the table itself, unless an outer join could bring back
rows that such a part drops.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql import datasource as spark
from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import OptimizeError, ParseError, SqlglotError, TokenError
from sqlglot.optimizer.pushdown_projections import pushdown_projections
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from gamay.base.errors import ErrorCode, QueryError
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.spark.reading.pushed_filters import condition

_COMPARED: dict[type[exp.Expr], tuple[type, type]] = {  # each comparison, and its equivalent with the operands exchanged
    exp.EQ: (spark.EqualTo, spark.EqualTo),
    exp.LT: (spark.LessThan, spark.GreaterThan),
    exp.LTE: (spark.LessThanOrEqual, spark.GreaterThanOrEqual),
    exp.GT: (spark.GreaterThan, spark.LessThan),
    exp.GTE: (spark.GreaterThanOrEqual, spark.LessThanOrEqual),
}
_EXACT = (DataType.INT, DataType.LONG)


class GamaySpark(Spark):
    """Spark's SQL dialect with Gamay's quoting: also double-quoted names, and doubled quotes in string literals."""

    class Tokenizer(Spark.Tokenizer):
        QUOTES = ["'"]  # noqa: RUF012 - as sqlglot declares them
        IDENTIFIERS = ["`", '"']  # noqa: RUF012
        STRING_ESCAPES = ["'"]  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Need:
    """A query's needs of one table. columns: empty for all. where: a SQL condition, empty for none."""

    columns: tuple[str, ...] = ()
    where: str = ""


def parse(text: str) -> exp.Query:
    """Parse a query. Raises QueryError for text that is not a query."""
    try:
        parsed = parse_one(text, read=GamaySpark)
    except (ParseError, TokenError) as error:
        raise QueryError(ErrorCode.SQL_PARSING, f"this is no query of SQL: {str(error).splitlines()[0]}") from error
    if not isinstance(parsed, exp.Query):
        raise QueryError(ErrorCode.SQL_PARSING, f"gamay.spark.sql runs SELECT and WITH, and not: {text.strip():.80}")
    return parsed


def table_name(table: exp.Table) -> str:
    """Return the name of a table as written, with its database before a dot."""
    return ".".join(part for part in (table.catalog, table.db, table.name) if part)


def tables_of(query: exp.Expr) -> list[exp.Table]:
    """Return the references to tables in a query, except those to names defined by WITH."""
    return [source for scope in traverse_scope(query) for source in _tables(scope).values()]


def needs(
    query: exp.Expr, schemas: Mapping[str, Schema], others: Mapping[str, Sequence[str]], zone: tzinfo
) -> dict[str, Need]:
    """Return what a query needs of each of the given tables.

    schemas: of the tables, by name. others: the columns of the other tables in the query. zone: the time zone of time
    literals.
    """
    everything = {name: Need() for name in schemas}
    if len({name.lower() for name in schemas}) < len(schemas):
        return everything
    columns = {name: [spec.name for spec in schema.stored_fields] for name, schema in schemas.items()} | dict(others)
    try:
        qualified = qualify(
            query.copy(), schema=_nested(columns), dialect=Spark, validate_qualify_columns=False, isolate_tables=False
        )
        scopes = traverse_scope(pushdown_projections(qualified))
    except (OptimizeError, SqlglotError):
        return everything  # Spark may support syntax that sqlglot does not
    by_folded = {name.lower(): name for name in schemas}
    read: dict[str, set[str]] = {name: set() for name in schemas}
    conditions: dict[str, list[str]] = {name: [] for name in schemas}
    for scope in scopes:
        for alias, table in _tables(scope).items():
            name = by_folded.get(table_name(table).lower())
            if name is None:
                continue
            read[name].update(column.name for column in scope.source_columns(alias))
            conditions[name].append(_condition(scope, alias, schemas[name], zone))
    return {
        name: Need(_named(schemas[name], read[name]), _either(conditions[name])) if conditions[name] else Need()
        for name in schemas
    }


def _tables(scope: Scope) -> dict[str, exp.Table]:
    return {alias: source for alias, source in scope.sources.items() if isinstance(source, exp.Table)}


def _nested(columns: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return columns by database and table in sqlglot's form, with all tables at the same depth."""
    depth = max((name.count(".") for name in columns), default=0)
    nested: dict[str, Any] = {}
    for name, names in columns.items():
        place, parts = nested, name.split(".")
        for part in [""] * (depth + 1 - len(parts)) + parts[:-1]:
            place = place.setdefault(part, {})
        place[parts[-1]] = dict.fromkeys(names, "unknown")
    return nested


def _named(schema: Schema, folded: Iterable[str]) -> tuple[str, ...]:
    """Return columns with the case of their names in the table; if none is needed, a small one, to count the rows."""
    wanted = {name.lower() for name in folded}
    stored = list(schema.stored_fields)
    found = tuple(spec.name for spec in stored if spec.name.lower() in wanted)
    small = [spec.name for spec in stored if spec.single_value and spec.data_type in _EXACT]
    return found or (*small, *(spec.name for spec in stored))[:1]


def _either(conditions: Sequence[str]) -> str:
    """Return the disjunction of the conditions of several reads of a table, empty if one read has no condition."""
    different = list(dict.fromkeys(conditions))
    if "" in different:
        return ""
    return " OR ".join(different) if len(different) == 1 else " OR ".join(f"({one})" for one in different)


def _condition(scope: Scope, alias: str, schema: Schema, zone: tzinfo) -> str:
    select = scope.expression
    where = select.args.get("where")
    if where is None or not _keeps_what_where_drops(select, alias):
        return ""
    parts = []
    for part in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        for one in _filters(part.unnest(), alias, schema, zone):
            text = condition(one, schema, null_handling=False)
            if text is not None:
                parts.append(f"({text})")
    return " AND ".join(parts)


def _keeps_what_where_drops(select: exp.Expr, alias: str) -> bool:
    """Return whether dropping rows by WHERE before the joins cannot change their result."""
    joins = select.args.get("joins") or []
    if all(not join.side and join.kind in ("", "INNER", "CROSS") for join in joins):
        return True
    first = select.args.get("from_") or select.args.get("from")
    only_left = all(join.side == "LEFT" or (not join.side and join.kind in ("", "INNER", "CROSS")) for join in joins)
    return only_left and first is not None and first.this.alias_or_name == alias


def _filters(part: exp.Expr, alias: str, schema: Schema, zone: tzinfo) -> Iterator[spark.Filter]:
    """Yield Spark filters that are implied by a part of WHERE."""
    if type(part) in _COMPARED:
        straight, exchanged = _COMPARED[type(part)]
        left, right = part.this, part.expression
        for column, value, kind in ((left, right, straight), (right, left, exchanged)):
            name = _column(column, alias, schema)
            found = None if name is None else _value(value, schema.field(name).data_type, zone)
            if name is not None and found is not None:
                yield kind((name,), found)
        return
    name = _column(part.this, alias, schema) if isinstance(part, exp.Between | exp.In) else None
    if name is None:
        return
    kind_of = schema.field(name).data_type
    if isinstance(part, exp.Between):
        low, high = (_value(part.args[side], kind_of, zone) for side in ("low", "high"))
        if low is not None:
            yield spark.GreaterThanOrEqual((name,), low)
        if high is not None:
            yield spark.LessThanOrEqual((name,), high)
    elif not part.args.get("query"):
        values = [_value(one, kind_of, zone) for one in part.expressions]
        if values and None not in values:
            yield spark.In((name,), tuple(values))


def _column(side: exp.Expr | None, alias: str, schema: Schema) -> str | None:
    """Return the name of the table's column that an operand refers to, or None."""
    if not isinstance(side, exp.Column) or side.table != alias:
        return None
    return next((spec.name for spec in schema.stored_fields if spec.name.lower() == side.name.lower()), None)


def _value(side: exp.Expr, kind: DataType, zone: tzinfo) -> Any:
    """Return the value of a literal if Spark compares it with a column of type `kind` as Gamay does, else None."""
    if isinstance(side, exp.Neg):
        value = _value(side.this, kind, zone)
        return -value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
    if kind is DataType.TIMESTAMP:
        return _time(side, zone)
    if isinstance(side, exp.Boolean) and kind is DataType.BOOLEAN:
        return bool(side.this)
    if not isinstance(side, exp.Literal):
        return None
    if side.is_string:
        return side.this if kind is DataType.STRING else None
    try:
        number = Decimal(side.this)
    except InvalidOperation:
        return None
    if kind in _EXACT:
        return int(number) if number == number.to_integral_value() else None
    if kind is DataType.DOUBLE:
        return float(number)
    return number if kind is DataType.BIG_DECIMAL else None


def _time(side: exp.Expr, zone: tzinfo) -> datetime | None:
    if isinstance(side, exp.Cast) and side.to.is_type(exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ):
        side = side.this
    if not isinstance(side, exp.Literal) or not side.is_string:
        return None
    try:
        value = datetime.fromisoformat(side.this)
    except ValueError:
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=zone)
