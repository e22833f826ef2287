"""What the parts of the controller that deal with streams share."""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from gamay.base.clock import Clock
from gamay.cluster.assignment import servers_tagged
from gamay.cluster.records import Assignment
from gamay.cluster.registry import Registry
from gamay.controller.realtime.placement import consuming_servers, present_servers
from gamay.controller.realtime.streams import StreamOpener
from gamay.controller.realtime.thresholds import RowLimitTuner
from gamay.model.cluster_settings import SEGMENT_COMPLETION_TIME
from gamay.model.table_config import TableConfig
from gamay.model.table_name import TableType


@dataclass(frozen=True, slots=True)
class RealtimeContext:
    """Where records are, how configs and streams are got at, and what is learnt while the process lives.

    config_of: the config of a typed table; raises NotFoundError. uniform: a random number between two.
    tuners: by table and topic index. longest_commit_ms: by table, from the choice of the winner to its success.
    """

    registry: Registry
    clock: Clock
    config_of: Callable[[str], TableConfig]
    open_streams: StreamOpener
    uniform: Callable[[float, float], float]
    tuners: dict[tuple[str, int], RowLimitTuner] = field(default_factory=dict)
    longest_commit_ms: dict[str, int] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def tuner(self, table: str, topic: int) -> RowLimitTuner:
        """Return what was learnt about the segment sizes of a topic."""
        with self.lock:
            return self.tuners.setdefault((table, topic), RowLimitTuner())

    def completion_time_max_ms(self, settings: Mapping[str, str] | None = None) -> int:
        """Return how long the records of one completed segment may take to be written."""
        return SEGMENT_COMPLETION_TIME.whole(self.registry.cluster_config() if settings is None else settings)

    def offset_order(self, config: TableConfig, partition: int) -> Callable[[str], Any]:
        """Return the order of a partition's offsets."""
        with closing(self.open_streams(config)) as streams:
            return lambda offset: streams.order(partition, offset)

    def tagged_servers(self, config: TableConfig) -> list[str]:
        """Return the servers that may consume a table's streams, ascending."""
        return servers_tagged(self.registry.instances(), consuming_tag(config))

    def servers_of(self, config: TableConfig, ideal: Assignment, partition: int) -> tuple[str, ...]:
        """Return the servers for a new segment of a partition: of those that are tagged now.

        Raises InvalidConfigError when they are too few.
        """
        tagged = self.tagged_servers(config)
        if config.upsert is not None or config.dedup is not None:
            present = present_servers(ideal, partition)
            if present and set(present) <= set(tagged):
                return present
        return consuming_servers(config.typed_name, partition, config.replication, tagged)


def consuming_tag(config: TableConfig) -> str:
    """Return the tag of the servers that consume a table's streams."""
    override = config.tenants.tag_override
    if override is not None and override.realtime_consuming:
        return override.realtime_consuming
    return f"{config.tenants.server}_{TableType.REALTIME.value}"


def is_pauseless(config: TableConfig) -> bool:
    """Whether the next segment of a partition consumes while the one before is built."""
    return config.ingestion.stream is not None and config.ingestion.stream.pauseless_consumption_enabled
