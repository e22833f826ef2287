"""How many hosts a table needs that consumes a stream, and how long its segments should consume: measured on a sample.

The rows of a sample are taken into consuming segments, half of them into one and all into another, and both are sealed. Each
part of each column, and the sealed segment, then follows the power law through its two sizes (exponent log2 of their
ratio, between 0 and 1: dictionaries grow like the number of distinct values does, by Heaps' law, forward indexes like the
rows). Where the number of distinct values is known, a dictionary grows as that many values drawn at random appear.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import conformed_schema
from gamay.ingest.operands import to_arrow
from gamay.model.schema import Schema
from gamay.model.table_config import TableConfig
from gamay.segment.mutable import MutableSegment
from gamay.segment.mutable.sizing import Sizing
from gamay.segment.reader import ImmutableSegment, open_segment

# hours that completed segments stay on consuming hosts, by how often others are pushed for them
RETENTION_HOURS = {"hourly": 24, "daily": 72, "weekly": 240, "monthly": 816}
_BATCH_ROWS = 5_000
_LEAST_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes of something at two numbers of rows, `rows // 2` and `rows`. distinct: how many values there are at all."""

    rows: int
    half_bytes: int
    bytes: int
    distinct: int | None = None

    def at(self, rows: int) -> float:
        """Return the bytes at another number of rows."""
        if self.bytes <= 0:
            return 0.0
        if self.distinct is not None:
            return self.bytes * _appeared(self.distinct, rows) / _appeared(self.distinct, self.rows)
        ratio = self.bytes / self.half_bytes if self.half_bytes > 0 else 2.0
        exponent = min(1.0, max(0.0, math.log2(ratio)))
        return float(self.bytes * (rows / self.rows) ** exponent)


@dataclass(frozen=True, slots=True)
class Sample:
    """What the rows of a sample took. parts: of a consuming segment, as it reserves them; sealed: of the built one."""

    rows: int
    parts: Sequence[Growth]
    sealed: Growth

    def consuming_bytes(self, rows: int) -> int:
        """Return the memory of a consuming segment that reaches so many rows."""
        return math.ceil(sum(part.at(rows) for part in self.parts))

    def sealed_bytes(self, rows: int) -> int:
        """Return the size of the segment that is built of so many rows."""
        return math.ceil(self.sealed.at(rows))


def measure(
    schema: Schema, config: TableConfig, rows: pa.Table, folder: Path, cardinalities: Mapping[str, int] | None = None
) -> Sample:
    """Measure a sample, in scratch files below `folder`. rows: conformed. cardinalities: of columns, where they are known.

    Raises InvalidConfigError for too few rows.
    """
    if rows.num_rows < _LEAST_ROWS:
        raise InvalidConfigError(f"the sample has {rows.num_rows} rows; {_LEAST_ROWS} at least are needed to learn from")
    known = cardinalities or {}
    half, half_sealed = _consumed(schema, config, rows.slice(0, rows.num_rows // 2), folder / "half")
    whole, sealed = _consumed(schema, config, rows, folder / "whole")
    parts = [
        Growth(rows.num_rows, half.get(part, 0), size, known.get(part[0]) if part[1] == "dictionary" else None)
        for part, size in whole.items()
    ]
    return Sample(rows.num_rows, parts, Growth(rows.num_rows, half_sealed, sealed))


def _consumed(schema: Schema, config: TableConfig, rows: pa.Table, folder: Path) -> tuple[dict[tuple[str, str], int], int]:
    """Return the bytes that each part of each column reserves, and those of the sealed segment."""
    segment = MutableSegment("sample", schema, config, folder, Sizing(rows.num_rows))
    try:
        for batch in rows.combine_chunks().to_batches(_BATCH_ROWS):
            segment.append(batch)
        taken = {(name, part): use.reserved for name, parts in segment.memory().items() for part, use in parts.items()}
        built = segment.seal(folder / "sealed", durable=False)
        return taken, sum(path.stat().st_size for path in built.iterdir())
    finally:
        segment.close()


def sample_of_segment(path: Path, schema: Schema) -> pa.Table:
    """Return the rows of a completed segment's folder, conformed. Raises CorruptSegmentError, InvalidConfigError."""
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
        columns = [
            to_arrow(segment.column(field.name).with_forward().values(start, stop), stop - start).cast(field.type)
            for field in target
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


@dataclass(frozen=True, slots=True)
class Load:
    """What comes in, and where it goes. rate: rows a second of each partition. retention_hours: of completed segments.

    host_bytes: of memory that a host may use; where more is needed, it is not possible.
    """

    partitions: int
    rate: float
    replicas: int
    retention_hours: int
    host_bytes: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to run a table. active_bytes: of consuming segments and those that are queried, all of them, on a host.

    consuming_bytes: of the consuming ones. segment_bytes: of a completed one. segments: on a host. fits: in its memory.
    """

    active_bytes: int
    consuming_bytes: int
    segment_bytes: int
    segments: int
    fits: bool


def plan(sample: Sample, load: Load, num_hosts: int, hours: int) -> Cell:
    """Return what each host holds when so many share the table, and segments consume for so many hours."""
    rows = max(1, round(load.rate * hours * 3600))
    partitions = math.ceil(load.partitions * load.replicas / num_hosts)
    completed = max(0, math.ceil(load.retention_hours / hours) - 1)
    segment_bytes, consuming = sample.sealed_bytes(rows), sample.consuming_bytes(rows) * partitions
    active = consuming + segment_bytes * completed * partitions
    possible = active <= load.host_bytes and num_hosts >= load.replicas
    return Cell(active, consuming, segment_bytes, partitions * (completed + 1), possible)


def _appeared(distinct: int, rows: int) -> float:
    """Return how many of so many values appear in rows that draw them at random."""
    return -distinct * math.expm1(rows * math.log1p(-1 / distinct)) if distinct > 1 else 1.0
