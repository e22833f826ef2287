"""The deadline of a query and the other reasons to end it; checked between blocks of work."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError
from gamay.base.guard import NULL_GUARD, Holder
from gamay.kernels.jit import compiling_s
from gamay.query.limits.budget import Budget, BudgetHolder

if TYPE_CHECKING:
    from gamay.functions.dimension import DimensionTable


class Deadline:
    """A point in time on a clock's monotonic scale; checked between blocks of work, from any thread.

    budget: the memory that the query may hold; None is no limit. A deadline is the `gamay.base.guard.Guard` of its query.
    dimensions: returns a dimension table as the query sees it, by typed name; None if there are none.

    Work is not cut short for time that this process spent compiling kernels. The first query of a kind may have to wait for
    that, through no fault of its own.
    """

    __slots__ = ("_compiled_s", "budget", "clock", "dimensions", "expires_s", "timeout_ms")

    def __init__(self, clock: Clock, expires_s: float, timeout_ms: float, budget: Budget | None = None) -> None:
        self.clock = clock
        self.expires_s = expires_s
        self.timeout_ms = timeout_ms
        self.budget = budget
        self.dimensions: Callable[[str], DimensionTable] | None = None
        self._compiled_s = compiling_s()

    @classmethod
    def after_ms(cls, timeout_ms: float, clock: Clock, budget: Budget | None = None) -> "Deadline":
        """Return the deadline that many milliseconds from now."""
        return cls(clock, clock.monotonic_s() + timeout_ms / 1000, timeout_ms, budget)

    @property
    def remaining_ms(self) -> float:
        """Milliseconds left; negative once the deadline has passed."""
        return (self.expires_s - self.clock.monotonic_s()) * 1000

    def check(self) -> None:
        """Raise QueryError 250 if the deadline has passed, or 245 if the query was ended because others needed its
        memory, or because one of its threads exceeded its limit."""
        now_s = self.clock.monotonic_s()
        if now_s >= self.expires_s and now_s >= self.expires_s + compiling_s() - self._compiled_s:
            raise QueryError(
                ErrorCode.EXECUTION_TIMEOUT,
                f"The query ran longer than its {self.timeout_ms:.0f} ms; filter more, or set a larger timeoutMs",
            )
        if self.budget is not None:
            if self.budget.ended is not None:
                raise self.budget.killed()
            if self.budget.needed:
                raise self.budget.error(self.budget.needed)

    def uninterrupted(self, worst_s: float) -> None:
        """Do the same as `check`; the worst case is rare, so a query is not refused because it might end late."""
        self.check()

    def dimension_table(self, table: str) -> "DimensionTable":
        """Return a dimension table, the same for the whole query. Raises QueryError."""
        if self.dimensions is None:
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                "Function 'lookUp': values are looked up for the rows of a table, but FROM is missing",
            )
        return self.dimensions(table)

    def holder(self, what: str) -> Holder:
        """Return the holder that counts the memory of a part of the work."""
        return NULL_GUARD if self.budget is None else BudgetHolder(self.budget, what)

    @property
    def memory_limit(self) -> int | None:
        """The bytes that the query may hold; None is no limit."""
        return None if self.budget is None else self.budget.limit

    def reserve(self, what: str, num_bytes: int) -> None:
        """Reserve memory for a short time; raises QueryError 245 if the query may not have it."""
        if self.budget is not None:
            self.budget.reserve(what, num_bytes)

    def settle(self) -> None:
        """Release the reservation of this thread."""
        if self.budget is not None:
            self.budget.settle()

    def scanned(self, num_entries: int) -> None:
        """Count values that a scan read; raises like `check`, and QueryError 246 if the query read too much."""
        self.check()
        if self.budget is not None and self.budget.scan is not None:
            self.budget.progress.add(self.budget.scan, entries=num_entries)

    def matched(self, num_rows: int) -> None:
        """Count rows that a scan matched; raises QueryError 246 if the query read too much."""
        if self.budget is not None and self.budget.scan is not None:
            self.budget.progress.add(self.budget.scan, rows=num_rows)


class CancellableDeadline(Deadline):
    """A deadline that can also be cancelled, from any thread.

    on_cancel: called by the cancelling thread, so that nobody has to wait for the next check.
    """

    __slots__ = ("is_cancelled", "on_cancel")

    def __init__(self, clock: Clock, expires_s: float, timeout_ms: float, budget: Budget | None = None) -> None:
        super().__init__(clock, expires_s, timeout_ms, budget)
        self.is_cancelled = False
        self.on_cancel: Callable[[], object] | None = None

    def cancel(self) -> None:
        """Cancel the query."""
        self.is_cancelled = True
        wake = self.on_cancel
        if wake is not None:
            wake()

    def check(self) -> None:
        """Raise QueryError 503 if the query was cancelled; 250 and 245 like any deadline."""
        if self.is_cancelled:
            raise QueryError(ErrorCode.QUERY_CANCELLATION, "The query was cancelled")
        Deadline.check(self)
