"""Choice of a star-tree for a query in a segment, and of its cuboid with the fewest records."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import orjson

from gamay.base.errors import CorruptSegmentError, QueryError
from gamay.functions.aggregate_spi import Aggregate, Partial
from gamay.functions.expression import Column, Expression, column_names, replaced
from gamay.functions.text import to_text
from gamay.functions.vector import Vector, take
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.query.bind.aggregates import BoundAggregate
from gamay.query.bind.binder import BoundQuery, QueryKind, physical_columns
from gamay.query.bind.predicate import (
    EVERYTHING,
    NOTHING,
    And,
    Filter,
    IsNull,
    Match,
    Not,
    Or,
    Test,
    conjunction,
    disjunction,
    filter_columns,
    negation,
)
from gamay.query.filter.resolve import computes
from gamay.query.groupby.metadata import answer_from_metadata
from gamay.query.groupby.stored_partials import StoredAggregates
from gamay.query.startree.definition import TreeDefinition, bound_definition
from gamay.query.startree.dictionaries import SHORT_MAX, shared_dictionary
from gamay.query.startree.lookup import SortedRecords
from gamay.query.view.virtual import QuerySegment
from gamay.segment.encode.dictionary import SortedDictionary
from gamay.segment.index.sorted import SortedStarts
from gamay.segment.read.computed import ComputedColumn
from gamay.segment.read.reader import ImmutableSegment
from gamay.segment.spi import SORTED, ColumnStats, DocIds, Ids, IndexKey, Segment, T
from gamay.segment.star_tree_file import Cuboid, StoredTree
from gamay.sql.options.option_values import flag

_log = logging.getLogger(__name__)
_KINDS = (QueryKind.AGGREGATION, QueryKind.GROUP_BY, QueryKind.DISTINCT)
_RECORD = (Column("$docId"),)
_CHOOSER = "chooser of star-trees"
_FEW_RECORDS = 1 << 18
_DEFINITIONS_MAX = 1000
_DEFINITIONS: dict[bytes, tuple[Schema, TreeDefinition]] = {}


class DimensionColumn(ComputedColumn):
    """A dimension at the records of a cuboid: ids of the dictionary of the segment's column, or of its own one."""

    def __init__(self, column: "tuple[str, SortedDictionary]", ids: Ids, *, ascends: bool) -> None:
        name, dictionary = column
        self.name = name
        self.data_type = dictionary.data_type
        self.num_docs = len(ids)
        self.dictionary = dictionary
        self._ids = ids
        values = dictionary.values
        cardinality = len(dictionary)
        self.stats = ColumnStats(
            cardinality=cardinality,
            minimum=None,
            maximum=None,
            total=None,
            is_sorted=ascends,
            num_values=len(ids),
            max_values_per_row=1,
            num_nulls=0,
            partition=None,
        )
        self._values = values
        self._starts = SortedStarts(np.searchsorted(ids, np.arange(cardinality + 1)).astype(np.int32)) if ascends else None

    def index(self, key: IndexKey[T]) -> T | None:
        return key.of(self._starts) if key is SORTED else super().index(key)

    def ids(self, start: int, stop: int) -> Ids:
        return self._ids[start:stop]

    def ids_at(self, docs: DocIds) -> Ids:
        return self._ids[docs]

    def values(self, start: int, stop: int) -> Vector:
        return Vector(self.data_type, take(self._values.values, self._ids[start:stop]))

    def values_at(self, docs: DocIds) -> Vector:
        return Vector(self.data_type, take(self._values.values, self._ids[docs]))


