"""Candidates for indexes: the index that supports each condition of the queries, and compound ones for conjunctions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gamay.base.errors import QueryError
from gamay.functions.expression import Call
from gamay.model.index.kinds import COMPOUND_INVERTED
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.query.advice.compound import Share, best_together
from gamay.query.bind.binder import bind
from gamay.query.bind.predicate import And, Filter, In, Leaf, Match, Not, Range, filter_columns, narrowed
from gamay.segment.encode.metadata import SegmentMetadata
from gamay.sql.parser import parse_query

_NUMBERS = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.TIMESTAMP)
# secondary indexes by the function that they support
_BY_FUNCTION = {"like": "fst", "regexplike": "fst", "jsonmatch": "json", "textmatch": "text"}


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """The properties of a column's storage that decide which index can help."""

    is_sorted: bool = False
    has_dictionary: bool = True


@dataclass(frozen=True, slots=True)
class Candidate:
    """An index that may help. kind: `inverted`, `range`, or that of a secondary index; columns: one, or several."""

    columns: tuple[str, ...]
    kind: str


@dataclass(slots=True)
class Candidates:
    """The candidates found per query.

    by_query: the candidates; covered: those of them that compound indexes make redundant; filtered: the
    columns of the conditions; refused: why a query cannot be bound.
    """

    by_query: dict[str, tuple[Candidate, ...]] = field(default_factory=dict)
    covered: dict[str, frozenset[Candidate]] = field(default_factory=dict)
    filtered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def every(self) -> tuple[Candidate, ...]:
        """The distinct candidates."""
        return tuple(dict.fromkeys(one for found in self.by_query.values() for one in found))


def facts_of(info: SegmentMetadata) -> dict[str, ColumnFacts]:
    """Return the storage properties of a segment's columns."""
    return {name: ColumnFacts(column.stats.is_sorted, column.id_bits is not None) for name, column in info.columns.items()}


def candidates(
    queries: Iterable[str], schema: Schema, facts: Mapping[str, ColumnFacts], share: Share = lambda conditions: None
) -> Candidates:
    """Return the indexes that support the conditions of queries of one table.

    share: returns the fraction of the rows that match some conditions, None if unknown. Indexes of several columns
    are candidates if they find far fewer rows than an index of each column.
    """
    found = Candidates()
    for sql in queries:
        try:
            bound = bind(parse_query(sql), schema)
        except QueryError as error:
            found.refused[sql] = str(error)
            continue
        conditions = (bound.filter, *bound.filters)
        leaves = dict.fromkeys(leaf for condition in conditions for leaf in _leaves(condition))
        alone = {leaf: one for leaf in leaves if (one := _candidate(leaf, schema, facts)) is not None}
        together: list[Candidate] = []
        for whole in (bound.filter, *(narrowed(bound.filter, part) for part in bound.filters)):
            for parts in _conjunctions(whole):
                if best := best_together(_compared(parts, schema, facts), share):
                    together.append(Candidate(tuple(sorted(one.column for one in best)), COMPOUND_INVERTED))
                    leaves = {leaf: None for leaf in leaves if leaf not in best}
        found.by_query[sql] = tuple(dict.fromkeys([*alone.values(), *together]))
        found.covered[sql] = frozenset(alone.values()) - {alone[leaf] for leaf in leaves if leaf in alone}
        found.filtered[sql] = tuple(dict.fromkeys(name for part in conditions for name in filter_columns(part)))
    return found


def _leaves(condition: Filter) -> Iterator[Leaf]:
    if isinstance(condition, Leaf):
        yield condition
    for part in _parts(condition):
        yield from _leaves(part)


def _conjunctions(condition: Filter) -> Iterator[Sequence[Filter]]:
    if isinstance(condition, And):
        yield condition.parts
    for part in _parts(condition):
        yield from _conjunctions(part)


def _parts(condition: Filter) -> Sequence[Filter]:
    return (condition.part,) if isinstance(condition, Not) else getattr(condition, "parts", ())


def _compared(parts: Iterable[Filter], schema: Schema, facts: Mapping[str, ColumnFacts]) -> list[In]:
    """Return the comparisons of a conjunction that an index of several columns could answer, one of each column."""
    found = {
        part.column: part
        for part in parts
        if isinstance(part, In)
        and part.column in schema
        and schema.field(part.column).single_value
        and facts.get(part.column, ColumnFacts()).has_dictionary
    }
    return list(found.values())


def _candidate(leaf: Leaf, schema: Schema, facts: Mapping[str, ColumnFacts]) -> Candidate | None:
    """Return the index that supports a condition; None if the sort order does already, or no index can."""
    if not isinstance(leaf, In | Range | Match) or leaf.column not in schema:
        return None
    known, spec, columns = facts.get(leaf.column, ColumnFacts()), schema.field(leaf.column), (leaf.column,)
    if isinstance(leaf, Match):
        kind = _BY_FUNCTION.get(leaf.expression.name) if isinstance(leaf.expression, Call) else None
        if kind == "fst" and not (spec.data_type is DataType.STRING and spec.single_value and known.has_dictionary):
            return None
        return None if kind is None else Candidate(columns, kind)
    if known.is_sorted:
        return None
    if known.has_dictionary:
        return Candidate(columns, "inverted" if isinstance(leaf, In) else "range")
    return Candidate(columns, "range") if spec.data_type in _NUMBERS else None
