"""Writer that builds segments in this process and adds them to a table, for `gamay.connect` and `/ingestFromFile`.

The life of appended rows: batches go through `gamay.ingest.transform.pipeline.Pipeline` into
`gamay.segment.write.builder.SegmentBuilder`, a new one every `rows_per_segment` rows; the finished folders are moved into
the deep store and become visible together.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from gamay.cluster.records.records import SegmentRecord
from gamay.controller.context import ControllerContext
from gamay.controller.segments.segments import SegmentManager
from gamay.controller.segments.verify import VerifiedSegment
from gamay.controller.tables.tables import TableManager
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.files import full_disk_explained

ROWS_PER_SEGMENT = 5_000_000

Rows: TypeAlias = Callable[[Pipeline], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class TableWriter:
    """Writer of rows to tables, durable and all or nothing."""

    context: ControllerContext
    tables: TableManager
    segments: SegmentManager

    def write(
        self,
        table: str,
        rows: Rows,
        name_of: Callable[[int], str],
        rows_per_segment: int = ROWS_PER_SEGMENT,
    ) -> list[SegmentRecord]:
        """Append rows to a typed table; return the records of the new segments.

        rows: yields conformed batches of the table's pipeline. name_of: returns the name of the n-th new segment.
        When this returns, the rows are durable; when it raises, none was added. Raises RecordError for a row that
        does not conform, ConflictError for a name that is taken, DiskFullError, NotFoundError.
        """
        schema, config = self.tables.schema_of(table), self.tables.get(table)
        with self.built(schema, config, rows, name_of, rows_per_segment) as built:
            return self.segments.add_all(table, built)

    @contextmanager
    def built(
        self,
        schema: Schema,
        config: TableConfig,
        rows: Rows,
        name_of: Callable[[int], str],
        rows_per_segment: int = ROWS_PER_SEGMENT,
    ) -> Iterator[list[VerifiedSegment]]:
        """Build segments of rows, which exist until the body ends; arguments and errors as of `write`."""
        folder = self.context.work_dir / self.context.ids.new()
        with full_disk_explained(f"cannot add rows to table '{config.typed_name}'", self.context.work_dir):
            folder.mkdir(parents=True)
            try:
                yield list(self._build(schema, config, rows, name_of, rows_per_segment, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _build(
        self,
        schema: Schema,
        config: TableConfig,
        rows: Rows,
        name_of: Callable[[int], str],
        rows_per_segment: int,
        folder: Path,
    ) -> Iterator[VerifiedSegment]:
        builder: SegmentBuilder | None = None
        count = 0
        for conformed in rows(Pipeline(schema, config)):
            start = 0
            while start < conformed.num_rows:
                if builder is None:
                    builder = SegmentBuilder(schema, config, name_of(count), folder, clock=self.context.clock)
                    count += 1
                room = rows_per_segment - builder.num_docs
                builder.append(conformed.slice(start, room))
                start += room
                if builder.num_docs >= rows_per_segment:
                    yield _finish(builder)
                    builder = None
        if builder is not None:
            yield _finish(builder)


def _finish(builder: SegmentBuilder) -> VerifiedSegment:
    folder = builder.build()
    return VerifiedSegment(read_metadata(folder), folder)
