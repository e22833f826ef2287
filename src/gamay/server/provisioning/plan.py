"""Plan of the hosts that a consuming table needs, and of the duration of its segments, from a sample.

For each column the sample determines the number of distinct values (`gamay.server.provisioning.distinct`), their width,
the values per row and the nulls; the size of each buffer follows from a formula of the format
(`gamay.segment.sizes`, `gamay.segment.mutable.sizes`). Raw values are actually encoded, for half of the sample
and all of it, and their size is extrapolated linearly. If metrics are aggregated, rows are merged, and whole
segments are measured in this way.
"""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import arrow_scalar, conformed_schema
from gamay.functions.vector import take
from gamay.ingest.transform.operands import to_arrow
from gamay.model.schema.schema import Schema
from gamay.model.table.rollup import rollups_of
from gamay.model.table.table_config import TableConfig
from gamay.segment.encode.dictionary import sort_distinct
from gamay.segment.encode.format import METADATA_FILE, BufferWriter
from gamay.segment.encode.storage_form import Stored, binary_buffers, from_arrow
from gamay.segment.mutable import MutableSegment
from gamay.segment.mutable.sizes import column_memory
from gamay.segment.mutable.sizing import Sizing
from gamay.segment.read.column import ImmutableColumn
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.sizes import ColumnShape, column_bytes
from gamay.segment.spi import Ids
from gamay.segment.write.accumulate import without_nulls
from gamay.segment.write.column_writer import ColumnPlan
from gamay.segment.write.folder_writer import SegmentPlan
from gamay.segment.write.timestamp_index import TimestampPlan, truncated_array
from gamay.server.provisioning.distinct import Distinct, Drawn, sampled

# hours that completed segments stay on consuming hosts, by the push frequency
RETENTION_HOURS = {"hourly": 24, "daily": 72, "weekly": 240, "monthly": 816}
_BATCH_ROWS = 5_000
# rows of the segment with which the metadata's size is measured, which hardly depends on them
_METADATA_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    """Linear extrapolation of bytes, measured at two numbers of rows or values, `half` and `whole`."""

    half: int
    whole: int
    half_bytes: int
    whole_bytes: int

    def at(self, number: int) -> float:
        """Return the bytes at another number."""
        slope = (self.whole_bytes - self.half_bytes) / max(1, self.whole - self.half)
        return max(0.0, self.whole_bytes + slope * (number - self.whole))


class Sample(Protocol):
    """Size model from a sample. rows: the number of rows in it."""

    @property
    def rows(self) -> int: ...

    def consuming_bytes(self, rows: int) -> int:
        """Return the memory of a consuming segment that grows to `rows` rows."""
        ...

    def sealed_bytes(self, rows: int) -> int:
        """Return the size of the segment that is built from `rows` rows."""
        ...


@dataclass(frozen=True, slots=True)
class MeasuredSample:
    """Model measured with whole segments of half of the rows and of all, for tables that merge rows, which have no
    formula."""

    rows: int
    consuming: Line
    sealed: Line

    def consuming_bytes(self, rows: int) -> int:
        return math.ceil(self.consuming.at(rows))

    def sealed_bytes(self, rows: int) -> int:
        return math.ceil(self.sealed.at(rows))


@dataclass(frozen=True, slots=True)
class SampledColumn:
    """Model of one column of a sample; see `ColumnShape` for the fields."""

    plan: ColumnPlan
    distinct: Distinct
    values_per_row: float
    null_share: float
    entry_bytes: float
    value_bytes: float
    raw: Line
    is_sorted: bool
    run_docs: float

    def shape(self, rows: int) -> ColumnShape:
        """Return the expected shape of the column with `rows` rows."""
        num_values = max(1, round(rows * self.values_per_row))
        occurrences, entries = self.distinct.occurrences(num_values)
        return ColumnShape(
            num_docs=rows,
            num_values=num_values,
            cardinality=max(1, round(self.distinct.at(num_values))),
            num_nulls=round(rows * self.null_share),
            entry_bytes=self.entry_bytes,
            value_bytes=self.value_bytes,
            raw_bytes=self.raw.at(num_values),
            is_sorted=self.is_sorted,
            occurrences=occurrences,
            entries=entries,
            run_docs=self.run_docs,
        )


@dataclass(frozen=True, slots=True)
class ColumnsSample:
    """Model that predicts each column separately. metadata_bytes: of the metadata file.

    timestamps: columns that timestamp indexes derive.
    """

    rows: int
    columns: Sequence[SampledColumn]
    timestamps: Sequence[SampledColumn]
    metadata_bytes: int
    sorted_column: str | None

    def consuming_bytes(self, rows: int) -> int:
        sizing = Sizing(rows)
        return sum(
            column_memory(
                column.plan,
                column.shape(rows),
                sizing.column(column.plan.spec.name),
                column.distinct.at,
                is_sort_key=column.plan.spec.name == self.sorted_column,
            )
            for column in (*self.columns, *self.timestamps)
        )

    def sealed_bytes(self, rows: int) -> int:
        columns = (*self.columns, *self.timestamps)
        return self.metadata_bytes + sum(column_bytes(column.plan, column.shape(rows)) for column in columns)


