"""Sending messages to a topic: to a given partition, by key, or round-robin."""

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.clock import Clock
from gamay.base.errors import RecordError
from gamay.ingest.convert.objects import json_text
from gamay.ingest.stream.log.topic import Topic
from gamay.ingest.stream.log.writer import PartitionWriter
from gamay.kernels.hash.hashing import murmur2


class Producer:
    """A producer that appends to the partitions of one topic; messages are durable once `send` returns."""

    def __init__(self, topic: Topic, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock
        self._partitions = topic.config().partitions
        self._writers: dict[int, PartitionWriter] = {}
        self._turn = 0
        self.ends: dict[int, int] = {}
        """The offset after this producer's last message, by partition."""

    def send(self, payloads: pa.BinaryArray, keys: pa.BinaryArray | None = None, partition: int | None = None) -> None:
        """Append messages durably: to `partition` if given, else by the hash of their keys, else round-robin.

        Messages with equal keys keep their order; messages without a key are distributed round-robin. Raises NotFoundError
        for an unknown partition, and DiskFullError.
        """
        written: dict[int, int] = {}
        if partition is not None:
            _, written[partition] = self._writer(partition).write(payloads, keys)
        else:
            targets = self._targets(len(payloads), keys)
            for target in np.unique(targets).tolist():
                chosen = pa.array(np.flatnonzero(targets == target))
                _, written[target] = self._writer(target).write(
                    payloads.take(chosen), None if keys is None else keys.take(chosen)
                )
        for target, end in written.items():
            self._writer(target).sync(end)
        self.ends |= written

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()

    def _targets(self, messages: int, keys: pa.BinaryArray | None) -> npt.NDArray[np.int64]:
        turns = (np.arange(messages, dtype=np.int64) + self._turn) % self._partitions
        self._turn = (self._turn + messages) % self._partitions
        return turns if keys is None else np.where(keys.is_valid(), partition_of(keys, self._partitions), turns)

    def _writer(self, partition: int) -> PartitionWriter:
        if partition not in self._writers:
            self._writers[partition] = PartitionWriter(self._topic, partition, self._clock)
        return self._writers[partition]


def partition_of(keys: pa.BinaryArray, partitions: int) -> npt.NDArray[np.int64]:
    """Return the partition of each key by Kafka's default partitioner (`Murmur` in table configs); arbitrary for null."""
    keys = pc.fill_null(keys, b"")
    _, offsets, values = keys.buffers()
    positions = np.frombuffer(offsets, np.int32, len(keys) + 1, 4 * keys.offset).astype(np.int64)
    data = np.frombuffer(values, np.uint8) if values is not None else np.empty(0, np.uint8)
    hashes = np.empty(len(keys), np.int64)
    murmur2(data, positions, hashes)
    return (hashes & 0x7FFFFFFF) % partitions


def keys_of_lines(lines: pa.BinaryArray, column: str, first_line: int = 1) -> pa.BinaryArray:
    """Return a JSON field's value in each line as UTF-8 text; raises RecordError for a line without it."""
    found: list[bytes | None] = []
    for number, line in enumerate(lines.to_pylist(), first_line):
        if not line:
            found.append(None)
            continue
        try:
            value = orjson.loads(line)[column]
        except (ValueError, TypeError):
            raise RecordError(f"line {number} is not a JSON object: {line[:80]!r}") from None
        except KeyError:
            raise RecordError(f"line {number} has no column '{column}', which is to be its key") from None
        found.append((value if isinstance(value, str) else json_text(value)).encode())
    return pa.array(found, pa.binary())
