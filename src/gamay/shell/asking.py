"""Execution of one statement on its own thread, so that Ctrl-C can cancel it at the server."""

import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import GamayError
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.shell.answer import Answer
from gamay.shell.session import Parameters, Session

_LOOK_S = 0.1
_THREAD = "gamay-statement"
_SHOWN_FROM_S = 0.5  # faster statements show no progress
_GIVEN_UP_S = 5.0


class StatementProgress(Protocol):
    """Display of the elapsed time of a statement."""

    def show(self, seconds: float) -> None: ...

    def end(self) -> None: ...


class LineProgress:
    """A line of standard error that is overwritten, and removed at the end."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, seconds: float) -> None:
        """Write the line."""
        self._shown = True
        sys.stderr.write(f"\r\033[2K\033[2m{seconds:.1f} s … Ctrl-C cancels\033[0m")
        sys.stderr.flush()

    def end(self) -> None:
        """Remove the line."""
        if self._shown:
            sys.stderr.write("\r\033[2K")
            sys.stderr.flush()
            self._shown = False


class CancelledByUser(Exception):  # noqa: N818 - a user's action, not an error
    """A statement cancelled by Ctrl-C; `str()` says whether it is known to have ended."""


def ask(
    session: Session,
    sql: str,
    params: Parameters = None,
    options: Mapping[str, Any] | None = None,
    progress: StatementProgress | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    ids: Ids = RANDOM_IDS,
) -> Answer:
    """Run a statement. Raises what `Session.execute` raises, and CancelledByUser after a KeyboardInterrupt."""
    query_id = f"gamay-sql-{ids.new()}"
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(session.execute(sql, params, options, query_id))
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            future.set_exception(error)

    threading.Thread(target=run, name=_THREAD, daemon=True).start()
    begun_s = clock.monotonic_s()
    try:
        while not _is_done(future):
            took_s = clock.monotonic_s() - begun_s
            if progress is not None and took_s >= _SHOWN_FROM_S:
                progress.show(took_s)
        return future.result()
    except KeyboardInterrupt:
        raise CancelledByUser(_cancel(session, query_id, future, clock)) from None
    finally:
        if progress is not None:
            progress.end()


def is_any_running() -> bool:
    """Return whether a statement of this process is running, even one that is no longer waited for."""
    return any(thread.name == _THREAD for thread in threading.enumerate())


def _is_done(future: "Future[Answer]") -> bool:
    try:
        future.exception(_LOOK_S)
    except TimeoutError:
        return False
    return True


def _cancel(session: Session, query_id: str, future: "Future[Answer]", clock: Clock) -> str:
    """Cancel a statement; return a message about the outcome. Repeats, as the statement may not have arrived yet."""
    begun_s = clock.monotonic_s()
    found, failure = False, ""
    try:
        while clock.monotonic_s() - begun_s < _GIVEN_UP_S:
            try:
                found |= session.cancel(query_id)
            except GamayError as error:
                failure = f" ({error})"
            if _is_done(future):
                return "Cancelled." if found else "Cancelled; it had just ended."
    except KeyboardInterrupt:  # pressed again: do not wait for the cancellation either
        pass
    return f"No longer waited for; it may still run there{failure}."
