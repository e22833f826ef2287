"""Unpacked segments on the disk of a machine, by their CRC: shared by all executors there, used again by later jobs.

`<folder>/<typed table>/<segment>__<crc>/`. A folder appears whole. When all together are larger than allowed, those go whose
use is longest ago; a process that reads one keeps it mapped, and so loses nothing.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

from gamay.base.errors import ConflictError
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.storage.archive import unpack
from gamay.storage.local_store import size_of

_ATTEMPTS = 3
_LOCKS = 64


@dataclass(frozen=True, slots=True)
class SegmentCache:
    """Segments below a folder. bytes_max: of all of them; the one that is asked for stays, however large."""

    folder: Path
    bytes_max: int

    def open(self, table: str, name: str, crc: int, fetch: Callable[[Path], Path]) -> ImmutableSegment:
        """Return a segment, whose columns are compared with their checksums when they are first read.

        table: typed. fetch: brings the archive into a scratch folder, and returns its path.
        Raises what `fetch`, `unpack` and `open_segment` raise.
        """
        kept = self.folder / quote(table, safe="") / f"{quote(name, safe='')}__{crc}"
        for attempt in range(_ATTEMPTS):
            if not kept.is_dir():
                self._add(kept, fetch)
            try:
                segment = open_segment(kept, verify_on_use=True)
                os.utime(kept)
                return segment
            except FileNotFoundError:  # another process has just made room
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _add(self, kept: Path, fetch: Callable[[Path], Path]) -> None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        lock = self.folder / f".lock-{crc32(kept.name.encode()) % _LOCKS}"
        with lock.open("w") as held, tempfile.TemporaryDirectory(prefix=".fetching-", dir=self.folder) as scratch:
            fcntl.flock(held, fcntl.LOCK_EX)  # others wait for it rather than fetch it, too
            if kept.is_dir():
                return
            unpack(fetch(Path(scratch)), Path(scratch) / "unpacked").rename(kept)
            self._make_room(kept)

    def _make_room(self, added: Path) -> None:
        found = []
        for path in self.folder.glob("[!.]*/*__*"):
            with contextlib.suppress(FileNotFoundError):  # others make room, too
                found.append((path.stat().st_mtime, size_of(path), path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.bytes_max:
                return
            if path != added:
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(path)
                total -= size


def check_crc(segment: ImmutableSegment, crc: int) -> ImmutableSegment:
    """Return the segment; raises ConflictError when its copy is not the one that was planned to be read."""
    if segment.info.crc != crc:
        segment.close()
        raise ConflictError(
            f"segment '{segment.name}' was replaced while the table was read: its copy has CRC {segment.info.crc}, not "
            f"{crc}; read the table again"
        )
    return segment
