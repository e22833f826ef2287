"""The stream type `kafka`, on librdkafka through confluent-kafka (`pip install gamay[kafka]`)."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.kafka_settings import (
    PROPERTIES,
    broker_addresses,
    client_settings,
    partition_ids,
    producer_settings,
)
from gamay.ingest.stream.offsets import IntegerOffset, Offset, OffsetCriteria, OffsetKind, parse_integer_offset
from gamay.ingest.stream.spi import (
    Gap,
    MessageBatch,
    PermanentStreamError,
    StreamContext,
    TransientStreamError,
)

_LOG = logging.getLogger(__name__)
_CONSUME_MAX = 20_000
"""Messages requested from librdkafka in one call; it accepts up to a million."""


_REPORTS_WITHIN_S = 5


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise InvalidConfigError(
            "streamType 'kafka' needs the package confluent-kafka: pip install 'gamay[kafka]'"
        ) from None
    return confluent_kafka


class KafkaStream:
    """A Kafka topic as a `StreamConsumerFactory`."""

    properties: ClassVar[frozenset[str]] = PROPERTIES
    takes_client_properties: ClassVar[bool] = True

    @classmethod
    def addresses(cls, config: StreamConfig) -> Iterator[tuple[str, str]]:
        """Yield the config key and URI of each broker in the config."""
        return broker_addresses(config)

    def __init__(self, config: StreamConfig, context: StreamContext) -> None:
        _library()
        self.config = config
        self._context = context
        self.partition_ids = partition_ids(config)
        self.settings = client_settings(config, context.client_id)

    def parse_offset(self, text: str) -> Offset:
        """Parse a Kafka offset, an integer."""
        return parse_integer_offset(text)

    def partition_consumer(self, partition: int) -> "KafkaPartitionConsumer":
        """Return a consumer of a partition that joins no consumer group."""
        return KafkaPartitionConsumer(self, partition)

    def stream_consumer(self, group: str, begin: Mapping[int, Offset] | None = None) -> "KafkaGroupConsumer":
        """Return a member of a Kafka consumer group."""
        return KafkaGroupConsumer(self, group, begin)

    def metadata(self) -> "KafkaMetadata":
        """Return the topic's metadata."""
        return KafkaMetadata(self, self._context)

    def producer(self) -> "KafkaProducer":
        """Return a producer of the topic."""
        return KafkaProducer(self, producer_settings(self.config, self._context.client_id))

    def open_consumer(self, **settings: Any) -> Any:
        """Return a `confluent_kafka.Consumer`; raises InvalidConfigError for a setting that librdkafka rejects."""
        return self.open_client(_library().Consumer, {**self.settings, **settings})

    def open_client(self, client: Any, settings: Mapping[str, Any]) -> Any:
        """Return a client of the given class of confluent-kafka. Raises the same errors as `open_consumer`."""
        library = _library()
        try:
            return client(settings, logger=_LOG)
        except library.KafkaException as error:
            raise InvalidConfigError(f"the stream of topic '{self.config.topic}': {_text(error)}") from error
        except (TypeError, ValueError, AttributeError) as error:  # a setting whose value is not a string, such as error_cb
            raise InvalidConfigError(f"the stream of topic '{self.config.topic}': {error}") from error

    def failure(self, error: Any, doing: str) -> TransientStreamError | PermanentStreamError:
        """Return the exception to raise for an error of librdkafka."""
        code = error.args[0] if isinstance(error, BaseException) else error
        kinds = _library().KafkaError
        permanent = (
            kinds.UNKNOWN_TOPIC_OR_PART, kinds._UNKNOWN_TOPIC, kinds._UNKNOWN_PARTITION, kinds.TOPIC_AUTHORIZATION_FAILED,
            kinds.GROUP_AUTHORIZATION_FAILED, kinds.CLUSTER_AUTHORIZATION_FAILED, kinds.SASL_AUTHENTICATION_FAILED,
            kinds._AUTHENTICATION, kinds.TOPIC_EXCEPTION, kinds._FATAL,
        )  # fmt: skip
        raised = PermanentStreamError if code.code() in permanent or code.fatal() else TransientStreamError
        return raised(f"{self.place}, {doing}: {_text(error)}")

    @property
    def place(self) -> str:
        """The topic and its brokers, for messages."""
        return f"Kafka topic '{self.config.topic}' at {self.settings['bootstrap.servers']}"


def _text(error: Any) -> str:
    code = error.args[0] if isinstance(error, BaseException) else error
    return f"{code.str()} ({code.name()})"


