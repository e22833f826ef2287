"""What the parts of one execution share, and how segments are divided among threads."""

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
    """State of one execution: the query, the threads, the deadline, and the counters (added to from any thread).

    consuming: the names of the segments that are still being consumed.
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
        """Return the query as a segment is asked it."""
        return segment.asks or self.bound

    def filter(self, segment: QuerySegment, where: Filter | None = None) -> FilterResult:
        """Return the rows of a segment that WHERE lets through, or another condition."""
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
        """Return the task's result for each segment (or what stands for one), in order.

        The first segments are taken one by one, each dividing its rows, until there is enough work for the threads to pay:
        a look-up of a few rows is done before another thread has woken up. Then each thread takes whole segments, as many
        as the others, and those that are over divide their rows again. are_small: that never pays, see `are_small_cuboids`.
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
        """Add what one segment contributed: matching rows that were consumed, and values read for them."""
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
        """Count a segment as pruned by LIMIT that was to be looked at: others have all rows of the answer."""
        with self._lock:
            self.stats.num_segments_processed -= 1
            self.stats.num_segments_pruned_by_server += 1
            self.stats.num_segments_pruned_by_limit += 1

    def keep_groups(self, table: GroupTable) -> None:
        """Tell the guard of the groups of a segment; few groups of a few numbers each do not matter."""
        if table.num_groups >= _COUNTED_GROUPS or not self._is_narrow:
            self.keep("groups" if self._is_narrow else WIDE, table)

    @property
    def _is_narrow(self) -> bool:
        return all(is_narrow(call.aggregate) for call in self.bound.aggregates)

    def keep(self, what: str, found: Any) -> None:
        """Tell the guard that what was found in a segment is held from now on; raises QueryError 245 when that is too much.

        It is given back when the query ends, or by `drop`.
        """
        size = held_bytes(found)
        with self._lock:
            self._kept += size
            if self._holder is None:
                self._holder = self.deadline.holder(what)
            self._holder.hold(self._kept)

    def drop(self) -> None:
        """Tell the guard that what was kept so far is not held any more."""
        with self._lock:
            self._kept = 0
            if self._holder is not None:
                self._holder.release()

    def columns_read(self) -> int:
        """The number of columns that are read for each matching row."""
        arguments = [argument for aggregate in self.bound.aggregates for argument in aggregate.arguments]
        return len(physical_columns([*self.bound.rows, *arguments]))


def _bound(task: Callable[[S], T], segment: S) -> Callable[[], T]:
    return lambda: task(segment)
