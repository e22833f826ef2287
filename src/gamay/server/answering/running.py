"""Registry of the queries that a server executes for other processes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gamay.query.limits.budget import Budget, used


class RunningQueries:
    """The waiting and running queries of one server, from all ports. Thread-safe."""

    def __init__(self) -> None:
        self._entries: set[tuple[str, Callable[[], object], Budget | None]] = set()

    @contextmanager
    def listed(self, query_id: str, cancel: Callable[[], object], budget: Budget | None) -> Iterator[None]:
        """Register a query for the duration of the block. cancel: ends it, called from any thread. budget: its memory."""
        entry = query_id, cancel, budget
        self._entries.add(entry)
        try:
            yield
        finally:
            self._entries.discard(entry)

    def ids(self) -> list[str]:
        """Return the clients' ids of all queries, except very short ones."""
        return sorted({query_id for query_id, _, _ in list(self._entries)})

    def usage(self) -> list[dict[str, Any]]:
        """Return the memory of each query, and the processor time of its finished parts."""
        return [{"queryId": query_id, **used(budget)} for query_id, _, budget in list(self._entries)]

    def cancel(self, query_id: str) -> bool:
        """Cancel a query on this server, which its client is informed of; return whether it was found."""
        found = [cancel for known, cancel, _ in list(self._entries) if known == query_id]
        for cancel in found:
            cancel()
        return bool(found)
