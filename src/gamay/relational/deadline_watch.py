"""Interrupts what DuckDB runs for queries whose time is over."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from gamay.base.errors import QueryError

_LOOKS_S = 0.02
# A thread that has nothing to watch stays for a while: to start one takes longer than a small join.
_STAYS = 100


class Deadline(Protocol):
    """What ends a query."""

    def check(self) -> None:
        """Raise QueryError when the time is over, or the query was cancelled."""
        ...


class Interruptible(Protocol):
    """A connection of DuckDB."""

    def interrupt(self) -> None:
        """End what it runs, if it runs something."""
        ...


class DeadlineWatch:
    """Watch over the connections that queries use; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[object, tuple[Interruptible, Deadline]] = {}
        self._has_thread = False

    @contextmanager
    def over(self, connection: Interruptible, deadline: Deadline) -> Iterator[None]:
        """Interrupt what the connection runs meanwhile once the deadline has passed; not after the end of the block."""
        key = object()
        with self._lock:
            self._watched[key] = connection, deadline
            starts, self._has_thread = not self._has_thread, True
        if starts:
            threading.Thread(target=self._look, name="gamay-relational-deadline", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                del self._watched[key]

    def _look(self) -> None:
        pause, idle = threading.Event(), 0
        while True:
            pause.wait(_LOOKS_S)
            with self._lock:
                for connection, deadline in self._watched.values():
                    try:
                        deadline.check()
                    except QueryError:
                        connection.interrupt()  # again and again: between two statements it comes to nothing
                idle = 0 if self._watched else idle + 1
                if idle > _STAYS:
                    self._has_thread = False
                    return
