"""Gauges that are too slow for each scrape, computed periodically on the lead controller: sizes and lags."""

import logging
from collections.abc import Iterator
from contextlib import closing

from gamay.base.errors import GamayError, NotFoundError
from gamay.base.metrics import Measured
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.store.znrecord import encode
from gamay.controller.context import ControllerContext, TableConfigs
from gamay.controller.realtime.context import realtime_context
from gamay.controller.realtime.ideal_steps import latest_segments, pause_state
from gamay.controller.tables.sizes import UNKNOWN, table_size
from gamay.controller.tables.storage_quota import stored_bytes
from gamay.model.table.table_name import TableType, table_type_of
from gamay.model.units import parse_data_size

_log = logging.getLogger(__name__)

_UNKNOWN_LAG = "UNKNOWN"


class StatusGauges:
    """The gauges of the last `run`; `measure` may be called from any thread."""

    def __init__(self, context: ControllerContext, tables: TableConfigs) -> None:
        self._context = context
        self._tables = tables
        self._realtime = realtime_context(context, context.registry)
        self._found: list[Measured] = []

    def run(self) -> None:
        """Compute the gauges of all tables."""
        found: list[Measured] = []
        for table in self._tables.names():
            try:
                found += self._of_table(table)
                found += self._quota(table)
                if table_type_of(table) is TableType.REALTIME:
                    found += self._lags(table)
                    found += self._new_partitions(table)
            except NotFoundError:
                continue  # the table was deleted meanwhile
        self._found = found

    def measure(self) -> Iterator[Measured]:
        """Yield the gauges of the last run."""
        yield from self._found

    def _of_table(self, table: str) -> Iterator[Measured]:
        labels = {"table": table}
        ideal = self._context.registry.must_get_ideal_state(table)
        size = len(encode(ideal.to_record()))
        yield Measured("pinot_controller_idealstateZnodeSize", size, "Bytes of the ideal state before compression", labels)
        on_servers = table_size(self._context, [table], verbose=False)["reportedSizeInBytes"]
        if on_servers != UNKNOWN:
            text = "Bytes of the table's segments on its servers' disks, all replicas"
            yield Measured("pinot_controller_tableTotalSizeOnServer", on_servers, text, labels)

    def _quota(self, table: str) -> Iterator[Measured]:
        """Yield the usage of `quota.storage`; nothing for tables without a quota."""
        config = self._tables.get(table)
        if config.quota.storage is None:
            return
        labels, quota = {"table": table}, parse_data_size(config.quota.storage)
        text = "Bytes that all replicas of the table together may have"
        yield Measured("pinot_controller_tableQuota", quota * config.replication, text, labels)
        text = "Size of one replica, as a percentage of quota.storage"
        used = 100 * stored_bytes(self._context.registry, table) / quota if quota else 0
        yield Measured("pinot_controller_tableStorageQuotaUtilization", used, text, labels)

    def _new_partitions(self, table: str) -> Iterator[Measured]:
        """Yield the number of stream partitions that were never consumed; nothing if the stream does not answer."""
        ideal, context = self._context.registry.must_get_ideal_state(table), self._realtime
        paused, begun = pause_state(ideal), latest_segments(ideal)
        config = self._tables.get(table)
        try:
            with closing(context.open_streams(config)) as streams:
                partitions = context.partitions(config, streams)
        except GamayError as error:
            _log.warning("the partitions of the stream of table %s cannot be read: %s", table, error)
            return
        new = [p for p in partitions if p not in begun and not paused.pauses(LlcName("", p, 0, ""))]
        text = "Partitions of the stream that were never consumed though they are not paused"
        num_new = len(new) if ideal.enabled else 0
        yield Measured("pinot_controller_missingConsumingSegmentNewPartitionCount", num_new, text, {"table": table})

    def _lags(self, table: str) -> Iterator[Measured]:
        """Yield the lag of each partition's slowest replica."""
        ideal = self._context.registry.must_get_ideal_state(table)
        records: dict[str, int] = {}
        millis: dict[str, int] = {}
        for server in sorted({server for states in ideal.states.values() for server in states}):
            try:
                told = self._context.servers.consuming_segments(server, table)
            except NotFoundError:
                continue
            for segment in told:
                offsets = segment["partitionOffsetInfo"]
                for lags, most in ((offsets["recordsLag"], records), (offsets["availabilityLagMs"], millis)):
                    for partition, text in lags.items():
                        if text != _UNKNOWN_LAG:
                            most[partition] = max(most.get(partition, 0), int(text))
        for name, most, text in (
            ("maxRecordsLag", records, "Messages of a partition that its slowest replica has not consumed"),
            ("maxRecordAvailabilityLagMs", millis, "Milliseconds from the stream to queries, on the slowest replica"),
        ):
            for partition, lag in sorted(most.items()):
                yield Measured(f"pinot_controller_{name}", lag, text, {"table": table, "partition": partition})
