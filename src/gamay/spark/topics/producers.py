"""Producers that write to given partitions of a topic, in the embedded log or Kafka."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.kafka_settings import client_settings
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import open_topic
from gamay.ingest.stream.spi import TransientStreamError
from gamay.spark.topics.topic import TopicAddress

_FLUSH_S = 120.0
_POLLED_EVERY = 10_000
_OF_CONSUMERS = (
    "group.id", "enable.auto.", "isolation.level", "auto.offset.reset", "enable.partition.eof", "fetch.", "queued.",
)  # fmt: skip


class TopicProducer(AbstractContextManager["TopicProducer"], Protocol):
    """A producer and context manager; all messages are durable when its block exits without an error."""

    def send(self, partition: int, messages: pa.RecordBatch) -> None:
        """Write messages with the columns `timestamp_ms`, `key` and `value` to a partition, in order."""
        ...


def open_producer(topic: TopicAddress) -> TopicProducer:
    """Return a producer. Raises InvalidConfigError for a stream type without one, and NotFoundError for the topic."""
    config = topic.config
    kind = config.stream_type.lower()
    if kind == "log":
        return LogProducer(topic)
    if kind == "kafka":
        return KafkaProducer(topic)
    raise InvalidConfigError(
        f"topics of the stream type '{config.stream_type}' cannot be written; those of log and kafka can"
    )


class LogProducer:
    """A producer for the embedded log, which sets timestamps itself."""

    def __init__(self, topic: TopicAddress) -> None:
        folder = topic.config.properties.get("folder") or topic.folder
        if folder is None:
            raise InvalidConfigError("where the embedded log keeps its topics is not known: give 'folder'")
        self._producer = Producer(open_topic(Path(folder), topic.config.topic), SYSTEM_CLOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def send(self, partition: int, messages: pa.RecordBatch) -> None:
        """Append messages durably."""
        self._producer.send(messages.column("value"), messages.column("key"), partition)


class KafkaProducer:
    """An idempotent producer for Kafka: messages resent after a lost acknowledgement are stored once and in order."""

    def __init__(self, topic: TopicAddress) -> None:
        import confluent_kafka

        config = topic.config
        settings = {k: v for k, v in client_settings(config, "gamay-spark").items() if not k.startswith(_OF_CONSUMERS)}
        self._topic = config.topic
        self._errors: list[str] = []
        self._producer: Any = confluent_kafka.Producer({**settings, "enable.idempotence": True, "linger.ms": 20})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        left = self._producer.flush(_FLUSH_S)
        if kind is None:
            self._check()
            if left:
                raise TransientStreamError(f"Kafka topic '{self._topic}': {left} messages were not acknowledged in time")

    def send(self, partition: int, messages: pa.RecordBatch) -> None:
        """Enqueue messages; `__exit__` waits for their acknowledgement."""
        rows = zip(*(messages.column(name).to_pylist() for name in ("timestamp_ms", "key", "value")), strict=True)
        for number, (timestamp, key, value) in enumerate(rows):
            self._produce(partition, key, value, max(timestamp, 0))
            if number % _POLLED_EVERY == 0:
                self._producer.poll(0)
        self._check()

    def _produce(self, partition: int, key: bytes | None, value: bytes | None, timestamp: int) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition, on_delivery=self._delivered, timestamp=timestamp)
                return
            except BufferError:  # its queue is full
                self._producer.poll(1)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._errors.append(str(error))

    def _check(self) -> None:
        if self._errors:
            raise TransientStreamError(f"Kafka topic '{self._topic}': {self._errors[0]}")
