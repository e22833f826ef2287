"""What one task writes: its rows as segments, each uploaded, announced to be hidden, as soon as it is full."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ConflictError
from gamay.client.controller import ControllerClient
from gamay.ingest.job_spec import PushJobSpec
from gamay.ingest.pipeline import Pipeline
from gamay.model.schema import Schema
from gamay.model.table_config import TableConfig
from gamay.segment.builder import SegmentBuilder
from gamay.spark import shuffle
from gamay.spark.push import with_attempts
from gamay.spark.replaced_rows import check_inside
from gamay.spark.segment_task import finish
from gamay.spark.source_options import WriteOptions
from gamay.spark.target import ARCHIVE_SUFFIX, scratch_folder
from gamay.spark.writing.layout import WriteLayout
from gamay.storage.archive import pack

IN_PROGRESS = "IN_PROGRESS"


@dataclass(frozen=True, slots=True)
class Announced:
    """An uploaded segment that nobody sees yet. entry: the id of its replacement."""

    name: str
    entry: str
    num_docs: int


Put: TypeAlias = Callable[[Path, str, int], Announced]
"""What is done with a segment in a folder of its name, of so many rows."""


def upload_hidden(client: ControllerClient, options: WriteOptions, folder: Path, name: str, num_docs: int) -> Announced:
    """Announce the segment in a folder of its name, and upload it, with the attempts that the options allow.

    Raises the errors of `HttpService.request`, and ConflictError when the announcement was reverted meanwhile: the write was
    given up, and whoever did that has not seen this segment.
    """
    table = options.cluster.table
    archive = pack(folder, folder.with_name(f"{name}{ARCHIVE_SUFFIX}"))
    push = PushJobSpec(push_attempts=options.push_attempts, push_retry_interval_ms=100)
    entries: list[str] = []

    def start() -> None:
        entries[:] = [client.start_replace(table, [], [name], options.table_type)]

    with_attempts(start, push)
    with_attempts(lambda: client.upload_tar(table, archive, table_type=options.table_type), push)
    archive.unlink()
    if client.lineage(table, options.table_type).get(entries[0], {}).get("state") != IN_PROGRESS:
        client.delete_segments(f"{table}_{options.table_type}", [name])
        raise ConflictError(f"the write of segment '{name}' was given up while it was uploaded")
    return Announced(name, entries[0], num_docs)


class TaskWriter:
    """Writes the rows of one Spark partition.

    Rows go through the table's ingestion config, and into segments by a `WriteLayout`.
    """

    def __init__(self, options: WriteOptions, schema: Schema, config: TableConfig, put: Put, prefix: str) -> None:
        """put: keeps a segment that is built. prefix: of the names of the segments."""
        self._options = options
        self._schema = schema
        self._config = config
        self._put = put
        self._prefix = prefix
        self._pending: dict[int, list[pa.RecordBatch]] = {}
        self._rows: dict[int, int] = {}
        self._number = 0
        self._layout = WriteLayout.of(options, schema, config)
        by = self._layout.partition_column
        self._partitions = None if by is None else shuffle.partitioner(schema, config, by)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Announced]:
        """Yield each segment once it is uploaded.

        Raises RecordError for values that no column takes, InvalidConfigError, and the errors of `HttpService.request`.
        """
        pipeline = Pipeline(self._schema, self._config)
        for batch in batches:
            conformed = pipeline.apply(batch, "the DataFrame")
            for partition, rows in self._parted(conformed):
                yield from self._add(partition, rows)
        for partition in sorted(self._pending):
            if self._rows[partition]:
                yield self._upload(partition)

    def _parted(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self._partitions is None or not batch.num_rows:
            yield 0, batch
            return
        partitions = self._partitions(batch)
        for partition in pc.unique(partitions).to_pylist():
            yield partition, batch.filter(pc.equal(partitions, partition))

    def _add(self, partition: int, batch: pa.RecordBatch) -> Iterator[Announced]:
        while batch.num_rows:
            room = self._options.rows_per_segment - self._rows.setdefault(partition, 0)
            self._pending.setdefault(partition, []).append(batch.slice(0, room))
            self._rows[partition] += min(room, batch.num_rows)
            batch = batch.slice(room)
            if self._rows[partition] == self._options.rows_per_segment:
                yield self._upload(partition)

    def _upload(self, partition: int) -> Announced:
        rows = pa.Table.from_batches(self._pending.pop(partition))
        self._rows.pop(partition)
        base = f"{self._prefix}_{self._number}"
        name = self._layout.name(base, self._config.raw_name, partition, SYSTEM_CLOCK.now_ms())
        self._number += 1
        with scratch_folder() as scratch:
            builder = SegmentBuilder(self._schema, self._config, name, scratch)
            for batch in self._ordered(rows).to_batches():
                builder.append(batch)
            folder, metadata, _ = finish(builder, self._schema, self._config)
            if self._options.replace_where:
                check_inside(folder, self._options.replace_where, self._schema)
            return self._put(folder, name, metadata.num_docs)

    def _ordered(self, rows: pa.Table) -> pa.Table:
        if not self._layout.sort_columns:
            return rows
        return rows.take(pc.sort_indices(rows, [(name, "ascending", "at_start") for name in self._layout.sort_columns]))
