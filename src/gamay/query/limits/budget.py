"""Budgets: the memory and the reads of a query, and the memory of all queries of a process.

Holders count their bytes (`gamay.query.limits.memory_size`) between blocks of rows; temporary memory of a block is not
included. A query that exceeds its budget is ended. If all queries together exceed the budget of the process, or if the
process is close to its memory limit (`gamay.query.limits.memory_watch`), the query that holds the most is ended.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.machine import usable_memory
from gamay.query.limits.memory_watch import MemoryWatch
from gamay.query.limits.spill_files import SPILL_SETTING, SpillFile, SpillSpace
from gamay.query.stats import QueryStats

_log = logging.getLogger(__name__)

ON_SPARK = "run it on Spark with gamay.spark.sql"
MEMORY_OPTION = "maxQueryMemoryBytes"
QUERY_SETTING = "gamay.query.memory.max.bytes"
TOTAL_SETTING = "gamay.query.memory.total.bytes"
# Shares of the machine's memory: of all queries together, and of one of them.
_TOTAL_SHARE = 0.5
_QUERY_SHARE = 0.25
# Memory that a process needs besides queries (262 MB without mapped files, of all roles in one, after its first queries),
# and the minimum share for queries if that is nearly all of the memory.
_OWN_BYTES = 300 << 20
_LEAST_SHARE = 0.125
# The share of the memory from which a query is held responsible if hardly any is left, and how long others wait for it to
# release its memory.
_BLAMED_SHARE = 1 / 64
_WAIT_S = 0.5

_ADVICE = {
    "distinct values": "filter more, group by or count fewer, or use an approximate function such as DISTINCTCOUNTHLL",
    "groups": "filter more, or group by fewer or coarser keys",
    "states of aggregates": "filter more, group by less, or use an approximate function such as DISTINCTCOUNTHLL",
    "distinct rows": "filter more, select fewer or coarser columns, or set a smaller LIMIT",
    "rows": "filter more, select fewer columns, or set a smaller LIMIT",
    "text of the answer": "select fewer columns, set a smaller LIMIT, or read the table from Spark or Arrow",
}


class ProcessBudget:
    """The memory budget of all queries of a process. query_bytes: the default limit of one query.

    space: for groups that do not fit in memory. watch: detects when the process is short of memory; None disables that.
    These are defaults, used for settings that the cluster does not set.
    """

    def __init__(
        self, total_bytes: int, query_bytes: int, space: SpillSpace | None = None, watch: MemoryWatch | None = None
    ) -> None:
        self.total_bytes = total_bytes
        self.query_bytes = query_bytes
        self.space = space or SpillSpace()
        self._defaults = total_bytes, query_bytes, self.space.max_bytes
        self._watch = watch
        self.held = 0
        self.reserved = 0
        self.lock = threading.Lock()
        self.closed = threading.Condition(self.lock)
        self.holding: set[Budget] = set()

    @classmethod
    def of_machine(cls, folder: Path | None = None) -> "ProcessBudget":
        """Return a budget of half of the machine's memory for all queries, and a quarter for one; less on a small machine.

        folder: see `SpillSpace`.
        """
        memory = usable_memory()
        return cls(*shares_of(memory), SpillSpace(folder), MemoryWatch(memory))

    def apply(self, settings: Mapping[str, str]) -> None:
        """Apply the cluster's settings to future queries."""
        total, query, spilled = self._defaults
        self.total_bytes = _whole(settings.get(TOTAL_SETTING), total)
        self.query_bytes = min(_whole(settings.get(QUERY_SETTING), query), self.total_bytes)
        text = settings.get(SPILL_SETTING, "").strip()
        self.space.max_bytes = int(text) if text.isdigit() else spilled

    def relieve(self) -> "Budget | None":
        """End the query that takes the most memory, if all together take too much, and return it; else None.

        The caller must hold the lock.
        """
        why = self._why_too_much()
        if why is None:
            return None
        most = max(self.holding, key=lambda budget: budget.taken)
        most.end(why)
        return most

    def wait_for(self, ended: "Budget") -> bool:
        """Wait briefly until an ended query, or others, released enough memory; return whether that happened."""
        with self.closed:
            return self.closed.wait_for(lambda: ended not in self.holding or self._why_too_much() is None, _WAIT_S)

    def count_unsent(self, num_bytes: int) -> None:
        """Add to the bytes of answers that wait to be read, which no query holds any more; negative to subtract."""
        with self.closed:
            self.held += num_bytes
            if num_bytes < 0:
                self.closed.notify_all()

    def _why_too_much(self) -> str | None:
        if self.held + self.reserved > self.total_bytes:
            return (
                f"The queries that run now need more memory than the process may have ({megabytes(self.total_bytes)}, "
                f"{TOTAL_SETTING})"
            )
        watch = self._watch
        if watch is None or not watch.is_short:
            return None
        if max([budget.taken for budget in self.holding], default=0) < watch.usable * _BLAMED_SHARE:
            return None
        taken, usable = megabytes(watch.taken), megabytes(watch.usable)
        return f"The process has nearly all the memory that it may use ({taken} of {usable})"


