"""Building of an immutable segment from Arrow batches in the schema's types."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.functions.arrow import conformed_schema
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.accumulate import ColumnAccumulator
from gamay.segment.write.folder_writer import SegmentPlan, write_segment

# Small batches are joined up to this number of rows, and large ones split, so that the ids of a chunk fit 16 bits.
_CHUNK_ROWS = 1 << 16


class SegmentBuilder:
    """Builder of the segment folder `out_dir/name`, which is written atomically.

    Memory is bounded by the segment: chunks are kept dictionary-encoded. Equal rows in equal order and equal config give
    the same bytes in `columns.bin`.
    """

    def __init__(
        self,
        schema: Schema,
        table_config: TableConfig,
        name: str,
        out_dir: Path | str,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare an empty segment; raises InvalidConfigError if an index cannot be built on its column."""
        self._plan = SegmentPlan.of(schema, table_config, name, clock.now_ms())
        self._out_dir = Path(out_dir)
        self._columns = [plan.accumulator() for plan in self._plan.columns]
        self._arrow_schema = conformed_schema(schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self.num_docs = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Append a batch in the schema's types (see `gamay.functions.arrow`); raises ValueError for other types."""
        if not batch.schema.equals(self._arrow_schema):
            raise ValueError(
                f"the batch is not conformed: it has\n{batch.schema}\nand the segment takes\n{self._arrow_schema}"
            )
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self.num_docs += batch.num_rows
        if self._pending_rows >= _CHUNK_ROWS:
            self._encode_pending()

    def build(self) -> Path:
        """Write the segment and return its folder; the builder cannot be used afterwards.

        Raises ConflictError if the folder exists, RecordError for a time that is not in its column's format.
        """
        self._encode_pending()
        return write_segment(self._plan, self._finished(), self.num_docs, self._out_dir)

    def _finished(self) -> Iterator[ColumnAccumulator]:
        """Yield the columns; the chunks of each are released as soon as it is written."""
        while self._columns:
            yield self._columns.pop(0)

    def _encode_pending(self) -> None:
        if not self._pending_rows:
            return
        table = pa.Table.from_batches(self._pending).combine_chunks()
        self._pending, self._pending_rows = [], 0
        for batch in table.to_batches(max_chunksize=_CHUNK_ROWS):
            for column, array in zip(self._columns, batch.columns, strict=True):
                column.append(array)
