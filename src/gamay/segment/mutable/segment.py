"""A consuming segment: rows in by batch, views for queries, an immutable segment at the end."""

import shutil
import threading
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import conformed_schema
from gamay.model.schema.schema import Schema
from gamay.model.table.rollup import rollup_problems, rollups_of
from gamay.model.table.secondary_indexes import declared_indexes
from gamay.model.table.table_config import TableConfig
from gamay.segment.mutable.buffers import BufferFolder, MemoryUse, SpareBuffers
from gamay.segment.mutable.column import ColumnState, MutableColumn
from gamay.segment.mutable.rolled_up import RolledUpMetric, rolled_up
from gamay.segment.mutable.rollup import RowKeys, first_rows
from gamay.segment.mutable.seal import seal_columns
from gamay.segment.mutable.sizing import ColumnSizing, Sizing
from gamay.segment.mutable.view import SegmentView
from gamay.segment.secondary.growing import GrowingIndexes
from gamay.segment.spi import Ids
from gamay.segment.write.folder_writer import SegmentPlan, write_segment
from gamay.segment.write.timestamp_index import truncated_array

# One more batch fits for certain: none holds a fifth of what a column can.
_NEARLY_FULL = 0.8


class MutableSegment:
    """Takes rows of one stream partition and shows them at once.

    One thread appends; any number of threads take views and read them, without locks. A view holds the rows of whole
    batches: those that had been appended when it was taken, for as long as it is held, even after `close`.

    Where the table aggregates metrics, a row whose dimensions (all columns that are no metrics) are known is merged into the
    one that has them. Metrics then change in place: a view taken after a change copies them, under a lock that an append
    holds too, so that it shows whole batches in this case as well. Queries between two batches share the copy.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        table_config: TableConfig,
        folder: Path,
        sizing: Sizing | None = None,
        clock: Clock = SYSTEM_CLOCK,
        spare: SpareBuffers | None = None,
        consuming: TableConfig | None = None,
    ) -> None:
        """Make an empty segment whose buffers lie in `folder/name`; what a crashed process left there is removed.

        sizing: what to expect, from `SizingHistory.expected`; a wrong guess costs time, nothing else.
        consuming: the table's config as it holds for rows until they are sealed; None: as it holds for these.
        spare: given away; made from the `shapes` of a segment of the same table, or of no use.
        Raises InvalidConfigError for what the table's config asks for and cannot be had.
        """
        sizing = sizing or Sizing()
        self.name = name
        config = consuming or table_config
        self._plan = SegmentPlan.of(schema, config, name, clock.now_ms())
        self._sealed = SegmentPlan.of(schema, table_config, name, self._plan.created_ms)
        self._arrow_schema = conformed_schema(schema)
        rollups = {rollup.metric: rollup for rollup in rollups_of(schema, config)}
        if rollups and (problem := next(rollup_problems(schema, config), None)):
            raise InvalidConfigError(problem)
        self._folder = folder / name
        buffers = BufferFolder(self._folder, spare)
        self._columns: list[MutableColumn | RolledUpMetric] = []
        for plan in self._plan.columns:
            column = plan.spec.name
            if column in rollups:
                self._columns.append(rolled_up(plan, rollups[column], buffers, sizing.rows))
            else:
                keys = {"is_sort_key": column == config.sorted_column, "is_row_key": bool(rollups)}
                self._columns.append(MutableColumn(plan, buffers, sizing.rows, sizing.column(column), **keys))
        # of metrics that change in place nothing is derived until they are sealed
        self._timestamps = [
            (
                derived.column,
                MutableColumn(derived.plan, buffers, sizing.rows, sizing.column(derived.column.name), False, False),
            )
            for base, planned in self._plan.timestamps.items()
            for derived in planned
            if base not in rollups
        ]
        dimensions = [column for column in self._columns if isinstance(column, MutableColumn)]
        self._row_keys = RowKeys(dimensions, buffers, sizing.rows) if rollups else None
        self.shapes = buffers.shapes()
        self._indexes = GrowingIndexes(declared_indexes(config, schema), self._folder)
        # the last view with fewer indexes than there were when it was asked for, and the same rows with them
        self._reindexed: tuple[SegmentView, SegmentView] | None = None
        self._failed: BaseException | None = None
        # only where metrics are aggregated: held while they change, and while they are copied
        self._changing = threading.Lock()
        self._num_docs = 0
        self._states = self._dimension_states()
        self._view: SegmentView | None = self._make_view()

    @property
    def num_docs(self) -> int:
        """Rows that a query sees; where metrics are aggregated, fewer than were appended."""
        return self._num_docs

    @property
    def is_nearly_full(self) -> bool:
        """Whether a column comes near to what it can hold, so that the segment should be completed."""
        return any(column.fullness > _NEARLY_FULL for column in self._columns)

    @property
    def holds_creation_time(self) -> bool:
        """Whether there are rows that have the time of the segment's creation because they have none of their own."""
        return any(
            column.num_nulls > 0 and column.plan.default != column.plan.spec.default_null_value
            for column in self._columns
            if isinstance(column, MutableColumn)
        )

    def become(self, name: str, created_ms: int) -> None:
        """Give an own name and time of creation to a segment that was begun before these were known.

        Raises ValueError when rows hold the former time.
        """
        if self.holds_creation_time:
            raise ValueError(f"rows of segment '{self.name}' hold the time of its creation: it cannot become '{name}'")
        self.name = name
        self._plan = SegmentPlan.of(self._plan.schema, self._plan.table_config, name, created_ms)
        self._sealed = SegmentPlan.of(self._plan.schema, self._sealed.table_config, name, created_ms)
        for column, plan in zip(self._columns, self._plan.columns, strict=True):
            if isinstance(column, MutableColumn):
                column.follow(plan)
        for derived, column in self._timestamps:
            column.follow(next(one.plan for one in self._plan.timestamps[derived.base] if one.column == derived))
        with self._changing:
            self._states = self._dimension_states()
            self._view = None if self._row_keys is not None else self._make_view()

    def append(self, batch: pa.RecordBatch) -> None:
        """Take the next rows, a conformed batch of `gamay.ingest.transform.pipeline`, and show them all at once.

        A metric that is aggregated has in each row the value that is to be taken in; for COUNT it does not matter.

        Raises ValueError for a batch that is not conformed; then nothing has changed. DiskFullError and InvalidConfigError
        (columns or sums grew too large): the rows are not shown, no more are taken, and those before can be read and sealed.
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
            if self._row_keys is None:
                self._append_rows(batch)
            else:
                self._merge_rows(self._row_keys, batch)
        except BaseException as error:
            self._failed = error
            raise

    def _append_rows(self, batch: pa.RecordBatch) -> None:
        for column, array in zip(self._columns, batch.columns, strict=True):
            assert isinstance(column, MutableColumn)
            column.append(array)
        self._derive(batch)
        self._num_docs += batch.num_rows
        self._states = self._dimension_states()
        self._view = self._make_view()  # the one act that shows the rows
        self._indexes.follow(self._view)

    def _derive(self, batch: pa.RecordBatch) -> None:
        for derived, column in self._timestamps:
            column.append(truncated_array(batch.column(derived.base), derived.granularity))

    def _merge_rows(self, row_keys: RowKeys, batch: pa.RecordBatch) -> None:
        columns = list(zip(self._columns, batch.columns, strict=True))
        keys = [array for column, array in columns if isinstance(column, MutableColumn)]
        rows = row_keys.rows_of(keys, batch.num_rows)
        new = pa.array(first_rows(rows, self._num_docs))
        for column, array in columns:
            if isinstance(column, MutableColumn):
                column.append(array.take(new))
        if self._timestamps:
            self._derive(batch.take(new))
        states = self._dimension_states()
        with self._changing, ExitStack() as undo:
            metrics = [(column, array) for column, array in columns if not isinstance(column, MutableColumn)]
            for metric, _ in metrics:
                undo.callback(metric.saved(rows, row_keys.count))
            for metric, array in sorted(metrics, key=lambda one: one[0].never_fails):
                metric.take_in(rows, array)
            undo.pop_all()
            self._num_docs, self._states, self._view = row_keys.count, states, None

    @property
    def _all_columns(self) -> "list[MutableColumn | RolledUpMetric]":
        """The columns of the rows, then those that timestamp indexes derive."""
        return [*self._columns, *(column for _, column in self._timestamps)]

    def view(self) -> SegmentView:
        """Return the rows appended so far; the same object until there are more rows, or more of them are indexed."""
        view = self._view
        if view is None:
            with self._changing:
                view = self._view = self._view or self._make_view()
        indexes = self._indexes.of_columns
        if view.indexes is indexes:
            return view
        known = self._reindexed
        if known is None or known[0] is not view or known[1].indexes is not indexes:
            # not `self._view`: the thread that appends may have gone on
            known = self._reindexed = view, view.with_indexes(indexes)
        return known[1]

    def _dimension_states(self) -> dict[str, ColumnState]:
        columns = (column for column in self._all_columns if isinstance(column, MutableColumn))
        return {column.plan.spec.name: column.state() for column in columns}

    def _make_view(self) -> SegmentView:
        states = [
            self._states[column.plan.spec.name] if isinstance(column, MutableColumn) else column.state(self._num_docs)
            for column in self._all_columns
        ]
        derived = [column for column, _ in self._timestamps]
        indexes = self._indexes.of_columns
        return SegmentView(self.name, states, self._num_docs, self._plan.created_ms, derived, indexes)

    def seal(self, out_dir: Path, kept: "Ids | None" = None, *, durable: bool = True) -> Path:
        """Write the rows shown as an immutable segment, `out_dir/name`, whole or not at all, and return its folder.

        Rows are ordered by the table's sorted column, if it has one; rows with equal values stay in order of arrival. The
        same rows give the same bytes as from `gamay.segment.write.builder.SegmentBuilder`. Nothing in this segment changes.
        kept: the docs that it is to have, ascending; None is all of them. durable: as of `write_segment`.
        Raises ConflictError when the folder exists, RecordError for a time that is not of its column's format.
        """
        view = self.view()
        columns = seal_columns(view.states[: len(self._columns)], self._sealed.table_config.sorted_column, kept)
        num_docs = view.num_docs if kept is None else len(kept)
        return write_segment(self._sealed, columns, num_docs, out_dir, durable=durable)

    def sizing(self) -> Sizing:
        """Return what the segment has turned out to be, for `SizingHistory.record`."""
        view = self.view()
        rows = max(1, view.num_docs)
        columns = {}
        for state, column in zip(view.states, self._all_columns, strict=True):
            # of raw values it is not known; they are raw because nearly all differ, or because a dictionary is not wanted
            cardinality = state.num_values if state.dictionary is None else len(state.dictionary)
            columns[state.plan.spec.name] = ColumnSizing(cardinality, column.width, state.num_values / rows)
        return Sizing(view.num_docs, columns)

    def memory(self) -> dict[str, dict[str, MemoryUse]]:
        """Return the bytes of each part (`dictionary`, `forward`, `inverted`, `range`, `null`) of each column.

        Where metrics are aggregated, the empty name stands for the keys by which rows are found.
        """
        found = {column.plan.spec.name: column.memory() for column in self._all_columns}
        return found if self._row_keys is None else found | {"": {"keys": self._row_keys.memory()}}

    def close(self) -> None:
        """Remove the files. Views that are held stay valid: memory is given back when the last of them is gone."""
        self._indexes.close()
        shutil.rmtree(self._folder, ignore_errors=True)
