"""The running queries, for listing and cancelling."""

from types import TracebackType
from typing import Any, Protocol

from gamay.cluster.access.principals import ANYONE, Principal
from gamay.query.limits.budget import Budget, used


class Cancellable(Protocol):
    """The means of cancelling a query."""

    def cancel(self) -> None:
        """Cancel the query."""
        ...

    @property
    def budget(self) -> Budget | None:
        """Memory budget of the query, or None."""
        ...


class RunningQuery(Protocol):
    """One running query. number: of its request; client_id: the client's own id for it; principal: its sender."""

    @property
    def number(self) -> int: ...

    @property
    def client_id(self) -> str | None: ...

    @property
    def sql(self) -> str: ...

    @property
    def deadline(self) -> Cancellable: ...

    @property
    def principal(self) -> Principal: ...


class RunningQueries:
    """The running queries, by request number. The fast path adds and removes its queries directly."""

    def __init__(self) -> None:
        self.queries: dict[int, RunningQuery] = {}

    def listed(self, query: RunningQuery) -> "_Listing":
        """List a query while the body of `with` runs; no effect if it is listed already."""
        return _Listing(self.queries, query)

    def __len__(self) -> int:
        return len(self.queries)

    def snapshot(self, principal: Principal = ANYONE) -> dict[str, str]:
        """Return request id -> SQL of the queries that a principal may see: its own, or all if it sees all tables."""
        return {str(query.number): query.sql for query in self._known_to(principal)}

    def usage(self, principal: Principal = ANYONE) -> list[dict[str, Any]]:
        """Return the memory held and processor time used so far by the queries that a principal may see.

        The time is that of finished parts.
        """
        return [{"queryId": str(query.number), **used(query.deadline.budget)} for query in self._known_to(principal)]

    def cancel(self, query_id: str, principal: Principal = ANYONE, *, by_client_id: bool = False) -> bool:
        """Cancel a query that a principal may see; return whether there was one."""
        found = False
        for query in self._known_to(principal):
            if (query.client_id if by_client_id else str(query.number)) == query_id:
                query.deadline.cancel()
                found = True
        return found

    def _known_to(self, principal: Principal) -> list[RunningQuery]:
        queries = list(self.queries.values())
        return [query for query in queries if principal.sees_all_tables or query.principal.name == principal.name]


class _Listing:
    """Context manager; a generator would add about 3 % to a small query."""

    __slots__ = ("_added", "_queries", "_query")

    def __init__(self, queries: dict[int, RunningQuery], query: RunningQuery) -> None:
        self._queries = queries
        self._query = query
        self._added = False

    def __enter__(self) -> None:
        number = self._query.number
        if number not in self._queries:
            self._queries[number] = self._query
            self._added = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._added:
            del self._queries[self._query.number]
