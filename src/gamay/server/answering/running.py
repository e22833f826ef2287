"""What a server is asked by others than the broker of its own process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gamay.query.limits.budget import Budget, used


class RunningQueries:
    """Queries of one server that wait or run, by whichever port they came; any thread may use it."""

    def __init__(self) -> None:
        self._entries: set[tuple[str, Callable[[], object], Budget | None]] = set()

    @contextmanager
    def listed(self, query_id: str, cancel: Callable[[], object], budget: Budget | None) -> Iterator[None]:
        """List a query while the block lasts. cancel: ends it, called by any thread. budget: what it holds."""
        entry = query_id, cancel, budget
        self._entries.add(entry)
        try:
            yield
        finally:
            self._entries.discard(entry)

    def ids(self) -> list[str]:
        """Return the ids of all, as those who asked call them; but for those that take no time."""
        return sorted({query_id for query_id, _, _ in list(self._entries)})

    def usage(self) -> list[dict[str, Any]]:
        """Return what each of them holds, and the processor time of its parts that are done."""
        return [{"queryId": query_id, **used(budget)} for query_id, _, budget in list(self._entries)]

    def cancel(self, query_id: str) -> bool:
        """End a query's work here, which is told to who asked; returns whether there is any."""
        found = [cancel for known, cancel, _ in list(self._entries) if known == query_id]
        for cancel in found:
            cancel()
        return bool(found)
