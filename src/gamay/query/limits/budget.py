"""What a query may hold in memory and read, and what all queries of a process may hold together.

Bytes are counted by those who hold them (`gamay.query.limits.memory_size`), between blocks of rows: what a block needs for a
moment comes on top. A query that passes its budget is ended; when all of them together pass the budget of the process, the
one that holds most is, and so it is when the process has nearly all the memory that it may use
(`gamay.query.limits.memory_watch`).
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
# What a process holds besides queries (262 MB without mapped files, of all roles in one, after its first queries), and the
# least share of the memory that queries get where that is nearly all.
_OWN_BYTES = 300 << 20
_LEAST_SHARE = 0.125
# The share of the memory from which on a query is to blame when there is hardly any left, and how long the others wait until
# it has given back what it holds.
_BLAMED_SHARE = 1 / 64
_WAIT_S = 0.5
# The share of the memory from which on a query is to blame when there is hardly any left, and how long the others wait until
# it has given back what it holds.

_ADVICE = {
    "distinct values": "filter more, group by or count fewer, or use an approximate function such as DISTINCTCOUNTHLL",
    "groups": "filter more, or group by fewer or coarser keys",
    "states of aggregates": "filter more, group by less, or use an approximate function such as DISTINCTCOUNTHLL",
    "distinct rows": "filter more, select fewer or coarser columns, or set a smaller LIMIT",
    "rows": "filter more, select fewer columns, or set a smaller LIMIT",
    "text of the answer": "select fewer columns, set a smaller LIMIT, or read the table from Spark or Arrow",
}


class ProcessBudget:
    """What the queries of a process may hold together. query_bytes: what one of them may, unless it is told otherwise.

    space: where they may put groups that do not fit. watch: knows when the process itself has too much, None is never. These
    are the defaults, for what the cluster's settings leave open.
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
        """Return half of the machine's memory for all queries, and a quarter for one; less where it is small.

        folder: see `SpillSpace`.
        """
        memory = usable_memory()
        return cls(*shares_of(memory), SpillSpace(folder), MemoryWatch(memory))

    def apply(self, settings: Mapping[str, str]) -> None:
        """Take over what the cluster's settings say, for queries that come from now on."""
        total, query, spilled = self._defaults
        self.total_bytes = _whole(settings.get(TOTAL_SETTING), total)
        self.query_bytes = min(_whole(settings.get(QUERY_SETTING), query), self.total_bytes)
        text = settings.get(SPILL_SETTING, "").strip()
        self.space.max_bytes = int(text) if text.isdigit() else spilled

    def relieve(self) -> "Budget | None":
        """Return the query that takes most, which is ended, where all together take too much; else None.

        For callers that have the lock.
        """
        why = self._why_too_much()
        if why is None:
            return None
        most = max(self.holding, key=lambda budget: budget.taken)
        most.end(why)
        return most

    def wait_for(self, ended: "Budget") -> bool:
        """Wait a moment until a query that was ended has given back its memory, or others have; return whether it is so."""
        with self.closed:
            return self.closed.wait_for(lambda: ended not in self.holding or self._why_too_much() is None, _WAIT_S)

    def count_unsent(self, num_bytes: int) -> None:
        """Count so many bytes more of answers that wait until they are read, which no query holds any more; or fewer."""
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
    """Return what all queries together, and what one of them, may hold of so many bytes that the process may use."""
    total = max(min(int(memory * _TOTAL_SHARE), memory - _OWN_BYTES), int(memory * _LEAST_SHARE))
    return total, min(int(memory * _QUERY_SHARE), total)


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """How much a query may read; None is no limit. is_enforced: whether passing one ends the query, or is only logged."""

    docs: int | None = None
    entries_in_filter: int | None = None
    entries_post_filter: int | None = None
    is_enforced: bool = True

    def check(self, stats: QueryStats) -> None:
        """Raise QueryError 246 (or log) when a query has read more than it may."""
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
    """What the scans of a query have read so far, in segments that may not be done yet.

    columns_read: how many values are read of each row that a scan lets through.
    """

    __slots__ = ("_lock", "columns_read", "entries", "rows")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.columns_read = 0
        self.entries = 0
        self.rows = 0

    def add(self, limits: ScanLimits, entries: int = 0, rows: int = 0) -> None:
        """Count more; raises QueryError 246 when that is more than the limits allow, where they are enforced."""
        with self._lock:
            self.entries += entries
            self.rows += rows
            found = QueryStats(
                num_docs_scanned=self.rows,
                num_entries_scanned_in_filter=self.entries,
                num_entries_scanned_post_filter=self.rows * self.columns_read,
            )
        if limits.is_enforced:  # what is only logged is logged once, after the segment
            limits.check(found)


