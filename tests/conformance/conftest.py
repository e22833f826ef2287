"""Streams to test: the embedded log, and Kafka where a broker can be had."""

import importlib.util
import os
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.log import files
from gamay.ingest.stream.log.topic import TopicConfig, create_topic, open_topic
from gamay.ingest.stream.log.writer import PartitionWriter
from gamay.ingest.stream.plugins import open_stream
from gamay.ingest.stream.spi import StreamConsumerFactory, StreamContext

ROOT = Path(__file__).resolve().parent.parent.parent


class Harness(Protocol):
    """A stream that the conformance tests can change."""

    def open(self, topic: str, **keys: str) -> StreamConsumerFactory:
        """Return the plug-in for a topic; keys: further keys, `_` for `.`."""
        ...

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a topic."""
        ...

    def produce(
        self, topic: str, messages: Sequence[bytes | None], partition: int = 0, keys: Sequence[bytes | None] | None = None
    ) -> None:
        """Append messages and wait until they are durable."""
        ...

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        ...

    def lose(self, topic: str, before: int) -> None:
        """Make partition 0 lose some or all messages before an offset."""
        ...


class LogHarness:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, topic: str, **keys: str) -> StreamConsumerFactory:
        return open_stream(_config("log", topic, keys), StreamContext(self.folder))

    def create(self, topic: str, partitions: int = 1) -> None:
        create_topic(self.folder, topic, TopicConfig(partitions, segment_bytes=1024))

    def produce(
        self, topic: str, messages: Sequence[bytes | None], partition: int = 0, keys: Sequence[bytes | None] | None = None
    ) -> None:
        writer = PartitionWriter(open_topic(self.folder, topic), partition, SYSTEM_CLOCK)
        key_array = None if keys is None else pa.array(keys, pa.binary())
        for start in range(0, len(messages), 10):
            part = pa.array(messages[start : start + 10], pa.binary())
            writer.append(part, None if key_array is None else key_array.slice(start, 10))
        writer.close()

    def grow(self, topic: str, partitions: int) -> None:
        open_topic(self.folder, topic).alter(TopicConfig(partitions))

    def lose(self, topic: str, before: int) -> None:
        folder = open_topic(self.folder, topic).partition_folder(0)
        bases = files.bases(folder)
        for base, following in pairwise(bases):
            if following <= before:
                files.remove(folder, base)


class KafkaHarness:
    def __init__(self, address: str) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address})
        self.producer = Producer({"bootstrap.servers": address})
        self.names: dict[str, str] = {}

    def topic(self, name: str) -> str:
        """Return the name of this run: brokers may outlive it."""
        return self.names.get(name, name)

    def open(self, topic: str, **keys: str) -> StreamConsumerFactory:
        config = _config("kafka", self.topic(topic), {"stream.kafka.broker.list": self.address, **keys})
        return open_stream(config, StreamContext())

    def create(self, topic: str, partitions: int = 1) -> None:
        from confluent_kafka.admin import NewTopic

        self.names[topic] = f"{topic}-{os.getpid()}-{time.time_ns()}"
        for done in self.admin.create_topics([NewTopic(self.topic(topic), partitions, 1)]).values():
            done.result()
        while len(self.admin.list_topics(self.topic(topic)).topics[self.topic(topic)].partitions) != partitions:
            time.sleep(0.02)

    def produce(
        self, topic: str, messages: Sequence[bytes | None], partition: int = 0, keys: Sequence[bytes | None] | None = None
    ) -> None:
        for message, key in zip(messages, keys or [None] * len(messages), strict=True):
            self.producer.produce(self.topic(topic), message, key, partition)
        assert self.producer.flush(30) == 0

    def grow(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        for done in self.admin.create_partitions([NewPartitions(self.topic(topic), partitions)]).values():
            done.result()

    def lose(self, topic: str, before: int) -> None:
        from confluent_kafka import TopicPartition

        for done in self.admin.delete_records([TopicPartition(self.topic(topic), 0, before)]).values():
            done.result()


def _config(kind: str, topic: str, keys: dict[str, str]) -> StreamConfig:
    return StreamConfig.parse({"streamType": kind, f"stream.{kind}.topic.name": topic, **keys})


@pytest.fixture(scope="session")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The broker that GAMAY_KAFKA_BROKERS names, else one started for this run; skips where neither is possible."""
    if address := os.environ.get("GAMAY_KAFKA_BROKERS"):
        yield address
        return
    spec = importlib.util.spec_from_file_location("kafka_tool", ROOT / "tools" / "kafka.py")
    assert spec is not None
    assert spec.loader is not None
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    if reason := tool.missing():
        pytest.skip(f"needs a Kafka broker, and {reason}")
    broker = tool.Broker(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker.address
    broker.kill()


@pytest.fixture
def kafka(kafka_address: str) -> KafkaHarness:
    """Kafka alone."""
    return KafkaHarness(kafka_address)


@pytest.fixture(params=["log", pytest.param("kafka", marks=pytest.mark.kafka)])
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """Each stream type in turn."""
    if request.param == "log":
        return LogHarness(tmp_path)
    harness: Harness = request.getfixturevalue("kafka")
    return harness
