"""Queries of one shape that star-trees answer from few records: a short path from filter to answer.

The remaining steps are those of the ordinary path, and so are the counters (see `gamay.query.prepared.lookup`).
"""

from collections.abc import Sequence

from gamay.query.bind.binder import BoundQuery, QueryKind, physical_columns
from gamay.query.bind.predicate import And, Constant, Filter
from gamay.query.groupby.limits import group_limits
from gamay.query.groupby.ordering import finished_rows
from gamay.query.prune.by_segments import may_match
from gamay.query.reduce.merge import no_matches
from gamay.query.selection import Rows
from gamay.query.startree.choose import Chooser
from gamay.query.startree.grouped import Piece, fit_together, group_records
from gamay.query.startree.lookup import Known
from gamay.query.stats import QueryStats
from gamay.query.view.counters import EntryCounter
from gamay.segment.read.reader import ImmutableSegment
from gamay.segment.spi import Segment

_RECORDS_MAX = 1 << 12


class PreparedTrees:
    """The short path for queries of one shape. bound: one of them, with another filter."""

    def __init__(self, bound: BoundQuery) -> None:
        self._bound = bound
        self._chooser = Chooser.of(bound)
        self._names = frozenset(bound.fields)
        arguments = [argument for call in bound.aggregates for argument in call.arguments]
        self._num_columns = len(physical_columns([*bound.rows, *arguments]))

    @classmethod
    def of(cls, bound: BoundQuery) -> "PreparedTrees | None":
        """Return the short path for queries of this shape; None if trees can never answer them this way."""
        query = bound.query
        if bound.kind not in (QueryKind.AGGREGATION, QueryKind.GROUP_BY) or bound.grouping_sets or bound.filters:
            return None
        if query.explain or query.gapfill is not None or bound.limit < 1 or not group_limits(bound).keep_all:
            return None
        return cls(bound)

    def answer(self, filter_: Filter, segments: Sequence[Segment], stats: QueryStats) -> Rows | None:
        """Return the result's columns, counting them; None, with nothing counted, if the ordinary path is needed."""
        if isinstance(filter_, Constant) and not filter_.matches:
            return None
        chooser, counter = self._chooser, EntryCounter()
        parts = filter_.parts if isinstance(filter_, And) else () if isinstance(filter_, Constant) else (filter_,)
        pieces: list[Piece] = []
        known: Known = {}
        pruned = records = matched = 0
        for segment in segments:
            if not isinstance(segment, ImmutableSegment) or not segment.has_star_trees or not segment.num_docs:
                return None
            if not self._names.issubset(segment.column_names):
                return None
            choice = chooser.choice(segment, segment)
            if isinstance(choice, str):
                return None
            found = choice.cuboid.records.find(parts, counter, known)
            if found is None:
                return None
            if not found.count and not may_match(filter_, segment):
                pruned += 1
                continue
            records += found.count
            matched += found.count > 0
            pieces.append((choice, found))
        if records > _RECORDS_MAX or not fit_together(self._bound, pieces):
            return None
        stats.num_segments_queried = len(segments)
        stats.total_docs = sum([segment.num_docs for segment in segments])
        stats.num_segments_pruned_by_server = stats.num_segments_pruned_by_value = pruned
        stats.num_segments_processed = len(pieces)
        stats.num_segments_matched = matched
        stats.num_docs_scanned = records
        stats.num_entries_scanned_in_filter = counter.count
        stats.num_entries_scanned_post_filter = records * self._num_columns
        if not records:
            return no_matches(self._bound)
        return finished_rows(self._bound, group_records(pieces, len(self._bound.rows)))
