"""Works of subtasks: builds described by small records, executed in the minion's process or in a Spark executor.

A work is independent of tasks and of Spark, and makes no visible change: the caller pushes the segment.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gamay.minion.progress import AttemptProgress

ARCHIVE_SUFFIX = ".tar.zst"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A built segment.

    archive: its path, or its URI if the work itself stored it; empty if there is nothing to push. crc: of the segment.
    rows, rows_before: of it, and of all its inputs. is_changed: False if the archive is the unchanged single input.
    """

    archive: str
    crc: int
    rows: int
    rows_before: int
    is_changed: bool = True


class Work(Protocol):
    """The build of a segment, which may be sent to executors. output: its name in messages."""

    @property
    def output(self) -> str: ...

    def build(self, folder: Path, step: Callable[[str], None], tls: ssl.SSLContext | None) -> Rebuilt:
        """Build it; its archive is a file in the folder.

        folder: for all files written. step: called with the next step; an exception from it aborts the work. tls: the
        context that verifies certificates, None for the system's authorities. Raises GamayError and OSError.
        """
        ...


Builder = Callable[[Work, Path, AttemptProgress], Rebuilt]
"""Builds a segment; its archive is a file in the folder. Raises as the work does, and if the subtask is cancelled."""
