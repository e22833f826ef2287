"""The log files of a process, written in addition to standard error if its configuration names a folder.

`<instance>.log` is the newest; at `FILE_BYTES_MAX` it becomes `<instance>.log.1`, that one `.2`, and so on. Several
processes may share a folder: each lists and serves its own files only.
"""

import logging
import re
from logging.handlers import RotatingFileHandler
from pathlib import Path

from gamay.base.errors import InvalidConfigError, NotFoundError, nearest
from gamay.base.logs import LogFormat, formatter

FILE_BYTES_MAX = 64 << 20
_FILES_MAX = 10


class LogFiles:
    """The log files of a process, once it has begun to write them."""

    def __init__(self) -> None:
        self._handler: RotatingFileHandler | None = None

    def begin(self, folder: Path, name: str, log_format: LogFormat, role: str) -> None:
        """Write log lines to files in a folder as well. name: of the instance; the files are named after it.

        Raises InvalidConfigError if the files cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handler = RotatingFileHandler(
                folder / f"{name}.log", maxBytes=FILE_BYTES_MAX, backupCount=_FILES_MAX - 1, encoding="utf-8"
            )
        except OSError as error:
            raise InvalidConfigError(f"cannot write log files in '{folder}': {error.strerror or error}") from error
        handler.setFormatter(formatter(log_format, role, name))
        logging.getLogger().addHandler(handler)
        self._handler = handler

    def end(self) -> None:
        """Stop writing to files, and close them."""
        if self._handler is not None:
            logging.getLogger().removeHandler(self._handler)
            self._handler.close()
            self._handler = None

    def names(self) -> list[str]:
        """Return the names of the files, newest first. Raises NotFoundError if the process has none."""
        newest = self._newest()
        own = re.compile(rf"{re.escape(newest.name)}(?:\.(\d+))?")
        found = {path.name: own.fullmatch(path.name) for path in newest.parent.iterdir() if path.is_file()}
        return sorted((name for name, is_own in found.items() if is_own), key=lambda name: (len(name), name))

    def must_get(self, name: str) -> Path:
        """Return the path of one of the files. Raises NotFoundError for any other name."""
        names = self.names()
        if name not in names:
            raise NotFoundError(f"'{name}' is no log file of this process.{nearest(name, names)}")
        return self._newest().with_name(name)

    def _newest(self) -> Path:
        if self._handler is None:
            raise NotFoundError(
                "There are no log files: this process writes its log to standard error alone, for its configuration names "
                "no folder for files (pinot.<role>.logger.root.dir)"
            )
        return Path(self._handler.baseFilename)


LOG_FILES = LogFiles()
"""The log files of this process."""
