"""Files for groups that do not fit in memory: unnamed, so that the system removes them however the query ends."""

import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from gamay.base.errors import ErrorCode, QueryError

SPILL_SETTING = "gamay.query.spill.max.bytes"


class SpillSpace:
    """The disk space of a process's queries. folder: for their files; None is the system's folder for temporary files.

    max_bytes: the limit for all queries together; None is half of the free disk space, 0 disables spilling.
    """

    def __init__(self, folder: Path | None = None, max_bytes: int | None = None) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.used = 0
        self._lock = threading.Lock()

    @property
    def is_off(self) -> bool:
        """Whether spilling is disabled."""
        return self.max_bytes == 0

    @property
    def free_bytes(self) -> int:
        """The bytes that queries may still use."""
        if self.max_bytes is None:
            return shutil.disk_usage(self.folder or tempfile.gettempdir()).free // 2
        return max(self.max_bytes - self.used, 0)

    def take(self, num_bytes: int) -> None:
        """Count bytes of a file. Raises QueryError 245 if there is no room for them."""
        with self._lock:
            free = self.free_bytes
            if num_bytes > free:
                most = self.used + free
                raise QueryError(
                    ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
                    f"The groups of the query fit neither its memory (maxQueryMemoryBytes) nor the {most / 1e6:,.0f} MB of "
                    f"disk that queries may take ({SPILL_SETTING}); filter more, or group by fewer or coarser keys",
                )
            self.used += num_bytes

    def give_back(self, num_bytes: int) -> None:
        """Count bytes as free again."""
        with self._lock:
            self.used -= num_bytes


class SpillFile:
    """One query's file; thread-safe. Raises QueryError 245 if the disk is full."""

    def __init__(self, space: SpillSpace) -> None:
        self._space = space
        self._lock = threading.Lock()
        self._size = 0
        if space.folder is not None:
            space.folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=space.folder, buffering=0)  # noqa: SIM115 - it lives as long as the query

    def append(self, buffers: "Sequence[bytes | memoryview]") -> int:
        """Write buffers one after the other; return the offset of the first."""
        num_bytes = sum(len(buffer) for buffer in buffers)
        self._space.take(num_bytes)
        with self._lock:
            start, self._size = self._size, self._size + num_bytes
        try:
            at = start
            for buffer in buffers:
                at += os.pwrite(self._file.fileno(), buffer, at)
        except OSError as error:
            raise _unwritable(error) from error
        if at != start + num_bytes:  # the disk may be full
            raise _unwritable(OSError("no space left on device"))
        return start

    def read(self, start: int, sizes: Sequence[int]) -> list[memoryview]:
        """Return buffers that were appended together, given their sizes."""
        return _cut(memoryview(os.pread(self._file.fileno(), sum(sizes), start)), 0, sizes)

    def mapped(self, places: Sequence[tuple[int, Sequence[int]]]) -> list[memoryview]:
        """Return buffers, given their offsets and sizes, in mapped memory of the file, which outlives `close`."""
        if not self._size:
            return [memoryview(b"") for _, sizes in places for _ in sizes]
        view = memoryview(mmap.mmap(self._file.fileno(), self._size, prot=mmap.PROT_READ))
        return [buffer for start, sizes in places for buffer in _cut(view, start, sizes)]

    def close(self) -> None:
        """Release the disk space."""
        self._file.close()
        self._space.give_back(self._size)
        self._size = 0


def _cut(view: memoryview, start: int, sizes: Sequence[int]) -> list[memoryview]:
    buffers = []
    for size in sizes:
        buffers.append(view[start : start + size])
        start += size
    return buffers


def _unwritable(error: OSError) -> QueryError:
    return QueryError(
        ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
        f"The groups of the query do not fit its memory (maxQueryMemoryBytes), and cannot be written to disk: "
        f"{error.strerror or error}; filter more, group by fewer or coarser keys, or allow more memory",
    )
