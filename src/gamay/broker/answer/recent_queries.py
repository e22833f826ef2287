"""The most recent queries, fast or slow; the log (`gamay.broker.answer.query_log`) keeps the slow ones for longer."""

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from gamay.cluster.access.principals import ANYONE, Principal
from gamay.model.table.table_name import raw_table_name
from gamay.query.answer.response import BrokerResponse
from gamay.query.stats import QueryStats

KEPT_MAX = 500
TEXT_MAX = 2000
CONSOLE = "gamay-console"
"""The option `applicationName` of the queries that the web console's own pages send."""


class RecentQuery(NamedTuple):  # much cheaper to create than a dataclass
    """A finished query. ended_ms: since 1970. user: name of its principal. tables: typed or raw names.

    application: the option `applicationName`, or empty.
    """

    request_id: str
    ended_ms: int
    sql: str
    tables: tuple[str, ...]
    user: str
    time_used_ms: int
    reduce_time_ms: int
    stats: QueryStats
    exceptions: tuple[int, ...]
    application: str

    def to_json(self) -> dict[str, Any]:
        """Return its REST representation, with the field names of a query's response."""
        stats = self.stats
        return {
            "requestId": self.request_id,
            "endedMs": self.ended_ms,
            "sql": self.sql,
            "tables": sorted({raw_table_name(table) for table in self.tables}),
            "user": self.user,
            "application": self.application,
            "timeUsedMs": self.time_used_ms,
            "brokerReduceTimeMs": self.reduce_time_ms,
            "cpuMs": round((stats.offline_thread_cpu_time_ns + stats.realtime_thread_cpu_time_ns) / 1e6, 3),
            "numDocsScanned": stats.num_docs_scanned,
            "totalDocs": stats.total_docs,
            "numEntriesScannedInFilter": stats.num_entries_scanned_in_filter,
            "numEntriesScannedPostFilter": stats.num_entries_scanned_post_filter,
            "numSegmentsQueried": stats.num_segments_queried,
            "numSegmentsProcessed": stats.num_segments_processed,
            "exceptions": list(self.exceptions),
        }


class RecentQueries:
    """The most recent queries of a broker, at most `KEPT_MAX`; thread-safe.

    The queries of the console's pages are kept apart, up to as many: a list of tables alone sends one per table.
    """

    def __init__(self) -> None:
        self._kept: deque[RecentQuery] = deque(maxlen=KEPT_MAX)
        self._of_console: deque[RecentQuery] = deque(maxlen=KEPT_MAX)

    def note(
        self,
        sql: str,
        tables: Iterable[str],
        principal: Principal,
        response: BrokerResponse,
        now_ms: int,
        application: str = "",
    ) -> None:
        """Record a finished query without its rows; its text is truncated to `TEXT_MAX` characters."""
        kept = self._of_console if application == CONSOLE else self._kept
        kept.append(
            RecentQuery(
                response.request_id,
                now_ms,
                sql if len(sql) <= TEXT_MAX else sql[:TEXT_MAX] + "…",
                tuple(tables),
                principal.name,
                response.time_used_ms,
                response.reduce_time_ms,
                response.stats,
                tuple([code for code, _ in response.exceptions]) if response.exceptions else (),
                application[:TEXT_MAX],
            )
        )

    def told(self, principal: Principal = ANYONE, table: str | None = None) -> list[dict[str, Any]]:
        """Return the queries that a principal may see, latest first: its own, or all if it sees all tables.

        table: raw or typed name, to return only queries that use it.
        """
        wanted = None if table is None else raw_table_name(table)
        kept = [*reversed(self._kept.copy()), *reversed(self._of_console.copy())]
        found = [
            query.to_json()
            for query in sorted(kept, key=lambda query: query.ended_ms, reverse=True)
            if principal.sees_all_tables or query.user == principal.name
        ]
        return found if wanted is None else [query for query in found if wanted in query["tables"]]
