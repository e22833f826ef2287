"""The state that the stream-related parts of the controller share."""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from gamay.base.clock import Clock
from gamay.base.errors import GamayError, NotFoundError
from gamay.base.rng import new_rng
from gamay.cluster.place.placement import place_consuming
from gamay.cluster.place.table_target import CONSUMING_KIND
from gamay.cluster.records.llc_name import PARTITIONS_PER_TOPIC
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import Assignment
from gamay.cluster.records.registry import Registry
from gamay.controller.context import ControllerContext
from gamay.controller.counts import ControllerCounts, Counted
from gamay.controller.placement import PlacementManager
from gamay.controller.present_servers import present_servers
from gamay.controller.realtime.streams import StreamOpener, TableStreams, stream_opener
from gamay.controller.realtime.thresholds import RowLimitTuner
from gamay.model.cluster_settings import SEGMENT_COMPLETION_TIME
from gamay.model.table.stored import stored_table_config
from gamay.model.table.table_config import TableConfig


@dataclass(frozen=True, slots=True)
class RealtimeContext:
    """Access to records, configs and streams, and what the process has learned.

    config_of: the config of a typed table; raises NotFoundError. placement: the instance partitions of its consuming
    segments; raises InvalidConfigError. uniform: returns a random number between two bounds.
    tuners: by table and topic index. longest_commit_ms: by table, from the first replica's report to the commit.
    counts: the controller's.
    """

    registry: Registry
    clock: Clock
    config_of: Callable[[str], TableConfig]
    open_streams: StreamOpener
    placement: Callable[[TableConfig], InstancePartitions]
    uniform: Callable[[float, float], float]
    tuners: dict[tuple[str, int], RowLimitTuner] = field(default_factory=dict)
    longest_commit_ms: dict[str, int] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)
    counts: ControllerCounts = field(default_factory=ControllerCounts)

    def tuner(self, table: str, topic: int) -> RowLimitTuner:
        """Return the tuner of a topic's row limit, with what it learned about segment sizes."""
        with self.lock:
            return self.tuners.setdefault((table, topic), RowLimitTuner())

    def completion_time_max_ms(self, settings: Mapping[str, str] | None = None) -> int:
        """Return the maximum time to write the records of a completed segment."""
        return SEGMENT_COMPLETION_TIME.whole(self.registry.cluster_config() if settings is None else settings)

    def partitions(self, config: TableConfig, streams: TableStreams) -> tuple[int, ...]:
        """Return what `TableStreams.partitions` does; count its failures. Raises its errors."""
        try:
            return streams.partitions()
        except GamayError:
            self.counts.add(Counted.NO_PARTITIONS, config.typed_name)
            raise

    def offset_order(self, config: TableConfig, partition: int) -> Callable[[str], Any]:
        """Return the order of a partition's offsets."""
        with closing(self.open_streams(config)) as streams:
            return lambda offset: streams.order(partition, offset)

    def servers_of(self, config: TableConfig, ideal: Assignment, partition: int) -> tuple[str, ...]:
        """Return the servers for a new segment of a partition, by the current instance partitions; for a table with
        primary keys, the servers that have the partition already.

        Raises InvalidConfigError if there are too few.
        """
        if config.has_keys:
            # rows of one primary key must be on one server, also after tags have changed: only a rebalance moves them
            present = present_servers(ideal, partition)
            if present:
                return present
        return place_consuming(partition % PARTITIONS_PER_TOPIC, self.placement(config), config.replication)


def realtime_context(controller: ControllerContext, registry: Registry) -> RealtimeContext:
    """Return the context of a controller for a registry."""
    configs = _RecordedConfigs(registry)
    placement = PlacementManager(controller, configs)
    return RealtimeContext(
        registry,
        controller.clock,
        configs.get,
        stream_opener(controller.streams),
        lambda config: placement.partitions(config, CONSUMING_KIND),
        new_rng().uniform,
        counts=controller.counts,
    )


@dataclass(frozen=True, slots=True)
class _RecordedConfigs:
    registry: Registry

    def get(self, table: str) -> TableConfig:
        document = self.registry.get_table_config(table)
        if document is None:
            raise NotFoundError(f"Table {table} not found.")
        return stored_table_config(document)

    def names(self) -> list[str]:
        return self.registry.table_names()


def is_pauseless(config: TableConfig) -> bool:
    """Whether the next segment of a partition consumes while the one before is built."""
    return config.ingestion.stream is not None and config.ingestion.stream.pauseless_consumption_enabled
