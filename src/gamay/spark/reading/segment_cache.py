"""A machine's disk cache of unpacked segments by CRC, shared by all executors and later jobs.

`<folder>/<typed table>/<segment>__<crc>/`. Folders are created atomically. Above the size limit, the least recently used are
evicted; a process that reads one keeps it mapped, so eviction does not affect it.
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
    """A cache of segments in a folder. bytes_max: the limit on their total size; the segment being opened may exceed it."""

    folder: Path
    bytes_max: int

    def open(self, table: str, name: str, crc: int, fetch: Callable[[Path], Path]) -> ImmutableSegment:
        """Return a segment, whose columns are verified by their checksums when first read.

        table: the typed name. fetch: fetches the archive into a scratch folder and returns its path.
        Raises the errors of `fetch`, `unpack` and `open_segment`.
        """
        kept = self.folder / quote(table, safe="") / f"{quote(name, safe='')}__{crc}"
        for attempt in range(_ATTEMPTS):
            if not kept.is_dir():
                self._add(kept, fetch)
            try:
                segment = open_segment(kept, verify_on_use=True)
                os.utime(kept)
                return segment
            except FileNotFoundError:  # another process has just evicted it
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _add(self, kept: Path, fetch: Callable[[Path], Path]) -> None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        lock = self.folder / f".lock-{crc32(kept.name.encode()) % _LOCKS}"
        with lock.open("w") as held, tempfile.TemporaryDirectory(prefix=".fetching-", dir=self.folder) as scratch:
            fcntl.flock(held, fcntl.LOCK_EX)  # other processes wait rather than fetch it as well
            if kept.is_dir():
                return
            unpack(fetch(Path(scratch)), Path(scratch) / "unpacked").rename(kept)
            self._make_room(kept)

    def _make_room(self, added: Path) -> None:
        found = []
        for path in self.folder.glob("[!.]*/*__*"):
            with contextlib.suppress(FileNotFoundError):  # another process evicts concurrently
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
    """Return the segment; raises ConflictError if its CRC is not the planned one."""
    if segment.info.crc != crc:
        segment.close()
        raise ConflictError(
            f"segment '{segment.name}' was replaced while the table was read: its copy has CRC {segment.info.crc}, not "
            f"{crc}; read the table again"
        )
    return segment
