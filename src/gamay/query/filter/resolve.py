"""Resolution of a predicate to the cheapest way to answer it in one segment.

Every leaf is first resolved against the dictionary (`gamay.query.filter.entries`), and becomes nothing, everything, a range
of ids or a set of ids. Then the sorted index answers with doc ranges, and the inverted and range indexes with bitmaps; what
remains is a scan of the zones that may match (`gamay.query.filter.zoned`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeGuard

import numpy as np
from pyroaring import BitMap

from gamay.base.arrays import Mask
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Expression
from gamay.query.bind.predicate import And, Constant, Filter, In, IsNull, Leaf, Match, Near, Not, Or, Range, Test
from gamay.query.filter.calendar import calendar_docs, calendar_test, calendar_zones
from gamay.query.filter.compound import Together, denied_together, taken_together
from gamay.query.filter.entries import FEW_ENTRIES, IdSet, Run, compared_ids, matching, matching_ids, one_by_one, sorted_docs
from gamay.query.filter.nearest import NearScan, nearest_docs
from gamay.query.filter.scan import (
    AndScan,
    ArithmeticScan,
    ExpressionScan,
    FrameScan,
    IdScan,
    KnownScan,
    NotScan,
    OrScan,
    PartScan,
    Scan,
    SetScan,
    TailScan,
    ValueScan,
    compared_arithmetic,
    mask_within,
    rows_within,
)
from gamay.query.filter.sorted_values import searched_docs
from gamay.query.filter.values import code_range, in_test, range_test
from gamay.query.filter.zoned import ZONE_MAP, ZonedScan, zoned, zones_of_values
from gamay.query.view.counters import EntryCounter
from gamay.query.view.docset import (
    SPARSE,
    DocFlags,
    DocRange,
    DocSet,
    complement,
    doc_mask,
    flags_of,
    intersect,
    unite,
)
from gamay.query.view.matches import BLOCK_ROWS
from gamay.query.view.null_flags import NullFlags, null_flags_of
from gamay.query.view.shared_filters import SharedScan
from gamay.query.view.vector_options import NO_OPTIONS, VectorOptions
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import (
    INVERTED,
    RANGE,
    SORTED,
    Column,
    Dictionary,
    InvertedIndex,
    KnowsFrame,
    Neighbours,
    SecondaryIndex,
    Segment,
)
from gamay.segment.zones import Zones

# Uniting this many bitmaps costs about as much as scanning as many rows (measured with CRoaring).
_ROWS_PER_BITMAP = 1000
_FEW_BITMAPS = 64
# If more than one row in this many matches, a scan is faster than a range index: five times as fast at a quarter of the
# rows.
_RANGE_SHARE = 64
_FEW_IN_RANGE = 1 << 13


@dataclass(slots=True)  # not frozen: creation would take five times as long
class Indexed:
    """A final answer: exactly these docs. `index` names what answered, for EXPLAIN."""

    docs: DocSet
    index: str


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A partial answer: the docs that `scan` must still test. `index` names what found them, for EXPLAIN."""

    docs: DocSet
    scan: Scan
    index: str = ""


Resolved: TypeAlias = Indexed | Narrowed | Scan


