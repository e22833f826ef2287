"""Limits of the work that this thread does for a query: its deadline, its cancellation, its memory.

Work begins with `enter`, and calls these functions between its steps, however deep in the stack, without a guard being
passed through every function. Without a guard they do nothing.
"""

import threading
from typing import Protocol


class Holder(Protocol):
    """An account of the memory that one part of the work holds. Raises QueryError 245 if that is too much."""

    def hold(self, num_bytes: int) -> None:
        """Set the number of bytes that this part holds."""
        ...

    def release(self) -> None:
        """Set the memory of this part to zero."""
        ...


class Guard(Protocol):
    """The limits of a query; its methods may be called from any thread."""

    def check(self) -> None:
        """Raise QueryError if the work must end: 503 cancelled, 250 out of time, 245 out of memory."""
        ...

    def uninterrupted(self, worst_s: float) -> None:
        """Check as `check` does, before work that cannot be interrupted and takes up to `worst_s` seconds."""
        ...

    def holder(self, what: str) -> Holder:
        """Return an account for the memory of a part of the work; `what` names it in error messages: "keys of groups"."""
        ...

    @property
    def memory_limit(self) -> int | None:
        """The maximum number of bytes that the work may hold; None for no limit."""
        ...

    def reserve(self, what: str, num_bytes: int) -> None:
        """Reserve memory that is needed temporarily. Raises QueryError 245 if that exceeds the limit."""
        ...

    def settle(self) -> None:
        """Release this thread's reservations, which are no longer needed or are accounted for by a holder."""
        ...

    def scanned(self, num_entries: int) -> None:
        """Count values read by a scan. Raises QueryError 246 above the limit, and the errors of `check`."""
        ...

    def matched(self, num_rows: int) -> None:
        """Count rows matched by a scan. Raises QueryError 246 above the limit."""
        ...


class NullGuard:
    """Guard without limits."""

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
    """Put this thread's work under a guard; return the previous one, which must be entered again afterwards."""
    before = _local.guard
    _local.guard = guard
    return before


def current() -> Guard:
    """Return the guard of this thread's work."""
    return _local.guard


def check() -> None:
    """Raise QueryError if the work of this thread must end."""
    _local.guard.check()


def uninterrupted(worst_s: float) -> None:
    """Check as `check` does, before work that cannot be interrupted and takes up to `worst_s` seconds."""
    _local.guard.uninterrupted(worst_s)


def scanned(num_entries: int) -> None:
    """Count values read by a scan of this thread's work. Raises QueryError if the work must end."""
    _local.guard.scanned(num_entries)


def matched(num_rows: int) -> None:
    """Count rows matched by a scan of this thread's work. Raises QueryError above the limit."""
    _local.guard.matched(num_rows)


def holder(what: str) -> Holder:
    """Return an account for the memory of a part of this thread's work."""
    return _local.guard.holder(what)


def memory_limit() -> int | None:
    """Return the maximum number of bytes that this thread's work may hold; None for no limit."""
    return _local.guard.memory_limit


def reserve(what: str, num_bytes: int) -> None:
    """Reserve memory that this thread needs temporarily. Raises QueryError 245 if that exceeds the query's limit."""
    _local.guard.reserve(what, num_bytes)


def settle() -> None:
    """Mark a unit of this thread's work as done and release its memory reservation, unless a holder took it over."""
    _local.guard.settle()
