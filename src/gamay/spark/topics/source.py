"""The messages of a topic as a Spark stream, for any of Gamay's stream types with integer offsets.

Spark's offsets are `{partition: next offset}`. Each topic partition is one Spark partition of a batch, which keeps messages
in order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.ingest.stream.offsets import SMALLEST, IntegerOffset, Offset
from gamay.ingest.stream.spi import PermanentStreamError
from gamay.spark.topics.placement import Placement
from gamay.spark.topics.sink import RepartitionWriter
from gamay.spark.topics.topic import TopicAddress

FORMAT = "gamay-topic"
COLUMNS = "timestamp_ms BIGINT, key BINARY, value BINARY"
_SCHEMA = pa.schema([("timestamp_ms", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
_MESSAGES, _BYTES, _FETCH_MS = 50_000, 16 << 20, 1_000
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Span(InputPartition):
    """A range of messages of one partition: from offset `start` up to, not including, `end`."""

    partition: int
    start: int
    end: int


class TopicSource(DataSource):
    """A topic to read (option `topic`) or the target of a repartitioning (option `placement`), as JSON from `job`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: StructType) -> "TopicReader":
        limit = self.options.get("maxmessages") or self.options.get("maxMessages")
        loses = (self.options.get("failondataloss") or self.options.get("failOnDataLoss") or "true") == "false"
        return TopicReader(TopicAddress(**orjson.loads(self.options["topic"])), int(limit) if limit else None, loses)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return RepartitionWriter(Placement.from_json(self.options["placement"]))


class TopicReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of a topic's messages from the first available one; planned on the driver, read by executors.

    messages_max: the approximate limit of a batch, None for none. may_lose: whether lost messages are tolerated.
    """

    def __init__(self, topic: TopicAddress, messages_max: int | None, may_lose: bool) -> None:
        self._topic = topic
        self._messages_max = messages_max
        self._may_lose = may_lose
        self._target: dict[str, int] | None = None  # for the trigger availableNow: the ends when the query started

    def initialOffset(self) -> dict[str, int]:
        """Return the offset at which a new query starts: the first message of each partition."""
        return self._begins({}, self._ends())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch."""
        return ReadAllAvailable() if self._messages_max is None else ReadMaxRows(self._messages_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Restrict the query to the messages that exist now."""
        self._target = self._ends()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the end offset of the next batch.

        Raises ConflictError if the topic ends before the offset already read, TransientStreamError, PermanentStreamError.
        """
        ends = self._ends() if self._target is None else self._target
        shorter = next((p for p, end in ends.items() if end < start.get(p, 0)), None)
        if shorter is not None:
            raise ConflictError(
                f"partition {shorter} of topic '{self._topic.config.topic}' ends at {ends[shorter]}, but was read up "
                f"to {start[shorter]}: it is another topic now, which needs another checkpoint"
            )
        if not isinstance(limit, ReadMaxRows):
            return {**start, **ends}
        begins = self._begins(start, ends)
        share = max(limit.max_rows // max(sum(ends[p] > begins[p] for p in ends), 1), 1)
        return {p: max(min(end, begins[p] + share), begins[p]) for p, end in ends.items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the ranges that executors read between two offsets."""
        begins = self._begins(start, end)
        return [Span(int(p), begins[p], end[p]) for p in sorted(end, key=int) if begins[p] < end[p]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one of the partitions. Raises ConflictError for lost messages, unless tolerated."""
        assert isinstance(partition, Span)
        consumer = self._topic.open().partition_consumer(partition.partition)
        at, end = IntegerOffset(partition.start), IntegerOffset(partition.end)
        deadline = SYSTEM_CLOCK.monotonic_s() + _PATIENCE_S
        try:
            while at < end:
                batch = consumer.fetch(at, _MESSAGES, _BYTES, _FETCH_MS)
                if batch.gap is not None and not self._may_lose:
                    raise ConflictError(
                        f"partition {partition.partition} of topic '{self._topic.config.topic}': {batch.gap}; let "
                        f"fail_on_data_loss be false to go on without them"
                    )
                batch = batch.before(end)
                if len(batch):
                    keys = pa.nulls(len(batch), pa.binary()) if batch.keys is None else batch.keys
                    columns = [pa.array(batch.timestamps_ms, pa.int64()), keys, batch.payloads]
                    yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
                following = IntegerOffset(_number(batch.next_offset))
                if at < following:
                    at, deadline = following, SYSTEM_CLOCK.monotonic_s() + _PATIENCE_S
                elif SYSTEM_CLOCK.monotonic_s() > deadline:
                    raise PermanentStreamError(
                        f"partition {partition.partition} of topic '{self._topic.config.topic}' gives no message at {at}, "
                        f"although it ends at {end}"
                    )
        finally:
            consumer.close()

    def _begins(self, start: dict[str, int], ends: dict[str, int]) -> dict[str, int]:
        """Return where each partition resumes; a new one starts at its first message."""
        metadata = self._topic.open().metadata()
        try:
            return {p: start[p] if p in start else _number(metadata.offset(int(p), SMALLEST)) for p in ends}
        finally:
            metadata.close()

    def _ends(self) -> dict[str, int]:
        metadata = self._topic.open().metadata()
        try:
            return {str(p): _number(metadata.latest_offset(p)) for p in metadata.partition_ids()}
        finally:
            metadata.close()


def _number(offset: Offset) -> int:
    text = str(offset)
    if not text.isdecimal():
        raise InvalidConfigError(f"only streams whose offsets are whole numbers are repartitioned, not '{text}'")
    return int(text)
