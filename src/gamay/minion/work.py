"""What a subtask has built: told by a small record, done in the minion's process or in a Spark executor.

A work knows neither of tasks nor of Spark, and changes nothing that queries see: whoever asked for the segment pushes it.
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
    """What was built. archive: its path, or its URI where the work itself put it; empty when there is nothing to push.

    crc: of the segment. rows, rows_before: of it, and of all its inputs. is_changed: False where the archive is its only
    input, as that was.
    """

    archive: str
    crc: int
    rows: int
    rows_before: int
    is_changed: bool = True


class Work(Protocol):
    """A segment to be built. It is sent to executors. output: what it is called in messages."""

    @property
    def output(self) -> str: ...

    def build(self, folder: Path, step: Callable[[str], None], tls: ssl.SSLContext | None) -> Rebuilt:
        """Build it; its archive is a file in the folder.

        folder: for all that is written. step: told what is done next; what it raises ends the work. tls: what certificates
        are checked against, None: what the system trusts. Raises GamayError and OSError.
        """
        ...


Builder = Callable[[Work, Path, AttemptProgress], Rebuilt]
"""Has a segment built; its archive is a file in the folder. Raises as the work does, and when it is not to go on."""
