"""Shuffle of rows by the table's order before segments are built, so that queries can prune most segments.

Executors convert rows, by file or DataFrame partition, and sample their keys. The driver computes
ranges from these (`gamay.spark.building.ranges`), executors split the converted rows by range, and Spark
shuffles the rows of each range together. There they are sorted (`gamay.spark.building.order`) and become a segment.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.spark.building import travel
from gamay.spark.building.layout import Layout, RangeKeys, partitioner
from gamay.spark.building.ranges import Ranges, Sampler
from gamay.spark.building.target import SegmentTarget
from gamay.spark.building.travel import Batches

_WAITING_BYTES = 32 << 20  # of split rows that a task buffers, to send few blobs
_GATHERED_BYTES = 8 << 20  # of rows that are split at a time
_PLACES = 1 << 32  # of the blobs of a task


class KeySampler:
    """Pass-through of batches in serialised form that samples their keys. size: maximum number of keys."""

    def __init__(self, schema: Schema, table_config: TableConfig, layout: Layout, size: int) -> None:
        self._partitions = partitioner(schema, table_config, layout.partition_column)
        self._keys = RangeKeys(schema, layout)
        self._sampler = Sampler(size)

    def passed(self, batch: pa.RecordBatch) -> Batches:
        """Yield the blobs of a batch."""
        self._sampler.add(self._partitions(batch).to_numpy(), self._keys.keys(batch))
        yield from travel.packed(batch)

    def sample(self) -> pa.RecordBatch:
        """Return the sample in serialised form."""
        return travel.told(travel.SAMPLE, self._sampler.sample().to_json())


def in_ranges(frame: Any, target: SegmentTarget, layout: Layout, ranges: Ranges) -> Any:
    """Return the blobs of a DataFrame with a column `rows` split by range, with one partition for each range."""
    from pyspark.sql.functions import col

    cut = frame.mapInArrow(_cutter(target, layout, ranges), travel.CUT)
    return cut.repartitionById(len(ranges), col("range"))


def _cutter(target: SegmentTarget, layout: Layout, ranges: Ranges) -> Callable[[Batches], Batches]:
    def cut(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        cutter = _Cutter(target, layout, ranges, context.partitionId() * _PLACES)
        for rows in _gathered(blob for batch in batches for blob in batch.column("rows")):
            yield from cutter.add(rows)
        yield from cutter.rest()

    return cut


def _gathered(blobs: Iterable[pa.BinaryScalar]) -> Batches:
    """Yield the rows of many blobs at a time: splitting each separately costs several times as much."""
    held: list[pa.RecordBatch] = []
    size = 0
    for blob in blobs:
        held += travel.opened(blob)
        size += held[-1].nbytes
        if size >= _GATHERED_BYTES:
            yield pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield pa.concat_batches(held)


@dataclass(slots=True)
class _Waiting:
    """Buffered rows of one range."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0


class _Cutter:
    """Splitter of the rows of one task by range. place: of its first blob."""

    def __init__(self, target: SegmentTarget, layout: Layout, ranges: Ranges, place: int) -> None:
        schema = target.schema()
        self._partitions = partitioner(schema, target.table_config(), layout.partition_column)
        self._keys = RangeKeys(schema, layout)
        self._ranges = ranges
        self._place = place
        self._waiting: dict[int, _Waiting] = {}
        self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> Batches:
        """Add rows, and yield blobs when enough are buffered."""
        numbers = self._ranges.numbers(self._partitions(rows).to_numpy(), self._keys.places(rows))
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        if numbers[0] != numbers[-1]:
            rows = rows.take(pa.array(order))
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, stop in pairwise(starts):
            waiting = self._waiting.setdefault(int(numbers[start]), _Waiting())
            waiting.batches.append(rows.slice(start, stop - start))
            waiting.size += waiting.batches[-1].nbytes
            if waiting.size >= travel.BLOB_BYTES:
                yield self._sent(int(numbers[start]))
        self._bytes += rows.nbytes
        if self._bytes >= _WAITING_BYTES:
            yield from self.rest()

    def rest(self) -> Batches:
        """Yield the buffered rows."""
        for number in sorted(self._waiting):
            yield self._sent(number)
        self._bytes = 0

    def _sent(self, number: int) -> pa.RecordBatch:
        place, self._place = self._place, self._place + 1
        return travel.cut(number, place, self._waiting.pop(number).batches)
