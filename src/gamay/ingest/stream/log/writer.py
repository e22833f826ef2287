"""Appending to a partition from any number of processes and threads, with group commit."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import pyarrow as pa

from gamay.base.clock import Clock
from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.log import blocks, files
from gamay.ingest.stream.log.topic import Topic
from gamay.storage.files import fsync_file, fsync_folder, full_disk_explained

_SCAN_BYTES = 8 << 20


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class PartitionWriter:
    """A thread-safe writer of one partition.

    One process at a time appends, under a file lock. It first reads what others appended since its last append, and
    truncates a partial block of a killed process. A sync covers everything written by then, by any process (group commit).
    """

    def __init__(self, topic: Topic, partition: int, clock: Clock) -> None:
        """Open the files, and repair the partition after a crash. Raises NotFoundError for an unknown partition."""
        self._topic = topic
        self._folder = topic.partition_folder(partition)
        self._clock = clock
        # a file lock does not exclude threads that share its descriptor
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self._config = topic.config()
        self._write_lock = os.open(self._folder / "write.lock", os.O_RDWR | os.O_CREAT, 0o644)
        self._sync_lock = os.open(self._folder / "sync.lock", os.O_RDWR | os.O_CREAT, 0o644)
        self._state = files.SharedState(self._folder)
        self._file = -1
        self._base = self._position = self._offset = self._time = self._indexed = 0
        with _locked(self._write_lock):
            self._catch_up()

    def append(self, payloads: pa.BinaryArray, keys: pa.BinaryArray | None = None) -> tuple[int, int]:
        """Append messages; once they are durable, return the offset of the first and the offset after the last.

        keys: of the same length as the payloads, or None; a null payload is a tombstone. Raises DiskFullError, after which
        the last messages may be missing, but none is partially written.
        """
        first, end = self.write(payloads, keys)
        self.sync(end)
        return first, end

    def write(self, payloads: pa.BinaryArray, keys: pa.BinaryArray | None = None) -> tuple[int, int]:
        """Append without syncing: the messages become durable and visible by `sync`."""
        if keys is not None and len(keys) != len(payloads):
            raise InvalidConfigError(f"there are {len(keys)} keys for {len(payloads)} messages")
        with self._writing, self._disk_explained(), _locked(self._write_lock):
            self._catch_up()
            first = self._offset
            for start, stop in blocks.split(payloads):
                part_keys = None if keys is None else keys.slice(start, stop - start)
                self._append_block(payloads.slice(start, stop - start), part_keys)
            return first, self._offset

    def sync(self, offset: int) -> None:
        """Make messages before `offset` durable and visible to readers."""
        while self._state.durable < offset:
            with self._syncing, self._disk_explained(), _locked(self._sync_lock):
                if self._state.durable >= offset:
                    return
                # read `written` before `active`: a writer that rolls to another file in between has synced the previous one
                written = self._state.written
                descriptor = os.open(files.log_path(self._folder, self._state.active), os.O_RDONLY)
                try:
                    os.fdatasync(descriptor)
                finally:
                    os.close(descriptor)
                self._state.durable = max(written, self._state.durable)

    def close(self) -> None:
        """Close the files; messages that were not synced may be lost if the machine crashes."""
        with self._writing, self._syncing:
            for descriptor in (self._file, self._write_lock, self._sync_lock):
                if descriptor >= 0:
                    os.close(descriptor)
            self._state.close()

    def _disk_explained(self) -> AbstractContextManager[None]:
        return full_disk_explained(f"appending to the topic '{self._topic.name}'", self._folder)

    # -- under the write lock

    def _append_block(self, payloads: pa.BinaryArray, keys: pa.BinaryArray | None) -> None:
        if self._position >= self._config.segment_bytes:
            self._config = self._topic.config()  # it may have been altered
            if self._position >= self._config.segment_bytes:
                self._roll()
                self._retain(self._config.retention_ms, self._config.retention_bytes)
        self._time = max(self._time, self._clock.now_ms())
        data = blocks.encode(payloads, keys, self._offset, self._time)
        written = 0
        while written < len(data):
            written += os.pwrite(self._file, memoryview(data)[written:], self._position + written)
        if self._position == 0 or self._position - self._indexed >= blocks.INDEX_BYTES:
            self._add_to_index(self._offset, self._position, self._time)
        self._position += len(data)
        self._offset += len(payloads)
        self._state.written = self._offset

    def _add_to_index(self, offset: int, position: int, time: int) -> None:
        entry = np.array((offset, position, time), blocks.INDEX_ENTRY).tobytes()
        descriptor = os.open(files.index_path(self._folder, self._base), os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            os.pwrite(descriptor, entry, size - size % len(entry))  # overwrites a partial entry of a killed process
        finally:
            os.close(descriptor)
        self._indexed = position

    def _roll(self) -> None:
        os.fdatasync(self._file)
        fsync_file(files.index_path(self._folder, self._base))
        self._open(self._offset, create=True)
        self._position = self._indexed = 0
        self._state.active = self._base

    def _open(self, base: int, create: bool = False) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        self._file = os.open(files.log_path(self._folder, base), flags, 0o644)
        if create:
            fsync_folder(self._folder)
        self._base = base

    def _retain(self, retention_ms: int | None, retention_bytes: int | None) -> None:
        """Delete files that exceed the retention, oldest first; never the one being written."""
        if retention_ms is None and retention_bytes is None:
            return
        found = files.bases(self._folder)
        sizes = [files.log_path(self._folder, base).stat().st_size for base in found]
        kept = sum(sizes)
        for base, following, size in zip(found, found[1:], sizes, strict=False):
            too_old = retention_ms is not None and self._begun(following) < self._clock.now_ms() - retention_ms
            too_much = retention_bytes is not None and kept - size >= retention_bytes
            if not (too_old or too_much):
                break
            files.remove(self._folder, base)
            kept -= size

    def _begun(self, base: int) -> int:
        """Return the time of a file's first message, an upper bound for all earlier messages."""
        entries = files.read_index(self._folder, base)
        return int(entries[0]["timestamp"]) if len(entries) else self._time

    def _catch_up(self) -> None:
        """Advance to the end of what all processes have written, repairing after crashes."""
        if not self._state.is_of_this_boot:
            self._recover()
            return
        if self._file < 0 or self._state.active != self._base:
            self._open(self._state.active, create=not files.log_path(self._folder, self._state.active).exists())
            self._start_at_index()
        size = os.fstat(self._file).st_size
        if size != self._position:
            self._walk_to_end(size, check_all=False)
        self._state.written = self._offset

    def _start_at_index(self) -> None:
        entries = files.read_index(self._folder, self._base)
        self._position = self._indexed = 0
        self._offset = self._base
        if len(entries):
            last = entries[-1]
            self._position = self._indexed = int(last["position"])
            self._offset, self._time = int(last["offset"]), int(last["timestamp"])

    def _recover(self) -> None:
        """Scan the newest file from its start, truncate it at the first damaged block, and publish the counters."""
        found = files.bases(self._folder)
        base = found[-1] if found else 0
        self._open(base, create=not found)
        self._position = self._indexed = self._time = 0
        self._offset = base
        files.index_path(self._folder, base).unlink(missing_ok=True)
        self._walk_to_end(os.fstat(self._file).st_size, check_all=True)
        os.fsync(self._file)
        self._state.active = base
        self._state.written = self._offset
        self._state.durable = self._offset
        self._state.found()

    def _walk_to_end(self, size: int, check_all: bool) -> None:
        """Scan the blocks from the current position on; truncate the file at the first damaged or partial one."""
        while self._position < size:
            data = memoryview(os.pread(self._file, min(_SCAN_BYTES, size - self._position), self._position))
            start = self._position
            try:
                self._pass(data, size, check_all)
            except blocks.DamagedBlockError:
                break
            if self._position == start and not self._pass_long_block(size, check_all):
                break
        if self._position < size:
            os.ftruncate(self._file, self._position)
            self._cut_index()

    def _pass(self, data: memoryview, size: int, check_all: bool) -> None:
        for header, at in blocks.walk(data, self._position, size):
            if header.offset != self._offset:
                raise blocks.DamagedBlockError("the offsets do not follow each other")
            if check_all or header.end == size:
                blocks.check(header, data[at : at + header.end - header.position])
            self._advance(header, rebuild_index=check_all)

    def _pass_long_block(self, size: int, check_all: bool) -> bool:
        """Scan one block that exceeds the read size; return whether it is intact."""
        try:
            header = blocks.read_header(os.pread(self._file, blocks.HEADER.size, self._position), 0, self._position)
            if header.end > size or header.offset != self._offset:
                return False
            blocks.check(header, memoryview(os.pread(self._file, header.end - header.position, header.position)))
        except blocks.DamagedBlockError:
            return False
        self._advance(header, rebuild_index=check_all)
        return True

    def _advance(self, header: blocks.Header, rebuild_index: bool) -> None:
        if rebuild_index and (header.position == 0 or header.position - self._indexed >= blocks.INDEX_BYTES):
            self._add_to_index(header.offset, header.position, header.timestamp)
        self._position, self._offset = header.end, header.next_offset
        self._time = max(self._time, header.timestamp)

    def _cut_index(self) -> None:
        entries = files.read_index(self._folder, self._base)
        kept = int(np.searchsorted(entries["position"], self._position, side="left"))
        path = files.index_path(self._folder, self._base)
        if path.exists():
            os.truncate(path, kept * blocks.INDEX_ENTRY.itemsize)


def ensure_recovered(topic: Topic, partition: int, clock: Clock) -> None:
    """Repair a partition after a crash of the machine, on behalf of a reader."""
    folder = topic.partition_folder(partition)
    state = files.SharedState(folder)
    try:
        if state.is_of_this_boot:
            return
    finally:
        state.close()
    PartitionWriter(topic, partition, clock).close()
