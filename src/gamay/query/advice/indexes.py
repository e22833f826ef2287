"""Candidates for indexes: for each condition of the queries the index that can answer it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gamay.base.errors import QueryError
from gamay.functions.expression import Call
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.bind.predicate import Filter, In, Leaf, Match, Not, Range, filter_columns
from gamay.segment.encode.metadata import SegmentMetadata
from gamay.sql.parser import parse_query

_NUMBERS = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.TIMESTAMP)
# secondary indexes by the function that they answer
_BY_FUNCTION = {"like": "fst", "regexplike": "fst", "jsonmatch": "json", "textmatch": "text"}


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """How a column is stored, as far as that decides which index can help."""

    is_sorted: bool = False
    has_dictionary: bool = True


@dataclass(frozen=True, slots=True)
class Candidate:
    """An index that may help. kind: `inverted`, `range`, or the kind of a secondary index."""

    column: str
    kind: str


@dataclass(slots=True)
class Candidates:
    """What was found of each query.

    by_query: the candidates, filtered: the columns of the conditions; refused: why a query cannot be bound.
    """

    by_query: dict[str, tuple[Candidate, ...]] = field(default_factory=dict)
    filtered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def every(self) -> tuple[Candidate, ...]:
        """Each candidate once."""
        return tuple(dict.fromkeys(one for found in self.by_query.values() for one in found))


def facts_of(info: SegmentMetadata) -> dict[str, ColumnFacts]:
    """Return what a segment tells of its columns."""
    return {name: ColumnFacts(column.stats.is_sorted, column.id_bits is not None) for name, column in info.columns.items()}


def candidates(queries: Iterable[str], schema: Schema, facts: Mapping[str, ColumnFacts]) -> Candidates:
    """Return the indexes that can answer the conditions of queries of one table."""
    found = Candidates()
    for sql in queries:
        try:
            bound = bind(parse_query(sql), schema)
        except QueryError as error:
            found.refused[sql] = str(error)
            continue
        conditions = (bound.filter, *bound.filters)
        leaves = [leaf for condition in conditions for leaf in _leaves(condition)]
        wanted = (_candidate(leaf, schema, facts) for leaf in leaves)
        found.by_query[sql] = tuple(dict.fromkeys(one for one in wanted if one is not None))
        found.filtered[sql] = tuple(dict.fromkeys(name for part in conditions for name in filter_columns(part)))
    return found


def _leaves(condition: Filter) -> Iterator[Leaf]:
    if isinstance(condition, Not):
        yield from _leaves(condition.part)
    elif parts := getattr(condition, "parts", ()):
        for part in parts:
            yield from _leaves(part)
    elif isinstance(condition, Leaf):
        yield condition


def _candidate(leaf: Leaf, schema: Schema, facts: Mapping[str, ColumnFacts]) -> Candidate | None:
    """Return the index that can answer a condition; None where order does already, or none can."""
    if not isinstance(leaf, In | Range | Match) or leaf.column not in schema:
        return None
    known, spec = facts.get(leaf.column, ColumnFacts()), schema.field(leaf.column)
    if isinstance(leaf, Match):
        kind = _BY_FUNCTION.get(leaf.expression.name) if isinstance(leaf.expression, Call) else None
        if kind == "fst" and not (spec.data_type is DataType.STRING and spec.single_value and known.has_dictionary):
            return None
        return None if kind is None else Candidate(leaf.column, kind)
    if known.is_sorted:
        return None
    if isinstance(leaf, In):
        return Candidate(leaf.column, "inverted") if known.has_dictionary else _range(leaf.column, spec.data_type)
    return Candidate(leaf.column, "range") if known.has_dictionary else _range(leaf.column, spec.data_type)


def _range(column: str, data_type: DataType) -> Candidate | None:
    return Candidate(column, "range") if data_type in _NUMBERS else None
