"""Metrics of a controller about tables that consume streams."""

from collections.abc import Iterator, Mapping

from gamay.base.metrics import Measured
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import CONSUMING, DONE, ERROR, IN_PROGRESS, ONLINE, Assignment, SegmentRecord
from gamay.controller.realtime.ideal_steps import latest_segments, pause_state
from gamay.model.table.table_config import TableConfig

_PREFIX = "pinot_controller_"
_MINUTE_MS = 60_000


def newest_two(ideal: Assignment) -> list[str]:
    """Return the names of the last two segments of each partition, whose records `measure_consumption` needs."""
    by_partition: dict[int, list[LlcName]] = {}
    for name in ideal.states:
        if (parsed := LlcName.parse(name)) is not None:
            by_partition.setdefault(parsed.partition, []).append(parsed)
    return [str(n) for names in by_partition.values() for n in sorted(names, key=lambda one: one.sequence)[-2:]]


def measure_consumption(
    table: str, ideal: Assignment, records: Mapping[str, SegmentRecord], now_ms: int
) -> Iterator[Measured]:
    """Yield the state of a REALTIME table's consumption. The newest segment of each partition should be consuming.

    records: those of `newest_two` that exist.
    """
    labels, paused = {"table": table}, pause_state(ideal)
    missing = [
        str(name)
        for name in latest_segments(ideal).values()
        if not paused.pauses(name) and CONSUMING not in ideal.states[str(name)].values() and ideal.enabled
    ]
    yield Measured(f"{_PREFIX}tableConsumptionPaused", paused.paused, "1 while consumption is paused", labels)
    text = "Partitions that no server is assigned to consume though they are not paused"
    yield Measured(f"{_PREFIX}missingConsumingSegmentTotalCount", len(missing), text, labels)
    since = [now_ms - max(r.end_decided_ms, r.creation_time_ms) for name in missing if (r := records.get(name)) is not None]
    text = "Longest time, in minutes, for which a partition has not been consumed"
    yield Measured(f"{_PREFIX}missingConsumingSegmentMaxDurationMinutes", max(since, default=0) / _MINUTE_MS, text, labels)
    limits: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for record in sorted(records.values(), key=lambda one: LlcName.must_parse(one.name).sequence):
        partition = LlcName.must_parse(record.name).partition
        if record.status == IN_PROGRESS and record.flush_threshold_rows > 0:
            limits[partition] = record.flush_threshold_rows
        elif record.status == DONE and record.size_bytes >= 0:
            sizes[partition] = record.size_bytes
    for name, numbers, text in (
        ("numRowsThreshold", limits, "Row limit of the consuming segment"),
        ("committingSegmentSize", sizes, "Bytes of the last committed segment"),
    ):
        for partition, number in sorted(numbers.items()):
            yield Measured(f"{_PREFIX}{name}", number, text, {**labels, "partition": str(partition)})


def measure_pauseless(config: TableConfig, ideal: Assignment, view: Assignment | None) -> Iterator[Measured]:
    """Yield the number of segments in ERROR of a table with pauseless consumption."""
    stream = config.ingestion.stream
    if stream is None or not stream.pauseless_consumption_enabled:
        return
    states = [set(({} if view is None else view.states).get(name, {}).values()) for name in ideal.states]
    failed = [found for found in states if ERROR in found]
    labels = {"table": config.typed_name}
    text = "Segments in ERROR of a table with pauseless consumption"
    yield Measured(f"{_PREFIX}pauselessSegmentsInErrorCount", len(failed), text, labels)
    lost = sum(not found & {ONLINE, CONSUMING} for found in failed)
    text = "Segments in ERROR of a table with pauseless consumption that no server has"
    yield Measured(f"{_PREFIX}pauselessSegmentsInUnrecoverableErrorCount", lost, text, labels)
