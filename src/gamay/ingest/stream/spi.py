"""The interfaces of stream plug-ins (consumers, metadata, batches of messages) and of decoders.

All data is passed as batches of Arrow arrays. A stream type is a class that implements `StreamConsumerFactory`, registered
in the entry-point group `gamay.streams`; a decoder is a callable `(StreamConfig, InputFields) -> MessageDecoder` registered
in `gamay.decoders`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import GamayError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.offsets import Offset, OffsetCriteria, parse_integer_offset
from gamay.model.types import DataType

Int64s: TypeAlias = npt.NDArray[np.int64]

UNKNOWN_TIME = -1
"""The value in `timestamps_ms` of a message whose time of writing the stream does not know."""


class TransientStreamError(GamayError):
    """A temporary failure to read a stream: the call may succeed when retried, preferably on a new consumer."""

    http_status = 503


class PermanentStreamError(GamayError):
    """A failure that retrying does not resolve, such as a missing topic, a missing permission or a damaged file."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of messages that the stream lost before they were read: from `first` up to, not including, `next`."""

    first: Offset
    next: Offset

    def __str__(self) -> str:
        return f"the stream no longer has the messages from offset {self.first}; it goes on at {self.next}"


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages of one partition in the order of their offsets, as columns of equal length.

    payloads: binary; null is a tombstone, which has an offset but no row.
    offsets: int64, or text for streams whose offsets are not integers; ascending, not necessarily contiguous.
    timestamps_ms: when each was written, in milliseconds since 1970, or UNKNOWN_TIME.
    next_offset: where the next fetch starts. It may skip offsets after the last message (markers, compacted messages), and
    may be greater than the start even in a batch without messages.
    end_offset: the end of the partition as known when the batch was fetched, None if the stream does not report it.
    is_end_of_partition: the partition has ended for good (a closed shard), and this batch reaches its end.
    gap: the messages lost between the requested start and the first message, if any.
    keys: binary or None; headers: a map<string, binary> per message, or None when `metadata.populate` is off.
    """

    payloads: pa.BinaryArray
    offsets: pa.Array
    timestamps_ms: Int64s
    next_offset: Offset
    end_offset: Offset | None = None
    is_end_of_partition: bool = False
    gap: Gap | None = None
    keys: pa.BinaryArray | None = None
    headers: pa.MapArray | None = None
    parse_offset: Callable[[str], Offset] = parse_integer_offset

    @classmethod
    def empty(cls, next_offset: Offset, **rest: Any) -> "MessageBatch":
        """Return a batch without messages."""
        return cls(pa.array([], pa.binary()), pa.array([], pa.int64()), np.empty(0, np.int64), next_offset, **rest)

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def num_bytes(self) -> int:
        """The bytes of all payloads."""
        return int(pc.sum(pc.binary_length(self.payloads)).as_py() or 0)

    def offset(self, message: int) -> Offset:
        """Return the offset of a message, counted from 0."""
        return self.parse_offset(str(self.offsets[message].as_py()))

    def with_payloads(self, payloads: pa.BinaryArray) -> "MessageBatch":
        """Return the messages with their payloads replaced by an array of equal length."""
        return replace(self, payloads=payloads)

    def where(self, chosen: npt.NDArray[np.bool_]) -> "MessageBatch":
        """Return the messages selected by a mask, bool [messages]; `next_offset` and `end_offset` are unchanged."""
        mask = pa.array(chosen)
        return replace(
            self, payloads=self.payloads.filter(mask), offsets=self.offsets.filter(mask),
            timestamps_ms=self.timestamps_ms[chosen], keys=None if self.keys is None else self.keys.filter(mask),
            headers=None if self.headers is None else self.headers.filter(mask),
        )  # fmt: skip

    def part(self, start: int, stop: int) -> "MessageBatch":
        """Return the messages from `start` up to, not including, `stop`."""
        behind = self.head(stop)
        return MessageBatch(
            behind.payloads.slice(start), behind.offsets.slice(start), behind.timestamps_ms[start:],
            behind.next_offset, self.end_offset, behind.is_end_of_partition, None,
            None if behind.keys is None else behind.keys.slice(start),
            None if behind.headers is None else behind.headers.slice(start), self.parse_offset,
        )  # fmt: skip

    def head(self, messages: int) -> "MessageBatch":
        """Return the first `messages` messages; the next fetch reads the rest again."""
        if messages >= len(self):
            return self
        return MessageBatch(
            self.payloads.slice(0, messages), self.offsets.slice(0, messages), self.timestamps_ms[:messages],
            self.offset(messages), self.end_offset, False, self.gap,
            None if self.keys is None else self.keys.slice(0, messages),
            None if self.headers is None else self.headers.slice(0, messages), self.parse_offset,
        )  # fmt: skip

    def before(self, target: Offset) -> "MessageBatch":
        """Return the messages with offsets below `target`; `next_offset` is then `target` if the batch reaches it."""
        if not target < self.next_offset:
            return self
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.offset(middle) < target:
                low = middle + 1
            else:
                high = middle
        cut = self.head(low)
        return MessageBatch(
            cut.payloads, cut.offsets, cut.timestamps_ms, target, self.end_offset, False, self.gap, cut.keys, cut.headers,
            self.parse_offset,
        )  # fmt: skip


# -- decoding


@dataclass(frozen=True, slots=True)
class InputFields:
    """The input fields that a table reads.

    names: None when any field may be needed (flattened nested input). types: the type of the column that a field is stored
    in directly; fields read by expressions only have none. multi_value: columns of lists. as_written: fields each of whose
    values keeps the type in which it was written, independently of the other values.
    """

    names: frozenset[str] | None = None
    types: Mapping[str, DataType] = field(default_factory=dict)
    multi_value: frozenset[str] = frozenset()
    as_written: frozenset[str] = frozenset()

    def is_as_written(self, name: str) -> bool:
        """Whether values of a field keep their written types, as do those of all fields if nested input is flattened."""
        return self.names is None or name in self.as_written

    def wants(self, name: str) -> bool:
        """Whether a field of this name is read."""
        return self.names is None or name in self.names


ALL_FIELDS = InputFields()


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A message that cannot be decoded: its 0-based position in the batch, and the reason in one sentence."""

    message: int
    reason: str


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """The rows of a batch of messages.

    message_of_row: int64 [rows], ascending: the message of each row; a message may have many rows.
    undecodable: ascending by message. Messages with neither a row nor an entry are tombstones or empty.
    """

    rows: pa.RecordBatch
    message_of_row: Int64s
    undecodable: Sequence[Undecodable] = ()