def measure(
    schema: Schema, config: TableConfig, rows: pa.Table, folder: Path, cardinalities: Mapping[str, int] | None = None
) -> Sample:
    """Build a model from a sample, with scratch files in `folder`. rows: in the schema's types. cardinalities: known ones.

    Raises InvalidConfigError without rows, and for cardinalities of columns that the schema does not have.
    """
    known = cardinalities or {}
    if rows.num_rows == 0:
        raise InvalidConfigError("the sample has no rows; one at least is needed to learn from")
    names = [spec.name for spec in schema.stored_fields]
    if strange := [name for name in known if name not in names]:
        raise InvalidConfigError(f"a cardinality is given of '{strange[0]}', which is no column: {', '.join(names)} are")
    if rollups_of(schema, config):
        return _measured(schema, config, rows, folder)
    segment_plan = SegmentPlan.of(schema, config, "sample", 0)
    arrival, sealed = _in_order_of_time(config, rows), _in_sealed_order(config, rows)
    columns = [
        _sampled_column(plan, sealed[plan.spec.name], arrival and arrival[plan.spec.name], known.get(plan.spec.name))
        for plan in segment_plan.columns
    ]
    timestamps = [
        _sampled_column(derived.plan, _truncated(sealed, derived), arrival and _truncated(arrival, derived), None)
        for each in segment_plan.timestamps.values()
        for derived in each
    ]
    _, metadata_bytes, _ = _consumed(schema, config, rows.slice(0, _METADATA_ROWS), folder / "metadata")
    return ColumnsSample(rows.num_rows, columns, timestamps, metadata_bytes, config.sorted_column)


def _truncated(rows: pa.Table, derived: TimestampPlan) -> pa.ChunkedArray:
    """Return the rows of a column that a timestamp index derives."""
    chunks = rows[derived.column.base].chunks
    return pa.chunked_array([truncated_array(chunk, derived.column.granularity) for chunk in chunks])


def _in_order_of_time(config: TableConfig, rows: pa.Table) -> "pa.Table | None":
    """Return the rows in approximate order of arrival; None if unknown, as sealing orders them by the sorted column."""
    if config.sorted_column is None or config.sorted_column == config.time_column:
        return rows
    return rows.sort_by(config.time_column) if config.time_column in rows.column_names else None


def _in_sealed_order(config: TableConfig, rows: pa.Table) -> pa.Table:
    name = config.sorted_column
    if name is None or name not in rows.column_names or pa.types.is_list(rows.schema.field(name).type):
        return rows
    return rows.sort_by(name)


def _sampled_column(
    plan: ColumnPlan, sealed: pa.ChunkedArray, arrival: "pa.ChunkedArray | None", cardinality: int | None
) -> SampledColumn:
    values, num_nulls = _stored(plan, sealed)
    dictionary, (ids,) = sort_distinct([values], plan.spec.data_type)
    is_sorted = plan.spec.single_value and not np.any(ids[1:] < ids[:-1])
    if cardinality is not None:
        distinct: Distinct = Drawn(cardinality)
    elif arrival is None:
        distinct = sampled(ids, len(dictionary), in_order=False)
    else:
        _, (arrived,) = sort_distinct([_stored(plan, arrival)[0]], plan.spec.data_type)
        distinct = sampled(arrived, len(dictionary), in_order=True)
    return SampledColumn(
        plan=plan,
        distinct=distinct,
        values_per_row=len(values) / len(sealed),
        null_share=num_nulls / len(sealed),
        entry_bytes=_mean_bytes(dictionary),
        value_bytes=_mean_bytes(values),
        raw=_raw_line(plan, values, is_sorted),
        is_sorted=is_sorted,
        run_docs=_run_docs(ids),
    )


def _stored(plan: ColumnPlan, column: pa.ChunkedArray) -> tuple[Stored, int]:
    """Return values in stored form, and the number of null rows."""
    data_type = plan.spec.data_type
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    present, _, nulls = without_nulls(array, plan.spec.single_value, arrow_scalar(plan.default, data_type))
    return from_arrow(present, data_type), 0 if nulls is None else int(np.count_nonzero(nulls))


def _mean_bytes(stored: Stored) -> float:
    if isinstance(stored, np.ndarray):
        return float(stored.itemsize)
    return len(binary_buffers(stored)[1]) / max(1, len(stored))


