"""The last lines of a process's log, kept in memory: for users who can see a cluster but not its machines.

Only lines that pass the loggers' levels are kept: warnings and errors unless a level was changed. At most `LINES_MAX`
lines, each with its text truncated: at most four megabytes.
"""

import logging
from collections import deque
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.base.loggers import LEVELS
from gamay.base.logs import JsonFormatter
from gamay.base.process_info import process_name

LINES_MAX = 2000
_CHARS_MAX = 2000


class LogMemory(logging.Handler):
    """The last log lines of this process, of all its roles."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[tuple[int, dict[str, Any]]] = deque(maxlen=LINES_MAX)
        self._form = JsonFormatter()
        self._numbers = count(1)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        try:
            found = self._form.fields(record)
        except Exception:  # noqa: BLE001 - as every handler does: a line that cannot be formatted is reported on standard error
            self.handleError(record)
            return
        cut = {name: text[:_CHARS_MAX] if isinstance(text, str) else text for name, text in found.items()}
        self._lines.append((record.levelno, {"number": next(self._numbers), **cut}))

    def told(self, level: str, lines: int, contains: str) -> dict[str, Any]:
        """Return the last lines of at least a level that contain a text, oldest first, as JSON.

        Raises InvalidConfigError for an unknown level.
        """
        if level.upper() not in LEVELS:
            raise InvalidConfigError(f"Unrecognized logger level: '{level}', it must be one of {', '.join(LEVELS)}")
        found = list(islice(self._matching(LEVELS[level.upper()], contains.lower()), max(0, lines)))
        return {"process": process_name(), "lines": found[::-1]}

    def _matching(self, level: int, contains: str) -> Iterator[dict[str, Any]]:
        """Yield lines, the newest first."""
        for number, line in reversed(self._lines.copy()):
            if number >= level and (not contains or any(contains in str(value).lower() for value in line.values())):
                yield line


_MEMORY = LogMemory()


def remember_log() -> LogMemory:
    """Keep the log lines of this process from now on, and return their handler; calling it again has no effect."""
    root = logging.getLogger()
    if _MEMORY not in root.handlers:
        root.addHandler(_MEMORY)
    return _MEMORY
