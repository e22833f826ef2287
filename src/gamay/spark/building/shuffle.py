"""Rows brought into the order of the table before they become segments, so that queries can skip most segments.

Rows are converted first (on executors, file by file or DataFrame partition by partition), then Spark puts them into ranges
of the table's partition, time or sorted column (`gamay.spark.building.ranges`) and sorts each range; every range becomes a
segment.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError, InvalidConfigError
from gamay.functions.arrow import arrow_type
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.segment.encode.partition import partition_function, partitions_of_column
from gamay.segment.encode.value_text import value_text
from gamay.segment.write.builder import SegmentBuilder
from gamay.spark.building.phases import Phases
from gamay.spark.building.ranges import Ranges, Sampler
from gamay.spark.building.report import Outcome, SegmentReport
from gamay.spark.building.segment_task import finish
from gamay.spark.building.target import PROVISIONAL_NAME, SegmentTarget, facts_of, publish, scratch_folder

PARTITION = "__gamay_partition"
REPORT = "__gamay_report"
REPORT_PARTITION = -1
"""The partition of rows that hold no row but, as JSON, the report of a converted input."""
SAMPLE_PARTITION = -2
"""The partition of rows that hold no row but, as JSON, the sample of a task's keys."""

_SLACK = 1.5  # how many times the rows that were asked for a segment has at most

Batches: TypeAlias = Iterator[pa.RecordBatch]
_WIRE = {DataType.TIMESTAMP: pa.int64()}  # Spark's timestamps are microseconds; milliseconds travel as numbers


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows are spread over segments.

    rows_per_segment: rows that a segment has about. range_column: segments hold ranges of it. sort_column: order within a
    segment. partition_column: segments hold one partition of it. None where the table names no such column.
    """

    rows_per_segment: int
    range_column: str | None
    sort_column: str | None
    partition_column: str | None

    @classmethod
    def of(
        cls, schema: Schema, table_config: TableConfig, rows_per_segment: int, sort_column: str | None = None
    ) -> "Layout":
        """Return the layout that a table's config asks for; `sort_column` overrides its sorted column.

        Raises InvalidConfigError for a sort column that rows cannot be sorted by.
        """
        if sort_column is not None and (sort_column not in schema or not schema.field(sort_column).single_value):
            what = "has several values in a row" if sort_column in schema else "is not in the schema"
            raise InvalidConfigError(f"sortColumn: the column '{sort_column}' {what}, so that rows cannot be sorted by it")
        sorted_column = sort_column or table_config.sorted_column
        time_column = table_config.time_column
        partitioning = table_config.indexing.segment_partition
        partitioned = next(iter(partitioning.columns), None) if partitioning is not None else None
        return cls(rows_per_segment, time_column or sorted_column, sorted_column or time_column, partitioned)


def wire_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema in which conformed rows travel through Spark."""
    fields = [(PARTITION, pa.int32()), (REPORT, pa.string())]
    for spec in schema.stored_fields:
        kind = _WIRE.get(spec.data_type, arrow_type(spec.data_type))
        fields.append((spec.name, kind if spec.single_value else pa.list_(kind)))
    return pa.schema(fields)


def to_wire(batch: pa.RecordBatch, schema: Schema, partitions: "Callable[[pa.RecordBatch], pa.Array]") -> pa.RecordBatch:
    """Return a conformed batch in its travelling form."""
    target = wire_schema(schema)
    columns = [c.cast(f.type) for c, f in zip(batch.columns, list(target)[2:], strict=True)]
    return pa.RecordBatch.from_arrays([partitions(batch), pa.nulls(batch.num_rows, pa.string()), *columns], schema=target)


def text_row(partition: int, text: str, schema: Schema) -> pa.RecordBatch:
    """Return a report or a sample, as `partition` tells, in the travelling form."""
    target = wire_schema(schema)
    first = [pa.array([partition], pa.int32()), pa.array([text], pa.string())]
    return pa.RecordBatch.from_arrays([*first, *(pa.nulls(1, f.type) for f in list(target)[2:])], schema=target)


