"""Progress of a job: bars on a terminal and in a notebook, log lines elsewhere."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Protocol

_LOG = logging.getLogger("gamay.spark")


class JobProgress(Protocol):
    """Display of a job's steps."""

    def update(self, what: str, done: int, total: int) -> None:
        """Report that `done` of `total` parts of a step are done; the last call of a step has done == total."""
        ...


class SilentProgress:
    """Progress without output."""

    def update(self, what: str, done: int, total: int) -> None:
        return None


class LogProgress:
    """Progress as log lines at the start of a step, at every tenth of it, and at its end."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def update(self, what: str, done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        if (what, tenth) != self._last:
            self._last = (what, tenth)
            _LOG.info("%s: %d of %d", what, done, total)


@contextmanager
def shown_progress() -> Iterator[JobProgress]:
    """Yield bars in a notebook, or on standard error when that is a terminal; else log lines."""
    if _is_notebook():
        yield NotebookProgress()
        return
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


class NotebookProgress:
    """A bar for each step in the output of the running cell; plain HTML, which needs no widgets."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[int, int]] = {}
        self._handle: Any = None

    def update(self, what: str, done: int, total: int) -> None:
        if self._steps.get(what) == (done, total):
            return
        from IPython.display import HTML, display

        self._steps[what] = (done, total)
        shown: Any = HTML("".join(map(_bar, self._steps.items())))  # type: ignore[no-untyped-call]
        if self._handle is None:
            self._handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)


def _bar(step: tuple[str, tuple[int, int]]) -> str:
    what, (done, total) = step
    bar = f'<progress value="{done}" max="{max(total, 1)}" style="width: 20em"></progress>'
    return f"<div>{bar} {escape(what)}: {done:,} of {total:,}</div>"


def _is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
