"""The queries that run now, so that they can be listed and cancelled."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gamay.query.deadline import CancellableDeadline


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
