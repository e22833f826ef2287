"""The context of one consuming segment: its consumer's inputs, and the state shared by the consumer's parts."""

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from gamay.base.clock import ManualClock
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import SegmentRecord
from gamay.ingest.stream.config import DEFAULT_FLUSH_ROWS, StreamConfig
from gamay.ingest.stream.decode.fields import input_fields
from gamay.ingest.stream.plugins import open_decoder, open_stream
from gamay.ingest.stream.spi import StreamConsumerFactory
from gamay.ingest.stream.stream_level import TopicStream
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.table.tier_overwrites import CONSUMING
from gamay.query.layout.rebuild import TableLayout
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.spi import Segment
from gamay.server.consuming.foreign import foreign_rows
from gamay.server.consuming.host import Surroundings
from gamay.server.consuming.intake import Intake
from gamay.server.consuming.machine import ConsumerMachine, FlushLimits
from gamay.server.consuming.prefetch import BegunSegment, Prefetch
from gamay.server.consuming.progress import ConsumerProgress
from gamay.server.consuming.status import StreamError
from gamay.upsert.spi import ConsumingKeys

_log = logging.getLogger(__name__)


class ShownRows(Protocol):
    """The visible rows of a consuming segment. Thread-safe."""

    def view(self) -> Segment:
        """Return the rows indexed so far."""
        ...

    def freshness_ms(self) -> int:
        """Return the time when the last row was written to the stream or, if unknown, indexed."""
        ...


OpenKeys: TypeAlias = Callable[[ShownRows], ConsumingKeys | None]
"""Returns the primary keys of a consumer's segment; None while it must wait for the previous segment."""


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """Task of a consumer: the segment and its configuration.

    record: IN_PROGRESS or COMMITTING. stream: the topic's config. open_keys: for a table with primary keys; called until
    the segment may start. prefetch, spare: left by the previous segment; ownership is transferred.
    """

    record: SegmentRecord
    layout: TableLayout
    stream: StreamConfig
    open_keys: OpenKeys | None = None
    prefetch: Prefetch | None = None
    spare: SpareBuffers | None = None


class SegmentContext:
    """Context of one consuming segment.

    machine: read by all parts of a consumer, updated only by the consumer itself. Raises GamayError if the stream
    cannot be set up.
    """

    def __init__(self, around: Surroundings, task: SegmentTask) -> None:
        record, config, stream = task.record, task.layout.config, task.stream
        self.server, self.owner, self.memory, self.partition = around.server, around.owner, around.table, around.partition
        self.task, self.clock, self.counts = task, around.server.clock, around.partition.counts
        self.table, self.segment, self.name = around.table.table, record.name, LlcName.must_parse(record.name)
        self.is_stream_level = self.name.is_stream_level
        self.factory: StreamConsumerFactory = open_stream(stream, self.server.streams)
        if self.is_stream_level:
            self.factory = TopicStream(self.factory, f"{self.table}.{self.server.server}")
        self.begin = self.factory.parse_offset(record.start_offset)
        flush = stream.high_level_flush if self.is_stream_level else stream.flush
        wanted_rows = record.flush_threshold_rows if record.flush_threshold_rows > 0 else flush.segment_rows
        self.row_limit = wanted_rows or DEFAULT_FLUSH_ROWS
        table_stream, completion = config.ingestion.stream, config.segments.completion_config
        self.is_pauseless = table_stream is not None and table_stream.pauseless_consumption_enabled
        downloads = completion is not None and completion.completion_mode == "DOWNLOAD"
        limits = FlushLimits(self.row_limit, record.creation_time_ms, flush.time_ms)
        self.machine = ConsumerMachine(
            self.begin, limits, self.clock.now_ms(), pauseless=self.is_pauseless,
            downloads_completed=self.is_stream_level or downloads,  # other replicas have the rows in a different order
        )  # fmt: skip
        self.progress = ConsumerProgress(record.creation_time_ms)

    def new_folder(self, kind: str) -> Path:
        """Return a unique path for a new folder."""
        return self.server.folder / self.table / f"{kind}-{self.server.ids.new()}"

    def begin_rows(self, name: str, created_ms: int, spare: SpareBuffers | None) -> BegunSegment:
        """Create an empty segment with this segment's or its successor's name. Raises GamayError and OSError."""
        layout = self.task.layout
        # a separate folder: a consumer that this one replaces may not have removed its buffers yet
        folder, sizing = self.new_folder("rows"), self.memory.history.expected(self.row_limit)
        consuming = layout.of_tier(CONSUMING).config
        # all replicas use the same time for "now", so that they build identical segments
        created = ManualClock(created_ms)
        rows = MutableSegment(name, layout.schema, layout.config, folder, sizing, created, spare, consuming)
        return BegunSegment(rows, folder, self.progress.freshness_ms)

    def open_intake(self) -> Intake:
        """Return a new intake, which converts the partition's messages to rows."""
        layout, stream = self.task.layout, self.task.stream
        decoder = open_decoder(stream, input_fields(layout.schema, layout.config))
        pipeline = Pipeline(layout.schema, layout.config, drop_failed=True)
        return Intake(
            self.segment, self.name.partition, decoder, pipeline, self.clock,
            stop_on_decode_error=stream.stop_on_decode_error, with_metadata=stream.metadata_populate,
            foreign=None if self.is_stream_level
            else foreign_rows(self.segment, layout.schema, layout.config, self.name.stream_partition),
        )  # fmt: skip

    def count_partitions(self) -> int:
        """Return the number of the topic's partitions. Raises GamayError."""
        with closing(self.factory.metadata()) as metadata:
            return len(metadata.partition_ids())

    def note_error(self, reason: str, *, permanent: bool) -> None:
        """Log and record an error. permanent: it is not retried."""
        log = _log.error if permanent else _log.warning
        log("%s, at offset %s: %s", self.segment, self.machine.offset, reason)
        self.memory.note_error(StreamError(self.segment, self.name.partition, permanent, reason, self.clock.now_ms()))
