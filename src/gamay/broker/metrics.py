"""The metrics of a broker."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from gamay.base.errors import ErrorCode
from gamay.base.metrics import Histogram, Measured, MetricKind
from gamay.broker.routes.routing import RoutingTables
from gamay.cluster.store.store_metrics import measure_store
from gamay.model.table.table_name import raw_table_name
from gamay.query.answer.response import BrokerResponse

_NO_TABLE = "none"
_REJECTED = frozenset({ErrorCode.SERVER_OUT_OF_CAPACITY.code, ErrorCode.QUERY_SCHEDULING_TIMEOUT.code})
_SEND_FAILED = ErrorCode.BROKER_REQUEST_SEND.code
_NO_ANSWER = ErrorCode.SERVER_NOT_RESPONDING.code
_TOO_MANY = ErrorCode.TOO_MANY_REQUESTS.code
_UNAVAILABLE = ErrorCode.SEGMENTS_UNAVAILABLE.code

# field that counts -> (name of the counter, help text)
_COUNTERS = {
    "queries": ("queries", "Queries"),
    "query_total_time_ms": ("queryTotalTimeMs", "Total milliseconds of queries"),
    "documents_scanned": ("documentsScanned", "Rows that matched the filters"),
    "entries_scanned_in_filter": ("entriesScannedInFilter", "Values that filters read"),
    "entries_scanned_post_filter": ("entriesScannedPostFilter", "Values read of matching rows"),
    "query_exceptions": ("queryExceptions", "Queries with an error or a partial answer"),
    "query_rejected_exceptions": ("queryRejectedExceptions", "Queries rejected for lack of capacity"),
    "query_quota_exceeded": ("queryQuotaExceeded", "Queries above a quota"),
    "request_send_exceptions": ("requestSendExceptions", "Queries that could not be sent to a server"),
    "response_fetch_exceptions": ("responseFetchExceptions", "Queries that a server did not answer"),
    "queries_hung_up": ("queriesHungUp", "Queries whose client disconnected before the answer"),
    "no_server_found_exceptions": ("noServerFoundExceptions", "Queries with segments that no server has"),
}


# likewise for the time of each phase
_PHASES = {
    "compilation_s": ("requestCompilation", "Milliseconds of compiling queries"),
    "authorization_s": ("authorization", "Milliseconds of checking access rights"),
    "routing_s": ("queryRouting", "Milliseconds of binding queries and choosing segments and servers"),
    "scatter_gather_s": ("scatterGather", "Milliseconds from sending requests to servers until the last result"),
    "reduce_s": ("reduce", "Milliseconds of merging results"),
    "execution_s": (
        "queryExecution",
        "Milliseconds from the text of a query to its answer; queries on the fast path have no other phase",
    ),
}


@dataclass(slots=True)
class Phases:
    """Durations of the phases of a query, or of all queries of a table; seconds."""

    compilation_s: float = 0.0
    authorization_s: float = 0.0
    routing_s: float = 0.0
    scatter_gather_s: float = 0.0
    reduce_s: float = 0.0
    execution_s: float = 0.0

    def add(self, other: "Phases") -> None:
        """Add the phases of a query, all but its total execution time."""
        self.compilation_s += other.compilation_s
        self.authorization_s += other.authorization_s
        self.routing_s += other.routing_s
        self.scatter_gather_s += other.scatter_gather_s
        self.reduce_s += other.reduce_s


@dataclass(slots=True)
class _Counts:
    """Counters of one table."""

    queries: int = 0
    query_total_time_ms: int = 0
    documents_scanned: int = 0
    entries_scanned_in_filter: int = 0
    entries_scanned_post_filter: int = 0
    query_exceptions: int = 0
    query_rejected_exceptions: int = 0
    query_quota_exceeded: int = 0
    request_send_exceptions: int = 0
    response_fetch_exceptions: int = 0
    no_server_found_exceptions: int = 0
    queries_hung_up: int = 0
    freshness_lag_ms: int | None = None
    phases: Phases = field(default_factory=Phases)
    took: Histogram = field(default_factory=Histogram)


class QueryCounters:
    """Counts queries by table. Concurrent updates may lose a count: the metrics are approximate."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """now_ms: wall-clock time."""
        self._now_ms = now_ms
        self._tables: dict[str, _Counts] = {}

    def count_hung_up(self, table: str | None) -> None:
        """Count a query whose client disconnected."""
        self._of(table).queries_hung_up += 1

    def _of(self, table: str | None) -> _Counts:
        counts = self._tables.get(table or _NO_TABLE)
        if counts is None:
            counts = self._tables[table or _NO_TABLE] = _Counts()
        return counts

    def count(self, table: str | None, response: BrokerResponse, execution_s: float, phases: Phases | None = None) -> None:
        """Count one answered query. table: typed name, None for a query without a table or with an unknown one."""
        counts = self._of(table)
        counts.phases.execution_s += execution_s
        if phases is not None:
            counts.phases.add(phases)
        counts.took.observe(execution_s)
        stats = response.stats
        counts.queries += 1
        counts.query_total_time_ms += response.time_used_ms
        counts.documents_scanned += stats.num_docs_scanned
        counts.entries_scanned_in_filter += stats.num_entries_scanned_in_filter
        counts.entries_scanned_post_filter += stats.num_entries_scanned_post_filter
        if stats.min_consuming_freshness_time_ms:
            counts.freshness_lag_ms = max(0, self._now_ms() - stats.min_consuming_freshness_time_ms)
        if response.exceptions:
            _count_errors(counts, {code for code, _ in response.exceptions})

    def keep(self, tables: Collection[str]) -> None:
        """Drop the counts of all tables but these (typed names): the others were dropped, or are served elsewhere."""
        for table in [*self._tables]:
            if table != _NO_TABLE and table not in tables:
                self._tables.pop(table, None)

    def measure(self) -> Iterator[Measured]:
        """Yield the counters, the durations of phases, and the latency histograms."""
        took: dict[str, Histogram] = {}
        by_name: dict[tuple[str, str], dict[str, float]] = {}
        for table, counts in list(self._tables.items()):
            raw = _NO_TABLE if table == _NO_TABLE else raw_table_name(table)
            values = [(shown, getattr(counts, name)) for name, shown in _COUNTERS.items()]
            values += [(shown, getattr(counts.phases, name) * 1000) for name, shown in _PHASES.items()]
            took[raw] = took.get(raw, Histogram()) + counts.took
            for shown, value in values:
                found = by_name.setdefault(shown, {})
                found[raw] = found.get(raw, 0) + value
        for (name, text), tables in by_name.items():
            for table, value in tables.items():
                yield Measured(f"pinot_broker_{name}", value, text, {"table": table}, MetricKind.COUNTER)
        for table, histogram in took.items():
            text = "Seconds from the text of a query to its answer"
            yield histogram.measured("pinot_broker_queryExecutionSeconds", text, {"table": table})
        for table, counts in list(self._tables.items()):
            if counts.freshness_lag_ms is not None:
                text = "Age of the newest consumed row that the last query could read, in milliseconds"
                yield Measured("pinot_broker_freshnessLagMs", counts.freshness_lag_ms, text, {"table": table})


def _count_errors(counts: _Counts, codes: set[int]) -> None:
    counts.query_exceptions += 1
    counts.query_rejected_exceptions += not codes.isdisjoint(_REJECTED)
    counts.query_quota_exceeded += _TOO_MANY in codes
    counts.request_send_exceptions += _SEND_FAILED in codes
    counts.response_fetch_exceptions += _NO_ANSWER in codes
    counts.no_server_found_exceptions += _UNAVAILABLE in codes


def measure_servers(down: Callable[[], frozenset[str]], num_running: Callable[[], int]) -> Iterator[Measured]:
    """Yield the number of unresponsive servers and of running queries."""
    yield Measured("pinot_broker_unhealthyServers", len(down()), "Servers that do not respond to this broker")
    yield Measured("pinot_broker_queriesRunning", num_running(), "Running queries")


def measure_routes(routing: RoutingTables, now_ms: Callable[[], int]) -> Iterator[Measured]:
    """Yield the metrics of the routes of all tables."""
    now = now_ms()
    yield from measure_store("broker", routing.store)
    for table, seconds in list(routing.update_s.items()):
        text = "Milliseconds of building routing tables"
        yield Measured("pinot_broker_routingTableUpdateTime", seconds * 1000, text, {"table": table}, MetricKind.COUNTER)
    every = routing.routes()
    realtime = {raw_table_name(route.table) for route in every if not route.is_offline}
    for route in every:
        labels = {"table": route.table}
        gone = sum(missed_ms <= now for _, missed_ms in route.unavailable)
        yield Measured("pinot_broker_unavailableSegments", gone, "Segments that no server can serve", labels)
        yield Measured("pinot_broker_routedSegments", len(route.segments), "Segments that queries may read", labels)
        fewest = 0 if gone else min(map(len, route.servers), default=route.config.replication)
        percent = 100 * fewest / max(1, route.config.replication)
        text = "Available replicas of the segment that has the fewest, in percent of the table's replication"
        yield Measured("pinot_broker_percentOfReplicas", percent, text, labels)
        boundary = route.boundary if route.is_offline and raw_table_name(route.table) in realtime else None
        if boundary is not None and boundary.difference_ms is not None:
            text = "Milliseconds between the time boundary of a hybrid table and the end time of its OFFLINE segments"
            yield Measured("pinot_broker_timeBoundaryDifference", boundary.difference_ms, text, labels)
