"""The streams under test: the embedded log, and Kafka if a broker is available."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.log import files
from gamay.ingest.stream.log.topic import TopicConfig, create_topic, open_topic
from gamay.ingest.stream.log.writer import PartitionWriter
from gamay.ingest.stream.plugins import open_stream
from gamay.ingest.stream.spi import StreamConsumerFactory, StreamContext


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


def _config(kind: str, topic: str, keys: dict[str, str]) -> StreamConfig:
    return StreamConfig.parse({"streamType": kind, f"stream.{kind}.topic.name": topic, **keys})


@pytest.fixture(params=["log", pytest.param("kafka", marks=pytest.mark.kafka)])
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """Each stream type in turn."""
    if request.param == "log":
        return LogHarness(tmp_path)
    harness: Harness = request.getfixturevalue("kafka")
    return harness