def from_wire(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return the conformed batch of a travelling one."""
    target = pa.schema([(f.name, arrow_type(f.data_type, f.single_value)) for f in schema.stored_fields])
    columns = [batch.column(f.name).cast(f.type) for f in target]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def partitioner(schema: Schema, table_config: TableConfig, column: str | None) -> "Callable[[pa.RecordBatch], pa.Array]":
    """Return the function that tells the partition of each row of a conformed batch; all 0 without a column."""
    if column is None:
        return lambda batch: pa.array(np.zeros(batch.num_rows, np.int32))
    spec = schema.field(column)
    partitioning = table_config.indexing.segment_partition
    assert partitioning is not None
    config = partitioning.columns[column]
    function = partition_function(config.function_name, config.num_partitions, config.function_config)
    of_null = function.partition_of(value_text(spec.default_null_value, spec.data_type))

    def partitions(batch: pa.RecordBatch) -> pa.Array:
        return pa.array(partitions_of_column(function, batch.column(column), spec.data_type, of_null))

    return partitions


def sampled(batches: Batches, schema: Schema, layout: Layout, size: int) -> Batches:
    """Pass travelling rows on, then a sample of their keys, `size` at the most."""
    sampler = Sampler(size)
    name = layout.range_column
    default = None if name is None else _order_of_null(schema.field(name))
    for batch in batches:
        partitions = batch.column(PARTITION).to_numpy()
        rows = partitions >= 0
        column = None if name is None else batch.column(name).fill_null(default)
        sampler.add(partitions[rows], column if column is None or rows.all() else column.filter(pa.array(rows)))
        yield batch
    yield text_row(SAMPLE_PARTITION, sampler.sample().to_json(), schema)


def in_order(frame: Any, schema: Schema, layout: Layout, ranges: Ranges) -> Any:
    """Return the travelling DataFrame with one sorted partition for each of the ranges."""
    from pyspark.sql.functions import coalesce, col, lit, xxhash64

    def sort_key(name: str) -> Any:
        return coalesce(col(f"`{name}`"), lit(_order_of_null(schema.field(name))))

    # Without a column to make ranges of, rows are spread by their hash: where a row goes must not depend on chance.
    stored = [col(f"`{spec.name}`") for spec in schema.stored_fields]
    key = xxhash64(*stored) if layout.range_column is None else sort_key(layout.range_column)
    placed = frame.repartitionById(len(ranges), ranges.column(col(PARTITION), key))
    order = dict.fromkeys(name for name in (layout.sort_column, layout.range_column) if name)
    return placed.sortWithinPartitions(*map(sort_key, order)) if order else placed


def _order_of_null(spec: FieldSpec) -> Any:
    """Return the value, as it travels, that a null of a column becomes and is sorted as."""
    default = spec.default_null_value
    return value_text(default, spec.data_type) if isinstance(default, Decimal) else default


def segment_writer(target: SegmentTarget, layout: Layout, num_ranges: int) -> Callable[[Batches], Batches]:
    """Return the `mapInArrow` function that makes segments of sorted ranges and reports them as JSON."""

    def write(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        first = context.partitionId() if context is not None else 0
        reports = RangeWriter(target, layout, first, num_ranges).write(batches)
        for report in reports:
            yield pa.RecordBatch.from_pydict({"result": pa.array([report.to_json()], pa.string())})

    return write


class RangeWriter:
    """Makes the segment of one sorted range of one partition, or several of a range that is larger than was asked for: one
    that a single key fills, which no range parts.

    first_id: the sequence id of its first segment; each further one's is greater by id_step.
    """

    def __init__(self, target: SegmentTarget, layout: Layout, first_id: int, id_step: int) -> None:
        self._target = target
        self._layout = layout
        self._next_id = first_id
        self._id_step = id_step
        self._schema = target.schema()
        self._config = target.table_config()
        self._phases = Phases(SYSTEM_CLOCK)  # of the segment that is being made
        # ranges come out uneven: a few rows too many are better in this segment than in one of their own
        self._rows_max = ceil(_SLACK * layout.rows_per_segment)

    def write(self, batches: Batches) -> Iterator[SegmentReport]:
        """Yield the report of each segment; a failure that a user can cause is a report, too."""
        try:
            with scratch_folder() as scratch:
                builder: SegmentBuilder | None = None
                for batch in batches:
                    while batch.num_rows:
                        if builder is None:
                            builder = SegmentBuilder(self._schema, self._config, PROVISIONAL_NAME, scratch)
                        part = batch.slice(0, self._rows_max - builder.num_docs)
                        with self._phases.within("build"):
                            builder.append(from_wire(part, self._schema))
                        batch = batch.slice(part.num_rows)
                        if builder.num_docs == self._rows_max:
                            yield self._finish(builder)
                            builder = None
                if builder is not None:
                    yield self._finish(builder)
        except GamayError as error:
            yield SegmentReport(Outcome.FAILED.value, message=str(error))
        except OSError as error:  # a folder that cannot be written, a full disk
            yield SegmentReport(Outcome.FAILED.value, message=f"cannot build a segment: {error}")

    def _finish(self, builder: SegmentBuilder) -> SegmentReport:
        with self._phases.within("build"):
            folder, metadata, trees = finish(builder, self._schema, self._config)
        facts = facts_of(metadata, self._next_id, "")
        self._next_id += self._id_step
        with self._phases.within("publish"):
            published = publish(folder, self._target, self._target.name_generator(), facts, "")
        told, self._phases = self._phases.told(), Phases(SYSTEM_CLOCK)
        outcome = Outcome.KEPT if published.is_kept else Outcome.BUILT
        rest = {**trees, **told}
        return SegmentReport(
            outcome.value, published.name, published.uri, "", metadata.num_docs, published.size_bytes, **rest
        )