class MessageDecoder(Protocol):
    """A decoder of batches of messages into rows. Not thread-safe."""

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return the rows. A message that cannot be decoded is listed with the reason and does not affect the others.

        Raises TransientStreamError when an external service, such as a schema registry, does not respond.
        """
        ...


DecoderFactory: TypeAlias = Callable[[StreamConfig, InputFields], MessageDecoder]

# -- consuming


class PartitionConsumer(Protocol):
    """A reader of one partition from any offset. Not thread-safe, except for `close`."""

    def fetch(self, start: Offset, max_messages: int, max_bytes: int, timeout_ms: int) -> MessageBatch:
        """Return messages from `start` on as soon as any are available, or an empty batch after the timeout.

        max_bytes: limit on the payloads; a larger message is returned alone. If the stream no longer has `start`, the batch
        begins with the earliest available message, and `gap` is the missing range.
        Raises TransientStreamError and PermanentStreamError.
        """
        ...

    def close(self) -> None:
        """Release connections and files; a fetch running in another thread returns soon."""
        ...


class StreamLevelConsumer(Protocol):
    """A member of a consumer group that reads its partitions from the group's last checkpoint (high-level consumption).

    A group without a checkpoint starts at the config's offset criterion. Only `commit` writes checkpoints. A partition that
    is revoked and assigned again resumes where it stopped.
    """

    def fetch(self, max_messages: int, timeout_ms: int) -> Mapping[int, MessageBatch]:
        """Return the next messages by partition; empty after the timeout."""
        ...

    def position(self) -> Mapping[int, Offset]:
        """Return the offset after the last message returned, for each partition of this member."""
        ...

    def commit(self, places: Mapping[int, Offset] | None = None) -> Mapping[int, Offset]:
        """Durably checkpoint the current position, or `places` in this member's partitions; return what was written."""
        ...

    def close(self) -> None:
        """Leave the group; messages that were not committed are delivered again to the next reader of the partitions."""
        ...


