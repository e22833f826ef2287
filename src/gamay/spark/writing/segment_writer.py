"""The write of one task: its rows become segments, each passed on, for example uploaded hidden, as soon as it is full."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.spark.building.layout import partitioner
from gamay.spark.building.memory import rows_bytes_max
from gamay.spark.building.order import in_order
from gamay.spark.building.phases import Phases
from gamay.spark.building.report import Outcome, SegmentReport
from gamay.spark.building.segment_task import counts_of, finish
from gamay.spark.building.target import scratch_folder
from gamay.spark.source_options import WriteOptions
from gamay.spark.writing.hidden import Announced
from gamay.spark.writing.layout import WriteLayout
from gamay.spark.writing.replaced_rows import check_inside

Put: TypeAlias = Callable[[Path, str, int], Announced]
"""A function that takes the folder of a built segment, its name and its number of rows."""


class TaskWriter:
    """A writer of the rows of one Spark partition.

    Rows pass through the table's ingestion config into segments with a `WriteLayout`. reports: the reports on segments so
    far. reading: the report on the input rows, complete once all are written.
    """

    def __init__(self, options: WriteOptions, schema: Schema, config: TableConfig, put: Put, prefix: str) -> None:
        """put: stores a built segment. prefix: of the names of segments."""
        self._options = options
        self._schema = schema
        self._config = config
        self._put = put
        self._prefix = prefix
        self._pending: dict[int, list[pa.RecordBatch]] = {}
        self._rows: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._bytes_max = rows_bytes_max()
        self._number = 0
        self.reports: list[SegmentReport] = []
        self.reading = SegmentReport(Outcome.EMPTY.value)
        self._layout = WriteLayout.of(options, schema, config)
        by = self._layout.partition_column
        self._partitions = None if by is None else partitioner(schema, config, by)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Announced]:
        """Yield each segment once it is stored.

        Raises RecordError for values that cannot be converted, InvalidConfigError, and the errors of `HttpService.request`.
        """
        pipeline, phases = Pipeline(self._schema, self._config), Phases(SYSTEM_CLOCK)
        for batch in phases.over("read", batches):
            with phases.within("read"):
                conformed = pipeline.apply(batch, "the DataFrame")
            for partition, rows in self._parted(conformed):
                yield from self._add(partition, rows)
        for partition in sorted(self._pending):
            yield self._upload(partition)
        made = {"num_docs": pipeline.stats.rows_written, **counts_of([], pipeline), **phases.told()}
        self.reading = SegmentReport(Outcome.EMPTY.value, **made)

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
            part = batch.slice(0, room)
            self._pending.setdefault(partition, []).append(part)
            self._rows[partition] += part.num_rows
            self._bytes[partition] = self._bytes.get(partition, 0) + part.nbytes
            batch = batch.slice(room)
            if self._rows[partition] == self._options.rows_per_segment:
                yield self._upload(partition)
            elif sum(self._bytes.values()) > self._bytes_max:
                yield self._upload(max(self._bytes, key=self._bytes.__getitem__))

    def _upload(self, partition: int) -> Announced:
        rows = self._pending.pop(partition)
        self._rows.pop(partition)
        self._bytes.pop(partition)
        base = f"{self._prefix}_{self._number}"
        name = self._layout.name(base, self._config.raw_name, partition, SYSTEM_CLOCK.now_ms())
        self._number += 1
        phases = Phases(SYSTEM_CLOCK)
        with scratch_folder() as scratch:
            with phases.within("build"):
                builder = SegmentBuilder(self._schema, self._config, name, scratch)
                for batch in in_order(rows, self._schema, self._layout.sort_columns):
                    builder.append(batch)
                folder, metadata, trees = finish(builder, self._schema, self._config)
                if self._options.replace_where:
                    check_inside(folder, self._options.replace_where, self._schema)
            with phases.within("publish"):
                put = self._put(folder, name, metadata.num_docs)
        made = {"num_docs": put.num_docs, "size_bytes": put.size_bytes, **trees, **phases.told()}
        self.reports.append(SegmentReport(Outcome.BUILT.value, name, **made))
        return put
