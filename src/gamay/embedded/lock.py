"""One process at a time may use a data folder."""

import fcntl
import os
from pathlib import Path

from gamay.base.errors import InUseError

_NAME = "gamay.lock"


class FolderLock:
    """Holds a data folder until `release`, or until the process dies."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises InUseError that names the process which has it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _NAME
        self._file = path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            owner = self._file.read().strip() or "unknown"
            self._file.close()
            raise InUseError(
                f"the data folder '{folder}' is in use by process {owner}: stop it, or reach its cluster over HTTP"
            ) from None
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let others have the folder."""
        self._file.close()