def shares_of(memory: int) -> tuple[int, int]:
    """Return the budgets of all queries together, and of one of them, given the memory that the process may use."""
    total = max(min(int(memory * _TOTAL_SHARE), memory - _OWN_BYTES), int(memory * _LEAST_SHARE))
    return total, min(int(memory * _QUERY_SHARE), total)


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """Limits on the reads of a query; None is no limit. is_enforced: whether exceeding one ends the query, or is only
    logged."""

    docs: int | None = None
    entries_in_filter: int | None = None
    entries_post_filter: int | None = None
    is_enforced: bool = True

    def check(self, stats: QueryStats) -> None:
        """Raise QueryError 246 (or log) if a query has read more than a limit allows."""
        read = (
            ("maxDocsScanned", self.docs, stats.num_docs_scanned, "rows"),
            ("maxEntriesScannedInFilter", self.entries_in_filter, stats.num_entries_scanned_in_filter, "values in WHERE"),
            (
                "maxEntriesScannedPostFilter",
                self.entries_post_filter,
                stats.num_entries_scanned_post_filter,
                "values after WHERE",
            ),
        )
        for name, limit, count, what in read:
            if limit is None or count <= limit:
                continue
            text = f"The query read {count:,} {what}, more than the {limit:,} that {name} allows"
            if self.is_enforced:
                raise QueryError(
                    ErrorCode.QUERY_SCAN_LIMIT_EXCEEDED, f"{text}; filter more, or on columns with an index, or {ON_SPARK}"
                )
            _log.warning("%s; scanKillingMode is logOnly", text)


class ScanProgress:
    """The reads of a query's scans so far, including segments in progress.

    columns_read: the number of values read for each row that a scan matches.
    """

    __slots__ = ("_lock", "columns_read", "entries", "rows")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.columns_read = 0
        self.entries = 0
        self.rows = 0

    def add(self, limits: ScanLimits, entries: int = 0, rows: int = 0) -> None:
        """Add to the counts; raises QueryError 246 if that exceeds enforced limits."""
        with self._lock:
            self.entries += entries
            self.rows += rows
            found = QueryStats(
                num_docs_scanned=self.rows,
                num_entries_scanned_in_filter=self.entries,
                num_entries_scanned_post_filter=self.rows * self.columns_read,
            )
        if limits.is_enforced:  # limits that only log do so once, after the segment
            limits.check(found)


