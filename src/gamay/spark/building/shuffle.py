"""Rows brought into the order of the table before they become segments, so that queries can skip most segments.

Executors convert rows, file by file or DataFrame partition by partition, and tell samples of their keys. The driver makes
ranges of these (`gamay.spark.building.ranges`), executors cut what they have converted at the ranges' starts, and Spark
brings the rows of each range together. There they are put in order (`gamay.spark.building.order`) and become a segment.
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

_WAITING_BYTES = 32 << 20  # of cut rows that a task holds back, to send few blobs
_GATHERED_BYTES = 8 << 20  # of rows that are cut at a time
_PLACES = 1 << 32  # of the blobs of a task


class KeySampler:
    """Passes conformed batches on in their travelling form, and keeps a sample of their keys. size: at most so many."""

    def __init__(self, schema: Schema, table_config: TableConfig, layout: Layout, size: int) -> None:
        self._partitions = partitioner(schema, table_config, layout.partition_column)
        self._keys = RangeKeys(schema, layout)
        self._sampler = Sampler(size)

    def passed(self, batch: pa.RecordBatch) -> Batches:
        """Yield the blobs of a batch."""
        self._sampler.add(self._partitions(batch).to_numpy(), self._keys.keys(batch))
        yield from travel.packed(batch)

    def sample(self) -> pa.RecordBatch:
        """Return the sample in the travelling form."""
        return travel.told(travel.SAMPLE, self._sampler.sample().to_json())


def in_ranges(frame: Any, target: SegmentTarget, layout: Layout, ranges: Ranges) -> Any:
    """Return the blobs of a DataFrame with a column `rows` cut at ranges, with one partition for each of these."""
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
    """Yield the rows of blobs, of many at a time: to cut each by itself costs several times as much."""
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
    """Rows of one range that wait for more."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0


class _Cutter:
    """Puts the rows of one task into ranges. place: of its first blob."""

    def __init__(self, target: SegmentTarget, layout: Layout, ranges: Ranges, place: int) -> None:
        schema = target.schema()
        self._partitions = partitioner(schema, target.table_config(), layout.partition_column)
        self._keys = RangeKeys(schema, layout)
        self._ranges = ranges
        self._place = place
        self._waiting: dict[int, _Waiting] = {}
        self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> Batches:
        """Take conformed rows, and yield blobs when many are waiting."""
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
        """Yield what is waiting."""
        for number in sorted(self._waiting):
            yield self._sent(number)
        self._bytes = 0

    def _sent(self, number: int) -> pa.RecordBatch:
        place, self._place = self._place, self._place + 1
        return travel.cut(number, place, self._waiting.pop(number).batches)
