"""How far a subtask is: what its executor notes, and whether it is to go on."""

import threading
from collections import deque
from typing import Any

from gamay.base.clock import Clock
from gamay.base.errors import GamayError
from gamay.cluster.tasks.records import job_of, type_of

_NOTES_MAX = 100


class TaskCancelledError(GamayError):
    """The subtask is to be given up: it was cancelled or stopped, or the minion ends."""


class TaskTimeoutError(GamayError):
    """The subtask has taken longer than it may."""


class AttemptProgress:
    """Progress of one attempt. limit_s: how long it may take. Any thread may ask; the executor's notes and checks."""

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
        """Say what is being done."""
        self._notes.append((self._clock.now_ms(), text))

    def step(self, text: str) -> None:
        """Say what is done next, and raise as `check`."""
        self.check()
        self.note(text)

    def check(self) -> None:
        """Raise TaskCancelledError or TaskTimeoutError when the subtask is not to go on."""
        if self._cancelled.is_set():
            raise TaskCancelledError(f"task {self.subtask} is cancelled")
        if self._clock.monotonic_s() > self._deadline_s:
            raise TaskTimeoutError(f"task {self.subtask} has not ended in {self._limit_s:g} s")

    def cancel(self) -> None:
        """Have the executor give up at its next check."""
        self._cancelled.set()

    @property
    def last_note(self) -> str:
        """What was noted last."""
        return self._notes[-1][1]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the notes, oldest first."""
        return [{"ts": ts, "status": text} for ts, text in list(self._notes)]
