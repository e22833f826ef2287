"""What the controller asks of the streams of a table: partitions and offsets, by the table's partition ids."""

from collections.abc import Callable
from contextlib import closing
from typing import Any, Protocol

from gamay.base.errors import InvalidConfigError
from gamay.cluster.llc_name import PARTITIONS_PER_TOPIC
from gamay.ingest.stream.config import StreamConfig, stream_configs
from gamay.ingest.stream.offsets import OffsetCriteria
from gamay.ingest.stream.plugins import open_decoder, open_stream
from gamay.ingest.stream.spi import StreamConsumerFactory, StreamContext, StreamMetadataProvider
from gamay.model.table_config import TableConfig


class TableStreams(Protocol):
    """The topics of one table. Offsets are text, as records hold them. Methods raise the errors of the streams' SPI."""

    @property
    def configs(self) -> tuple[StreamConfig, ...]:
        """The topics, by their index."""
        ...

    def partitions(self) -> tuple[int, ...]:
        """Return the ids of all partitions that can be consumed now, ascending."""
        ...

    def offset(self, partition: int, criteria: OffsetCriteria) -> str:
        """Return where to begin in a partition."""
        ...

    def latest_offset(self, partition: int) -> str:
        """Return the offset that the partition's next message will have."""
        ...

    def order(self, partition: int, offset: str) -> Any:
        """Return what compares as the offsets of a partition do. Raises InvalidConfigError for what is no offset."""
        ...

    def close(self) -> None:
        """Give up connections."""
        ...


StreamOpener = Callable[[TableConfig], TableStreams]


class PluginStreams:
    """The topics of a table through the stream plug-ins; a topic is connected to when it is first asked for something."""

    def __init__(self, config: TableConfig, context: StreamContext) -> None:
        self.configs = stream_configs(config)
        self._factories: list[StreamConsumerFactory] = [open_stream(topic, context) for topic in self.configs]
        self._providers: dict[int, StreamMetadataProvider] = {}

    def partitions(self) -> tuple[int, ...]:
        found: list[int] = []
        for topic in range(len(self._factories)):
            found += [topic * PARTITIONS_PER_TOPIC + p for p in self._provider(topic).partition_ids()]
        return tuple(found)

    def offset(self, partition: int, criteria: OffsetCriteria) -> str:
        topic, stream_partition = divmod(partition, PARTITIONS_PER_TOPIC)
        return str(self._provider(topic).offset(stream_partition, criteria))

    def latest_offset(self, partition: int) -> str:
        topic, stream_partition = divmod(partition, PARTITIONS_PER_TOPIC)
        return str(self._provider(topic).latest_offset(stream_partition))

    def order(self, partition: int, offset: str) -> Any:
        return self._factories[min(partition // PARTITIONS_PER_TOPIC, len(self._factories) - 1)].parse_offset(offset)

    def close(self) -> None:
        providers, self._providers = self._providers, {}
        for provider in providers.values():
            provider.close()

    def _provider(self, topic: int) -> StreamMetadataProvider:
        if topic >= len(self._factories):
            raise InvalidConfigError(f"the table no longer has the topic with index {topic}")
        if topic not in self._providers:
            self._providers[topic] = self._factories[topic].metadata()
        return self._providers[topic]


def stream_opener(context: StreamContext) -> StreamOpener:
    """Return what opens the streams of tables in a process."""
    return lambda config: PluginStreams(config, context)


def check_streams(config: TableConfig, opener: StreamOpener) -> None:
    """Raise InvalidConfigError unless every topic's config can be used, without connecting to it."""
    with closing(opener(config)) as streams:
        for topic in streams.configs:
            if not topic.is_low_level:
                raise InvalidConfigError(
                    f"{topic.property_key('consumer.type')}: stream-level consumption is not there yet; use lowlevel"
                )
            open_decoder(topic)