class Budget:
    """The memory and reads of one query, and their limits. process: shared with the other queries.

    scan: None without limits on reads. progress: the reads so far. parts: counters of each execution.
    """

    __slots__ = (
        "_file",
        "by_part",
        "ended",
        "held",
        "limit",
        "needed",
        "parts",
        "peak",
        "process",
        "progress",
        "reserved",
        "scan",
    )

    def __init__(
        self,
        limit: int,
        process: ProcessBudget,
        scan: ScanLimits | None = None,
    ) -> None:
        self.limit = limit if limit < process.total_bytes else process.total_bytes
        self.process = process
        self.scan = scan
        self.held = 0
        self.peak = 0
        self.ended: str | None = None  # the reason, if others needed the memory that this query holds
        self.needed = 0  # the bytes that exceeded the limit, if any: then no part of the query continues
        self.by_part: dict[str, int] | None = None
        self.progress = ScanProgress()
        self.parts: list[QueryStats] = []
        self.reserved: dict[int, tuple[str, int]] = {}  # by thread, until it reports what it holds, or ends
        self._file: SpillFile | None = None

    @property
    def taken(self) -> int:
        """The bytes that the query holds or has reserved."""
        return self.held + sum(num_bytes for _, num_bytes in self.reserved.values())

    def spill_file(self) -> SpillFile:
        """Return the query's file for groups that do not fit in memory; it exists until `close`."""
        with self.process.lock:
            if self._file is None:
                self._file = SpillFile(self.process.space)
            return self._file

    def stats(self) -> QueryStats:
        """Return the counters of the work done so far, in this process."""
        found = QueryStats()
        for part in self.parts:
            found.add(part)
        # they do not include the segment in which the query was ended
        found.num_docs_scanned = max(found.num_docs_scanned, self.progress.rows)
        found.num_entries_scanned_in_filter = max(found.num_entries_scanned_in_filter, self.progress.entries)
        return found

    def change(self, what: str, num_bytes: int) -> None:
        """Add to the bytes of a part (or subtract); raises QueryError 245 if the total exceeds the limit."""
        process = self.process
        with process.lock:
            by_part = self._parts()
            by_part[what] = by_part.get(what, 0) + num_bytes
            self.held += num_bytes
            process.held += num_bytes
            self.peak = max(self.peak, self.held)
            self._settle()
            if num_bytes <= 0:
                return
            if self.held > self.limit or self.needed:
                self.needed = max(self.needed, self.held)
                raise self.error(self.needed)
            ended = process.relieve()
        self._yield_to(ended)

    def reserve(self, what: str, num_bytes: int) -> None:
        """Reserve temporary memory for this thread; raises QueryError 245 if it exceeds the limit, with that of other
        threads."""
        process = self.process
        with process.lock:
            if not self.needed:
                self._settle()
                self._parts()
                self.reserved[threading.get_ident()] = what, num_bytes
                process.reserved += num_bytes
                if self.taken > self.limit:
                    self.needed = self.taken
            if self.needed:
                raise self.error(self.needed)
            ended = process.relieve()
        self._yield_to(ended)

    def settle(self) -> None:
        """Release the reservation of this thread."""
        if self.reserved:
            with self.process.lock:
                self._settle()

    def end(self, why: str) -> None:
        """End the query at its next step, because others need its memory."""
        self.ended = self.ended or why

    def close(self) -> None:
        """Release all that the query held, in memory and on disk."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        if self.by_part is None:
            return
        with self.process.lock:
            self.process.reserved -= self.taken - self.held
            self.process.held -= self.held
            self.process.holding.discard(self)
            self.held, self.by_part = 0, None
            self.reserved.clear()
            self.process.closed.notify_all()

    def _parts(self) -> dict[str, int]:
        """Return the bytes held by each part; registers the query as one that holds memory."""
        if self.by_part is None:
            self.by_part = {}
            self.process.holding.add(self)
        return self.by_part

    def _settle(self) -> None:
        """Release the reservation of this thread, unless it ended the query, so that errors can mention it."""
        if self.reserved and not self.needed:
            _, num_bytes = self.reserved.pop(threading.get_ident(), ("", 0))
            self.process.reserved -= num_bytes

    def _yield_to(self, ended: "Budget | None") -> None:
        """Wait for the memory of an ended query; raises QueryError 245 if it is this one, or if the wait fails."""
        if ended is not None and self.ended is None and not self.process.wait_for(ended):
            self.end(ended.ended or "")
        if self.ended is not None:
            raise self.killed()

    def error(self, needed: int) -> QueryError:
        """Return the error of a query that needs this many bytes."""
        return QueryError(
            ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
            f"The query needs more memory than it may have: {megabytes(needed)} of {megabytes(self.limit)} "
            f"({MEMORY_OPTION}); {self._most()}, or allow more with {MEMORY_OPTION}, or {ON_SPARK}",
        )

    def killed(self) -> QueryError:
        """Return the error of a query that was ended because all queries together took too much."""
        return QueryError(
            ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
            f"{self.ended}, and this one held {megabytes(self.taken)}; {self._most()}, or retry later",
        )

    def _most(self) -> str:
        """Return which part holds the most, and advice."""
        parts = dict(self.by_part or {"rows": 0})
        for what, num_bytes in self.reserved.values():
            parts[what] = parts.get(what, 0) + num_bytes
        what = max(parts, key=lambda part: parts[part])
        return f"{megabytes(parts[what])} of it are {what}: {_ADVICE.get(what, 'filter more, or select less')}"


def used(budget: Budget | None) -> dict[str, int]:
    """Return the memory of a running query, and the processor time of its finished parts."""
    stats = QueryStats() if budget is None else budget.stats()
    return {
        "cpuTimeNs": stats.offline_thread_cpu_time_ns + stats.realtime_thread_cpu_time_ns,
        "allocatedBytes": 0 if budget is None else budget.taken,
    }


class BudgetHolder:
    """The counter of the memory held by one part of a query's work."""

    __slots__ = ("_budget", "_held", "_what")

    def __init__(self, budget: Budget, what: str) -> None:
        self._budget = budget
        self._what = what
        self._held = 0

    def hold(self, num_bytes: int) -> None:
        """Set the bytes that this part holds; raises QueryError 245 if that exceeds the limit."""
        change, self._held = num_bytes - self._held, num_bytes
        if change:
            self._budget.change(self._what, change)

    def release(self) -> None:
        """Set the bytes of this part to 0."""
        self.hold(0)


def megabytes(num_bytes: int) -> str:
    """Return a size in readable form."""
    return f"{num_bytes / 1e6:,.0f} MB" if num_bytes >= 10_000_000 else f"{num_bytes:,} bytes"


def _whole(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.strip().isdigit() and int(text) > 0 else default
