"""Fixtures of stream tests: topics of the embedded log."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gamay.ingest.stream.log.topic import Topic, TopicConfig, create_topic


@pytest.fixture
def topic(tmp_path: Path) -> Callable[..., Topic]:
    """Make a topic: `topic(partitions=2, segment_bytes=1024)`."""

    def make(name: str = "events", partitions: int = 1, **settings: int) -> Topic:
        return create_topic(tmp_path, name, TopicConfig(partitions, **settings))

    return make
