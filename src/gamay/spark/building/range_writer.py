"""Building of segments from the rows of one range, or of one Spark partition."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil

import pyarrow as pa

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError
from gamay.segment.write.builder import SegmentBuilder
from gamay.spark.building import travel
from gamay.spark.building.layout import Layout
from gamay.spark.building.memory import rows_bytes_max
from gamay.spark.building.order import in_order
from gamay.spark.building.phases import Phases
from gamay.spark.building.report import Outcome, SegmentReport
from gamay.spark.building.segment_task import finish
from gamay.spark.building.target import PROVISIONAL_NAME, SegmentTarget, facts_of, publish, scratch_folder
from gamay.spark.building.travel import Batches

RESULT = "result string"
_SLACK = 1.5  # maximum ratio of a segment's rows to the requested number


def range_writer(target: SegmentTarget, layout: Layout, num_ranges: int) -> Callable[[Batches], Batches]:
    """Return the `mapInArrow` function that builds segments from the blobs of ranges, and yields their reports as JSON."""

    def write(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        writer = RangeWriter(target, layout, context.partitionId() if context is not None else 0, num_ranges)
        for report in writer.write_placed(blob for batch in batches for blob in _placed(batch)):
            yield result(report)

    return write


def result(report: SegmentReport) -> pa.RecordBatch:
    """Return a report in the form that tasks send to the driver."""
    return pa.RecordBatch.from_pydict({"result": pa.array([report.to_json()], pa.string())})


def _placed(batch: pa.RecordBatch) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    for place, blob in zip(batch.column("place").to_pylist(), batch.column("rows"), strict=True):
        yield place, travel.opened(blob)


class RangeWriter:
    """Writer of the segment of one range of one partition, or of several segments if the range is too large: because a
    single key, which ranges do not split, fills it, or because its rows exceed the memory.

    first_id: the sequence id of its first segment; those of further ones increase by id_step.
    """

    def __init__(self, target: SegmentTarget, layout: Layout, first_id: int, id_step: int) -> None:
        self._target = target
        self._layout = layout
        self._next_id = first_id
        self._id_step = id_step
        self._schema = target.schema()
        self._config = target.table_config()
        # ranges are uneven: a few excess rows are better in this segment than in a separate one
        self._rows_max = ceil(_SLACK * layout.rows_per_segment)
        self._bytes_max = rows_bytes_max()

    def write(self, batches: Batches) -> Iterator[SegmentReport]:
        """Yield the report of each segment of the rows; a user-caused failure also becomes a report."""
        return self.write_placed((place, [batch]) for place, batch in enumerate(batches))

    def write_placed(self, blobs: Iterator[tuple[int, list[pa.RecordBatch]]]) -> Iterator[SegmentReport]:
        """Yield the reports for rows with sort positions, so that equal rows always make equal segments."""
        try:
            held: list[tuple[int, list[pa.RecordBatch]]] = []
            size = 0
            for place, batches in blobs:
                held.append((place, batches))
                size += sum(batch.nbytes for batch in batches)
                if size >= self._bytes_max:
                    yield from self._segments(held)
                    held, size = [], 0
            yield from self._segments(held)
        except GamayError as error:
            yield SegmentReport(Outcome.FAILED.value, message=str(error))
        except OSError as error:  # an unwritable folder, a full disk
            yield SegmentReport(Outcome.FAILED.value, message=f"cannot build a segment: {error}")

    def _segments(self, held: Sequence[tuple[int, list[pa.RecordBatch]]]) -> Iterator[SegmentReport]:
        """Yield the reports of segments of equal size."""
        batches = [batch for _, batches in sorted(held, key=lambda blob: blob[0]) for batch in batches if batch.num_rows]
        if not batches:
            return
        left = sum(batch.num_rows for batch in batches)
        count = 1 if left <= self._rows_max else round(left / self._layout.rows_per_segment)
        phases = Phases(SYSTEM_CLOCK)
        rows = phases.over("build", in_order(batches, self._schema, self._layout.order))
        batch = next(rows, None)
        for number in range(count, 0, -1):
            wanted = ceil(left / number)
            left -= wanted
            with scratch_folder() as scratch:
                builder = SegmentBuilder(self._schema, self._config, PROVISIONAL_NAME, scratch)
                while batch is not None and builder.num_docs < wanted:
                    part = batch.slice(0, wanted - builder.num_docs)
                    with phases.within("build"):
                        builder.append(part)
                    batch = batch.slice(part.num_rows) if part.num_rows < batch.num_rows else next(rows, None)
                if builder.num_docs:
                    yield self._finish(builder, phases)
            phases.reset()

    def _finish(self, builder: SegmentBuilder, phases: Phases) -> SegmentReport:
        with phases.within("build"):
            folder, metadata, trees = finish(builder, self._schema, self._config)
        facts = facts_of(metadata, self._next_id, "")
        self._next_id += self._id_step
        with phases.within("publish"):
            published = publish(folder, self._target, self._target.name_generator(), facts, "")
        outcome = Outcome.KEPT if published.is_kept else Outcome.BUILT
        rest = {**trees, **phases.told()}
        return SegmentReport(
            outcome.value, published.name, published.uri, "", metadata.num_docs, published.size_bytes, **rest
        )
