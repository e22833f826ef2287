"""Query log, one line per query: all queries if the cluster's settings ask for it, else the slow ones.

    slow requestId=7 table=trips timeMs=1530 docs=40/100 entries=100/40 segments=2/1/1 pruned=0/1 servers=1/1 \
cpuMs=1480 reduceMs=2 exceptions=0 client=- query="SELECT …"

docs: scanned/total. entries: read in the filter/after it. segments: queried/processed/matched. pruned: by the broker/by
servers.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from gamay.base.logs import about
from gamay.broker.admit.quota import TokenBucket, rate_of
from gamay.query.answer.response import BrokerResponse

LOGGER = "gamay.queries"
RATE_SETTING = "pinot.broker.query.log.maxRatePerSecond"
LENGTH_SETTING = "pinot.broker.query.log.length"
SLOW_SETTING = "gamay.broker.query.log.slowMs"
SLOW_QUERY_MS = 1000  # default threshold of the slow log
_SLOW_LINES_PER_S = 20.0
_LENGTH_MAX = 10_000
_NEVER_MS = 1 << 62
_log = logging.getLogger(LOGGER)


class QueryLog:
    """Writes the log lines, rate-limited. slow_ms: threshold of slow queries; None logs none."""

    def __init__(self, slow_ms: int | None) -> None:
        self._default_slow_ms = _NEVER_MS if slow_ms is None else slow_ms
        # read for each query, so that queries that are not logged cost one comparison
        self.from_ms = self._default_slow_ms
        self._slow_ms = self._default_slow_ms
        self._length = _LENGTH_MAX
        self._every: TokenBucket | None = None
        self._slow = TokenBucket(_SLOW_LINES_PER_S, 0.0)
        self._dropped = 0

    def apply(self, settings: Mapping[str, str]) -> None:
        """Apply the cluster's settings."""
        rate = rate_of(settings.get(RATE_SETTING))
        self._every = None if rate is None else TokenBucket(rate, 0.0)
        _log.setLevel(logging.NOTSET if rate is None else logging.INFO)
        self._slow_ms = _whole(settings.get(SLOW_SETTING), self._default_slow_ms)
        self._length = _whole(settings.get(LENGTH_SETTING), _LENGTH_MAX)
        self.from_ms = 0 if self._every is not None else self._slow_ms

    def write(self, sql: str, table: str | None, response: BrokerResponse, now_s: float) -> None:
        """Write the line of a query, if it is to be logged and the rate allows."""
        is_slow = response.time_used_ms >= self._slow_ms
        bucket = self._slow if is_slow else self._every
        if bucket is None:
            return
        if not bucket.take(now_s):
            self._dropped += 1
            return
        dropped, self._dropped = self._dropped, 0
        text = line(sql, table, response, self._length) + (f" linesDropped={dropped}" if dropped else "")
        level, kind = (logging.WARNING, "slow") if is_slow else (logging.INFO, "query")
        _log.log(level, "%s %s", kind, text, extra=about(response.request_id, table))


def line(sql: str, table: str | None, response: BrokerResponse, length: int = _LENGTH_MAX) -> str:
    """Format the log line of a query; long texts are truncated."""
    stats = response.stats
    cpu_ns = stats.offline_thread_cpu_time_ns + stats.realtime_thread_cpu_time_ns
    fields: dict[str, Any] = {
        "requestId": response.request_id,
        "table": table or "-",
        "timeMs": response.time_used_ms,
        "docs": f"{stats.num_docs_scanned}/{stats.total_docs}",
        "entries": f"{stats.num_entries_scanned_in_filter}/{stats.num_entries_scanned_post_filter}",
        "segments": f"{stats.num_segments_queried}/{stats.num_segments_processed}/{stats.num_segments_matched}",
        "pruned": f"{stats.num_segments_pruned_by_broker}/{stats.num_segments_pruned_by_server}",
        "servers": f"{stats.num_servers_responded}/{stats.num_servers_queried}",
        "cpuMs": round(cpu_ns / 1e6, 1),
        "reduceMs": response.reduce_time_ms,
        "exceptions": ",".join(str(code) for code, _ in response.exceptions) or "0",
        "client": json.dumps(response.client_request_id) if response.client_request_id else "-",
        "query": json.dumps(sql if len(sql) <= length else sql[:length] + "…", ensure_ascii=False),
    }
    return " ".join(f"{name}={value}" for name, value in fields.items())


def _whole(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.strip().isdigit() else default
