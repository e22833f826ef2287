"""What a stream plug-in provides: consumers, metadata and batches of messages; and what a decoder makes of a batch.

Everything moves in batches of Arrow arrays. A stream type is a class that implements `StreamConsumerFactory`, named in the
entry-point group `gamay.streams`; a decoder is a callable `(StreamConfig, InputFields) -> MessageDecoder` named in
`gamay.decoders`.
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
"""In `timestamps_ms`: the stream does not know when the message was written."""


class TransientStreamError(GamayError):
    """The stream cannot be read now; the same call may succeed later, best on a new consumer."""

    http_status = 503


class PermanentStreamError(GamayError):
    """The stream cannot be read at all: no such topic, no permission, a damaged file. Trying again is no use."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that the stream had lost before they were read: from `first` up to, not including, `next`."""

    first: Offset
    next: Offset

    def __str__(self) -> str:
        return f"the stream no longer has the messages from offset {self.first}; it goes on at {self.next}"


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages of one partition in the order of their offsets, as columns of equal length.

    payloads: binary; null is a tombstone: no row, but its offset counts.
    offsets: int64, or text for streams whose offsets are not integers; ascending, not necessarily contiguous.
    timestamps_ms: when each was written, in milliseconds since 1970, or UNKNOWN_TIME.
    next_offset: where the next fetch begins. It may lie behind the last message (markers, compacted messages), and may be
    ahead of the start although there are no messages.
    end_offset: the end of the partition as known when the batch was fetched, None if the stream does not tell.
    is_end_of_partition: the partition has ended for good (a closed shard), and this batch reaches its end.
    gap: what the stream had lost between the wanted start and the first message.
    keys: binary or None; headers: one map<string, binary> a message, or None when `metadata.populate` is off.
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
        """Return the same messages with other payloads, as many."""
        return replace(self, payloads=payloads)

    def where(self, chosen: npt.NDArray[np.bool_]) -> "MessageBatch":
        """Return the messages that are chosen, bool [messages]; the offsets before and behind stay as they are."""
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
        """Return the first messages; what follows them is read again by the next fetch."""
        if messages >= len(self):
            return self
        return MessageBatch(
            self.payloads.slice(0, messages), self.offsets.slice(0, messages), self.timestamps_ms[:messages],
            self.offset(messages), self.end_offset, False, self.gap,
            None if self.keys is None else self.keys.slice(0, messages),
            None if self.headers is None else self.headers.slice(0, messages), self.parse_offset,
        )  # fmt: skip

    def before(self, target: Offset) -> "MessageBatch":
        """Return the messages whose offsets lie below `target`, which is then the next offset if it is reached."""
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
    """The fields of the input that a table reads.

    names: None when any may be needed (nested input that is flattened). types: the type of the column that a field
    fills as it is; fields that only expressions read have none. multi_value: columns that hold lists. as_written: fields
    whose values each count as what they were written as, whatever type the others have.
    """

    names: frozenset[str] | None = None
    types: Mapping[str, DataType] = field(default_factory=dict)
    multi_value: frozenset[str] = frozenset()
    as_written: frozenset[str] = frozenset()

    def is_as_written(self, name: str) -> bool:
        """Whether each value of a field is taken as it was written; so are all where nested input is made flat."""
        return self.names is None or name in self.as_written

    def wants(self, name: str) -> bool:
        """Whether a field of this name is read."""
        return self.names is None or name in self.names


ALL_FIELDS = InputFields()


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A message that is no record: its place in the batch from 0, and why, in one sentence."""

    message: int
    reason: str


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """The rows of a batch of messages.

    message_of_row: int64 [rows], ascending: the message that each row came from; one message may hold many rows.
    undecodable: ascending by message. Messages with neither a row nor an entry there are tombstones or empty.
    """

    rows: pa.RecordBatch
    message_of_row: Int64s
    undecodable: Sequence[Undecodable] = ()


class MessageDecoder(Protocol):
    """Turns messages into rows, a batch at a time. It belongs to one thread."""

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return the rows. A message that cannot be decoded never fails the others: it is listed with the reason.

        Raises TransientStreamError when something outside, such as a schema registry, does not answer.
        """
        ...


DecoderFactory: TypeAlias = Callable[[StreamConfig, InputFields], MessageDecoder]

# -- consuming


class PartitionConsumer(Protocol):
    """Reads one partition from any offset; it belongs to one thread, except for `close`."""

    def fetch(self, start: Offset, max_messages: int, max_bytes: int, timeout_ms: int) -> MessageBatch:
        """Return messages from `start` on as soon as there are any, or an empty batch after the timeout.

        max_bytes: bound on the payloads; one message larger than that is returned alone. When the stream has lost `start`,
        the batch begins with the earliest message that there is, and `gap` tells what is missing.
        Raises TransientStreamError and PermanentStreamError.
        """
        ...

    def close(self) -> None:
        """Give up connections and files; a fetch that runs in another thread returns soon."""
        ...