class CuboidSegment:
    """The records of a cuboid as the docs of a segment; implements `gamay.segment.spi.Segment`."""

    def __init__(self, segment: ImmutableSegment, tree: "OpenTree", cuboid: Cuboid) -> None:
        self.name = segment.name
        self.num_docs = cuboid.num_records
        self.metadata = segment.metadata
        self.cuboid = cuboid
        names = [tree.names[d] for d in cuboid.kept]
        self.column_names = tuple(names)
        ids = [tree.stored.ids(cuboid, place) for place in cuboid.kept]
        width = max((part.dtype for part in ids), key=lambda dtype: dtype.itemsize, default=np.dtype(np.uint8))
        dictionaries = [tree.dictionaries[place] for place in cuboid.kept]
        self.dictionaries = dict(zip(names, dictionaries, strict=True))
        positions = {name: position for position, name in enumerate(names)}
        self.records = SortedRecords(np.array(ids, width).reshape(len(ids), cuboid.num_records), dictionaries, positions)
        self._columns: dict[str, DimensionColumn] = {}
        self._tree = tree
        self._places = dict(zip(names, cuboid.kept, strict=True))

    def column(self, name: str) -> DimensionColumn:
        """Return a dimension; raises KeyError for another column."""
        if name not in self._columns:  # two threads may both create it; either will do
            place = self._places[name]
            ids = self.records.ids[self.cuboid.kept.index(place)]
            ascends = place == self.cuboid.kept[0]
            self._columns[name] = DimensionColumn((name, self._tree.dictionaries[place]), ids, ascends=ascends)
        return self._columns[name]


class CuboidView(QuerySegment):
    """A cuboid as a query sees it. asks: the query over its dimensions and records."""

    asks: BoundQuery

    def __init__(self, choice: "Choice", asks: BoundQuery, host_name: str) -> None:
        cuboid = choice.cuboid
        super().__init__(cuboid, asks.fields, host_name, shares_filters=bool(asks.filters))
        self.asks = asks
        self.choice = choice
        self.sorted_records = choice.cuboid.records
        self.dimensions = cuboid.column_names


class OpenTree:
    """A tree of an open segment, with its definition bound to the table's schema."""

    def __init__(self, segment: ImmutableSegment, stored: StoredTree, definition: TreeDefinition) -> None:
        self.stored = stored
        self.definition = definition
        self.names = tuple(dimension.text for dimension in stored.dimensions)
        arrays = list(stored.arrays.values())
        self.aggregates = StoredAggregates(list(zip(definition.aggregates, arrays, strict=True)))
        self._segment = segment
        self._segments: dict[Cuboid, CuboidSegment] = {}
        self._masks = [(sum(1 << d for d in cuboid.kept), cuboid) for cuboid in stored.cuboids]

    @cached_property
    def dictionaries(self) -> tuple[SortedDictionary, ...]:
        """The dictionary of each dimension."""
        found: list[SortedDictionary] = []
        for place, name in enumerate(self.names):
            dictionary = self.stored.values(place) or self._segment.column(name).dictionary
            assert dictionary is not None
            found.append(shared_dictionary(dictionary))
        return tuple(found)

    def smallest(self, needed: int) -> Cuboid | None:
        """Return the cuboid with the fewest records among those with these dimensions, given as bits; None if there is
        none."""
        answering = (cuboid for mask, cuboid in self._masks if needed & mask == needed)
        return min(answering, key=lambda cuboid: (cuboid.num_records, len(cuboid.kept)), default=None)

    def segment(self, cuboid: Cuboid) -> CuboidSegment:
        """Return a cuboid as a segment."""
        if cuboid not in self._segments:
            self._segments[cuboid] = CuboidSegment(self._segment, self, cuboid)
        return self._segments[cuboid]


def open_trees(segment: ImmutableSegment, schema: Schema) -> Sequence[OpenTree]:
    """Return the trees of a segment, except those that are damaged, or whose columns no longer exist."""
    kept = segment.kept.get(OpenTree)
    if kept is None or kept[0] is not schema:
        kept = segment.kept[OpenTree] = schema, tuple(_opened(segment, schema))
    trees: Sequence[OpenTree] = kept[1]
    return trees


def _opened(segment: ImmutableSegment, schema: Schema) -> Iterator[OpenTree]:
    try:
        for stored in segment.star_trees():
            if stored.cuboids:  # there are none if no cuboid is small enough
                yield OpenTree(segment, stored, _definition(schema, stored.config))
    except (CorruptSegmentError, QueryError) as error:
        _log.error("segment %s is read without its star-trees: %s", segment.name, error)


