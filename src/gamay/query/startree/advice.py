"""Advice on star-trees for a list of queries, by the cardinalities of the columns.

Dimensions and aggregates come from the queries, and queries whose dimensions overlap share a tree. The benefit of a tree is
not modelled but measured: `gamay startree advise` builds the trees for a segment, and runs the queries with and without
them.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gamay.base.errors import QueryError
from gamay.functions.expression import Call, Column, Expression, Star, column_names
from gamay.functions.text import to_text
from gamay.model.rules.startrees import FUNCTIONS
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.query.bind.binder import BoundQuery, QueryKind, bind
from gamay.query.bind.predicate import Filter, In, filter_columns
from gamay.segment.encode.metadata import SegmentMetadata
from gamay.sql.parser import parse_query

# A dimension of more values makes trees as large as the segment; a tree of more dimensions takes long to build.
_CARDINALITY_MAX = 20_000
_DIMENSIONS_MAX = 8
_LOGGED = re.compile(r'(?:^| )query=(?P<text>"(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class Shape:
    """The requirements of a query on a tree. filtered: its dimensions with an equality or IN condition."""

    sql: str
    dimensions: frozenset[str]
    filtered: frozenset[str]
    pairs: frozenset[str]


@dataclass(frozen=True, slots=True)
class ColumnSize:
    """The size of a column, which determines whether it can be a dimension. cardinality: the number of its values, if
    known."""

    single_value: bool
    cardinality: int | None


@dataclass(slots=True)
class Advice:
    """The recommended star-trees. trees: for `starTreeIndexConfigs`. shapes: the queries they answer. unhelped: others,
    and why."""

    trees: list[dict[str, Any]] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    unhelped: list[tuple[str, str]] = field(default_factory=list)


def statements(text: str) -> list[str]:
    """Return the queries of a file: of a broker's query log, or statements that end with a semicolon."""
    logged = [str(json.loads(match["text"])) for match in _LOGGED.finditer(text)]
    if logged:
        return list(dict.fromkeys(logged))
    return list(dict.fromkeys(part for part in (part.strip() for part in re.split(r";\s*(?:\n|$)", text)) if part))


def schema_of(info: SegmentMetadata) -> Schema:
    """Return a schema for binding queries on a segment: names and types of its columns."""
    return Schema(
        info.table, tuple(FieldSpec(c.name, c.data_type, single_value=c.single_value) for c in info.columns.values())
    )


def sizes_of(info: SegmentMetadata) -> dict[str, ColumnSize]:
    """Return the sizes of a segment's columns; the cardinality of columns without a dictionary is unknown."""
    return {name: ColumnSize(column.single_value, column.stats.cardinality) for name, column in info.columns.items()}


def advise(schema: Schema, sizes: Mapping[str, ColumnSize], queries: Iterable[str]) -> Advice:
    """Return the star-trees that answer as many of the queries as possible."""
    advice = Advice()
    for sql in queries:
        try:
            found = _shape(sql, bind(parse_query(sql), schema), sizes)
        except QueryError as error:
            found = str(error)
        if isinstance(found, str):
            advice.unhelped.append((sql, found))
        else:
            advice.shapes.append(found)
    groups: list[list[Shape]] = []
    for shape in sorted(advice.shapes, key=lambda shape: (-len(shape.dimensions), sorted(shape.dimensions))):
        group = max(groups, key=lambda group: len(_dimensions(group) & shape.dimensions), default=None)
        if group is None or len(_dimensions(group) | shape.dimensions) > _DIMENSIONS_MAX:
            groups.append([shape])
        else:
            group.append(shape)
    advice.trees = [_tree(group, sizes) for group in groups if _dimensions(group)]
    return advice


def _shape(sql: str, bound: BoundQuery, sizes: Mapping[str, ColumnSize]) -> Shape | str:
    """Return the requirements of a query on a tree, or the reason why no tree helps."""
    if bound.kind in (QueryKind.SELECTION, QueryKind.SELECTION_ORDER_BY):
        return "it selects rows"
    if bound.grouping_sets:
        return "GROUPING SETS are read from rows"
    if bound.scores:
        return "scores of texts are computed from rows"
    dimensions: set[str] = set()
    for row in bound.rows:
        dimensions |= _dimensions_of(row, sizes)
    conditions = (bound.filter, *bound.filters)
    dimensions |= {name for part in conditions for name in filter_columns(part)}
    for name in dimensions:
        if name.startswith("$"):
            return f"'{name}' is of segments, not of rows"
        column = sizes.get(name)
        if column is None:
            continue
        if not column.single_value:
            return f"'{name}' is a multi-value column"
        cardinality = column.cardinality
        if cardinality is None:
            return f"it is not known how many values '{name}' has, as where it has no dictionary"
        if cardinality > _CARDINALITY_MAX:
            return f"'{name}' has {cardinality:,} values, too many for a dimension"
    pairs: set[str] = set()
    for aggregate in bound.aggregates:
        name, argument = aggregate.call.name, aggregate.call.args[0]
        if name.upper() not in FUNCTIONS:
            return f"a star-tree cannot keep {to_text(aggregate.call)}"
        if not isinstance(argument, Star):
            pairs.add(f"{name.upper()}__{to_text(argument)}")
    filtered = frozenset(name for part in conditions for name in _equal_columns(part))
    return Shape(sql, frozenset(dimensions), filtered, frozenset(pairs))


def _dimensions_of(row: Expression, sizes: Mapping[str, ColumnSize]) -> set[str]:
    """Return the columns of a group key, or the key itself if a column has too many values, as time columns do."""
    names = column_names(row)
    known = [sizes[name].cardinality for name in names if name in sizes]
    if isinstance(row, Call) and any(size is None or size > _CARDINALITY_MAX for size in known):
        return {to_text(row)}
    return {row.name} if isinstance(row, Column) else set(names)


def _equal_columns(part: Filter) -> list[str]:
    if isinstance(part, In):
        return [part.column]
    return [name for inner in getattr(part, "parts", ()) for name in _equal_columns(inner)]


def _dimensions(group: Sequence[Shape]) -> set[str]:
    return {name for shape in group for name in shape.dimensions}


def _tree(group: Sequence[Shape], sizes: Mapping[str, ColumnSize]) -> dict[str, Any]:
    """Return the config of a tree: dimensions that most queries compare with a constant come first, then those of few
    values."""

    def place(name: str) -> tuple[int, int, str]:
        column = sizes.get(name)
        cardinality = 0 if column is None else column.cardinality or 0
        return -sum(name in shape.filtered for shape in group), cardinality, name

    pairs = sorted({pair for shape in group for pair in shape.pairs})
    return {
        "dimensionsSplitOrder": sorted(_dimensions(group), key=place),
        "functionColumnPairs": ["COUNT__*", *pairs],
    }
