"""What a server measures."""

from collections.abc import Iterator

from gamay.base.metrics import Measured
from gamay.server.consuming.status import ConsumerStatus
from gamay.server.instance import ServerInstance
from gamay.server.key_metrics import measure_keys


def measure_server(instance: ServerInstance) -> Iterator[Measured]:
    """Yield what the server has loaded, what it failed to load, and what it was asked."""
    yield from instance.counts.measure()
    for table in instance.tables():
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
        failures = len(instance.failures(table))
        yield Measured("pinot_server_segmentsInErrorState", failures, "Segments that cannot be loaded", labels)
        yield from measure_keys(labels, instance.upserts.of(table, None))
        consumers = instance.consumers
        for consumer in [] if consumers is None else consumers.consumers(table).values():
            yield from _measure_consumer(labels, consumer.status())


def _measure_consumer(labels: dict[str, str], status: ConsumerStatus) -> Iterator[Measured]:
    of = {**labels, "partition": str(status.partition)}
    consumes = status.failure is None
    yield Measured("pinot_server_llcPartitionConsuming", consumes, "1 while the partition is consumed", of)
    yield Measured("pinot_server_consumingSegmentRows", status.num_rows, "Rows of the consuming segment", of)
    yield Measured("pinot_server_realtimeRowsPerSecond", status.rows_per_s, "Rows consumed in a second", of)
    yield Measured("pinot_server_realtimeOffheapMemoryUsed", status.memory_bytes, "Bytes of the consuming segment", of)
    yield Measured("pinot_server_invalidRealtimeRowsDropped", status.messages_dropped, "Messages without rows", of)
    yield Measured("pinot_server_realtimeRowsFiltered", status.rows_filtered, "Rows that the filter left out", of)
    if status.lag is not None:
        yield Measured("pinot_server_realtimeIngestionOffsetLag", status.lag, "Messages not consumed yet", of)
    if status.current_offset.isdecimal():
        offset = int(status.current_offset)
        yield Measured("pinot_server_highestStreamOffsetConsumed", offset, "Where the consumer is", of)
    if status.availability_lag_ms is not None:
        lag_ms = status.availability_lag_ms
        yield Measured("pinot_server_realtimeIngestionDelayMs", lag_ms, "From the stream to queries, of the last row", of)
