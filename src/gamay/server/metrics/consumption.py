"""Metrics of consumption, with Pinot's names."""

from collections.abc import Iterator

from gamay.base.metrics import Measured, MetricKind
from gamay.cluster.records.completion import Status
from gamay.server.consuming.counts import PartitionCounts
from gamay.server.consuming.dead_letters import DeadLetterKind
from gamay.server.consuming.manager import ConsumerManager
from gamay.server.consuming.status import ConsumerStatus

_PREFIX = "pinot_server_"


def measure_consumption(table: str, consumers: ConsumerManager) -> Iterator[Measured]:
    """Yield the metrics of a typed table's partitions: the state of consumers, and counters since the start."""
    for consumer in consumers.consumers(table).values():
        yield from _consumer(table, consumer.status())
    for partition, counts in sorted(consumers.counts(table).items()):
        yield from _counters({"table": table, "partition": str(partition)}, counts)


def measure_builds(consumers: ConsumerManager) -> Iterator[Measured]:
    """Yield the number of consuming segments being built."""
    yield Measured(f"{_PREFIX}llcSimultaneousSegmentBuilds", consumers.num_building, "Segments of streams built now")


def _consumer(table: str, status: ConsumerStatus) -> Iterator[Measured]:
    of = {"table": table, "partition": str(status.partition)}
    consumes = status.failure is None
    yield Measured(f"{_PREFIX}llcPartitionConsuming", consumes, "1 while the partition is consumed", of)
    yield Measured(f"{_PREFIX}consumingSegmentRows", status.num_rows, "Rows of the consuming segment", of)
    yield Measured(f"{_PREFIX}realtimeRowsPerSecond", status.rows_per_s, "Rows consumed in a second", of)
    yield Measured(f"{_PREFIX}realtimeOffheapMemoryUsed", status.memory_bytes, "Bytes of the consuming segment", of)
    if status.lag is not None:
        yield Measured(f"{_PREFIX}realtimeIngestionOffsetLag", status.lag, "Messages not consumed yet", of)
    if status.current_offset.isdecimal():
        offset = int(status.current_offset)
        yield Measured(f"{_PREFIX}highestStreamOffsetConsumed", offset, "Where the consumer is", of)
    if (delay_ms := status.ingestion_delay_ms) is not None:
        text = "How old the last row is, or the last time that there was nothing more to consume"
        yield Measured(f"{_PREFIX}realtimeIngestionDelayMs", delay_ms, text, of)
    if (quota_percent := status.quota_percent) is not None:
        text = "Messages that were consumed lately, in percent of what the limit of the rate lets through"
        yield Measured(f"{_PREFIX}consumptionQuotaUtilization", quota_percent, text, of)


def _counters(of: dict[str, str], counts: PartitionCounts) -> Iterator[Measured]:
    dead = counts.dead
    for name, number, text in (
        ("realtimeRowsFetched", counts.messages, "Messages that were fetched"),
        ("realtimeRowsConsumed", counts.rows, "Rows that were taken in"),
        ("realtimeRowsFiltered", counts.filtered, "Rows that the filter left out"),
        ("realtimePartitionMismatch", counts.foreign, "Rows of other partitions, which were left out"),
        ("incompleteRealtimeRowsConsumed", counts.incomplete, "Rows with a value that could not be converted, so null"),
        ("realtimeRowsSanitized", counts.sanitised, "Rows with text that was cut, or replaced for being too long"),
        ("indexingFailures", counts.indexing_failures, "Batches of rows that a segment could not take"),
        (
            "invalidRealtimeRowsDropped",
            dead[DeadLetterKind.UNDECODABLE],
            "Messages that cannot be read",
        ),
        (
            "rowsWithErrors",
            dead[DeadLetterKind.UNCONVERTIBLE] + dead[DeadLetterKind.REJECTED],
            "Rows that the table cannot take: see the dead letters",
        ),
        ("realtimeConsumptionExceptions", counts.fetch_failures, "Fetches that failed, tried again or not"),
        ("realtimeRowsAheadOfZk", counts.ahead, "Segments of which there were more rows here than were committed"),
        ("segmentBuildFailure", counts.build_failures, "Segments that could not be built"),
        ("segmentUploadFailure", counts.upload_failures, "Uploads of built segments that failed"),
        *((_answer_name(status), number, "Answers of the controller") for status, number in _answers(counts)),
    ):
        yield Measured(_PREFIX + name, number, text, of, MetricKind.COUNTER)
    yield Measured(f"{_PREFIX}streamDataLoss", dead[DeadLetterKind.GAP], "Gaps: what the stream had lost already", of)
    for name, seconds, text in (
        ("lastRealtimeSegmentCreationDurationSeconds", counts.build_s, "What building the last segment took"),
        (
            "lastRealtimeSegmentCompletionDurationSeconds",
            counts.completion_s,
            "From the end of the last segment's consumption until the built one was served",
        ),
    ):
        if seconds is not None:
            yield Measured(_PREFIX + name, seconds, text, of)


def _answers(counts: PartitionCounts) -> list[tuple[Status, int]]:
    # a copy, as the consumer modifies it concurrently
    return sorted(counts.answers.copy().items(), key=lambda item: item[0].value)


def _answer_name(status: Status) -> str:
    """Return `llcControllerResponseCommitSuccess` for COMMIT_SUCCESS."""
    return "llcControllerResponse" + "".join(part.capitalize() for part in status.value.split("_"))
