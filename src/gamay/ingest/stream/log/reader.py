"""Tailing a partition's files in batches of messages."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from gamay.base.clock import Clock
from gamay.ingest.stream.log import blocks, files
from gamay.ingest.stream.log.topic import Topic
from gamay.ingest.stream.log.writer import ensure_recovered
from gamay.ingest.stream.offsets import IntegerOffset, Offset
from gamay.ingest.stream.spi import Gap, MessageBatch, PermanentStreamError

_READ_BYTES_MIN, _READ_BYTES_MAX = 64 << 10, 8 << 20
_POLL_S_MIN, _POLL_S_MAX = 0.000_5, 0.004


@dataclass(slots=True)
class _Place:
    """The location of a message: its file, open, and the position of a block at or before it."""

    base: int
    descriptor: int
    position: int
    offset: int


class PartitionReader:
    """A `PartitionConsumer` of a topic's partition; it reads durable messages only."""

    def __init__(self, topic: Topic, partition: int, clock: Clock) -> None:
        """Open the partition. Raises NotFoundError for one that does not exist."""
        self._folder = topic.partition_folder(partition)
        self._name = f"partition {partition} of the topic '{topic.name}'"
        ensure_recovered(topic, partition, clock)
        self._state = files.SharedState(self._folder)
        self._clock = clock
        self._closed = threading.Event()
        self._in_use = threading.Lock()
        self._place: _Place | None = None
        self._next = 0  # the offset that `_place` locates

    def fetch(self, start: Offset, max_messages: int, max_bytes: int, timeout_ms: int) -> MessageBatch:
        """Return messages from `start` on; see `PartitionConsumer.fetch`."""
        first = start.value if isinstance(start, IntegerOffset) else int(str(start))
        with self._in_use:
            end = self._wait_beyond(first, timeout_ms)
            if first > end:
                raise PermanentStreamError(
                    f"{self._name} ends at offset {end}, before the offset {first} to read from: it is another topic"
                )
            if first == end:
                return MessageBatch.empty(IntegerOffset(first), end_offset=IntegerOffset(end))
            return self._read(first, end, max(max_messages, 1), max_bytes)

    def close(self) -> None:
        """Close the files; a fetch that waits returns."""
        self._closed.set()
        with self._in_use:
            self._leave_file()
            self._state.close()

    def _wait_beyond(self, first: int, timeout_ms: int) -> int:
        deadline = self._clock.monotonic_s() + timeout_ms / 1000
        pause = _POLL_S_MIN
        while not self._closed.is_set():
            end = self._state.durable
            left = deadline - self._clock.monotonic_s()
            if end != first or left <= 0:
                return end
            self._closed.wait(min(pause, left))
            pause = min(pause * 1.5, _POLL_S_MAX)
        return first

    # -- reading

    def _read(self, first: int, end: int, max_messages: int, max_bytes: int) -> MessageBatch:
        collected = _Collected(first, max_messages, max_bytes)
        lost_from: int | None = None
        while collected.end < end and not collected.is_full:
            try:
                self._read_blocks(end, collected)
            except (blocks.DamagedBlockError, FileNotFoundError):
                self._leave_file()
                if collected.parts:
                    break  # return the messages before the loss; the next fetch detects it again
                lost_from = collected.begin if lost_from is None else lost_from
                collected.begin = self._behind_loss(collected.begin, end)
        gap = None if lost_from is None else Gap(IntegerOffset(lost_from), IntegerOffset(collected.begin))
        return collected.batch(IntegerOffset(end), gap)

    def _read_blocks(self, end: int, collected: "_Collected") -> None:
        """Add the next messages from one read of the file.

        Raises DamagedBlockError and FileNotFoundError for an unreadable message; those before it are added.
        """
        place = self._seek(collected.end)
        data = self._pread(place, min(max(collected.bytes_left, _READ_BYTES_MIN), _READ_BYTES_MAX))
        view, buffer = memoryview(data), pa.py_buffer(data)
        before = place.position
        for header, start in blocks.walk(view, place.position, place.position + len(data)):
            if header.next_offset > end or collected.is_full:
                break
            if header.offset != place.offset:
                raise blocks.DamagedBlockError("the offsets do not follow each other")
            if collected.end < header.next_offset:
                blocks.check(header, view[start : start + header.end - header.position])
                collected.add(header, buffer, start)
                self._next = collected.end
                if collected.end < header.next_offset:
                    return  # no room for the rest
            place.position, place.offset = header.end, header.next_offset
        if place.position == before:
            if data or place.offset == place.base:
                raise blocks.DamagedBlockError("there is no whole block")
            self._open_file(place.offset)

    def _pread(self, place: _Place, size: int) -> bytes:
        data = os.pread(place.descriptor, size, place.position)
        if len(data) >= blocks.HEADER.size:
            first = blocks.read_header(data, 0, place.position)
            if first.end - first.position > len(data):
                data = os.pread(place.descriptor, first.end - first.position, place.position)
        return data

    def _seek(self, at: int) -> _Place:
        """Return the location of the message; raises FileNotFoundError if its file was deleted."""
        if self._place is not None and self._next == at:
            return self._place
        base = max((b for b in files.bases(self._folder) if b <= at), default=None)
        if base is None:
            raise FileNotFoundError(f"{self._name} no longer has the message at offset {at}")
        place = self._open_file(base)
        entries = files.read_index(self._folder, base)
        entry = int(np.searchsorted(entries["offset"], at, side="right")) - 1
        if entry >= 0:
            place.position, place.offset = int(entries[entry]["position"]), int(entries[entry]["offset"])
        self._next = at
        return place

    def _open_file(self, base: int) -> _Place:
        self._leave_file()
        self._place = _Place(base, os.open(files.log_path(self._folder, base), os.O_RDONLY), 0, base)
        return self._place

    def _leave_file(self) -> None:
        if self._place is not None:
            os.close(self._place.descriptor)
            self._place = None

    def _behind_loss(self, at: int, end: int) -> int:
        """Return the first offset after `at` of an intact block known from file names and indexes, or `end`."""
        for base in files.bases(self._folder):
            entries = files.read_index(self._folder, base)
            known = [(base, 0), *zip(entries["offset"].tolist(), entries["position"].tolist(), strict=True)]
            for offset, position in known:
                if at < offset < end and self._is_whole(base, position):
                    return int(offset)
        return end

    def _is_whole(self, base: int, position: int) -> bool:
        with suppress(FileNotFoundError, blocks.DamagedBlockError):
            descriptor = os.open(files.log_path(self._folder, base), os.O_RDONLY)
            try:
                header = blocks.read_header(os.pread(descriptor, blocks.HEADER.size, position), 0, position)
                blocks.check(header, memoryview(os.pread(descriptor, header.end - position, position)))
                return True
            finally:
                os.close(descriptor)
        return False


