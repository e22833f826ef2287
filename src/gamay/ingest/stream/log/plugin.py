"""The stream type `log`: consumers and metadata of embedded topics."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from gamay.base.clock import Clock
from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.log import files
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.reader import PartitionReader, earliest, offset_at_time
from gamay.ingest.stream.log.topic import Topic, open_topic
from gamay.ingest.stream.log.writer import ensure_recovered
from gamay.ingest.stream.offsets import SMALLEST, IntegerOffset, Offset, OffsetCriteria, OffsetKind, parse_integer_offset
from gamay.ingest.stream.spi import MessageBatch, PermanentStreamError, StreamContext
from gamay.storage.files import atomic_write

_FETCH_BYTES = 16 << 20
_FOLDER_KEY = "folder"


class LogStream:
    """A topic of the embedded log as a `StreamConsumerFactory`."""

    properties: ClassVar[frozenset[str]] = frozenset({_FOLDER_KEY})
    takes_client_properties: ClassVar[bool] = False

    @classmethod
    def addresses(cls, config: StreamConfig) -> Iterator[tuple[str, str]]:
        """Yield nothing: topics are local folders."""
        yield from ()

    def __init__(self, config: StreamConfig, context: StreamContext) -> None:
        folder = Path(config.properties[_FOLDER_KEY]) if _FOLDER_KEY in config.properties else context.folder
        if folder is None:
            raise InvalidConfigError(
                f"{config.property_key(_FOLDER_KEY)} is required here: without a data folder, nothing tells where topics lie"
            )
        self._config = config
        self._context = context
        self._folder = folder

    def parse_offset(self, text: str) -> Offset:
        """Parse an offset of the log, an integer."""
        return parse_integer_offset(text)

    def partition_consumer(self, partition: int) -> PartitionReader:
        """Return a consumer of a partition; raises PermanentStreamError for an unknown topic or partition."""
        topic = self._topic()
        try:
            return PartitionReader(topic, partition, self._context.clock)
        except NotFoundError as error:
            raise PermanentStreamError(str(error)) from error

    def stream_consumer(self, group: str, begin: Mapping[int, Offset] | None = None) -> "LogGroupConsumer":
        """Return a member of a consumer group."""
        return LogGroupConsumer(self, group, begin)

    def metadata(self) -> "LogMetadata":
        """Return the topic's metadata; raises PermanentStreamError for an unknown topic."""
        return LogMetadata(self._topic(), self._context.clock)

    def producer(self) -> "LogProducer":
        """Return a producer for the topic; raises PermanentStreamError for an unknown topic."""
        return LogProducer(self._topic(), self._context.clock)

    @property
    def criteria(self) -> OffsetCriteria:
        """The criterion for where a group without a checkpoint starts."""
        return self._config.offset_criteria

    @property
    def group_root(self) -> Path:
        """The folder of the groups' checkpoints."""
        return self._topic().folder / "groups"

    def _topic(self) -> Topic:
        try:
            return open_topic(self._folder, self._config.topic)
        except NotFoundError as error:
            raise PermanentStreamError(str(error)) from error


