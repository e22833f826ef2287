"""How far a job is: on a terminal as a bar, elsewhere as log lines."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_LOG = logging.getLogger("gamay.spark")


class JobProgress(Protocol):
    """Display of a job's steps."""

    def update(self, what: str, done: int, total: int) -> None:
        """`done` of `total` parts of a step are done; the last call of a step has done == total."""
        ...


class SilentProgress:
    """Says nothing."""

    def update(self, what: str, done: int, total: int) -> None:
        return None


class LogProgress:
    """One log line when a step begins, at every tenth of it, and when it ends."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def update(self, what: str, done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        if (what, tenth) != self._last:
            self._last = (what, tenth)
            _LOG.info("%s: %d of %d", what, done, total)


@contextmanager
def terminal_progress() -> Iterator[JobProgress]:
    """Yield a progress bar on standard error when that is a terminal, else one that logs."""
    if not sys.stderr.isatty():
        yield LogProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:
        yield _BarProgress(bars)


class _BarProgress:
    def __init__(self, bars: object) -> None:
        self._bars = bars
        self._tasks: dict[str, object] = {}

    def update(self, what: str, done: int, total: int) -> None:
        bars: Any = self._bars
        if what not in self._tasks:
            self._tasks[what] = bars.add_task(what, total=total)
        bars.update(self._tasks[what], completed=done, total=total)