class _Collected:
    """The parts of a batch read so far."""

    def __init__(self, begin: int, max_messages: int, max_bytes: int) -> None:
        self.begin = begin
        self.parts: list[tuple[pa.BinaryArray, pa.BinaryArray | None]] = []
        self.count = 0
        self.is_full = False
        self.bytes_left = max_bytes
        self._messages_left = max_messages
        self._times: list[tuple[int, int]] = []

    @property
    def end(self) -> int:
        """The offset of the next message to add."""
        return self.begin + self.count

    def add(self, header: blocks.Header, buffer: pa.Buffer, at: int) -> None:
        """Add the messages of a block, from the next offset up to the limits of the batch."""
        payloads, keys = blocks.decode(header, buffer, at)
        start = self.end - header.offset
        ends = np.frombuffer(payloads.buffers()[1], np.int32)[start + 1 : header.count + 1]
        begin = int(np.frombuffer(payloads.buffers()[1], np.int32)[start])
        fitting = int(np.searchsorted(ends, begin + self.bytes_left, side="right"))
        if not fitting and not self.count:
            fitting = 1
        taken = min(fitting, self._messages_left)
        if taken:
            self.parts.append((payloads.slice(start, taken), None if keys is None else keys.slice(start, taken)))
            self._times.append((header.timestamp, taken))
            self.count += taken
            self._messages_left -= taken
            self.bytes_left -= int(ends[taken - 1]) - begin
        self.is_full = taken < header.count - start or self._messages_left <= 0 or self.bytes_left <= 0

    def batch(self, end: Offset, gap: Gap | None) -> MessageBatch:
        """Return the messages as a batch."""
        behind = IntegerOffset(self.end)
        if not self.parts:
            return MessageBatch.empty(behind, end_offset=end, gap=gap)
        times, counts = np.array(self._times, np.int64).T
        offsets = pa.array(np.arange(self.begin, behind.value, dtype=np.int64))
        payloads = pa.concat_arrays([part for part, _ in self.parts])
        return MessageBatch(payloads, offsets, np.repeat(times, counts), behind, end, False, gap, self._keys())

    def _keys(self) -> pa.BinaryArray | None:
        if all(keys is None for _, keys in self.parts):
            return None
        return pa.concat_arrays([pa.nulls(len(p), pa.binary()) if k is None else k for p, k in self.parts])


# -- offsets by criteria


def earliest(folder: Path) -> int:
    """Return the first offset that a partition still has; 0 if nothing was ever written."""
    return next(iter(files.bases(folder)), 0)


def offset_at_time(folder: Path, timestamp_ms: int, end: int) -> int:
    """Return the offset of the first block written at or after a time, `end` if there is none."""
    found = files.bases(folder)
    begun = [_first_time(folder, base) for base in found]
    for base, following in zip(found, [*begun[1:], None], strict=True):
        if following is not None and following < timestamp_ms:
            continue
        for header in _headers(folder, base, timestamp_ms):
            if header.timestamp >= timestamp_ms:
                return min(header.offset, end)
    return end


def _first_time(folder: Path, base: int) -> int | None:
    entries = files.read_index(folder, base)
    return int(entries[0]["timestamp"]) if len(entries) else None


def _headers(folder: Path, base: int, timestamp_ms: int) -> Iterator[blocks.Header]:
    """Yield the headers of a file's blocks, starting at the last index entry older than a time."""
    entries = files.read_index(folder, base)
    entry = int(np.searchsorted(entries["timestamp"], timestamp_ms, side="left")) - 1
    position = int(entries[entry]["position"]) if entry >= 0 else 0
    with suppress(FileNotFoundError, blocks.DamagedBlockError), files.log_path(folder, base).open("rb") as file:
        while data := os.pread(file.fileno(), blocks.HEADER.size, position):
            header = blocks.read_header(data, 0, position)
            yield header
            position = header.end
