"""The files of one partition: their names, the index, and the counters shared between processes."""

import mmap
import os
import uuid
from contextlib import suppress
from pathlib import Path

import numpy as np

from gamay.ingest.stream.log.blocks import INDEX_ENTRY, Index

_STATE = "state"
_STATE_BYTES = 48
_MAGIC = b"GLSTATE1"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> bytes:
    """Return 16 bytes that change at each boot of the machine; all zero if the system does not provide them."""
    try:
        return uuid.UUID(_BOOT_ID.read_text().strip()).bytes
    except (OSError, ValueError):
        return bytes(16)


class SharedState:
    """Counters of a partition in a memory-mapped file, shared by all processes; each update is one aligned store.

    written: the offset after the last complete block; durable: the offset after the last block that survives a crash of the
    machine; active: the first offset of the file being written. They never exceed the true values, except after a crash of
    the machine: then `is_of_this_boot` is false, and they must be recomputed.
    """

    def __init__(self, folder: Path) -> None:
        """Map the file; create it if it does not exist."""
        descriptor = os.open(folder / _STATE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.fstat(descriptor).st_size < _STATE_BYTES:
                os.ftruncate(descriptor, _STATE_BYTES)
            self._map = mmap.mmap(descriptor, _STATE_BYTES)
        finally:
            os.close(descriptor)
        self._counters = np.frombuffer(self._map, np.int64, 3, 24)

    @property
    def is_of_this_boot(self) -> bool:
        """Whether the counters were computed since the machine booted."""
        boot = boot_id()
        return self._map[:8] == _MAGIC and self._map[8:24] == boot and boot != bytes(16)

    @property
    def written(self) -> int:
        return int(self._counters[0])

    @written.setter
    def written(self, offset: int) -> None:
        self._counters[0] = offset

    @property
    def durable(self) -> int:
        return int(self._counters[1])

    @durable.setter
    def durable(self, offset: int) -> None:
        self._counters[1] = offset

    @property
    def active(self) -> int:
        return int(self._counters[2])

    @active.setter
    def active(self, offset: int) -> None:
        self._counters[2] = offset

    def found(self) -> None:
        """Mark the counters as computed since the machine booted."""
        self._map[8:24] = boot_id()
        self._map[:8] = _MAGIC

    def close(self) -> None:
        """Unmap the file."""
        del self._counters
        self._map.close()


def log_path(folder: Path, base: int) -> Path:
    """Return the path of the file whose first message has offset `base`."""
    return folder / f"{base:020d}.log"


def index_path(folder: Path, base: int) -> Path:
    """Return the path of the index of the file whose first message has offset `base`."""
    return folder / f"{base:020d}.index"


def bases(folder: Path) -> list[int]:
    """Return the first offsets of all files of the partition, ascending."""
    names = (name for name in os.listdir(folder) if name.endswith(".log"))
    return sorted(int(name[:-4]) for name in names)


def read_index(folder: Path, base: int) -> Index:
    """Return the entries of a file's index; empty if the file has none."""
    try:
        data = index_path(folder, base).read_bytes()
    except FileNotFoundError:
        return np.empty(0, INDEX_ENTRY)
    return np.frombuffer(data, INDEX_ENTRY, len(data) // INDEX_ENTRY.itemsize)


def remove(folder: Path, base: int) -> None:
    """Delete a file and its index; readers that have it open can still read it."""
    for path in (log_path(folder, base), index_path(folder, base)):
        with suppress(FileNotFoundError):
            path.unlink()