class LogMetadata:
    """A `StreamMetadataProvider` that holds no open resources."""

    def __init__(self, topic: Topic, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock

    def partition_ids(self) -> tuple[int, ...]:
        """Return the ids, 0 to the number of partitions - 1."""
        return tuple(range(self._topic.config().partitions))

    def offset(self, partition: int, criteria: OffsetCriteria) -> Offset:
        """Return the offset that a criterion selects; for a time, the first offset of a block."""
        folder = self._folder(partition)
        if criteria.kind is OffsetKind.SMALLEST:
            return IntegerOffset(earliest(folder))
        end = self._end(partition)
        time = criteria.timestamp_ms(self._clock.now_ms())
        return IntegerOffset(end if time is None else offset_at_time(folder, time, end))

    def latest_offset(self, partition: int) -> Offset:
        """Return the offset after the last durable message."""
        return IntegerOffset(self._end(partition))

    def close(self) -> None:
        """Do nothing: no resources are open."""

    def _end(self, partition: int) -> int:
        folder = self._folder(partition)
        ensure_recovered(self._topic, partition, self._clock)
        state = files.SharedState(folder)
        try:
            return state.durable
        finally:
            state.close()

    def _folder(self, partition: int) -> Path:
        try:
            return self._topic.partition_folder(partition)
        except NotFoundError as error:
            raise PermanentStreamError(str(error)) from error


class LogProducer:
    """A `StreamProducer` of a topic, which discards headers."""

    def __init__(self, topic: Topic, clock: Clock) -> None:
        self._producer = Producer(topic, clock)

    def send(
        self, partition: int, payloads: pa.BinaryArray, keys: pa.BinaryArray | None, headers: pa.MapArray | None
    ) -> list[Offset]:
        """Append messages and return their offsets; see `StreamProducer.send`."""
        try:
            self._producer.send(payloads, keys, partition)
        except NotFoundError as error:
            raise PermanentStreamError(str(error)) from error
        end = self._producer.ends[partition]
        return [IntegerOffset(offset) for offset in range(end - len(payloads), end)]

    def close(self) -> None:
        """Close the files."""
        self._producer.close()


class LogGroupConsumer:
    """A `StreamLevelConsumer`: a member of a group that owns its partitions until it closes or its process dies.

    A member takes every partition that no other member owns. Checkpoints are files, one per partition.
    """

    def __init__(self, stream: LogStream, group: str, begin: Mapping[int, Offset] | None = None) -> None:
        """Join the group; raises InvalidConfigError for a name that is not a valid folder name."""
        if not group or not set(group) <= set(_GROUP_LETTERS) or group.startswith("."):
            raise InvalidConfigError(
                f"'{group}' cannot be the name of a consumer group; use letters, digits, '.', '_' and '-'"
            )
        self._stream = stream
        self._given = begin
        self._folder = stream.group_root / group
        self._folder.mkdir(parents=True, exist_ok=True)
        self._metadata = stream.metadata()
        self._owned: dict[int, tuple[int, PartitionReader]] = {}
        self._position: dict[int, Offset] = {}
        self._turn = 0

    def fetch(self, max_messages: int, timeout_ms: int) -> Mapping[int, MessageBatch]:
        """Return the next messages, taking partitions in turn; see `StreamLevelConsumer.fetch`."""
        self._take_free_partitions()
        found: dict[int, MessageBatch] = {}
        left = max_messages
        partitions = sorted(self._owned)
        for step in range(len(partitions)):
            partition = partitions[(self._turn + step) % len(partitions)]
            wait = timeout_ms // len(partitions) if not found else 0
            batch = self._owned[partition][1].fetch(self._position[partition], left, _FETCH_BYTES, wait)
            self._position[partition] = batch.next_offset
            if len(batch) or batch.gap is not None:
                found[partition] = batch
                left -= len(batch)
            if left <= 0:
                break
        self._turn += 1
        return found

    def position(self) -> Mapping[int, Offset]:
        """Return the position of each partition that this member owns."""
        return dict(self._position)

    def commit(self, places: Mapping[int, Offset] | None = None) -> Mapping[int, Offset]:
        """Write the checkpoints of the position or of `places`; return what was written."""
        written = dict(self._position if places is None else places)
        for partition, offset in written.items():
            atomic_write(self._folder / f"{partition}.offset", str(offset).encode())
        return written

    def close(self) -> None:
        """Release the partitions to other members."""
        for descriptor, reader in self._owned.values():
            reader.close()
            os.close(descriptor)
        self._owned.clear()
        self._position.clear()
        self._metadata.close()

    def _take_free_partitions(self) -> None:
        for partition in self._metadata.partition_ids():
            if partition not in self._owned:
                descriptor = os.open(self._folder / f"{partition}.lock", os.O_RDWR | os.O_CREAT, 0o644)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(descriptor)
                    continue
                self._owned[partition] = (descriptor, self._stream.partition_consumer(partition))
                self._position[partition] = self._begin(partition)

    def _begin(self, partition: int) -> Offset:
        if self._given is not None:
            given = self._given.get(partition)
            return self._metadata.offset(partition, SMALLEST) if given is None else given
        with suppress(FileNotFoundError):
            return parse_integer_offset((self._folder / f"{partition}.offset").read_text())
        return self._metadata.offset(partition, self._stream.criteria)


_GROUP_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
