"""A server's state of the consumption of one table."""

from collections import deque
from pathlib import Path
from typing import Any

from gamay.segment.mutable.sizing import SizingHistory
from gamay.server.consuming.dead_letters import DeadLetters
from gamay.server.consuming.status import BuiltSegment, StreamError

_REMEMBERED = 100
_DEAD_LETTERS_FILE = "dead-letters.jsonl"


class TableMemory:
    """State of one typed table: dead letters and sizes, which are persistent, and the last errors and builds."""

    def __init__(self, table: str, folder: Path) -> None:
        self.table = table
        self.letters = DeadLetters(table, folder / _DEAD_LETTERS_FILE)
        self.history = SizingHistory(folder)
        self._errors: deque[StreamError] = deque(maxlen=_REMEMBERED)
        self._builds: deque[BuiltSegment] = deque(maxlen=_REMEMBERED)
        self._permanent_errors = 0

    def note_error(self, error: StreamError) -> None:
        """Record an error of a consumer."""
        self._errors.append(error)
        self._permanent_errors += error.permanent

    def note_build(self, built: BuiltSegment) -> None:
        """Record a segment that was built."""
        self._builds.append(built)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form for REST."""
        return {
            "builds": [built.to_json() for built in list(self._builds)],
            "errors": [error.to_json() for error in list(self._errors)],
            "numPermanentErrors": self._permanent_errors,
            "deadLetters": self.letters.counts(),
        }