class Budget:
    """What one query holds and may hold. process: shared with the other queries.

    scan: None where nothing limits what is read. progress: how much of that was. parts: counters of each execution.
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
        self.ended: str | None = None  # why, when others needed the memory that this query holds
        self.needed = 0  # what was too much, if something was: no part of the query goes on then
        self.by_part: dict[str, int] | None = None
        self.progress = ScanProgress()
        self.parts: list[QueryStats] = []
        self.reserved: dict[int, tuple[str, int]] = {}  # by thread, until it tells what it holds, or is done
        self._file: SpillFile | None = None

    @property
    def taken(self) -> int:
        """How many bytes the query holds, or is about to."""
        return self.held + sum(num_bytes for _, num_bytes in self.reserved.values())

    def spill_file(self) -> SpillFile:
        """Return the query's file for groups that do not fit its memory, which is there until `close`."""
        with self.process.lock:
            if self._file is None:
                self._file = SpillFile(self.process.space)
            return self._file

    def stats(self) -> QueryStats:
        """Return the counters of what was done so far, in this process."""
        found = QueryStats()
        for part in self.parts:
            found.add(part)
        # of the segment in which the query was ended, its counters know nothing yet
        found.num_docs_scanned = max(found.num_docs_scanned, self.progress.rows)
        found.num_entries_scanned_in_filter = max(found.num_entries_scanned_in_filter, self.progress.entries)
        return found

    def change(self, what: str, num_bytes: int) -> None:
        """Add to what a part holds (or take away); raises QueryError 245 when it is too much now."""
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
        """Raise QueryError 245 when so many bytes more, beside what other threads need for a moment, are too much."""
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
        """Take what this thread reserved as no longer needed."""
        if self.reserved:
            with self.process.lock:
                self._settle()

    def end(self, why: str) -> None:
        """Let the query end at its next step, for the others need what it holds."""
        self.ended = self.ended or why

    def close(self) -> None:
        """Give back all that the query held, in memory and on disk."""
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
        """Return what is held, by part; from now on the query is one of those that hold something."""
        if self.by_part is None:
            self.by_part = {}
            self.process.holding.add(self)
        return self.by_part

    def _settle(self) -> None:
        """Take what this thread reserved as no longer needed, unless the query ends for it, so that its errors can tell."""
        if self.reserved and not self.needed:
            _, num_bytes = self.reserved.pop(threading.get_ident(), ("", 0))
            self.process.reserved -= num_bytes

    def _yield_to(self, ended: "Budget | None") -> None:
        """Wait for the memory of a query that was ended; raises QueryError 245 when it is this one, or waits in vain."""
        if ended is not None and self.ended is None and not self.process.wait_for(ended):
            self.end(ended.ended or "")
        if self.ended is not None:
            raise self.killed()

    def error(self, needed: int) -> QueryError:
        """Return the error of a query that would hold so many bytes."""
        return QueryError(
            ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
            f"The query needs more memory than it may have: {megabytes(needed)} of {megabytes(self.limit)} "
            f"({MEMORY_OPTION}); {self._most()}, or allow more with {MEMORY_OPTION}, or {ON_SPARK}",
        )

    def killed(self) -> QueryError:
        """Return the error of a query that was ended because all of them together took too much."""
        return QueryError(
            ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
            f"{self.ended}, and this one held {megabytes(self.taken)}; {self._most()}, or ask again later",
        )

    def _most(self) -> str:
        """Return what holds most, and what would help."""
        parts = dict(self.by_part or {"rows": 0})
        for what, num_bytes in self.reserved.values():
            parts[what] = parts.get(what, 0) + num_bytes
        what = max(parts, key=lambda part: parts[part])
        return f"{megabytes(parts[what])} of it are {what}: {_ADVICE.get(what, 'filter more, or select less')}"


def used(budget: Budget | None) -> dict[str, int]:
    """Return what a live query holds, and the processor time of those of its parts that are done."""
    stats = QueryStats() if budget is None else budget.stats()
    return {
        "cpuTimeNs": stats.offline_thread_cpu_time_ns + stats.realtime_thread_cpu_time_ns,
        "allocatedBytes": 0 if budget is None else budget.taken,
    }


class BudgetHolder:
    """What one part of a query's work tells its memory to."""

    __slots__ = ("_budget", "_held", "_what")

    def __init__(self, budget: Budget, what: str) -> None:
        self._budget = budget
        self._what = what
        self._held = 0

    def hold(self, num_bytes: int) -> None:
        """Tell that this part holds so many bytes now; raises QueryError 245 when that is too much."""
        change, self._held = num_bytes - self._held, num_bytes
        if change:
            self._budget.change(self._what, change)

    def release(self) -> None:
        """Tell that this part holds nothing any more."""
        self.hold(0)


def megabytes(num_bytes: int) -> str:
    """Return a size as people read it."""
    return f"{num_bytes / 1e6:,.0f} MB" if num_bytes >= 10_000_000 else f"{num_bytes:,} bytes"


def _whole(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.strip().isdigit() and int(text) > 0 else default