class KafkaPartitionConsumer:
    """A `PartitionConsumer` of one partition.

    The client keeps prefetching while each fetch starts where the previous one ended; messages that exceed a fetch's limits
    are kept for the next fetch.
    """

    def __init__(self, stream: KafkaStream, partition: int) -> None:
        self._stream = stream
        self._partition = partition
        self._consumer = stream.open_consumer()
        self._position = -1  # the offset that the client reads next, -1 before the first
        self._rest: list[Any] = []
        self._closed = threading.Event()
        self._in_use = threading.Lock()

    def fetch(self, start: Offset, max_messages: int, max_bytes: int, timeout_ms: int) -> MessageBatch:
        """Return messages from `start` on; see `PartitionConsumer.fetch`."""
        first = start.value if isinstance(start, IntegerOffset) else int(str(start))
        with self._in_use:
            if self._closed.is_set():
                return MessageBatch.empty(start)
            gap = None
            begin = first
            if first != self._position:
                begin, gap = self._seek(first)
            messages = self._rest or self._consume(min(max_messages, _CONSUME_MAX), timeout_ms)
            self._rest = []
            if messages and messages[0].error() is not None:
                return self._after_error(first, messages[0].error(), gap)
            taken = _fitting(messages, max_messages, max_bytes)
            self._rest = messages[taken:]
            if taken:
                self._position = messages[taken - 1].offset() + 1
            return self._batch(messages[:taken], begin, gap)

    def close(self) -> None:
        """Close the connections; a fetch that waits returns."""
        if self._closed.is_set():
            return
        self._closed.set()
        with self._in_use:
            self._consumer.close()

    def _consume(self, max_messages: int, timeout_ms: int) -> list[Any]:
        """Wait for the first message; return it with those already received, or a lone error."""
        library = _library()
        try:
            left_ms = timeout_ms
            while not self._closed.is_set():
                step_ms = min(left_ms, 200)
                found: list[Any] = self._consumer.consume(1, step_ms / 1000)
                left_ms -= step_ms
                if found or left_ms <= 0:
                    break
            else:
                return []
            if found and found[0].error() is None and max_messages > 1:
                found += self._consumer.consume(max_messages - 1, 0)
        except library.KafkaException as error:
            self._position = -1
            raise self._stream.failure(error, f"partition {self._partition}") from error
        if not any(map(library.Message.error, found)):
            return found
        first_error = next(i for i, message in enumerate(found) if message.error() is not None)
        return found[: max(first_error, 1)]  # the messages before the error, or the error alone if it is first

    def _seek(self, first: int) -> tuple[int, Gap | None]:
        """Start reading at an offset, or at the earliest one available; return that position and the gap skipped, if any."""
        library = _library()
        low, high = self._watermarks(cached=False)
        if first > high:
            raise PermanentStreamError(
                f"partition {self._partition} of {self._stream.place} ends at offset {high}, "
                f"before the offset {first} to read from: it is another topic"
            )
        begin = max(first, low)
        self._rest = []
        try:
            self._consumer.assign([library.TopicPartition(self._stream.config.topic, self._partition, begin)])
        except library.KafkaException as error:
            raise self._stream.failure(error, f"partition {self._partition}") from error
        self._position = begin
        return begin, Gap(IntegerOffset(first), IntegerOffset(begin)) if begin > first else None

    def _after_error(self, first: int, error: Any, gap: Gap | None) -> MessageBatch:
        kinds = _library().KafkaError
        if error.code() in (kinds.OFFSET_OUT_OF_RANGE, kinds._AUTO_OFFSET_RESET):
            begin, lost = self._seek(first)  # retention deleted the messages before this consumer read them
            return MessageBatch.empty(IntegerOffset(begin), gap=lost or gap)
        self._position = -1
        raise self._stream.failure(error, f"partition {self._partition}")

    def _batch(self, messages: Sequence[Any], begin: int, gap: Gap | None) -> MessageBatch:
        end = self._watermarks(cached=True)[1]
        reached = begin
        if messages:
            reached = messages[-1].offset() + 1
        elif not self._rest:
            reached = max(begin, self._consumer_position())  # skips transaction markers
        self._position = reached
        end_offset = IntegerOffset(max(end, reached)) if end >= 0 else None
        if not messages:
            return MessageBatch.empty(IntegerOffset(reached), end_offset=end_offset, gap=gap)
        with_headers = self._stream.config.metadata_populate
        return to_batch(messages, with_headers, IntegerOffset(reached), end_offset, gap)

    def _consumer_position(self) -> int:
        library = _library()
        (at,) = self._consumer.position([library.TopicPartition(self._stream.config.topic, self._partition)])
        return int(at.offset)

    def _watermarks(self, cached: bool) -> tuple[int, int]:
        return watermarks(self._stream, self._consumer, self._partition, cached)