class StreamMetadataProvider(Protocol):
    """A source of a stream's partitions and offsets. Thread-safe."""

    def partition_ids(self) -> tuple[int, ...]:
        """Return the ids of the partitions to consume, ascending. Raises the errors of `PartitionConsumer.fetch`."""
        ...

    def offset(self, partition: int, criteria: OffsetCriteria) -> Offset:
        """Return the offset to start at; for a time, the first message written at or after it, or the end if none."""
        ...

    def latest_offset(self, partition: int) -> Offset:
        """Return a lower bound of the offset of the next message written, from which the lag is computed."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


@dataclass(frozen=True, slots=True)
class StreamContext:
    """The parts of the process's environment that a plug-in may need.

    folder: where the embedded log keeps its topics (`streams` in the data folder); None without a data folder.
    client_id: identifies this process to the stream.
    """

    folder: Path | None = None
    client_id: str = "gamay"
    clock: Clock = SYSTEM_CLOCK


class StreamConsumerFactory(Protocol):
    """One topic of a stream; its class is the plug-in."""

    properties: ClassVar[frozenset[str]]
    """The known config keys, without their prefix `stream.<type>.`; others with that prefix are rejected."""

    takes_client_properties: ClassVar[bool]
    """Whether keys without a prefix are passed to its client library."""

    @classmethod
    def addresses(cls, config: StreamConfig) -> Iterable[tuple[str, str]]:
        """Return the config key and URI (`<type>://host:port`) of each address to connect to, for the operator's allow list.

        A class without this method may connect anywhere. Raises InvalidConfigError for an invalid address.
        """
        ...

    def __init__(self, config: StreamConfig, context: StreamContext) -> None:
        """Store the config without connecting. Raises InvalidConfigError naming the missing or invalid key."""
        ...

    def parse_offset(self, text: str) -> Offset:
        """Parse an offset from the text that `str()` returns. Raises InvalidConfigError."""
        ...

    def partition_consumer(self, partition: int) -> PartitionConsumer:
        """Return a consumer of a partition."""
        ...

    def stream_consumer(self, group: str, begin: Mapping[int, Offset] | None = None) -> StreamLevelConsumer:
        """Return a member of a consumer group.

        begin: offsets to resume from instead of the checkpoint; partitions missing in it start at their first message.
        """
        ...

    def metadata(self) -> StreamMetadataProvider:
        """Return a metadata provider."""
        ...


# -- sending


class StreamProducer(Protocol):
    """A writer of messages to partitions of a topic. Not thread-safe."""

    def send(
        self, partition: int, payloads: pa.BinaryArray, keys: pa.BinaryArray | None, headers: pa.MapArray | None
    ) -> Sequence[Offset | GamayError]:
        """Write messages; return for each its offset once it is durable, or the error that prevented it, as far as is known.

        keys, headers: as in `MessageBatch`, of the same length as the payloads, or None; a stream without headers omits
        them. Raises the errors of `PartitionConsumer.fetch` when none of the messages was written.
        """
        ...

    def close(self) -> None:
        """Release connections and files."""
        ...


@runtime_checkable
class SendingStream(Protocol):
    """A `StreamConsumerFactory` that can also write to its topic, which replaying dead letters requires."""

    def producer(self) -> StreamProducer:
        """Return a producer for the topic. Raises as `StreamConsumerFactory.metadata` does."""
        ...
