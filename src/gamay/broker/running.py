"""The queries that run now, so that they can be listed and cancelled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError
from gamay.query.budget import Budget
from gamay.query.deadline import Deadline


class CancellableDeadline(Deadline):
    """A deadline that can also be brought about by a cancellation, from any thread.

    on_cancel: called by the thread that cancels, so that nobody has to wait for the next check.
    """

    __slots__ = ("is_cancelled", "on_cancel")

    def __init__(self, clock: Clock, expires_s: float, timeout_ms: float, budget: Budget | None = None) -> None:
        super().__init__(clock, expires_s, timeout_ms, budget)
        self.is_cancelled = False
        self.on_cancel: Callable[[], object] | None = None

    def cancel(self) -> None:
        """Let the query end."""
        self.is_cancelled = True
        wake = self.on_cancel
        if wake is not None:
            wake()

    def check(self) -> None:
        """Raise QueryError 503 when the query was cancelled; 250 and 245 as any deadline."""
        if self.is_cancelled:
            raise QueryError(ErrorCode.QUERY_CANCELLATION, "The query was cancelled")
        Deadline.check(self)


@dataclass(slots=True)
class RunningQuery:
    """One query under way."""

    request_id: str
    client_id: str | None
    sql: str
    deadline: CancellableDeadline


class RunningQueries:
    """The queries under way, by request id."""

    def __init__(self) -> None:
        self._queries: dict[str, RunningQuery] = {}

    @contextmanager
    def listed(self, query: RunningQuery) -> Iterator[None]:
        """List a query while the body runs; one that is listed already stays so."""
        if query.request_id in self._queries:
            yield
            return
        self._queries[query.request_id] = query
        try:
            yield
        finally:
            del self._queries[query.request_id]

    def snapshot(self) -> dict[str, str]:
        """Return request id -> SQL."""
        return {query.request_id: query.sql for query in list(self._queries.values())}

    def cancel(self, query_id: str, *, by_client_id: bool = False) -> bool:
        """Cancel a query; return whether there was one."""
        found = False
        for query in list(self._queries.values()):
            if (query.client_id if by_client_id else query.request_id) == query_id:
                query.deadline.cancel()
                found = True
        return found
