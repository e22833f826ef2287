"""Running queries on the segments of this server."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gamay.base.allocator import give_back_surplus
from gamay.base.clock import Clock
from gamay.base.errors import CorruptSegmentError, ErrorCode, QueryError
from gamay.query.bind.binder import BoundQuery
from gamay.query.bind.predicate import Filter
from gamay.query.execute.executor import execute
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.prepared.lookup import PreparedLookup
from gamay.query.reduce.merge import Answer
from gamay.segment.read.defaults import with_defaults
from gamay.segment.read.visible import VisibleDocs, VisibleSegment
from gamay.segment.spi import Segment
from gamay.server.answering.dimensions import DimensionTables, QueryDimensions
from gamay.server.answering.following import frozen_after
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.table import Contents, TableData
from gamay.server.query_counts import TableCounts
from gamay.sql.options.option_values import flag, number
from gamay.upsert.partitions.views import ViewOptions
from gamay.upsert.rows.valid_docs import SegmentDocs

if TYPE_CHECKING:
    from gamay.ingest.stream.offsets import Offset
    from gamay.upsert.tables.table import TableUpsert


_KILLED = frozenset({ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED, ErrorCode.QUERY_SCAN_LIMIT_EXCEEDED})

# shorter queries have freed little memory
_LONG_S = 0.01


class QueryExecutor:
    """The executor of queries, used directly by a broker in the same process. threads: the number of threads per query."""

    def __init__(self, instance: ServerInstance, threads: int) -> None:
        self._instance = instance
        self._pool = WorkPool(threads)
        self._dimensions = DimensionTables(instance)

    def close(self) -> None:
        """End the threads when their work is done."""
        self._pool.close()

    def counts(self, table: str) -> TableCounts:
        """Return the counters of a typed table's queries."""
        return self._instance.counts.of(table)

    def num_docs(self, table: str, segments: Sequence[str]) -> int:
        """Return the number of rows in the named segments; consuming and missing segments count as 0."""
        data = self._instance.table(table)
        loaded = {} if data is None else data.snapshot()
        return sum(loaded[name].segment.num_docs for name in segments if name in loaded)

    def execute(
        self, table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline, latest: Collection[str] = ()
    ) -> tuple[ServerResult, Sequence[str]]:
        """Run `_execute`, and count it."""
        begun_s = deadline.clock.monotonic_s()
        counts = self._instance.counts.of(table)
        counts.queries += 1
        try:
            result, missing = self._execute(table, query, segments, deadline, latest)
            counts.pruning_s += result.pruning_s
            counts.missing_segments += len(missing)
            stats = result.stats
            counts.pruned_by_limit += stats.num_segments_pruned_by_limit
            counts.pruned_by_value += stats.num_segments_pruned_by_value
            if stats.min_consuming_freshness_time_ms:
                counts.freshness_lag_ms = max(0, deadline.clock.now_ms() - stats.min_consuming_freshness_time_ms)
            return result, missing
        except Exception as error:
            counts.exceptions += 1
            counts.killed += isinstance(error, QueryError) and error.code in _KILLED
            raise
        finally:
            took_s = deadline.clock.monotonic_s() - begun_s
            counts.add_time(took_s)
            if took_s >= _LONG_S:
                give_back_surplus()

    def answer_prepared(
        self, table: str, query: PreparedLookup, filter_: Filter, segments: Sequence[str], clock: Clock
    ) -> Answer | None:
        """Answer a query from the named segments of a typed table; None to leave it to `execute`.

        It is None for tables whose rows replace each other, if a segment is missing or consuming, and if there is more to
        do than expected. Raises GamayError, with nothing counted.
        """
        begun_s, begun_ns = clock.monotonic_s(), clock.thread_cpu_ns()
        data = self._instance.table(table)
        if data is None or self._instance.upserts.upsert(table) is not None:
            return None
        loaded = data.contents().loaded
        found = [one.segment for name in segments if (one := loaded.get(name)) is not None]
        answer = query.answer(filter_, found) if len(found) == len(segments) else None
        if answer is None:
            return None
        answer.stats.offline_thread_cpu_time_ns = clock.thread_cpu_ns() - begun_ns
        counts = self._instance.counts.of(table)
        counts.queries += 1
        counts.add_time(clock.monotonic_s() - begun_s)
        return answer

    def scan(
        self, table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline
    ) -> tuple[Sequence[Segment], Sequence[str]]:
        """Return the named segments of a typed table for `gamay.query.execute.matching_rows`, and the names of missing ones.

        They are the same as for `execute`, and counted as one query. Raises QueryError.
        """
        counts = self._instance.counts.of(table)
        counts.queries += 1
        pinned = self._pinned(table, query, segments, deadline, is_part=True)
        counts.missing_segments += len(pinned.missing)
        return pinned.segments, pinned.missing

    def _execute(
        self, table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline, latest: Collection[str]
    ) -> tuple[ServerResult, Sequence[str]]:
        """Run a query on the named segments of a typed table; return the result and the missing segments.

        latest: see `gamay.broker.scatter.connection.ServerConnection`. Raises QueryError.
        """
        try:
            pinned = self._pinned(table, query, segments, deadline, latest=latest)
            host = self._instance.host_name
            found = execute(query, pinned.segments, self._pool, deadline, host_name=host, consuming=pinned.consuming)
        except CorruptSegmentError as error:
            raise self.damaged(table, error) from error
        return found, pinned.missing

    def damaged(self, table: str, error: CorruptSegmentError) -> QueryError:
        """Schedule a check of a table's segments, one of which is damaged, and return the error for the query."""
        self._instance.recheck(table)
        text = f"A segment of {table} is damaged, it is restored if possible: {error}"
        return QueryError(ErrorCode.QUERY_EXECUTION, text)

    def _pinned(
        self,
        table: str,
        query: BoundQuery,
        segments: Sequence[str],
        deadline: Deadline,
        *,
        latest: Collection[str] = (),
        is_part: bool = False,
    ) -> "_Pinned":
        """Return the named segments of a typed table, with the query's columns and the rows visible to it.

        All of them come from one snapshot of the table; consuming ones are frozen now. If rows
        replace each other, only valid ones are visible, unless the query has skipUpsert. is_part: whether other requests
        read this server's other segments at the same time, so that no segments are added to the named ones.
        """
        data = self._instance.table(table)
        if data is None:
            raise QueryError(ErrorCode.SERVER_TABLE_MISSING, f"Server {self._instance.id} does not host table {table}")
        keys = self._instance.upserts.upsert(table)
        contents, visible_of = (data.contents(), _every_row) if keys is None else _visible(keys, data, query)
        if keys is not None and not is_part:
            segments = _with_new(keys, contents, segments)
        found: list[Segment] = []
        docs: list[VisibleDocs | None] = []
        missing: list[str] = []
        consuming: dict[str, int] = {}
        followed = _followed(contents, latest) if keys is None else ()
        last: dict[str, Offset | None] = {}
        for name in segments:
            if (loaded := contents.loaded.get(name)) is not None:
                found.append(loaded.segment)
                docs.append(visible_of(loaded.docs))
                if name in followed:
                    last[name] = None
            elif (growing := contents.consuming.get(name)) is not None:
                docs.append(visible_of(growing.docs))
                view, consuming[name], end = growing.freeze_to_end()  # after the valid docs, so it has all of them
                found.append(view)
                if end is not None and name in followed:
                    last[name] = end
            else:
                missing.append(name)
        for name, end in last.items():
            for view, freshness_ms in frozen_after(contents, name, end):
                found.append(view)
                if freshness_ms is not None:
                    consuming[view.name] = freshness_ms
                    if name in consuming:  # it has all of its rows
                        consuming[name] = max(consuming[name], freshness_ms)
        if deadline.dimensions is None:  # with several servers in one process, the first one's: all have the whole tables
            deadline.dimensions = QueryDimensions(self._dimensions)
        complete = self._complete(table, query, found)
        if keys is not None:
            complete = [s if d is None else VisibleSegment(s, d) for s, d in zip(complete, docs, strict=True)]
        return _Pinned(complete, missing, consuming)

    def _complete(self, table: str, query: BoundQuery, segments: list[Segment]) -> list[Segment]:
        """Add the query's columns that are newer than a segment, with their default value."""
        if all(name in segment.column_names for segment in segments for name in query.fields):
            return segments
        layout = self._instance.layout_of(table)
        return segments if layout is None else [with_defaults(s, layout.schema, layout.config) for s in segments]


