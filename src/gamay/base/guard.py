"""What watches over the work that this thread does for a query: its deadline, its cancellation, its memory.

Work begins with `enter`, and asks between its steps, wherever it is deep down, without the watcher having to be passed
through every function on the way. Where nobody watches, all of it does nothing.
"""

import threading
from typing import Protocol


class Holder(Protocol):
    """One part of the work, which tells how much memory it holds now. Raises QueryError 245 when that is too much."""

    def hold(self, num_bytes: int) -> None:
        """Tell that this part holds so many bytes, in place of what it told before."""
        ...

    def release(self) -> None:
        """Tell that this part holds nothing any more."""
        ...


class Guard(Protocol):
    """Watches over a query; its methods may be called from any thread."""

    def check(self) -> None:
        """Raise QueryError when the work must end: 503 cancelled, 250 out of time, 245 out of memory."""
        ...

    def uninterrupted(self, worst_s: float) -> None:
        """Do what `check` does before work that nothing can stop, and that takes up to so many seconds."""
        ...

    def holder(self, what: str) -> Holder:
        """Return what a part of the work tells its memory to; `what` names it to users: "keys of groups"."""
        ...

    @property
    def memory_limit(self) -> int | None:
        """How many bytes the work may hold; None is no limit."""
        ...

    def reserve(self, what: str, num_bytes: int) -> None:
        """Raise QueryError 245 when so many bytes more, which are needed for a moment, are more than there may be."""
        ...

    def settle(self) -> None:
        """Tell that this thread needs no more what it reserved, or has told a holder."""
        ...

    def scanned(self, num_entries: int) -> None:
        """Tell that a scan has read so many values more; raises QueryError 246 when that is too much, and as `check`."""
        ...

    def matched(self, num_rows: int) -> None:
        """Tell that a scan has let so many rows more through; raises QueryError 246 when that is too much."""
        ...


class NullGuard:
    """Guard that lets everything pass."""

    def check(self) -> None:
        return

    def uninterrupted(self, worst_s: float) -> None:
        return

    def holder(self, what: str) -> "NullGuard":
        return self

    @property
    def memory_limit(self) -> int | None:
        return None

    def reserve(self, what: str, num_bytes: int) -> None:
        return

    def settle(self) -> None:
        return

    def scanned(self, num_entries: int) -> None:
        return

    def matched(self, num_rows: int) -> None:
        return

    def hold(self, num_bytes: int) -> None:
        return

    def release(self) -> None:
        return


NULL_GUARD = NullGuard()


class _Local(threading.local):
    guard: Guard = NULL_GUARD


_local = _Local()


def enter(guard: Guard) -> Guard:
    """Let this thread work under a guard; returns the one before, which is to be entered again afterwards."""
    before = _local.guard
    _local.guard = guard
    return before


def current() -> Guard:
    """Return what watches over this thread's work."""
    return _local.guard


def check() -> None:
    """Raise QueryError when the work of this thread must end."""
    _local.guard.check()


def uninterrupted(worst_s: float) -> None:
    """Do what `check` does before work that nothing can stop, and that takes up to so many seconds."""
    _local.guard.uninterrupted(worst_s)


def scanned(num_entries: int) -> None:
    """Tell that a scan of this thread's work has read so many values more; raises QueryError when the work must end."""
    _local.guard.scanned(num_entries)


def matched(num_rows: int) -> None:
    """Tell that a scan of this thread's work has let so many rows more through."""
    _local.guard.matched(num_rows)


def holder(what: str) -> Holder:
    """Return what a part of this thread's work tells its memory to."""
    return _local.guard.holder(what)


def memory_limit() -> int | None:
    """Return how many bytes this thread's work may hold; None is no limit."""
    return _local.guard.memory_limit


def reserve(what: str, num_bytes: int) -> None:
    """Raise QueryError 245 when the query may not have so many bytes more, which it needs for a moment."""
    _local.guard.reserve(what, num_bytes)


def settle() -> None:
    """Tell that a piece of this thread's work is done: what it reserved is not needed any more, or told to a holder."""
    _local.guard.settle()
