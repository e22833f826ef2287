"""The queries that run now, so that they can be listed and cancelled."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gamay.base.errors import ErrorCode, QueryError
from gamay.query.deadline import Deadline


@dataclass(frozen=True)
class CancellableDeadline(Deadline):
    """A deadline that can also be brought about by a cancellation."""

    cancelled: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise QueryError 503 when the query was cancelled, 250 when its time is over."""
        if self.cancelled.is_set():
            raise QueryError(ErrorCode.QUERY_CANCELLATION, "The query was cancelled")
        Deadline.check(self)


@dataclass(frozen=True, slots=True)
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
        """List a query while the body runs."""
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
                query.deadline.cancelled.set()
                found = True
        return found
