"""A consuming segment: accepts batches of rows, provides views for queries, and is sealed to an immutable segment."""

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

# One more batch always fits: no batch has a fifth of a column's capacity.
_NEARLY_FULL = 0.8


class MutableSegment:
    """Rows of one stream partition, visible to queries as soon as they are appended.

    One thread appends; any number of threads take and read views, without locks. A view has the rows of whole
    batches, those appended before it was taken, and stays valid after `close`.

    If the table aggregates metrics, a row with known dimensions (all columns that are not metrics) is merged into the
    existing row. Metrics then change in place: a view taken after a change copies them, under a lock shared with appends,
    so that it also has whole batches. Queries between two batches share the copy.
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
        """Create an empty segment with its buffers in `folder/name`; files left there by a crashed process are removed.

        sizing: the expected sizes, from `SizingHistory.expected`; a wrong estimate only costs time.
        consuming: the table config that applies to rows until they are sealed; by default `table_config`.
        spare: taken over; useful only if made from the `shapes` of a segment of the same table.
        Raises InvalidConfigError for unsupported settings of the table config.
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
        # no columns are derived from metrics that change in place until they are sealed
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
        # the last view that lacked some indexes when it was requested, and its rows with these indexes
        self._reindexed: tuple[SegmentView, SegmentView] | None = None
        self._failed: BaseException | None = None
        # only if metrics are aggregated: held while they change, and while they are copied
        self._changing = threading.Lock()
        self._num_docs = 0
        self._states = self._dimension_states()
        self._view: SegmentView | None = self._make_view()

    @property
    def num_docs(self) -> int:
        """Rows visible to queries; fewer than were appended if metrics are aggregated."""
        return self._num_docs

    @property
    def is_nearly_full(self) -> bool:
        """Whether a column is close to its capacity, so that the segment should be completed."""
        return any(column.fullness > _NEARLY_FULL for column in self._columns)

    @property
    def holds_creation_time(self) -> bool:
        """Whether there are rows without a time, which have the segment's creation time instead."""
        return any(
            column.num_nulls > 0 and column.plan.default != column.plan.spec.default_null_value
            for column in self._columns
            if isinstance(column, MutableColumn)
        )

    def become(self, name: str, created_ms: int) -> None:
        """Set the name and creation time of a segment that was started before these were known.

        Raises ValueError if rows contain the former creation time.
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
        """Append a batch in the schema's types, from `gamay.ingest.transform.pipeline`, and publish it to readers
        atomically.

        An aggregated metric has in each row the value to aggregate; COUNT ignores it.
        Raises ValueError, with nothing changed, for a batch of other types. DiskFullError and InvalidConfigError (columns or
        sums too large): the rows are not published, later appends fail, and earlier rows can be read and sealed.
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
        self._view = self._make_view()  # the assignment that publishes the rows
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
        """The columns of the schema, then those that timestamp indexes derive."""
        return [*self._columns, *(column for _, column in self._timestamps)]

    def view(self) -> SegmentView:
        """Return a view of the rows appended so far; the same object until there are more rows or indexes."""
        view = self._view
        if view is None:
            with self._changing:
                view = self._view = self._view or self._make_view()
        indexes = self._indexes.of_columns
        if view.indexes is indexes:
            return view
        known = self._reindexed
        if known is None or known[0] is not view or known[1].indexes is not indexes:
            # not `self._view`: the appending thread may have replaced it
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
        """Write the visible rows as an immutable segment, `out_dir/name`, atomically, and return its folder.

        Rows are ordered by the table's sorted column, if any; rows with equal values stay in order of arrival. The
        bytes equal those of `gamay.segment.write.builder.SegmentBuilder` for the same rows. This segment is not changed.
        kept: the docs to write, ascending; None for all. durable: as for `write_segment`.
        Raises ConflictError if the folder exists, RecordError for a time that is not in its column's format.
        """
        view = self.view()
        columns = seal_columns(view.states[: len(self._columns)], self._sealed.table_config.sorted_column, kept)
        num_docs = view.num_docs if kept is None else len(kept)
        return write_segment(self._sealed, columns, num_docs, out_dir, durable=durable)

    def sizing(self) -> Sizing:
        """Return the actual sizes of the segment, for `SizingHistory.record`."""
        view = self.view()
        rows = max(1, view.num_docs)
        columns = {}
        for state, column in zip(view.states, self._all_columns, strict=True):
            # unknown for raw values, which are raw because most are distinct or because a dictionary is disabled
            cardinality = state.num_values if state.dictionary is None else len(state.dictionary)
            columns[state.plan.spec.name] = ColumnSizing(cardinality, column.width, state.num_values / rows)
        return Sizing(view.num_docs, columns)

    def memory(self) -> dict[str, dict[str, MemoryUse]]:
        """Return the bytes of each part (`dictionary`, `forward`, `inverted`, `range`, `null`) of each column.

        If metrics are aggregated, the empty name stands for the keys of rows.
        """
        found = {column.plan.spec.name: column.memory() for column in self._all_columns}
        return found if self._row_keys is None else found | {"": {"keys": self._row_keys.memory()}}

    def close(self) -> None:
        """Remove the files. Existing views stay valid: the memory is released with the last of them."""
        self._indexes.close()
        shutil.rmtree(self._folder, ignore_errors=True)
