"""Compile SQLAlchemy's statements, types and identifiers to Gamay's SQL."""

from typing import Any

from sqlalchemy import types
from sqlalchemy.exc import CompileError
from sqlalchemy.sql import compiler

LIMIT_MAX = 2147483647
DEFAULT_SCHEMA = "default"
_MORE_RESERVED = frozenset(
    [
        "date",
        "day",
        "default",
        "group",
        "hour",
        "interval",
        "key",
        "language",
        "limit",
        "map",
        "minute",
        "month",
        "option",
        "position",
        "range",
        "row",
        "rows",
        "second",
        "set",
        "time",
        "timestamp",
        "value",
        "values",
        "week",
        "window",
        "year",
    ]
)
_READ_ONLY = "Gamay's tables are not changed by SQL; rows come from files, streams and DataFrames"

# the first match wins
_CASTS: tuple[tuple[tuple[type[Any], ...], str], ...] = (
    ((types.Boolean,), "BOOLEAN"),
    ((types.BigInteger,), "LONG"),
    ((types.Integer,), "INT"),
    ((types.REAL,), "FLOAT"),
    ((types.Float,), "DOUBLE"),
    ((types.Numeric,), "BIG_DECIMAL"),
    ((types.DateTime, types.Date), "TIMESTAMP"),
    ((types.LargeBinary, types.BINARY, types.VARBINARY), "BYTES"),
    ((types.String, types.Uuid, types.JSON), "STRING"),
)


class GamayCompiler(compiler.SQLCompiler):
    """Compiler of queries."""

    def visit_select(self, select_stmt: Any, *args: Any, **keywords: Any) -> str:
        """Compile a SELECT; the outermost always gets a LIMIT, since Gamay returns ten rows without one."""
        is_outermost = not self.stack
        text: str = super().visit_select(select_stmt, *args, **keywords)  # type: ignore[no-untyped-call]
        return self._with_limit(select_stmt, text) if is_outermost else text

    def visit_compound_select(self, cs: Any, *args: Any, **keywords: Any) -> str:
        """Compile a set operation such as UNION, with a LIMIT like a SELECT."""
        is_outermost = not self.stack
        text: str = super().visit_compound_select(cs, *args, **keywords)  # type: ignore[no-untyped-call]
        return self._with_limit(cs, text) if is_outermost else text

    def _with_limit(self, select: Any, text: str) -> str:
        row_limit = getattr(self.dialect, "row_limit", LIMIT_MAX)
        is_limited = select._limit_clause is not None or select._fetch_clause is not None
        if is_limited or select._offset_clause is not None or self.compile_state is None:
            return text
        return f"{text}\n LIMIT {row_limit}"

    def limit_clause(self, select: Any, **keywords: Any) -> str:
        """Write LIMIT and OFFSET; an OFFSET alone needs a LIMIT."""
        if select._limit_clause is None and select._offset_clause is None:
            return ""
        limit = LIMIT_MAX if select._limit_clause is None else self.process(select._limit_clause, **keywords)
        text = f"\n LIMIT {limit}"
        if select._offset_clause is not None:
            text += f" OFFSET {self.process(select._offset_clause, **keywords)}"
        return text

    def visit_true(self, expr: Any, **keywords: Any) -> str:
        return "TRUE"

    def visit_false(self, expr: Any, **keywords: Any) -> str:
        return "FALSE"

    def visit_insert(self, *args: Any, **keywords: Any) -> str:
        raise CompileError(_READ_ONLY)

    def visit_update(self, *args: Any, **keywords: Any) -> str:
        raise CompileError(_READ_ONLY)

    def visit_delete(self, *args: Any, **keywords: Any) -> str:
        raise CompileError(_READ_ONLY)


class GamayTypeCompiler(compiler.GenericTypeCompiler):
    """Compiler of the types in CAST."""

    def process(self, type_: Any, **keywords: Any) -> str:
        """Write a type. Raises CompileError for one that nothing can be cast to."""
        plain = type_.impl if isinstance(type_, types.TypeDecorator) else type_
        for kinds, name in _CASTS:
            if isinstance(plain, kinds):
                return name
        raise CompileError(f"nothing can be cast to {type(type_).__name__} in Gamay")


class GamayIdentifiers(compiler.IdentifierPreparer):
    """Quoter of identifiers that have capitals or are reserved words of SQL."""

    reserved_words = compiler.RESERVED_WORDS | _MORE_RESERVED

    def format_table(self, table: Any, use_schema: bool = True, name: Any = None) -> str:
        """Write a table's name, without the database if that is `default`."""
        is_default = getattr(table, "schema", None) == DEFAULT_SCHEMA
        return super().format_table(table, use_schema=use_schema and not is_default, name=name)

    def format_column(
        self,
        column: Any,
        use_table: bool = False,
        name: str | None = None,
        table_name: str | None = None,
        use_schema: bool = False,
        anon_map: Any = None,
    ) -> str:
        """Write a column's name, without the database of its table."""
        return super().format_column(column, use_table, name, table_name, use_schema=False, anon_map=anon_map)