def _run_docs(ids: Ids) -> float:
    """Return the factor by which runs of equal ids are longer than in random order."""
    if len(ids) < 2:
        return 1.0
    shares = np.bincount(ids) / len(ids)
    expected = (len(ids) - 1) * (1 - float((shares**2).sum()))
    return max(1.0, expected / max(1, int(np.count_nonzero(np.diff(ids)))))


def _raw_line(plan: ColumnPlan, values: Stored, is_sorted: bool) -> Line:
    config = plan.config
    if config.dictionary and not config.may_drop_dictionary:
        return Line(0, 0, 0, 0)

    def size(part: Stored) -> int:
        writer = BufferWriter(io.BytesIO())
        return sum(buffer.size for buffer in plan.raw_form(part, is_sorted).write(writer, part, config))

    half = take(values, np.arange(len(values) // 2))
    return Line(len(half), len(values), size(half), size(values))


def _measured(schema: Schema, config: TableConfig, rows: pa.Table, folder: Path) -> MeasuredSample:
    half = rows.num_rows // 2
    consuming, metadata, columns = _consumed(schema, config, rows.slice(0, half), folder / "half")
    whole_consuming, whole_metadata, whole_columns = _consumed(schema, config, rows, folder / "whole")
    return MeasuredSample(
        rows.num_rows,
        Line(half, rows.num_rows, consuming, whole_consuming),
        Line(half, rows.num_rows, metadata + columns, whole_metadata + whole_columns),
    )


def _consumed(schema: Schema, config: TableConfig, rows: pa.Table, folder: Path) -> tuple[int, int, int]:
    """Return the bytes reserved by a consuming segment of the rows, and those of the sealed one: metadata, and columns."""
    segment = MutableSegment("sample", schema, config, folder, Sizing(rows.num_rows))
    try:
        for batch in rows.combine_chunks().to_batches(_BATCH_ROWS):
            segment.append(batch)
        reserved = sum(use.reserved for parts in segment.memory().values() for use in parts.values())
        built = segment.seal(folder / "sealed", durable=False)
        metadata = (built / METADATA_FILE).stat().st_size
        return reserved, metadata, sum(path.stat().st_size for path in built.iterdir()) - metadata
    finally:
        segment.close()


def sample_of_segment(path: Path, schema: Schema) -> pa.Table:
    """Return the rows of a completed segment's folder in the schema's types. Raises CorruptSegmentError,
    InvalidConfigError."""
    segment = open_segment(path)
    try:
        target = conformed_schema(schema)
        if missing := [name for name in target.names if name not in segment.column_names]:
            raise InvalidConfigError(f"segment '{path}' has no column '{missing[0]}', which the schema has")
        rows = range(0, segment.num_docs, _BATCH_ROWS)
        return pa.Table.from_batches(list(_batches(segment, target, rows)), target)
    finally:
        segment.close()


def _batches(segment: ImmutableSegment, target: pa.Schema, starts: Sequence[int]) -> Iterator[pa.RecordBatch]:
    for start in starts:
        stop = min(start + _BATCH_ROWS, segment.num_docs)
        columns = [_values(segment.column(field.name), start, stop).cast(field.type) for field in target]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _values(column: ImmutableColumn, start: int, stop: int) -> pa.Array:
    """Return rows of a column, with nulls."""
    values = to_arrow(column.with_forward().values(start, stop), stop - start)
    nulls = column.null_docs
    if nulls is None:
        return values
    is_null = np.zeros(stop - start, np.bool_)
    docs = np.asarray(nulls.to_array(), np.int64)
    is_null[docs[(docs >= start) & (docs < stop)] - start] = True
    return pc.if_else(pa.array(is_null), pa.scalar(None, values.type), values)


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a table. rate: rows per second of each partition. retention_hours: of completed segments.

    host_bytes: the memory limit of a host, beyond which a configuration is impossible.
    """

    partitions: int
    rate: float
    replicas: int
    retention_hours: int
    host_bytes: int


@dataclass(frozen=True, slots=True)
class Cell:
    """Result for one configuration. active_bytes: of all consuming and queried segments on a host.

    consuming_bytes: of the consuming ones. segment_bytes: of a completed one. segments: on a host. fits: in its memory.
    """

    active_bytes: int
    consuming_bytes: int
    segment_bytes: int
    segments: int
    fits: bool


def plan(sample: Sample, load: Load, num_hosts: int, hours: int) -> Cell:
    """Return the result for a number of hosts, and segments that consume for `hours` hours."""
    rows = max(1, round(load.rate * hours * 3600))
    partitions = math.ceil(load.partitions * load.replicas / num_hosts)
    completed = max(0, math.ceil(load.retention_hours / hours) - 1)
    segment_bytes, consuming = sample.sealed_bytes(rows), sample.consuming_bytes(rows) * partitions
    active = consuming + segment_bytes * completed * partitions
    possible = active <= load.host_bytes and num_hosts >= load.replicas
    return Cell(active, consuming, segment_bytes, partitions * (completed + 1), possible)
