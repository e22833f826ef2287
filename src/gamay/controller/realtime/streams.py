"""The controller's access to the streams of a table: partitions and offsets, by the table's partition ids."""

from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from typing import Any, Protocol

import pyarrow as pa

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.cluster.access.principals import Principal
from gamay.cluster.records.llc_name import PARTITIONS_PER_TOPIC, STREAM_LEVEL, LlcName
from gamay.ingest.stream.config import StreamConfig, stream_configs
from gamay.ingest.stream.named import named_by
from gamay.ingest.stream.offsets import OffsetCriteria
from gamay.ingest.stream.plugins import addresses, open_decoder, open_stream
from gamay.ingest.stream.spi import (
    SendingStream,
    StreamConsumerFactory,
    StreamContext,
    StreamMetadataProvider,
    StreamProducer,
)
from gamay.ingest.stream.stream_level import TopicStream
from gamay.model.table.table_config import TableConfig
from gamay.storage.fetchers import Fetchers


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
        """Return the offset at which to begin a partition."""
        ...

    def latest_offset(self, partition: int) -> str:
        """Return the offset that the partition's next message will have."""
        ...

    def order(self, partition: int, offset: str) -> Any:
        """Return a value that compares as the offsets of a partition do. Raises InvalidConfigError for an invalid
        offset."""
        ...

    def check_sending(self) -> None:
        """Raise InvalidConfigError unless messages can be written to streams of this type."""
        ...

    def send(
        self, partition: int, payloads: pa.BinaryArray, keys: pa.BinaryArray | None, headers: pa.MapArray | None
    ) -> Sequence[str | GamayError]:
        """Write messages to a partition; return for each its offset or the error, as `StreamProducer.send` does."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


StreamOpener = Callable[[TableConfig], TableStreams]


class PluginStreams:
    """The topics of a table through the stream plug-ins; a topic is connected to on first use."""

    def __init__(self, config: TableConfig, context: StreamContext) -> None:
        self.configs = stream_configs(config)
        self._factories: list[StreamConsumerFactory] = [open_stream(topic, context) for topic in self.configs]
        self._providers: dict[tuple[int, bool], StreamMetadataProvider] = {}
        self._producers: dict[int, StreamProducer] = {}

    def partitions(self) -> tuple[int, ...]:
        found: list[int] = []
        for topic, config in enumerate(self.configs):
            if config.is_low_level:
                provider = self._provider(LlcName("", topic * PARTITIONS_PER_TOPIC, 0, ""))
                found += [topic * PARTITIONS_PER_TOPIC + p for p in provider.partition_ids()]
        found += [STREAM_LEVEL + topic for topic, config in enumerate(self.configs) if config.is_high_level]
        return tuple(found)

    def offset(self, partition: int, criteria: OffsetCriteria) -> str:
        name = LlcName("", partition, 0, "")
        return str(self._provider(name).offset(name.stream_partition, criteria))

    def latest_offset(self, partition: int) -> str:
        name = LlcName("", partition, 0, "")
        return str(self._provider(name).latest_offset(name.stream_partition))

    def order(self, partition: int, offset: str) -> Any:
        name = LlcName("", partition, 0, "")
        topic = min(name.topic_index, len(self._factories) - 1)
        return self._factory(topic, name.is_stream_level).parse_offset(offset)

    def check_sending(self) -> None:
        for config, factory in zip(self.configs, self._factories, strict=True):
            if not isinstance(factory, SendingStream):
                raise InvalidConfigError(
                    f"streams of type '{config.stream_type}' are read-only: the plug-in has no producer"
                )

    def send(
        self, partition: int, payloads: pa.BinaryArray, keys: pa.BinaryArray | None, headers: pa.MapArray | None
    ) -> Sequence[str | GamayError]:
        name = LlcName("", partition, 0, "")
        sent = self._producer(name.topic_index).send(name.stream_partition, payloads, keys, headers)
        return [one if isinstance(one, GamayError) else str(one) for one in sent]

    def close(self) -> None:
        opened: list[StreamMetadataProvider | StreamProducer] = [*self._providers.values(), *self._producers.values()]
        self._providers, self._producers = {}, {}
        for one in opened:
            one.close()

    def _factory(self, topic: int, is_stream_level: bool) -> StreamConsumerFactory:
        return TopicStream(self._factories[topic], "") if is_stream_level else self._factories[topic]

    def _producer(self, topic: int) -> StreamProducer:
        self._check_topic(topic)
        if topic not in self._producers:
            factory = self._factories[topic]
            assert isinstance(factory, SendingStream)
            self._producers[topic] = factory.producer()
        return self._producers[topic]

    def _check_topic(self, topic: int) -> None:
        if topic >= len(self._factories):
            raise InvalidConfigError(f"the table no longer has the topic with index {topic}")

    def _provider(self, name: LlcName) -> StreamMetadataProvider:
        topic, kind = name.topic_index, name.is_stream_level
        self._check_topic(topic)
        if (topic, kind) not in self._providers:
            self._providers[topic, kind] = self._factory(topic, kind).metadata()
        return self._providers[topic, kind]


def stream_opener(context: StreamContext) -> StreamOpener:
    """Return the opener of tables' streams for a process."""
    return lambda config: PluginStreams(config, context)


def check_named(config: TableConfig, stored: TableConfig | None, fetchers: Fetchers, by: Principal) -> None:
    """Raise InvalidConfigError if a config names a file, web server or broker that its sender may not have opened.

    stored: the previous config of the table, whose brokers may stay.
    """
    known: set[str] = set()
    if stored is not None:
        with suppress(InvalidConfigError):  # the plug-in may be gone
            known = {address for topic in stream_configs(stored) for _, address in addresses(topic)}
    for topic in stream_configs(config):
        check_topic(topic, fetchers, by, known)


def check_topic(topic: StreamConfig, fetchers: Fetchers, by: Principal, known: Collection[str] = ()) -> None:
    """Raise InvalidConfigError if a topic names an address that its sender may not have opened. known: allowed
    addresses."""
    for key, uri in named_by(topic):
        fetchers.check_key(key, uri)
    for key, address in addresses(topic):
        if address not in known:
            fetchers.check_address(key, address, may_name_any=by.sees_all_tables)


def check_streams(config: TableConfig, opener: StreamOpener) -> None:
    """Raise InvalidConfigError unless every topic's config is usable; no connection is made."""
    with closing(opener(config)) as streams:
        for topic in streams.configs:
            if topic.is_high_level:
                _check_stream_level(config, topic)
            open_decoder(topic)


def _check_stream_level(config: TableConfig, topic: StreamConfig) -> None:
    """Raise InvalidConfigError for settings that need partitions: stream-level rows are unordered and from all
    partitions."""
    key = topic.property_key("consumer.type")
    if config.has_keys:
        raise InvalidConfigError(
            f"{key}: tables with upsert or dedup need lowlevel, since rows of a key must be in one partition"
        )
    if config.ingestion.stream is not None and config.ingestion.stream.pauseless_consumption_enabled:
        raise InvalidConfigError(f"{key}: pauselessConsumptionEnabled needs lowlevel")
    if topic.metadata_populate:
        raise InvalidConfigError(f"{key}: {topic.property_key('metadata.populate')} needs lowlevel")