def watermarks(stream: KafkaStream, consumer: Any, partition: int, cached: bool) -> tuple[int, int]:
    """Return the first offset of a partition and the one after its last message; cached: -1001 where unknown."""
    library = _library()
    at = library.TopicPartition(stream.config.topic, partition)
    try:
        found = consumer.get_watermark_offsets(at, timeout=stream.config.connection_timeout_ms / 1000, cached=cached)
    except library.KafkaException as error:
        raise stream.failure(error, f"partition {partition}") from error
    if found is None:
        raise TransientStreamError(f"{stream.place}, partition {partition}: no offsets in time")
    return int(found[0]), int(found[1])


def _fitting(messages: Sequence[Any], max_messages: int, max_bytes: int) -> int:
    """Return how many of the first messages fit within the limits, at least 1."""
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    fitting = int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right"))
    return min(max(fitting, 1), max_messages, len(messages))


def to_batch(
    messages: Sequence[Any], with_headers: bool, next_offset: Offset, end_offset: Offset | None, gap: Gap | None
) -> MessageBatch:
    """Return one or more messages of confluent-kafka as a batch."""
    kind = type(messages[0])
    keys = list(map(kind.key, messages))
    headers = None
    if with_headers:
        pairs = [[(n, v or b"") for n, v in m.headers() or ()] for m in messages]
        headers = pa.array(pairs, pa.map_(pa.string(), pa.binary()))
    return MessageBatch(
        _binary(list(map(kind.value, messages))),
        pa.array(list(map(kind.offset, messages)), pa.int64()),
        np.array([time for _, time in map(kind.timestamp, messages)], np.int64),
        next_offset,
        end_offset,
        gap=gap,
        keys=_binary(keys) if any(key is not None for key in keys) else None,
        headers=headers,
    )


def _binary(values: list[bytes | None]) -> pa.BinaryArray:
    """Return byte strings as an array; several times faster than `pa.array` if none is null."""
    if None in values:
        return pa.array(values, pa.binary())
    present = cast(list[bytes], values)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, present), np.int32, len(values)), out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(present))])


