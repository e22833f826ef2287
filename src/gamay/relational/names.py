"""Name resolution: the relations of FROM, those of outer queries, and common table expressions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.functions.expression import Call, Column, Expression, Literal, replaced
from gamay.functions.registry import ValueType, moment_hint
from gamay.functions.text import to_text
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.query.bind.scope import VIRTUAL_COLUMNS
from gamay.relational.information_schema import shown_columns
from gamay.relational.plan import Cte, Field, Subquery, ids_in
from gamay.sql.text.errors import syntax_error
from gamay.sql.translate.expressions import position_of

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Frame:
    """A data frame passed with a query. table: with a column for each of `columns`, in the form of `to_arrow`."""

    columns: Mapping[str, ValueType]
    table: pa.Table


class Catalog(Protocol):
    """The planner's interface to tables."""

    def columns(self, table: str) -> Mapping[str, ValueType]:
        """Return the columns of a table in the order of `*`, virtual ones (`$docId`, …) last.

        Raises QueryError: TABLE_DOES_NOT_EXIST, ACCESS_DENIED.
        """
        ...

    def frame(self, name: str) -> Frame | None:
        """Return the frame passed with the query under a name, or None."""
        ...

    def schemas(self) -> Mapping[str, Schema]:
        """Return the schemas of all tables that the sender may query, by raw name."""
        ...

    def map_values(self, table: str) -> Mapping[str, DataType]:
        """Return the MAP columns and the types of their values; the table is one that `columns` returned."""
        ...

    def size(self, table: str) -> int:
        """Return the approximate number of rows of a table; the table as in `map_values`."""
        ...

    def answer(self, call: Call) -> Expression:
        """Return the value of a call of `gamay.sql.answers.ASKED`; raises QueryError."""
        ...


def columns_of(schema: Schema) -> dict[str, ValueType]:
    """Return the columns of a schema's table, in the form of `Catalog.columns`."""
    fields = [schema.field(name) for name in shown_columns(schema)]
    return {each.name: (each.data_type, not each.single_value) for each in fields} | dict(VIRTUAL_COLUMNS)


def map_values_of(schema: Schema) -> dict[str, DataType]:
    """Return the MAP columns of a schema's table, and the types of their values."""
    fields = [schema.field(name) for name in schema.column_names]
    return {each.name: each.child_fields["value"].data_type for each in fields if each.data_type is DataType.MAP}


@dataclass(slots=True)
class Context:
    """State shared by all parts of a query during binding; allocates ids.

    map_values: value types of MAP columns, by id. names: of columns, or the expressions they are computed from, for errors.
    of_tables: the ids of table columns. scores: columns computed by tables, by the calls of textScore over such columns.
    """

    text: str
    literals: Sequence[Literal]
    catalog: Catalog
    null_handling: bool = False
    types: dict[str, ValueType] = field(default_factory=dict)
    subqueries: dict[str, Subquery] = field(default_factory=dict)
    ctes: list[Cte] = field(default_factory=list)
    map_values: dict[str, DataType] = field(default_factory=dict)
    names: dict[str, Expression] = field(default_factory=dict)
    of_tables: set[str] = field(default_factory=set)
    scores: dict[Call, Field] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=count)

    def field(self, name: str, value_type: ValueType) -> Field:
        """Return a new column."""
        made = Field(f"c{next(self._numbers)}", name, value_type)
        self.types[made.id] = value_type
        if name:
            self.names[made.id] = Column(name)
        return made

    def number(self) -> int:
        return next(self._numbers)

    def error(self, node: exp.Expr, message: str) -> QueryError:
        """Return the error for a query that parses but is invalid, with its position."""
        return syntax_error(self.text, position_of(node), message, ErrorCode.QUERY_VALIDATION)

    def text_of(self, expression: Expression) -> str:
        """Return the text of an expression, with column names in place of ids."""
        return to_text(self.named(expression))

    def named(self, expression: Expression) -> Expression:
        """Return an expression with column names in place of ids."""
        return replaced(expression, {Column(made): self.names[made] for made in ids_in(expression) if made in self.names})


