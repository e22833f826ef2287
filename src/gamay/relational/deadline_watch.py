"""Interrupts DuckDB when a query is cancelled or past its deadline."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from gamay.base.errors import QueryError

_LOOKS_S = 0.02
# An idle thread lingers for a while: starting one takes longer than a small join.
_STAYS = 100


class Deadline(Protocol):
    """The deadline of a query."""

    def check(self) -> None:
        """Raise QueryError when the deadline has passed, or the query was cancelled."""
        ...


class Interruptible(Protocol):
    """A connection of DuckDB."""

    def interrupt(self) -> None:
        """Interrupt the running statement, if any."""
        ...


class DeadlineWatch:
    """Watchdog of the connections that queries use; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[object, tuple[Interruptible, Deadline]] = {}
        self._has_thread = False

    @contextmanager
    def over(self, connection: Interruptible, deadline: Deadline) -> Iterator[None]:
        """Interrupt the connection's statements once the deadline has passed, until the end of the block."""
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
                        connection.interrupt()  # repeatedly: between two statements it has no effect
                idle = 0 if self._watched else idle + 1
                if idle > _STAYS:
                    self._has_thread = False
                    return