class KafkaGroupConsumer:
    """A `StreamLevelConsumer`: a member of a consumer group to which Kafka assigns partitions."""

    def __init__(self, stream: KafkaStream, group: str, begin: Mapping[int, Offset] | None = None) -> None:
        criteria = stream.config.offset_criteria
        if begin is None and criteria.timestamp_ms(0) is not None:
            key = stream.config.property_key("consumer.prop.auto.offset.reset")
            raise InvalidConfigError(f"{key}: a consumer group can begin at smallest or largest only")
        reset = "earliest" if begin is not None or criteria.kind is OffsetKind.SMALLEST else "latest"
        self._stream = stream
        self._consumer = stream.open_consumer(**{"group.id": group, "auto.offset.reset": reset})
        self._position: dict[int, Offset] = {}
        self._given = begin is not None
        self._resume: dict[int, Offset] = dict(begin or {})  # of partitions not currently assigned to this member
        self._consumer.subscribe(
            [stream.config.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def fetch(self, max_messages: int, timeout_ms: int) -> Mapping[int, MessageBatch]:
        """Return the next messages by partition; see `StreamLevelConsumer.fetch`."""
        library = _library()
        try:
            messages = self._consumer.consume(1, timeout_ms / 1000)
            if messages and max_messages > 1:
                messages += self._consumer.consume(min(max_messages, _CONSUME_MAX) - 1, 0)
        except library.KafkaException as error:
            raise self._stream.failure(error, "consumer group") from error
        by_partition: dict[int, list[Any]] = {}
        for message in messages:
            if message.error() is not None:
                raise self._stream.failure(message.error(), "consumer group")
            by_partition.setdefault(message.partition(), []).append(message)
        found = {}
        for partition, mine in by_partition.items():
            behind = IntegerOffset(mine[-1].offset() + 1)
            found[partition] = to_batch(mine, self._stream.config.metadata_populate, behind, None, None)
            self._position[partition] = behind
        return found

    def position(self) -> Mapping[int, Offset]:
        """Return the next offset to read, for each partition that this member has read or was given a start for."""
        return dict(self._position)

    def commit(self, places: Mapping[int, Offset] | None = None) -> Mapping[int, Offset]:
        """Commit the position, or `places`, to Kafka synchronously; return the offsets committed."""
        library = _library()
        written = dict(self._position if places is None else places)
        offsets = [
            library.TopicPartition(self._stream.config.topic, partition, int(str(offset)))
            for partition, offset in written.items()
        ]
        try:
            for done in self._consumer.commit(offsets=offsets, asynchronous=False) if offsets else ():
                if done.error is not None:
                    raise self._stream.failure(done.error, "commit")
        except library.KafkaException as error:
            raise self._stream.failure(error, "commit") from error
        return written

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        for partition in partitions:
            offset = self._resume.pop(partition.partition, None)
            if offset is None and self._given:
                offset = IntegerOffset(watermarks(self._stream, consumer, partition.partition, cached=False)[0])
            if offset is not None:
                partition.offset = int(str(offset))
                self._position[partition.partition] = offset
        consumer.assign(partitions)

    def _revoked(self, _: Any, partitions: Sequence[Any]) -> None:
        for partition in partitions:
            offset = self._position.pop(partition.partition, None)
            if offset is not None and self._given:  # else any member resumes at the checkpoint
                self._resume[partition.partition] = offset


class KafkaMetadata:
    """A `StreamMetadataProvider` of a topic."""

    def __init__(self, stream: KafkaStream, context: StreamContext) -> None:
        self._stream = stream
        self._clock = context.clock
        self._consumer = stream.open_consumer()

    def partition_ids(self) -> tuple[int, ...]:
        """Return the topic's partitions, or those in `partition.ids`, all of which must exist."""
        topic = self._stream.config.topic
        found = self._asked(lambda timeout: self._consumer.list_topics(topic, timeout=timeout)).topics[topic]
        if found.error is not None:
            raise self._stream.failure(found.error, "partitions")
        ids = tuple(sorted(found.partitions))
        wanted = self._stream.partition_ids
        missing = sorted(set(wanted or ()) - set(ids))
        if missing:
            key = self._stream.config.property_key("partition.ids")
            raise PermanentStreamError(f"{key}: the topic '{topic}' has no partition {missing[0]}; it has {len(ids)}")
        return ids if wanted is None else wanted

    def offset(self, partition: int, criteria: OffsetCriteria) -> Offset:
        """Return the offset that a criterion selects."""
        low, high = watermarks(self._stream, self._consumer, partition, cached=False)
        time = criteria.timestamp_ms(self._clock.now_ms())
        if time is None:
            return IntegerOffset(low if criteria.kind is OffsetKind.SMALLEST else high)
        library = _library()
        at = library.TopicPartition(self._stream.config.topic, partition, max(time, 0))
        (found,) = self._asked(lambda timeout: self._consumer.offsets_for_times([at], timeout=timeout))
        if found.error is not None:
            raise self._stream.failure(found.error, f"partition {partition}")
        return IntegerOffset(found.offset if found.offset >= 0 else high)

    def latest_offset(self, partition: int) -> Offset:
        """Return the offset after the last message."""
        return IntegerOffset(watermarks(self._stream, self._consumer, partition, cached=False)[1])

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _asked(self, ask: Callable[[float], Any]) -> Any:
        library = _library()
        try:
            return ask(self._stream.config.connection_timeout_ms / 1000)
        except library.KafkaException as error:
            raise self._stream.failure(error, "metadata") from error


class KafkaProducer:
    """An idempotent `StreamProducer`: every message with an offset was acknowledged by all in-sync replicas."""

    def __init__(self, stream: KafkaStream, settings: Mapping[str, Any]) -> None:
        self._stream = stream
        self._producer = stream.open_client(_library().Producer, settings)
        # a delivery report arrives within the message timeout or shortly after it
        self._wait_s = stream.config.connection_timeout_ms / 1000 + _REPORTS_WITHIN_S

    def send(
        self, partition: int, payloads: pa.BinaryArray, keys: pa.BinaryArray | None, headers: pa.MapArray | None
    ) -> list[Offset | GamayError]:
        """Send messages and wait until each is acknowledged or has failed; see `StreamProducer.send`."""
        doing = f"sending to partition {partition}"
        silent = TransientStreamError(
            f"{self._stream.place}, {doing}: no report within {self._wait_s:.0f} s; it may be there yet"
        )
        results: list[Offset | GamayError] = [silent] * len(payloads)

        def report(message: int) -> Callable[[Any, Any], None]:
            def reported(error: Any, sent: Any) -> None:
                results[message] = self._stream.failure(error, doing) if error else IntegerOffset(sent.offset())

            return reported

        columns = (array.to_pylist() if array is not None else [None] * len(payloads) for array in (payloads, keys, headers))
        for message, (payload, key, header) in enumerate(zip(*columns, strict=True)):
            results[message] = self._enqueue(partition, (payload, key, header), report(message)) or results[message]
        self._producer.flush(self._wait_s)
        return results

    def close(self) -> None:
        """Discard messages that were not acknowledged."""
        self._producer.purge()
        self._producer.flush(0)

    def _enqueue(
        self, partition: int, message: tuple[bytes | None, bytes | None, Any], report: Callable[[Any, Any], None]
    ) -> GamayError | None:
        """Enqueue a message in the client; return the error if it rejects the message."""
        library = _library()
        payload, key, headers = message
        while True:
            try:
                self._producer.produce(
                    self._stream.config.topic, payload, key, partition, on_delivery=report, headers=headers or None
                )
                return None
            except BufferError:  # the queue is full; each delivery report makes room
                self._producer.poll(1)
            except library.KafkaException as error:
                return self._stream.failure(error, f"sending to partition {partition}")