def _definition(schema: Schema, config: Mapping[str, Any]) -> TreeDefinition:
    """Return a tree's definition: the same object for all segments of a table, as binding takes a while."""
    key = orjson.dumps([schema.name, config])
    kept = _DEFINITIONS.get(key)
    if kept is None or kept[0] is not schema:
        if len(_DEFINITIONS) >= _DEFINITIONS_MAX:
            _DEFINITIONS.clear()
        kept = _DEFINITIONS[key] = schema, bound_definition(schema, config)
    return kept[1]


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A query rewritten to the dimensions of a tree. needed: the dimensions it reads, as bits."""

    rows: tuple[Expression, ...]
    filter: Filter
    filters: tuple[Filter, ...]
    needed: int


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Choice:
    """The cuboid that answers queries of one shape in a segment. rows, aggregates: of the queries, over its dimensions and
    records.

    rewritten: the query that the choice was made for. has_short_keys: whether all rows are plain dimensions with few values.
    key_places, key_dictionaries: of these; num_codes: the total number of their values.
    """

    cuboid: CuboidSegment
    rewritten: _Rewritten
    aggregates: tuple[Aggregate, ...]
    calls: tuple[BoundAggregate, ...]
    has_short_keys: bool
    key_places: "np.ndarray[Any, np.dtype[np.int64]]"
    key_dictionaries: tuple[SortedDictionary, ...]
    num_codes: int

    @classmethod
    def of(cls, cuboid: CuboidSegment, rewritten: _Rewritten, calls: tuple[BoundAggregate, ...]) -> "Choice":
        names = [row.name for row in rewritten.rows if isinstance(row, Column)]
        dictionaries = tuple([cuboid.dictionaries[name] for name in names])
        return cls(
            cuboid,
            rewritten,
            tuple([call.aggregate for call in calls]),
            calls,
            len(names) == len(rewritten.rows) and all(map(_is_short, dictionaries)),
            np.array([cuboid.column_names.index(name) for name in names], np.int64),
            dictionaries,
            sum(map(len, dictionaries)),
        )


def _is_short(dictionary: SortedDictionary) -> bool:
    return len(dictionary) <= SHORT_MAX and dictionary.data_type is not DataType.BIG_DECIMAL


def with_star_trees(bound: BoundQuery, segments: Sequence[QuerySegment]) -> Sequence[QuerySegment]:
    """Return what a query should read: for each segment a cuboid of one of its trees that answers the query, or the segment.

    Segments that are returned contain the reason (`QuerySegment.unused_trees`).
    """
    chooser: Chooser | None = None
    views: list[QuerySegment] = []
    for segment in segments:
        stored = segment.stored
        if isinstance(stored, ImmutableSegment) and stored.has_star_trees:
            chooser = chooser or Chooser.of(bound)
            choice = chooser.choice(stored, segment)
            if isinstance(choice, str):
                segment.unused_trees = choice
            else:
                segment = CuboidView(choice, chooser.asked(bound, choice), segment.host_name)
        views.append(segment)
    return views


def small_cuboids(segments: Sequence[QuerySegment]) -> Sequence[CuboidView]:
    """Return the segments if all are small cuboids, whose queries spend most of their time in Python; else none."""
    views = [segment for segment in segments if isinstance(segment, CuboidView)]
    is_small = len(views) == len(segments) and sum(view.num_docs for view in views) <= _FEW_RECORDS
    return views if is_small else ()


class Chooser:
    """The choice of trees for the queries of one shape; cached for each segment as long as it exists."""

    def __init__(self, bound: BoundQuery) -> None:
        self._bound = bound
        self._rewritten: dict[int, tuple[TreeDefinition, _Rewritten | str]] = {}  # by the identity of the definition
        conditions = (bound.filter, *bound.filters)
        tested = [name for part in conditions for name in _null_tested(part)]
        self._null_sensitive = list(bound.fields) if bound.null_handling else tested
        self._refusal = _refusal(bound)
        self._key = self._read, _ = _key(bound)
        self._tests_nulls = bool(tested)
        self._is_plain = not any(map(computes, conditions))

    @classmethod
    def of(cls, bound: BoundQuery) -> "Chooser":
        """Return the chooser of a query's shape.

        Literals affect the choice only if they are parts of expressions, or match all rows.
        """
        kept: Chooser | None = bound.shared.get(_CHOOSER)
        if kept is None or kept._key != _key(bound):
            kept = cls(bound)
            if kept._is_plain:
                bound.shared[_CHOOSER] = kept
        return kept

    def choice(self, stored: ImmutableSegment, segment: Segment) -> Choice | str:
        """Return the cuboid that the query should read, or the reason why there is none. segment: the alternative to
        read."""
        chosen: WeakKeyDictionary[Chooser, Choice | str] = stored.kept.setdefault(Chooser, WeakKeyDictionary())
        choice = chosen.get(self)
        if choice is None:
            choice = chosen[self] = self._choose(stored, segment)
        return choice

    def asked(self, bound: BoundQuery, choice: Choice) -> BoundQuery:
        """Return a query of the shape, rewritten to the records of a cuboid."""
        rewritten = choice.rewritten
        filter_, filters = rewritten.filter, rewritten.filters
        if self._is_plain:  # the same for all queries of the shape
            filter_, filters = bound.filter, bound.filters
            if self._tests_nulls:
                filter_, *others = [_over_dimensions(part, {}) for part in (filter_, *filters)]
                filters = tuple(others)
        return replace(bound, rows=rewritten.rows, filter=filter_, filters=filters, aggregates=choice.calls)

    def _choose(self, stored: ImmutableSegment, segment: Segment) -> Choice | str:
        if (refusal := self._refusal or self._refusal_at(stored, segment)) is not None:
            return refusal
        best: tuple[OpenTree, Cuboid, _Rewritten, tuple[BoundAggregate, ...]] | None = None
        most, refusals = stored.num_docs, []
        for tree in open_trees(stored, self._bound.schema):
            rewritten = self._rewrite(tree.definition)
            if isinstance(rewritten, str):
                refusals.append(rewritten)
                continue
            cuboid = tree.smallest(rewritten.needed)
            if cuboid is None or cuboid.num_records >= most:
                refusals.append("it has no fewer records")
                continue
            aggregates = _from_records(self._bound.aggregates, tree.aggregates, cuboid)
            if isinstance(aggregates, str):
                refusals.append(aggregates)
                continue
            best, most = (tree, cuboid, rewritten, aggregates), cuboid.num_records
        if best is None:
            return "; ".join(dict.fromkeys(refusals)) or "they are damaged"
        tree, cuboid, rewritten, aggregates = best
        return Choice.of(tree.segment(cuboid), rewritten, aggregates)

    def _refusal_at(self, stored: ImmutableSegment, segment: Segment) -> str | None:
        """Return why no tree of a segment may or need be used; None if one may."""
        if not self._without_nulls(stored):
            return "a column has nulls"
        if self._bound.filter == EVERYTHING and _is_known(self._bound, segment):
            return "the segment's metadata answers"
        return None

    def _without_nulls(self, segment: ImmutableSegment) -> bool:
        """Whether nulls make no difference between the segment's rows and the records of a tree, which contain default
        values."""
        if any(name not in segment.column_names for name in self._null_sensitive):
            return False
        return not any(segment.column(name).null_docs for name in self._null_sensitive)

    def _rewrite(self, definition: TreeDefinition) -> _Rewritten | str:
        known = self._rewritten.get(id(definition))
        if known is None:
            known = self._rewritten[id(definition)] = definition, _rewritten(self._bound, self._read, definition)
        return known[1]


def _rewritten(bound: BoundQuery, read: Sequence[str], definition: TreeDefinition) -> _Rewritten | str:
    """Return a query rewritten to the dimensions of a tree, or the reason if that is impossible. read: the columns it
    reads."""
    for name in read:
        if name not in definition.reads:
            return f"'{name}' is no dimension of it"
    places, by = definition.places, definition.by_expression
    rows, filter_, filters = bound.rows, bound.filter, bound.filters
    if by or any(map(_null_tested, (filter_, *filters))):
        rows = tuple([replaced(row, by) for row in rows])
        filter_, *others = [_over_dimensions(part, by) for part in (filter_, *filters)]
        filters, read = tuple(others), _read(rows, (filter_, *others))
    needed = 0
    for name in read:
        if name not in places:
            return f"'{name}' is no dimension of it"
        needed |= 1 << places[name]
    return _Rewritten(rows, filter_, filters, needed)


def _read(rows: Sequence[Expression], conditions: Sequence[Filter]) -> list[str]:
    """Return the columns that rows and conditions read."""
    return list(dict.fromkeys([*physical_columns(rows), *(name for part in conditions for name in filter_columns(part))]))


def _key(bound: BoundQuery) -> tuple[list[str], bool]:
    """Return what the choice of trees depends on in addition to a query's shape."""
    return _read(bound.rows, (bound.filter, *bound.filters)), bound.filter == EVERYTHING


