"""Dimension tables for lookUp above the leaves, where no server evaluates it: their rows are fetched like those of a
leaf."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gamay.base.guard import NullGuard
from gamay.functions.convert import to_vector
from gamay.functions.dimension import DimensionTable, KeyColumn, with_row
from gamay.functions.expression import LOOKUP, Call, Column, Expression, Literal, walk
from gamay.functions.scalar.table.lookup import NUM_CONSTANTS
from gamay.functions.vector import Scalar, Vector
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_name import raw_table_name
from gamay.query.answer.response import ResultTable
from gamay.relational.leaf import LEAF_LIMIT
from gamay.relational.plan import Leaf, Plan, Scan, expressions, nodes_of, roots_of
from gamay.sql.query import Query, SelectItem


class FunctionGuard(NullGuard):
    """Guard of functions that DuckDB calls on its own threads: aborts them, and provides dimension tables.

    check: raises QueryError when the query must end. tables: all tables that the functions look up, by typed name.
    """

    def __init__(self, check: Callable[[], None], tables: Mapping[str, DimensionTable]) -> None:
        self._check = check
        self._tables = tables

    def check(self) -> None:
        self._check()

    def dimension_table(self, table: str) -> DimensionTable:
        """Return a dimension table, by its typed name."""
        return self._tables[table]


@dataclass(frozen=True, slots=True)
class DimensionReader:
    """Reader of dimension tables. schema_of: returns that of a typed table. ask: answers a query of one table. Both raise
    QueryError."""

    schema_of: Callable[[str], Schema]
    ask: Callable[[Query], ResultTable]

    def tables_of(self, plan: Plan) -> dict[str, DimensionTable]:
        """Return the dimension tables that a plan looks up above its leaves, by typed name. Raises QueryError."""
        columns: dict[str, dict[str, Call]] = {}
        for call in _lookups(plan):
            table, column = (_text(call, place) for place in range(2))
            columns.setdefault(table, {})[column] = call
        return {table: self._read(table, calls) for table, calls in columns.items()}

    def _read(self, table: str, calls: Mapping[str, Call]) -> DimensionTable:
        """Read a table. Its columns are looked up by its own keys on servers, which thus resolve rows with equal keys."""
        schema = self.schema_of(table)
        keys = schema.primary_key_columns
        own = tuple(Column(key) for key in keys)
        asked: tuple[Expression, ...] = (
            *own,
            *(Call(LOOKUP, (*call.args[:NUM_CONSTANTS], *own)) for call in calls.values()),
        )
        items = tuple(SelectItem(expression, f"c{place}") for place, expression in enumerate(asked))
        # dimension tables store a null as the default of its column
        options = {"enableNullHandling": "false"}
        found = self.ask(Query(table, items, limit=LEAF_LIMIT, options=options)).columns
        values = dict(zip(calls, found[len(keys) :], strict=True))

        def column(name: str) -> Vector:
            return with_row(values[name], _default(schema.field(name)))

        return DimensionTable(raw_table_name(table), list(map(KeyColumn, keys, found)), column)


def _lookups(plan: Plan) -> Iterator[Call]:
    for root in roots_of(plan):
        for node in nodes_of(root):
            if isinstance(node, Scan | Leaf):
                continue
            for expression in expressions(node):
                yield from (part for part in walk(expression) if isinstance(part, Call) and part.name == LOOKUP)


def _text(call: Call, place: int) -> str:
    argument = call.args[place]
    assert isinstance(argument, Literal)
    return str(argument.value)


def _default(spec: FieldSpec) -> Vector:
    """Return the default null value of a column, in one row."""
    one = to_vector(Scalar(spec.default_null_value, spec.data_type), 1)
    return Vector(spec.data_type, one.values, None if spec.single_value else np.array([0, 1], np.int64))
