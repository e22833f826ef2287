"""The progress of a subtask: notes of its executor, and cancellation."""

import threading
from collections import deque
from typing import Any

from gamay.base.clock import Clock
from gamay.base.errors import GamayError
from gamay.cluster.tasks.records import job_of, type_of

_NOTES_MAX = 100


class TaskCancelledError(GamayError):
    """A subtask to be aborted: it was cancelled or stopped, or the minion stops."""


class TaskTimeoutError(GamayError):
    """A subtask that has exceeded its time limit."""


class AttemptProgress:
    """Progress of one attempt. limit_s: its time limit. Any thread may read it; only the executor's thread notes and
    checks."""

    def __init__(self, subtask: str, clock: Clock, limit_s: float) -> None:
        self.subtask = subtask
        self.task_type = type_of(job_of(subtask) or "") or ""
        self.begun_ms = clock.now_ms()
        self._clock = clock
        self._limit_s = limit_s
        self._deadline_s = clock.monotonic_s() + limit_s
        self._cancelled = threading.Event()
        self._notes: deque[tuple[int, str]] = deque(maxlen=_NOTES_MAX)
        self.note("begun")

    def note(self, text: str) -> None:
        """Record what is being done."""
        self._notes.append((self._clock.now_ms(), text))

    def step(self, text: str) -> None:
        """Record the next step, and raise as `check`."""
        self.check()
        self.note(text)

    def check(self) -> None:
        """Raise TaskCancelledError or TaskTimeoutError if the subtask must not continue."""
        if self._cancelled.is_set():
            raise TaskCancelledError(f"task {self.subtask} is cancelled")
        if self._clock.monotonic_s() > self._deadline_s:
            raise TaskTimeoutError(f"task {self.subtask} has not finished within {self._limit_s:g} s")

    def cancel(self) -> None:
        """Make the executor abort at its next check."""
        self._cancelled.set()

    @property
    def last_note(self) -> str:
        """The last note."""
        return self._notes[-1][1]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the notes, oldest first."""
        return [{"ts": ts, "status": text} for ts, text in list(self._notes)]