@dataclass(frozen=True, slots=True)
class _Pinned:
    """The segments of a query, kept open for its duration. missing: names of missing ones. consuming: freshness by name."""

    segments: Sequence[Segment]
    missing: Sequence[str]
    consuming: Mapping[str, int]


def _every_row(_: SegmentDocs | None) -> VisibleDocs | None:
    return None


def _followed(contents: Contents, latest: Collection[str]) -> Collection[str]:
    """Return the named segments that are followed by rows on this server."""
    if not latest or not (contents.following or contents.ahead):
        return ()
    return {name for name in latest if name in contents.following or name in contents.ahead}


def _visible(
    keys: "TableUpsert", data: TableData, query: BoundQuery
) -> tuple[Contents, Callable[[SegmentDocs | None], VisibleDocs | None]]:
    """Return the loaded segments, and a function that returns the valid docs of a segment, None for all."""
    options = query.query.options or {}
    if flag(options, "skipUpsert"):
        return data.contents(), _every_row
    freshness_ms = number(options, "upsertViewFreshnessMs", -1)
    wanted = ViewOptions(
        with_deleted=flag(options, "skipUpsertDelete"),
        skip_view=flag(options, "skipUpsertView"),
        freshness_ms=None if freshness_ms < 0 else freshness_ms,
    )
    contents, visible_of = keys.views.read(data.contents, Contents.all_docs, wanted)
    return contents, lambda docs: None if docs is None else visible_of(docs)


def _with_new(keys: "TableUpsert", contents: Contents, segments: Sequence[str]) -> Sequence[str]:
    """Add recent segments of the requested partitions, which the broker may not know yet.

    The rows that they have replaced are no longer valid, so without them keys would be missing.
    """
    added = keys.new_beside(segments)
    return [*segments, *(n for n in added if n in contents.loaded or n in contents.consuming)] if added else segments