class StreamLevelConsumer(Protocol):
    """Reads all partitions, or this member's share of them, from the group's last checkpoint (high-level consumption).

    A group without a checkpoint begins by the config's offset criterion. Nothing is checkpointed unless `commit` is called.
    A partition that was taken away and given back goes on where it was.
    """

    def fetch(self, max_messages: int, timeout_ms: int) -> Mapping[int, MessageBatch]:
        """Return the next messages by partition; none after the timeout."""
        ...

    def position(self) -> Mapping[int, Offset]:
        """Return for each partition of this member the offset behind the last message that was returned."""
        ...

    def commit(self, places: Mapping[int, Offset] | None = None) -> Mapping[int, Offset]:
        """Make the present position, or `places` in this member's partitions, the group's checkpoint, durably; return it."""
        ...

    def close(self) -> None:
        """Leave the group; what was not committed is returned again to whoever reads the partitions next."""
        ...


class StreamMetadataProvider(Protocol):
    """Asks the stream about partitions and offsets; it may be used by several threads."""

    def partition_ids(self) -> tuple[int, ...]:
        """Return the ids of the partitions to consume, ascending. Raises the errors of `PartitionConsumer.fetch`."""
        ...

    def offset(self, partition: int, criteria: OffsetCriteria) -> Offset:
        """Return where to begin: of a time, the first message written at or after it, or the end if there is none."""
        ...

    def latest_offset(self, partition: int) -> Offset:
        """Return the offset that the next message written will have, at least: the lag is counted against it."""
        ...

    def close(self) -> None:
        """Give up connections."""
        ...


@dataclass(frozen=True, slots=True)
class StreamContext:
    """What a plug-in may need of the process it runs in.

    folder: where the embedded log keeps its topics (`streams` in the data folder); None where there is no data folder.
    client_id: names this process to the stream.
    """

    folder: Path | None = None
    client_id: str = "gamay"
    clock: Clock = SYSTEM_CLOCK


class StreamConsumerFactory(Protocol):
    """One topic of one stream; the class is the plug-in."""

    properties: ClassVar[frozenset[str]]
    """The names of its own keys, without `stream.<type>.`; all others below that prefix are unknown."""

    takes_client_properties: ClassVar[bool]
    """Whether keys without any prefix are settings of its client library."""

    @classmethod
    def addresses(cls, config: StreamConfig) -> Iterable[tuple[str, str]]:
        """Return key and URI, `<type>://host:port`, of all that a config has the stream connect to, for the operator's list.

        A class without this may connect to anything. Raises InvalidConfigError for what is no address.
        """
        ...

    def __init__(self, config: StreamConfig, context: StreamContext) -> None:
        """Keep the config; nothing is opened. Raises InvalidConfigError that names the key which is missing or wrong."""
        ...

    def parse_offset(self, text: str) -> Offset:
        """Read an offset as `str()` of it was written. Raises InvalidConfigError."""
        ...

    def partition_consumer(self, partition: int) -> PartitionConsumer:
        """Return a consumer of a partition."""
        ...

    def stream_consumer(self, group: str, begin: Mapping[int, Offset] | None = None) -> StreamLevelConsumer:
        """Return a member of a consumer group. begin: where to read on whatever the checkpoint; others from their start."""
        ...

    def metadata(self) -> StreamMetadataProvider:
        """Return a metadata provider."""
        ...


# -- sending


class StreamProducer(Protocol):
    """Writes messages to partitions of a topic; it belongs to one thread."""

    def send(
        self, partition: int, payloads: pa.BinaryArray, keys: pa.BinaryArray | None, headers: pa.MapArray | None
    ) -> Sequence[Offset | GamayError]:
        """Return for each message its offset, once it is durable, or why it is not there, as far as is known.

        keys, headers: as `MessageBatch` has them, as long as the payloads, or None; a stream without headers leaves these
        out. Raises the errors of `PartitionConsumer.fetch` when none of the messages was written.
        """
        ...

    def close(self) -> None:
        """Give up connections and files."""
        ...


@runtime_checkable
class SendingStream(Protocol):
    """What a `StreamConsumerFactory` also is that can write to its topic; dead letters can be replayed there."""

    def producer(self) -> StreamProducer:
        """Return a producer of the topic. Raises as `StreamConsumerFactory.metadata` does."""
        ...
