"""What only servers can tell of tables, found out from time to time on the lead controller: sizes on disk, and lags."""

from collections.abc import Iterator

from gamay.base.errors import GamayError, NotFoundError
from gamay.base.metrics import Measured
from gamay.cluster.znrecord import encode
from gamay.controller.context import ControllerContext, TableConfigs
from gamay.controller.sizes import UNKNOWN, table_size
from gamay.model.table_name import TableType, table_type_of

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
                if table_type_of(table) is TableType.REALTIME:
                    found += self._lags(table)
            except GamayError:
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
