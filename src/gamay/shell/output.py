"""Destinations of answers: the terminal, with a pager for long ones, standard output, or a file."""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

from gamay.base.errors import InvalidConfigError
from gamay.shell.answer import Answer
from gamay.shell.formats.write import BINARY, Screen, bytes_of, text_of, write_to

_PAGER = "less -SRFX"


def screen_of(stream: IO[str]) -> Screen:
    """Return a stream's width and colour support."""
    if not stream.isatty():
        return Screen()
    color = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return Screen(shutil.get_terminal_size().columns, color)


class FileOutput:
    """A file of answers, appended in order; binary formats allow only one. The file appears when it is complete."""

    def __init__(self, path: Path, form: str) -> None:
        """Raises InvalidConfigError if the file cannot be created."""
        self.path = path
        self._form = form
        self._part = path.with_name(f".{path.name}.part")
        try:
            self._file = self._part.open("wb")
        except OSError as error:
            raise InvalidConfigError(f"{path} cannot be written: {error.strerror}") from error
        self._count = 0

    def write(self, answer: Answer) -> None:
        """Add an answer. Raises InvalidConfigError for a second one in a binary format."""
        self._count += 1
        if self._form in BINARY and self._count > 1:
            raise InvalidConfigError(f"{self.path}: a file in {self._form} holds one answer; give each statement its own")
        write_to(self._file, answer, self._form)

    def close(self, *, keep: bool = True) -> None:
        """Complete the file or, if not `keep`, discard it."""
        self._file.close()
        if keep:
            self._part.replace(self.path)
        else:
            self._part.unlink(missing_ok=True)


def write_standard(answer: Answer, form: str) -> None:
    """Write an answer to standard output. Raises InvalidConfigError for a binary format on a terminal."""
    sys.stdout.flush()
    if form in BINARY:
        if sys.stdout.isatty():
            raise InvalidConfigError(f"{form} is not for terminals: give --output-file, or pipe it on")
        sys.stdout.buffer.write(bytes_of(answer, form, is_file=False))
        sys.stdout.buffer.flush()
    elif text := text_of(answer, form, screen_of(sys.stdout)):
        print(text)


def show(text: str, *, paged: bool) -> None:
    """Print a text, through a pager if it is longer than the terminal and a pager is installed."""
    pager = shlex.split(os.environ.get("PAGER") or _PAGER)
    is_long = text.count("\n") + 2 > shutil.get_terminal_size().lines
    if not (paged and is_long and sys.stdout.isatty() and pager and shutil.which(pager[0])):
        print(text)
        return
    with contextlib.suppress(KeyboardInterrupt):
        subprocess.run(pager, input=text.encode(), check=False)
