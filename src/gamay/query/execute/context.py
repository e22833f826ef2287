"""State shared by the parts of one execution, and the distribution of segments among threads."""

import threading
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gamay.base.guard import Holder
from gamay.kernels.tuning import SMALL_WORK_S
from gamay.query.bind.binder import BoundQuery, QueryKind, physical_columns
from gamay.query.bind.predicate import Filter
from gamay.query.filter.apply import FilterResult, apply_filter
from gamay.query.groupby.states import WIDE, is_narrow
from gamay.query.groupby.table import GroupTable
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.memory_size import held_bytes
from gamay.query.pool import WorkPool
from gamay.query.stats import QueryStats
from gamay.query.trace import Trace
from gamay.query.view.virtual import QuerySegment

S = TypeVar("S")
T = TypeVar("T")

_COUNTED_GROUPS = 1 << 10
_OPERATORS = {
    QueryKind.SELECTION: "SELECT",
    QueryKind.SELECTION_ORDER_BY: "SELECT_ORDERBY",
    QueryKind.AGGREGATION: "AGGREGATE",
    QueryKind.GROUP_BY: "GROUP_BY",
    QueryKind.DISTINCT: "DISTINCT",
}


@dataclass(slots=True)
class ExecutionContext:
    """State of one execution: the query, the threads, the deadline, and the statistics (updated from any thread).

    consuming: names of the consuming segments.
    """

    bound: BoundQuery
    pool: WorkPool
    deadline: Deadline
    stats: QueryStats
    _lock: threading.Lock = field(default_factory=threading.Lock)
    trace: Trace | None = None
    consuming: Container[str] = ()
    _holder: Holder | None = None
    _kept: int = 0

    def asked(self, segment: QuerySegment) -> BoundQuery:
        """Return the query as adapted to a segment."""
        return segment.asks or self.bound

    def filter(self, segment: QuerySegment, where: Filter | None = None) -> FilterResult:
        """Return the rows of a segment that meet WHERE, or another condition."""
        self.deadline.check()
        trace = self.trace
        begun_s = 0.0 if trace is None else trace.now_s()
        filtered = apply_filter(self.asked(segment).filter if where is None else where, segment, self.pool.run)
        if segment.name in self.consuming:
            filtered = replace(filtered, of_consuming=True)
        if trace is None:
            return filtered
        trace.span("FILTER", begun_s, filtered.count, Segment=segment.name, Scans=filtered.scan is not None)
        trace.begin(filtered, segment.name)
        return filtered

    def over_segments(self, segments: Sequence[S], task: Callable[[S], T], *, are_small: bool = False) -> list[T]:
        """Return the task's result for each segment (or its equivalent), in order.

        The first segments are processed one by one, each dividing its rows, until there is enough work for several threads:
        a lookup of a few rows is done before another thread has woken up. Then whole segments are distributed evenly among
        the threads, and the remaining ones divide their rows again. are_small: never use several threads, see
        `are_small_cuboids`.
        """
        if are_small:
            return [task(segment) for segment in segments]
        results: list[T] = []
        clock = self.deadline.clock
        until = clock.monotonic_s() + SMALL_WORK_S
        while len(results) < len(segments) and clock.monotonic_s() <= until:
            results.append(task(segments[len(results)]))
        over = (len(segments) - len(results)) % self.pool.threads
        shared, rest = segments[len(results) : len(segments) - over], segments[len(segments) - over :]
        results += self.pool.run([_bound(task, segment) for segment in shared])
        return [*results, *(task(segment) for segment in rest)]

    def count(self, filtered: FilterResult, scanned: int, read_entries: int) -> None:
        """Add the statistics of one segment: its matching rows that were processed, and the values read for them."""
        in_filter = filtered.entries.count
        if self.trace is not None:
            operator = _OPERATORS[self.bound.kind]
            self.trace.end(filtered, operator, scanned, EntriesInFilter=in_filter, EntriesPostFilter=read_entries)
        with self._lock:
            self.stats.num_entries_scanned_in_filter += in_filter
            self.stats.num_docs_scanned += scanned
            self.stats.num_entries_scanned_post_filter += read_entries
            self.stats.num_segments_matched += scanned > 0
            self.stats.num_consuming_segments_matched += scanned > 0 and filtered.of_consuming
            budget = self.deadline.budget
            if budget is not None and budget.scan is not None:
                budget.scan.check(self.stats)

    def leave_out(self) -> None:
        """Reclassify a segment as pruned by LIMIT: others already have all rows of the answer."""
        with self._lock:
            self.stats.num_segments_processed -= 1
            self.stats.num_segments_pruned_by_server += 1
            self.stats.num_segments_pruned_by_limit += 1

    def keep_groups(self, table: GroupTable) -> None:
        """Report the groups of a segment to the guard; few groups with few numbers each are ignored."""
        if table.num_groups >= _COUNTED_GROUPS or not self._is_narrow:
            self.keep("groups" if self._is_narrow else WIDE, table)

    @property
    def _is_narrow(self) -> bool:
        return all(is_narrow(call.aggregate) for call in self.bound.aggregates)

    def keep(self, what: str, found: Any) -> None:
        """Report a segment's results, which are held from now on, to the guard; raises QueryError 245 beyond the limit.

        They are released when the query ends, or by `drop`.
        """
        size = held_bytes(found)
        with self._lock:
            self._kept += size
            if self._holder is None:
                self._holder = self.deadline.holder(what)
            self._holder.hold(self._kept)

    def drop(self) -> None:
        """Report to the guard that the results kept so far are released."""
        with self._lock:
            self._kept = 0
            if self._holder is not None:
                self._holder.release()

    def columns_read(self) -> int:
        """Number of columns read per matching row."""
        arguments = [argument for aggregate in self.bound.aggregates for argument in aggregate.arguments]
        return len(physical_columns([*self.bound.rows, *arguments]))


def _bound(task: Callable[[S], T], segment: S) -> Callable[[], T]:
    return lambda: task(segment)