class Resolver:
    """Resolver of the filters of one query in one segment; its scans count the values that they read in `counter`.

    run: runs tasks, possibly on several threads, and returns their results in order. entries_max: the most entries of a
    dictionary for which an expression is evaluated; if there are more, a scan is returned. None for no limit.
    """

    def __init__(
        self, segment: Segment, counter: EntryCounter, run: Run = one_by_one, *, entries_max: int | None = None
    ) -> None:
        self._run = run
        self._entries_max = entries_max
        self._segment = segment
        self._counter = counter
        self._num_docs = segment.num_docs
        self._records = segment.sorted_records if isinstance(segment, QuerySegment) else None

    def resolve(self, filter_: Filter | Together, survivors: int | None = None) -> Resolved:
        """Return how to answer a filter; `survivors` is the most rows that it will have to test."""
        survivors = self._num_docs if survivors is None else survivors
        if isinstance(filter_, Constant):
            return self.everything() if filter_.matches else self.nothing()
        if isinstance(filter_, Together):
            return Indexed(filter_.docs(), filter_.name)
        if self._records is not None:
            found = self._records.find(filter_.parts if isinstance(filter_, And) else (filter_,), self._counter)
            if found is not None:
                return Indexed(found.doc_set(), "sorted_records")
        if isinstance(filter_, And):
            return self._and(filter_, survivors)
        if isinstance(filter_, Or):
            return self._or(filter_, survivors)
        if isinstance(filter_, Not):
            return self._not(self.resolve(filter_.part, survivors))
        return self.leaf(filter_, survivors)

    def everything(self) -> Indexed:
        """Return the answer that matches every row."""
        return Indexed(DocRange(0, self._num_docs), "match_all")

    def nothing(self) -> Indexed:
        """Return the answer that matches no row."""
        return Indexed(DocRange(0, 0), "empty")

    # -- combinations

    def _and(self, filter_: And, survivors: int) -> Resolved:
        docs: DocSet = DocRange(0, self._num_docs)
        scans: list[Scan] = []
        searches = [part for part in filter_.parts if self._is_search(part)]
        # predicates that evaluate an expression over a dictionary come last, as few rows may be left by then; tests for
        # null, which most rows pass, only add to an existing scan and would hardly narrow down what indexes found
        for part in sorted(self.together(filter_.parts), key=lambda part: (_known_column(part) is not None, computes(part))):
            if part in searches:
                continue
            nulls = self._few_nulls(_known_column(part)) if scans else None
            if nulls is not None:
                scans.append(KnownScan(nulls))
                continue
            resolved = self.resolve(part, min(survivors, len(docs)))
            if isinstance(resolved, Indexed | Narrowed):
                if len(docs) == self._num_docs:
                    docs = resolved.docs
                elif len(resolved.docs) < self._num_docs:
                    docs = intersect(docs, resolved.docs)
                if len(docs) == 0:
                    return self.nothing()
            if isinstance(resolved, ZonedScan):
                docs = intersect(docs, resolved.span)
            if not isinstance(resolved, Indexed):
                scans.append(resolved.scan if isinstance(resolved, Narrowed) else resolved)
        scans = _merged_by_column(scans)
        if not len(docs) or any(isinstance(scan, IdScan) and scan.is_empty for scan in scans):
            return self.nothing()
        if not scans and not searches:
            return Indexed(docs, "and")
        scan = None if not scans else scans[0] if len(scans) == 1 else AndScan(scans)
        if searches:
            return self._nearest_among(searches, docs, scan)
        assert scan is not None
        return scan if len(docs) == self._num_docs else Narrowed(docs, scan)

    def together(self, parts: Sequence[Filter]) -> Sequence[Filter | Together]:
        """Return the parts of a conjunction, with those that a compound index answers together merged into one."""
        return taken_together(parts, self._segment, self._skips, self._few_ids)

    def denied_together(self, parts: Sequence[Filter]) -> Sequence[Filter]:
        """Return the parts of a disjunction, merging those whose negations a compound index answers together."""
        return denied_together(parts, self._segment, self._skips, self._few_ids)

    @property
    def _few_ids(self) -> int:
        """The most sets of docs to unite instead of scanning rows."""
        return max(_FEW_BITMAPS, self._num_docs // _ROWS_PER_BITMAP)

    def _is_search(self, part: Filter) -> TypeGuard[Near]:
        """Whether a filter matches a given number of nearest rows."""
        return isinstance(part, Near) and self._vector_options.applied(part).count is not None

    def _nearest_among(self, searches: Sequence[Near], docs: DocSet, scan: Scan | None) -> Resolved:
        """Return the rows nearest among some docs that pass a scan, for all of the searches."""
        if scan is not None:
            flags, test = doc_mask(docs, self._num_docs), rows_within if len(docs) * SPARSE < self._num_docs else mask_within
            starts = range(0, self._num_docs, BLOCK_ROWS)
            parts = self._run([partial(test, scan, flags[start : start + BLOCK_ROWS], start) for start in starts])
            docs = flags_of(np.concatenate(parts))
        for found in [self._near(search, self._segment.column(search.column), docs) for search in searches]:
            assert isinstance(found, Indexed)
            docs = intersect(docs, found.docs)
        return Indexed(docs, "and")

    def _few_nulls(self, name: str | None) -> NullFlags | None:
        """Return the null flags of a column if it has some nulls, but not mostly nulls; else None."""
        if name is None:
            return None
        column = self._segment.column(name)
        return null_flags_of(column) if column.null_docs and 2 * len(column.null_docs) <= self._num_docs else None

    def _or(self, filter_: Or, survivors: int) -> Resolved:
        docs: DocSet = DocRange(0, 0)
        scans: list[Scan] = []
        for part in self.denied_together(filter_.parts):
            resolved = self.resolve(part, survivors)
            if isinstance(resolved, Indexed):
                docs = unite(docs, resolved.docs)
                if len(docs) == self._num_docs:
                    return self.everything()
            else:
                scans.append(self._as_scan(resolved))
        if not scans:
            return Indexed(docs, "or")
        if len(docs):
            scans.append(SetScan(docs, self._num_docs))
        return scans[0] if len(scans) == 1 else OrScan(scans)

    def _not(self, resolved: Resolved) -> Resolved:
        if isinstance(resolved, Indexed):
            return Indexed(complement(resolved.docs, self._num_docs), resolved.index)
        return NotScan(self._as_scan(resolved))

    def _as_scan(self, resolved: Narrowed | Scan) -> Scan:
        if isinstance(resolved, Narrowed):
            return AndScan([SetScan(resolved.docs, self._num_docs), resolved.scan])
        return resolved

    # -- leaves

    def leaf(self, leaf: Leaf, survivors: int) -> Resolved:
        """Return how to answer one predicate; the answer is cached if the query's filters share their state of the
        segment."""
        shared = self._segment.shared if isinstance(self._segment, QuerySegment) else None
        if shared is None:
            return self._leaf(leaf, survivors)
        known: Resolved | None = shared.leaves.get(leaf)
        if known is None:
            known = shared.leaves[leaf] = _shared(self._leaf(leaf, survivors))
        return known

    def _leaf(self, leaf: Leaf, survivors: int) -> Resolved:
        if isinstance(leaf, Test):
            kind = ArithmeticScan if compared_arithmetic(leaf.expression) else ExpressionScan
            scan = kind(self._segment, leaf.expression, self._counter)
            columns = map(self._segment.column, leaf.columns)
            return self._indexed(leaf.expression, columns, lambda: scan) or scan
        column = self._segment.column(leaf.column)
        if isinstance(leaf, IsNull):
            return self.nothing() if column.null_docs is None else Indexed(column.null_docs, "bitmap")
        if isinstance(leaf, Near):
            return self._near(leaf, column)
        dictionary = column.dictionary
        if isinstance(leaf, Match) and (dictionary is None or len(dictionary) > FEW_ENTRIES):
            indexed = self._indexed(leaf.expression, [column], lambda: self._by_value(leaf, column))
            if indexed is not None:
                return indexed
        if dictionary is None:
            return self._raw(leaf, column)
        if not isinstance(leaf, Match):
            return self._encoded(leaf, column, dictionary)
        if len(dictionary) > survivors and column.has_forward:
            return self._by_value(leaf, column)
        try:
            return self._encoded(leaf, column, dictionary)
        except QueryError as error:
            # the failing entry may belong only to rows that are null or excluded
            if error.code is not ErrorCode.QUERY_EXECUTION or not column.has_forward:
                raise
            return self._by_value(leaf, column)

    def _indexed(self, condition: Expression, columns: Iterable[Column], scan: Callable[[], Scan]) -> Resolved | None:
        """Return the answer of a secondary index to a condition on its columns; None if none answers."""
        columns = tuple(columns)
        for index in dict.fromkeys(index for column in columns for index in column.indexes):
            skipped = any(index in column.indexes and self._skips(column, index.kind) for column in columns)
            found = None if skipped else index.find(condition)
            if found is None:
                continue
            name = f"{index.kind}_index"
            tail = BitMap() if found.covered is None else BitMap(range(found.covered, self._num_docs))
            docs = found.docs | tail if tail else found.docs
            if not found.is_exact:
                tested = scan() if found.unsure is None else PartScan(scan(), found.unsure | tail, self._num_docs)
                return Narrowed(docs, tested, name)
            return Narrowed(docs, TailScan(scan(), found.covered or 0), name) if tail else Indexed(docs, name)
        return None

    def _indexes(self, column: Column) -> Iterator[SecondaryIndex]:
        return (index for index in column.indexes if not self._skips(column, index.kind))

    def _skips(self, column: Column, kind: str) -> bool:
        """Whether the query disables an index of a column."""
        return isinstance(self._segment, QuerySegment) and kind in self._segment.skipped_indexes.get(column.name, ())

    def _near(self, leaf: Near, column: Column, among: DocSet | None = None) -> Resolved:
        """Return the rows near a vector. among: the docs to search; None for all."""
        leaf = self._vector_options.applied(leaf)
        scan = NearScan(column, leaf, self._counter)
        if leaf.count is None:
            return scan
        visible = self._visible
        if among is not None and len(among) < self._num_docs:
            within = among if visible is None else intersect(among, visible)
            visible = within if isinstance(within, DocFlags) else flags_of(doc_mask(within, self._num_docs))
        found = self.neighbours(leaf, scan, visible)
        docs = nearest_docs(scan, leaf.count, self._num_docs, None if visible is None else visible.mask, found)
        return Indexed(docs, "exact_scan" if found is None else "vector_index")

    @property
    def _visible(self) -> DocFlags | None:
        return self._segment.visible if isinstance(self._segment, QuerySegment) else None

    @property
    def _vector_options(self) -> VectorOptions:
        return self._segment.vector_options if isinstance(self._segment, QuerySegment) else NO_OPTIONS

    def neighbours(self, leaf: Near, scan: NearScan, visible: DocFlags | None) -> Neighbours | None:
        """Return an index's candidates for the nearest vectors; None if every vector must be scanned.

        visible: the docs to search; None for all.
        """
        indexes = self._indexes(self._segment.column(leaf.column))
        return scan.neighbours(indexes, self._vector_options, self._num_docs, visible)

    def _encoded(self, leaf: In | Range | Match, column: Column, dictionary: Dictionary) -> Resolved:
        ids = self._ids(leaf, column, dictionary)
        if ids is None:
            assert isinstance(leaf, Match)
            return self._by_value(leaf, column)
        count = ids[1] - ids[0] if isinstance(ids, tuple) else len(ids)
        if count == 0:
            return self.nothing()
        if count == len(dictionary):
            return self.everything()
        if (starts := column.index(SORTED)) is not None:
            return Indexed(sorted_docs(starts.starts, ids), SORTED.lookup)
        inverted, is_few = column.index(INVERTED), count <= self._few_ids
        if inverted is not None and column.has_forward and self._skips(column, INVERTED.name):
            inverted = None
        if inverted is not None and is_few:
            return _inverted_docs(inverted, ids)
        if isinstance(leaf, Range) and (indexed := self._in_ranges(leaf, column)) is not None:
            return indexed
        if inverted is not None and not column.has_forward:
            return _inverted_docs(inverted, ids)
        zones = self._zones(column) if dictionary.is_sorted else None
        if isinstance(ids, tuple):
            found = None if zones is None else zones.meeting(ids[0], ids[1] - 1)
            return self._where_found(IdScan(column, ids, self._counter), found)
        table = np.zeros(len(dictionary), np.bool_)
        table[ids] = True
        found = None if zones is None else zones.holding(ids)
        return self._where_found(IdScan(column, table, self._counter), found)

    def _zones(self, column: Column) -> Zones | None:
        """Return the zones of a column, unless the query disables them."""
        return None if self._skips(column, ZONE_MAP) else column.zones

    def _where_found(self, scan: Scan, zones: Mask | None) -> Resolved:
        """Return a scan of some zones; None stands for all."""
        if zones is None:
            return scan
        return zoned(scan, zones, self._num_docs) if zones.any() else self.nothing()

    def _ids(self, leaf: In | Range | Match, column: Column, dictionary: Dictionary) -> IdSet | None:
        """Return the ids of the values that match a predicate; None if testing the rows is faster."""
        if isinstance(leaf, Match):
            return matching_ids(leaf, dictionary, self._indexes(column), self._run, self._entries_max)
        return compared_ids(leaf, dictionary)

    def _raw(self, leaf: In | Range | Match, column: Column) -> Resolved:
        if isinstance(leaf, Match):
            scan: Scan
            if self._reads_nulls(leaf.column):
                return self._by_value(leaf, column)
            if (docs := calendar_docs(leaf.expression, column)) is not None:
                return Indexed(docs, SORTED.lookup)
            zones = self._zones(column)
            found = None if zones is None else calendar_zones(leaf.expression, column.data_type, zones)
            test = calendar_test(leaf.expression, column)
            scan = self._by_value(leaf, column) if test is None else ValueScan(column, test, self._counter)
            return self._where_found(scan, found)
        if (docs := searched_docs(leaf, column)) is not None:
            return Indexed(docs, SORTED.lookup)
        if isinstance(leaf, Range) or len(leaf.values) == 1:
            span = leaf if isinstance(leaf, Range) else Range(leaf.column, leaf.values[0], leaf.values[0], True, True)
            if (indexed := self._in_ranges(span, column)) is not None:
                return indexed
        test = in_test(leaf, column.data_type) if isinstance(leaf, In) else range_test(leaf, column.data_type)
        framed = column.framed if isinstance(column, KnowsFrame) else None
        if framed is not None and (codes := code_range(leaf, framed.frame)) is not None:
            scan = FrameScan(framed, codes, test, self._counter)
        else:
            scan = ValueScan(column, test, self._counter)
        zones = self._zones(column)
        return self._where_found(scan, None if zones is None else zones_of_values(zones, leaf, column))

    def _in_ranges(self, leaf: Range, column: Column) -> Indexed | None:
        """Return the docs that a column's range index finds; None if it has none, or if a scan is faster."""
        index = column.index(RANGE)
        if index is None or self._skips(column, RANGE.name):
            return None
        can_scan = column.has_forward and column.single_value
        docs_max = max(_FEW_IN_RANGE, self._num_docs // _RANGE_SHARE) if can_scan else None
        docs = index.docs_between(leaf.lower, leaf.upper, leaf.lower_inclusive, leaf.upper_inclusive, docs_max)
        return None if docs is None else Indexed(docs, RANGE.lookup)

    def _reads_nulls(self, name: str) -> bool:
        return isinstance(self._segment, QuerySegment) and self._segment.null_flags(name) is not None

    def _by_value(self, leaf: Match, column: Column) -> Scan:
        if column.single_value and self._reads_nulls(leaf.column):
            # the value stored in place of a null need not be valid for the expression
            return ExpressionScan(self._segment, leaf.expression, self._counter)
        return ValueScan(column, lambda vector: matching(leaf, vector), self._counter)


def _shared(resolved: Resolved) -> Resolved:
    """Return an answer whose scan several filters can share."""
    if isinstance(resolved, Indexed | Narrowed):
        return resolved
    return resolved.over(SharedScan(resolved.scan)) if isinstance(resolved, ZonedScan) else SharedScan(resolved)


def _merged_by_column(scans: Iterable[Scan]) -> list[Scan]:
    """Return scans that must all match, with id tests of the same column merged into one."""
    out: list[Scan] = []
    for scan in scans:
        for place, other in enumerate(out):
            both = scan.within(other) if isinstance(scan, IdScan) and isinstance(other, IdScan) else None
            if both is not None:
                out[place] = both
                break
        else:
            out.append(scan)
    return out


def computes(filter_: Filter | Together) -> bool:
    """Return whether resolving a filter evaluates an expression."""
    if isinstance(filter_, And | Or):
        return any(computes(part) for part in filter_.parts)
    return computes(filter_.part) if isinstance(filter_, Not) else isinstance(filter_, Match | Test | Near)


def _known_column(filter_: Filter | Together) -> str | None:
    """Return the column of an IS NOT NULL filter; None for other filters."""
    return filter_.part.column if isinstance(filter_, Not) and isinstance(filter_.part, IsNull) else None


def _inverted_docs(inverted: InvertedIndex, ids: IdSet) -> Indexed:
    if isinstance(ids, tuple):
        if ids[1] - ids[0] == 1:
            return Indexed(inverted.docs(ids[0]), INVERTED.lookup)
        ids = np.arange(*ids, dtype=np.int32)
    return Indexed(inverted.docs(int(ids[0])) if len(ids) == 1 else inverted.docs_of_any(ids), INVERTED.lookup)