@dataclass(frozen=True, slots=True)
class Relation:
    """One entry of FROM: its possible names, in lower case, and its columns.

    num_shown: number of columns that `*` covers; virtual ones follow them.
    """

    names: frozenset[str]
    fields: tuple[Field, ...]
    num_shown: int
    _by_name: dict[str, list[Field]] = field(init=False, default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for each in self.fields:
            self._by_name.setdefault(each.name.lower(), []).append(each)

    def find(self, name: str) -> list[Field]:
        """Return the columns with a name, ignoring case unless one matches exactly."""
        found = self._by_name.get(name.lower(), [])
        return [each for each in found if each.name == name] or found

    @property
    def shown(self) -> tuple[Field, ...]:
        return self.fields[: self.num_shown]


@dataclass(slots=True)
class Scope:
    """The names visible in one SELECT.

    merged: columns merged by USING and NATURAL, by name in lower case; hidden: their original ids, which only qualified
    names can refer to. outer: scope of the outer query. ctes: by name in lower case.
    """

    relations: list[Relation] = field(default_factory=list)
    merged: dict[str, Field] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    outer: "Scope | None" = None
    ctes: dict[str, "CteDefinition"] = field(default_factory=dict)

    def find(self, parts: Sequence[str]) -> Field | None:
        """Resolve a name, `x` or `t.x`, here or in an outer query; raises QueryError if it is ambiguous."""
        name, qualifier = parts[-1], ".".join(parts[:-1]).lower()
        if not qualifier and (merged := self.merged.get(name.lower())) is not None:
            return merged
        found: list[Field] = []
        for relation in self.relations:
            if not qualifier:
                found += [each for each in relation.find(name) if each.id not in self.hidden]
            elif qualifier in relation.names:
                found += relation.find(name)
        if len(found) > 1:
            written = ".".join(parts)
            hint = "" if qualifier else f"; write the table before it, as in {_some_name(self.relations, found[0])}.{name}"
            raise QueryError(ErrorCode.QUERY_VALIDATION, f"Column '{written}' is ambiguous{hint}")
        if found:
            return found[0]
        return None if self.outer is None else self.outer.find(parts)

    def relation(self, qualifier: str) -> Relation | None:
        """Return the relation with a name, in this scope only."""
        return next((each for each in self.relations if qualifier.lower() in each.names), None)

    def star(self) -> list[Field]:
        """Return the columns of `*`: merged columns, then those of each relation."""
        shown = [each for relation in self.relations for each in relation.shown if each.id not in self.hidden]
        return [*self.merged.values(), *shown]

    def cte(self, name: str) -> "CteDefinition | None":
        found = self.ctes.get(name.lower())
        return found if found is not None or self.outer is None else self.outer.cte(name)

    def unknown(self, parts: Sequence[str]) -> QueryError:
        """Return the error for an unknown column name."""
        written = ".".join(parts)
        names = list(dict.fromkeys(each.name for each in self.star()))
        hint = (
            moment_hint(written)
            or nearest(parts[-1], names)
            or (f" Columns here: {', '.join(names[:_SHOWN])}" if names else "")
        )
        qualifier = ".".join(parts[:-1])
        if qualifier and self._relation_around(qualifier) is None:
            known = ", ".join(sorted({name for each in self.relations for name in each.names})[:_SHOWN]) or "none"
            hint = f" No table of this query is called '{qualifier}' ({known})"
        return QueryError(ErrorCode.UNKNOWN_COLUMN, f"Unknown columnName '{written}' found in the query.{hint}")

    def _relation_around(self, qualifier: str) -> Relation | None:
        found = self.relation(qualifier)
        return found if found is not None or self.outer is None else self.outer._relation_around(qualifier)


@dataclass(frozen=True, slots=True)
class CteDefinition:
    """A common table expression as seen by its users. name: unique in the query."""

    name: str
    fields: tuple[Field, ...]


def _some_name(relations: Iterable[Relation], found: Field) -> str:
    return next((min(each.names, key=len) for each in relations if found in each.fields and each.names), "t")
