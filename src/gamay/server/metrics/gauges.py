"""Metrics of a server."""

from collections.abc import Iterator

from gamay.base.clock import Clock
from gamay.base.history import MetricsHistory, Reading, Series
from gamay.base.metrics import Measured, MetricKind
from gamay.cluster.store.store_metrics import measure_store
from gamay.server.instance.instance import ServerInstance
from gamay.server.metrics.consumption import measure_builds, measure_consumption
from gamay.server.metrics.keys import measure_keys

_SERIES = (
    Series("rowsPerSecond", "pinot_server_realtimeRowsConsumed", Reading.RATE),
    Series("lagMessages", "pinot_server_realtimeIngestionOffsetLag", Reading.SUM),
    Series("delayMs", "pinot_server_realtimeIngestionDelayMs", Reading.MAX),
    Series("segments", "pinot_server_segmentCount", Reading.SUM),
    Series("segmentBytes", "pinot_server_segmentSizeBytes", Reading.SUM),
    Series("rows", "pinot_server_documentCount", Reading.SUM),
    Series("segmentsInError", "pinot_server_segmentsInErrorState", Reading.SUM),
    Series("diskUsedBytes", "pinot_server_diskUsedBytes", Reading.SUM),
    Series("diskTotalBytes", "pinot_server_diskTotalBytes", Reading.SUM),
)


def server_history(instance: ServerInstance, clock: Clock) -> MetricsHistory:
    """Return an empty history of a server's metrics."""
    return MetricsHistory([lambda: measure_server(instance)], _SERIES, clock)


def measure_server(instance: ServerInstance) -> Iterator[Measured]:
    """Yield the metrics of loaded segments, failures and queries."""
    yield from measure_store("server", instance.store)
    _, total, used = instance.disk_usage()
    yield Measured("pinot_server_diskTotalBytes", total, "Bytes of the disk where the segments are")
    yield Measured("pinot_server_diskUsedBytes", used, "Bytes of the disk where the segments are that are in use")
    yield from instance.counts.measure(tables := instance.tables())
    for table in tables:
        data = instance.table(table)
        if data is None:
            continue
        loaded = data.snapshot().values()
        labels = {"table": table}
        yield Measured("pinot_server_segmentCount", len(loaded), "Segments that are loaded", labels)
        docs = sum(one.segment.num_docs for one in loaded)
        yield Measured("pinot_server_documentCount", docs, "Rows in loaded segments", labels)
        size = sum(one.size_bytes for one in loaded)
        yield Measured("pinot_server_segmentSizeBytes", size, "Bytes of loaded segments on disk", labels)
        failed = instance.peer_failures[table]
        text = "Attempts to get a segment from another server that failed"
        yield Measured("pinot_server_segmentDownloadFromPeersFailures", failed, text, labels, MetricKind.COUNTER)
        failures = len(instance.failures(table))
        yield Measured("pinot_server_segmentsInErrorState", failures, "Segments that cannot be loaded", labels)
        yield from measure_keys(labels, instance.upserts.of(table, None))
        if instance.consumers is not None:
            yield from measure_consumption(table, instance.consumers)
    if instance.consumers is not None:
        yield from measure_builds(instance.consumers)
