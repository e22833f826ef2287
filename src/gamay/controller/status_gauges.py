"""What takes too long to find out for each scrape, found out from time to time on the lead controller: sizes, and lags."""

from collections.abc import Iterator

from gamay.base.errors import NotFoundError
from gamay.base.metrics import Measured
from gamay.cluster.znrecord import encode
from gamay.controller.context import ControllerContext, TableConfigs
from gamay.controller.sizes import UNKNOWN, table_size
from gamay.controller.storage_quota import stored_bytes
from gamay.model.table_name import TableType, table_type_of
from gamay.model.units import parse_data_size

_UNKNOWN_LAG = "UNKNOWN"


class StatusGauges:
    """What the last `run` found; `measure` may be called from any thread."""

    def __init__(self, context: ControllerContext, tables: TableConfigs) -> None:
        self._context = context
        self._tables = tables
        self._found: list[Measured] = []

    def run(self) -> None:
        """Look at all tables."""
        found: list[Measured] = []
        for table in self._tables.names():
            try:
                found += self._of_table(table)
                found += self._quota(table)
                if table_type_of(table) is TableType.REALTIME:
                    found += self._lags(table)
            except NotFoundError:
                continue  # the table was deleted meanwhile
        self._found = found

    def measure(self) -> Iterator[Measured]:
        """Yield what is known."""
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
        """Yield how much of `quota.storage` a table uses; nothing for tables without."""
        config = self._tables.get(table)
        if config.quota.storage is None:
            return
        labels, quota = {"table": table}, parse_data_size(config.quota.storage)
        text = "Bytes that all replicas of the table may have"
        yield Measured("pinot_controller_tableQuota", quota * config.replication, text, labels)
        text = "What one replica has, in percent of quota.storage"
        used = 100 * stored_bytes(self._context.registry, table) / quota if quota else 0
        yield Measured("pinot_controller_tableStorageQuotaUtilization", used, text, labels)

    def _lags(self, table: str) -> Iterator[Measured]:
        """Yield how far each partition is behind, of the replica that is furthest."""
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
            ("maxRecordAvailabilityLagMs", millis, "From the stream to queries, on the slowest replica"),
        ):
            for partition, lag in sorted(most.items()):
                yield Measured(f"pinot_controller_{name}", lag, text, {"table": table, "partition": partition})