def _over_dimensions(part: Filter, by: dict[Expression, Expression]) -> Filter:
    """Return a condition with dimensions of a tree in place of expressions. No row is null, see `_without_nulls`."""
    if isinstance(part, And):
        return conjunction([_over_dimensions(inner, by) for inner in part.parts])
    if isinstance(part, Or):
        return disjunction([_over_dimensions(inner, by) for inner in part.parts])
    if isinstance(part, Not):
        return negation(_over_dimensions(part.part, by))
    if isinstance(part, IsNull):
        return NOTHING
    if isinstance(part, Match | Test):
        expression = replaced(part.expression, by)
        names = tuple(column_names(expression))
        return Match(names[0], expression) if isinstance(part, Match) and len(names) == 1 else Test(expression, names)
    return part


def _null_tested(part: Filter) -> list[str]:
    """Return the columns that a condition tests for null."""
    if isinstance(part, And | Or):
        return [name for inner in part.parts for name in _null_tested(inner)]
    if isinstance(part, Not):
        return _null_tested(part.part)
    return [part.column] if isinstance(part, IsNull) else []


def _from_records(
    calls: Sequence[BoundAggregate], stored: StoredAggregates, cuboid: Cuboid
) -> tuple[BoundAggregate, ...] | str:
    """Return the aggregates of a query over records, or the reason if the tree lacks one of them."""
    found: list[BoundAggregate] = []
    for call in calls:
        source = stored.source(call)
        if source is None:
            return f"it does not have {to_text(call.call)}"
        found.append(BoundAggregate(call.call, source(cuboid), _RECORD, call.filter))
    return tuple(found)


def _refusal(bound: BoundQuery) -> str | None:
    """Return why a query uses no tree in any segment; None if it may."""
    if bound.kind not in _KINDS:
        return "rows are selected"
    if bound.grouping_sets:
        return "GROUPING SETS"
    return None if flag(bound.query.options, "useStarTree", default=True) else "useStarTree=false"


def _is_known(bound: BoundQuery, segment: Segment) -> bool:
    """Whether metadata and dictionaries answer a query without WHERE, so that nothing is read."""
    if bound.kind is QueryKind.DISTINCT:
        return len(bound.rows) == 1 and isinstance(bound.rows[0], Column)
    return not bound.rows and all(
        call.filter is None and _from_metadata(call, segment) is not None for call in bound.aggregates
    )


def _from_metadata(call: BoundAggregate, segment: Segment) -> Partial | None:
    if not call.arguments:
        return answer_from_metadata(call.aggregate, None, segment.num_docs)
    if len(call.arguments) > 1 or not isinstance(call.arguments[0], Column):
        return None
    return answer_from_metadata(call.aggregate, segment.column(call.arguments[0].name), segment.num_docs)
