"""A consuming segment: rows in by batch, views for queries, an immutable segment at the end."""

import shutil
from pathlib import Path

import pyarrow as pa

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.functions.arrow import conformed_schema
from gamay.model.schema import Schema
from gamay.model.table_config import TableConfig
from gamay.segment.folder_writer import SegmentPlan, write_segment
from gamay.segment.mutable.buffers import BufferFolder, MemoryUse
from gamay.segment.mutable.column import MutableColumn
from gamay.segment.mutable.seal import seal_columns
from gamay.segment.mutable.sizing import ColumnSizing, Sizing
from gamay.segment.mutable.view import SegmentView


class MutableSegment:
    """Takes rows of one stream partition and shows them at once.

    One thread appends; any number of threads take views and read them, without locks. A view holds the rows of whole
    batches: those that had been appended when it was taken, for as long as it is held, even after `close`.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        table_config: TableConfig,
        folder: Path,
        sizing: Sizing | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Make an empty segment whose buffers lie in `folder/name`; what a crashed process left there is removed.

        sizing: what to expect, from `SizingHistory.expected`; a wrong guess costs time, nothing else.
        Raises InvalidConfigError for what the table's config asks for and cannot be had.
        """
        sizing = sizing or Sizing()
        self.name = name
        self._plan = SegmentPlan.of(schema, table_config, name, clock.now_ms())
        self._arrow_schema = conformed_schema(schema)
        self._folder = folder / name
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        buffers = BufferFolder(self._folder)
        sort_key = table_config.sorted_column
        self._columns = [
            MutableColumn(plan, buffers, sizing.rows, sizing.column(plan.spec.name), plan.spec.name == sort_key)
            for plan in self._plan.columns
        ]
        self._failed: BaseException | None = None
        self._view = self._make_view(0)

    @property
    def num_docs(self) -> int:
        """Rows that a query sees."""
        return self._view.num_docs

    def append(self, batch: pa.RecordBatch) -> None:
        """Take the next rows, a conformed batch of `gamay.ingest.pipeline`, and show them all at once.

        Raises ValueError for a batch that is not conformed; then nothing has changed. DiskFullError and InvalidConfigError
        (columns grew too large): the rows are not shown, no more are taken, and those before can be read and sealed.
        """
        if not batch.schema.equals(self._arrow_schema):
            raise ValueError(
                f"the batch is not conformed: it has\n{batch.schema}\nand the segment takes\n{self._arrow_schema}"
            )
        if self._failed is not None:
            raise self._failed
        if batch.num_rows == 0:
            return
        try:
            for column, array in zip(self._columns, batch.columns, strict=True):
                column.append(array)
            view = self._make_view(self.num_docs + batch.num_rows)
        except BaseException as error:
            self._failed = error
            raise
        self._view = view  # the one act that shows the rows

    def view(self) -> SegmentView:
        """Return the rows appended so far; the same object until there are more."""
        return self._view

    def _make_view(self, num_docs: int) -> SegmentView:
        return SegmentView(self.name, [column.state() for column in self._columns], num_docs, self._plan.created_ms)

    def seal(self, out_dir: Path) -> Path:
        """Write the rows shown as an immutable segment, `out_dir/name`, whole or not at all, and return its folder.

        Rows are ordered by the table's sorted column, if it has one; rows with equal values stay in order of arrival. The
        same rows give the same bytes as from `gamay.segment.builder.SegmentBuilder`. Nothing in this segment changes.
        Raises ConflictError when the folder exists, RecordError for a time that is not of its column's format.
        """
        view = self._view
        columns = seal_columns(view.states, self._plan.table_config.sorted_column)
        return write_segment(self._plan, columns, view.num_docs, out_dir)

    def sizing(self) -> Sizing:
        """Return what the segment has turned out to be, for `SizingHistory.record`."""
        view = self._view
        rows = max(1, view.num_docs)
        columns = {}
        for state, column in zip(view.states, self._columns, strict=True):
            # of raw values it is not known; they are raw because nearly all differ, or because a dictionary is not wanted
            cardinality = state.num_values if state.dictionary is None else len(state.dictionary)
            columns[state.plan.spec.name] = ColumnSizing(cardinality, column.width, state.num_values / rows)
        return Sizing(view.num_docs, columns)

    def memory(self) -> dict[str, dict[str, MemoryUse]]:
        """Return the bytes of each part (`dictionary`, `forward`, `inverted`, `range`, `null`) of each column."""
        return {column.plan.spec.name: column.memory() for column in self._columns}

    def close(self) -> None:
        """Remove the files. Views that are held stay valid: memory is given back when the last of them is gone."""
        shutil.rmtree(self._folder, ignore_errors=True)
