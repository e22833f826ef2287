"""Creation of segments from rows of other segments, according to a `ProcessSpec`.

Rows are selected, then divided by partition. If equal rows are merged, they are grouped, and each output segment has the
next groups: their key columns come from the first row of each group, and metrics are aggregated. Memory holds the
group numbers of all rows, and one column of an output segment at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from gamay.base.arrays import Array
from gamay.base.errors import InvalidConfigError
from gamay.functions.vector import Vector, take
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.merging import MergeType, MetricMerge
from gamay.model.table.table_config import TableConfig
from gamay.model.types import FieldRole
from gamay.segment.encode.storage_form import to_values
from gamay.segment.process.alike import grouped
from gamay.segment.process.metrics import MetricRows, merged
from gamay.segment.process.spec import ProcessSpec
from gamay.segment.process.timeline import Timeline
from gamay.segment.read.reader import ImmutableSegment
from gamay.segment.write.column_writer import ColumnPlan
from gamay.segment.write.folder_writer import SegmentPlan
from gamay.segment.write.row_subset import GivenColumn, KeptColumn, KeptRows, write_kept

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Written:
    """A segment that was written. rows_before: the number of input rows that it represents."""

    folder: Path
    num_rows: int
    rows_before: int


def process(
    inputs: Sequence[KeptRows],
    schema: Schema,
    config: TableConfig,
    spec: ProcessSpec,
    name: Callable[[int], str],
    out_dir: Path,
    created_ms: int,
) -> Iterator[Written]:
    """Write the output segments, none of them empty, and yield each when it is complete.

    name: returns the name of the n-th output segment. Raises what `write_kept` and `metrics.merged` raise, and
    InvalidConfigError for a window or rounding if the table has no time column.
    """
    work = _Work(schema, config, spec, created_ms)
    rows = work.chosen(inputs)
    number = 0
    for part in work.partitions(rows):
        for kept, given, rows_before in work.outputs(part):
            folder = write_kept(kept, schema, config, name(number), out_dir, created_ms, given)
            yield Written(folder, sum(len(one.docs) for one in kept), rows_before)
            number += 1


class _Work:
    """State of one call of `process`."""

    def __init__(self, schema: Schema, config: TableConfig, spec: ProcessSpec, created_ms: int) -> None:
        self._schema = schema
        self._config = config
        self._spec = spec
        self._plans = {plan.spec.name: plan for plan in SegmentPlan.of(schema, config, "", created_ms).columns}
        for name in spec.erased:
            if name not in self._plans or self._plans[name].spec.role is not FieldRole.DIMENSION:
                raise InvalidConfigError(f"'{name}' cannot be erased: it is not a dimension of the table")

    @cached_property
    def _timeline(self) -> Timeline:
        name = self._config.time_column
        if name is None or name not in self._plans:
            raise InvalidConfigError(f"table {self._config.typed_name} has no time column to select its rows by")
        return Timeline(self._plans[name].spec)

    # which rows

    def chosen(self, inputs: Sequence[KeptRows]) -> list[KeptRows]:
        """Return the rows in the window that belong to this slice of the work."""
        window = self._spec.window
        rows = list(inputs)
        if window is not None:
            rows = [KeptRows(r.segment, self._timeline.rows_within(r.segment, r.docs, window)) for r in rows]
        part = self._spec.part
        if part.count == 1:
            return rows
        return _divided(rows, self._part_of(rows) == part.number)

    def _part_of(self, rows: Sequence[KeptRows]) -> Array:
        """Return the slice of the work of each row, from a hash of the two unchanged columns with the most distinct
        values."""
        columns = [c for c in self._key_columns(rows) if isinstance(c, KeptColumn) and c.single_value]
        most = sorted(columns, key=lambda column: -_cardinality(rows, column.name))[:2]
        found = np.zeros(sum(len(one.docs) for one in rows), np.uint64)
        for column in most:
            found = (found ^ column.encoded()[1].astype(np.uint64)) * _ODD
            found ^= found >> np.uint64(29)
        return (found % np.uint64(self._spec.part.count)).astype(np.int64)

    def partitions(self, rows: list[KeptRows]) -> Iterator[list[KeptRows]]:
        """Yield the rows of each partition of the table, by all its partition columns; all rows if it has none."""
        found: Array | None = None
        for plan in self._plans.values() if self._spec.by_partition else ():
            if plan.partition is not None:
                dictionary, ids, _ = KeptColumn(plan, rows).encoded()
                values = Vector(plan.spec.data_type, to_values(dictionary, plan.spec.data_type))
                of_rows = plan.partition.partitions_of(values)[ids].astype(np.int64)
                found = of_rows if found is None else found * plan.partition.num_partitions + of_rows
        if found is None:
            yield rows
            return
        for partition in np.unique(found).tolist():
            yield _divided(rows, found == partition)

    # output segments

    def outputs(self, rows: list[KeptRows]) -> "Iterator[tuple[list[KeptRows], dict[str, KeptColumn | GivenColumn], int]]":
        """Yield the rows of each output segment, its columns that differ from those of the rows, and `rows_before`."""
        total = sum(len(one.docs) for one in rows)
        size = self._spec.rows_max
        if self._spec.merge_type is MergeType.CONCAT:
            for begin in range(0, total, size):
                kept = _divided(rows, _between(total, begin, begin + size))
                yield kept, self._changed(kept), min(size, total - begin)
            return
        groups = grouped(self._key_columns(rows), total)
        order = np.argsort(groups.of_rows, kind="stable")
        starts = np.searchsorted(groups.of_rows[order], np.arange(groups.count + 1))
        for begin in range(0, groups.count, size):
            end = min(begin + size, groups.count)
            kept = _divided(rows, groups.first[begin:end])
            given = self._changed(kept)
            if self._spec.merge_type is MergeType.ROLLUP:
                taking = np.sort(order[starts[begin] : starts[end]])
                given |= self._aggregated(_divided(rows, taking), groups.of_rows[taking] - begin, end - begin)
            yield kept, given, int(starts[end] - starts[begin])

    def _key_columns(self, rows: Sequence[KeptRows]) -> list[KeptColumn | GivenColumn]:
        """Return the columns by which rows are grouped."""
        changed = self._changed(rows)
        is_key = self._is_key if self._spec.merge_type is MergeType.ROLLUP else lambda _: True
        plans = [plan for plan in self._plans.values() if is_key(plan.spec) and plan.spec.name not in self._spec.erased]
        return [changed.get(plan.spec.name) or KeptColumn(plan, rows) for plan in plans]

    @staticmethod
    def _is_key(spec: FieldSpec) -> bool:
        return spec.role is not FieldRole.METRIC

    def _changed(self, rows: Sequence[KeptRows]) -> "dict[str, KeptColumn | GivenColumn]":
        """Return the columns that are rounded or erased."""
        changed: dict[str, KeptColumn | GivenColumn] = {
            name: KeptColumn(self._plans[name], rows, erased=True) for name in self._spec.erased
        }
        if self._spec.round_ms:
            plan = self._plans[self._timeline.spec.name]
            nulls = KeptColumn(plan, rows).nulls()
            changed[plan.spec.name] = GivenColumn(plan.spec, self._timeline.rounded(rows, self._spec.round_ms), nulls)
        return changed

    def _aggregated(self, rows: Sequence[KeptRows], groups: Array, num_groups: int) -> "dict[str, KeptColumn | GivenColumn]":
        found: dict[str, KeptColumn | GivenColumn] = {}
        for name, plan in self._plans.items():
            if plan.spec.role is FieldRole.METRIC:
                found[name] = self._metric(plan, rows, groups, num_groups)
        return found

    def _metric(self, plan: ColumnPlan, rows: Sequence[KeptRows], groups: Array, num_groups: int) -> GivenColumn:
        column = KeptColumn(plan, rows)
        values, _ = column.stored()
        how = self._spec.metrics.get(plan.spec.name, MetricMerge())
        of_groups = MetricRows(plan.spec, values, column.nulls(), groups, num_groups, lambda: self._timeline.millis(rows))
        return merged(of_groups, how)


def every_row(segment: ImmutableSegment, first: int = 0, last: int | None = None) -> KeptRows:
    """Return the rows [first, last) of a segment, by default all of them."""
    return KeptRows(segment, np.arange(first, segment.num_docs if last is None else last, dtype=np.int32))


def _cardinality(rows: Sequence[KeptRows], column: str) -> int:
    """Estimate the number of distinct values of a column; without a dictionary, all may be distinct."""
    total = 0
    for one in rows:
        meta = one.segment.info.columns.get(column)
        known = 1 if meta is None else meta.stats.cardinality
        total += one.segment.num_docs if known is None else known
    return total


def _between(total: int, first: int, last: int) -> Array:
    return np.arange(min(first, total), min(last, total), dtype=np.int64)


def _divided(rows: Sequence[KeptRows], chosen: Array) -> list[KeptRows]:
    """Return the selected rows. chosen: ascending positions, or a bool for each row."""
    positions = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
    found, begin = [], 0
    for one in rows:
        low, high = np.searchsorted(positions, (begin, begin + len(one.docs)))
        found.append(KeptRows(one.segment, take(one.docs, positions[low:high] - begin)))
        begin += len(one.docs)
    return found
