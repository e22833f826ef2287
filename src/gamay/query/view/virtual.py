"""A segment as queries see it: with the virtual columns, and with columns added to the schema after it was built.

A column that the segment lacks reads as the schema's default value in every row, and all its rows are null.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap

from gamay.base.arrays import Mask
from gamay.functions.expression import LiteralValue
from gamay.functions.vector import Vector
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType
from gamay.query.bind.scope import NULL_FLAG_PREFIX, VIRTUAL_COLUMNS
from gamay.query.columns.constants import repeated, values_of
from gamay.query.view.docset import DocFlags
from gamay.query.view.null_flags import NullFlags, null_flags_of
from gamay.query.view.shared_filters import SharedFilters
from gamay.query.view.vector_options import NO_OPTIONS, VectorOptions
from gamay.segment.read.computed import ComputedColumn, RepeatedColumn, unknown_stats
from gamay.segment.read.visible import VisibleSegment
from gamay.segment.spi import (
    Column,
    ColumnStats,
    DocIds,
    Ids,
    Segment,
)

if TYPE_CHECKING:
    from gamay.query.bind.binder import BoundQuery
    from gamay.query.startree.lookup import SortedRecords


class ConstantDictionary:
    """The dictionary of a column with one value."""

    is_sorted = True

    def __init__(self, data_type: DataType, value: LiteralValue) -> None:
        self.data_type = data_type
        self._value = value
        self._values = Vector(data_type, values_of(data_type, [value]), ascends=True)

    def __len__(self) -> int:
        return 1

    @property
    def values(self) -> Vector:
        return self._values

    def id_of(self, value: LiteralValue) -> int:
        return 0 if value == self._value else -1

    def ids_of(self, values: Sequence[LiteralValue]) -> Ids:
        return np.zeros(1 if self._value in values else 0, np.int32)

    def id_range(
        self, lower: LiteralValue, upper: LiteralValue, lower_inclusive: bool, upper_inclusive: bool
    ) -> tuple[int, int]:
        value: Any = self._value
        above = lower is None or value > lower or (lower_inclusive and value == lower)
        below = upper is None or value < upper or (upper_inclusive and value == upper)
        return (0, 1) if above and below else (0, 0)


class ConstantColumn(RepeatedColumn):
    """A column that has the same value in every row (multi-value: the same one value)."""

    def __init__(
        self, name: str, data_type: DataType, value: LiteralValue, num_docs: int, *, single_value: bool, all_null: bool
    ) -> None:
        self.name = name
        self.data_type = data_type
        self.single_value = single_value
        self.num_docs = num_docs
        self.dictionary = ConstantDictionary(data_type, value)
        self.null_docs = BitMap(range(num_docs)) if all_null else None
        numeric = isinstance(value, int | float) and data_type.is_numeric
        self.stats = ColumnStats(
            cardinality=1,
            minimum=value,
            maximum=value,
            total=value * num_docs if numeric and isinstance(value, int | float) else None,
            is_sorted=single_value,
            num_values=num_docs,
            max_values_per_row=1,
            num_nulls=num_docs if all_null else 0,
            partition=None,
        )
        self._value = value

    def values(self, start: int, stop: int) -> Vector:
        return self._rows(stop - start)

    def values_at(self, docs: DocIds) -> Vector:
        return self._rows(len(docs))

    def _rows(self, num_rows: int) -> Vector:
        vector = repeated(self._value, self.data_type, num_rows)
        return vector if self.single_value else Vector(vector.type, vector.values, np.arange(num_rows + 1, dtype=np.int32))


class DocIdColumn(ComputedColumn):
    """`$docId`: the number of each row."""

    name = "$docId"
    data_type = DataType.INT

    def __init__(self, num_docs: int) -> None:
        self.num_docs = num_docs
        self.stats = ColumnStats(
            cardinality=num_docs,
            minimum=0 if num_docs else None,
            maximum=num_docs - 1 if num_docs else None,
            total=num_docs * (num_docs - 1) // 2,
            is_sorted=True,
            num_values=num_docs,
            max_values_per_row=1,
            num_nulls=0,
            partition=None,
        )

    def values(self, start: int, stop: int) -> Vector:
        return Vector(DataType.INT, np.arange(start, stop, dtype=np.int32))

    def values_at(self, docs: DocIds) -> Vector:
        return Vector(DataType.INT, docs)


class ConstantListColumn(ComputedColumn):
    """A multi-value column of text that has the same values in every row."""

    data_type = DataType.STRING
    single_value = False

    def __init__(self, name: str, row: list[str], num_docs: int) -> None:
        self.name = name
        self.num_docs = num_docs
        self._row = row
        self.stats = ColumnStats(
            cardinality=len(set(row)),
            minimum=min(row),
            maximum=max(row),
            total=None,
            is_sorted=False,
            num_values=num_docs * len(row),
            max_values_per_row=len(row),
            num_nulls=0,
            partition=None,
        )

    def offsets(self, start: int, stop: int) -> "np.ndarray[Any, np.dtype[np.int32]]":
        return np.arange(stop - start + 1, dtype=np.int32) * len(self._row)

    def values(self, start: int, stop: int) -> Vector:
        return Vector(self.data_type, values_of(self.data_type, self._row * (stop - start)), self.offsets(start, stop))

    def values_at(self, docs: DocIds) -> Vector:
        return self.values(0, len(docs))


class NullFlagColumn(ComputedColumn):
    """A flag for each row of a column that is null."""

    data_type = DataType.BOOLEAN

    def __init__(self, name: str, column: Column) -> None:
        self.name = name
        self.num_docs = column.num_docs
        self._flags = null_flags_of(column)
        self.stats = unknown_stats(column.num_docs)

    def values(self, start: int, stop: int) -> Vector:
        return self._vector(stop - start, lambda flags: flags.within(start, stop))

    def values_at(self, docs: DocIds) -> Vector:
        return self._vector(len(docs), lambda flags: flags.at(docs))

    def _vector(self, num_rows: int, read: Callable[[NullFlags], Mask]) -> Vector:
        return Vector(self.data_type, np.zeros(num_rows, np.bool_) if self._flags is None else read(self._flags))


class QuerySegment:
    """A segment with the columns that queries may use in addition to the stored ones.

    fields: the schema's fields of the columns that the query reads; used for those that the segment does not have.
    null_handling: whether the rows that a column's null vector names read as null, not as the column's default value.
    visible: the valid rows, to which filters are restricted; None if all rows are valid. keeping: the segment with these
    rows, whose totals are cached; else None. stored: the segment itself. unused_trees: why the query does not use the
    segment's star-trees. shared: results shared by the filters of a query that has several (`shares_filters`); else None.
    skipped_indexes: by column, the kinds of indexes that the query must not use. vector_options: how the query searches
    vectors. asks: the query rewritten to columns that other segments may lack; None if it is not rewritten.
    sorted_records: finds rows that are sorted by several columns.
    """

    sorted_records: "SortedRecords | None" = None

    def __init__(
        self,
        segment: Segment,
        fields: Mapping[str, FieldSpec],
        host_name: str,
        *,
        null_handling: bool = False,
        shares_filters: bool = False,
        skipped_indexes: Mapping[str, frozenset[str]] = MappingProxyType({}),
        vector_options: VectorOptions = NO_OPTIONS,
    ) -> None:
        self.name = segment.name
        self.num_docs = segment.num_docs
        self.column_names = segment.column_names
        self.metadata = segment.metadata
        self.stored = segment
        self._fields = fields
        self._host_name = host_name
        self._stored = frozenset(segment.column_names)
        self._made: dict[str, Column] = {}
        self.null_handling = null_handling
        self.skipped_indexes = skipped_indexes
        self.vector_options = vector_options
        self.visible: DocFlags | None = None
        self.keeping: VisibleSegment | None = None
        self.unused_trees: str | None = None
        self.asks: BoundQuery | None = None
        self.shared = SharedFilters() if shares_filters else None
        if isinstance(segment, VisibleSegment) and segment.visible.count < segment.num_docs:
            self.keeping = segment
            self.visible = DocFlags(segment.visible.mask, segment.visible.count)

    @property
    def num_visible(self) -> int:
        """The number of valid rows."""
        return self.num_docs if self.visible is None else self.visible.count

    def column(self, name: str) -> Column:
        """Return a column; raises KeyError if neither the segment nor the query's fields have it."""
        if name in self._stored:
            return self.stored.column(name)
        if name not in self._made:
            # two threads may both create it; either will do
            self._made[name] = self._make(name)
        return self._made[name]

    def attach(self, column: Column) -> None:
        """Add a column that is computed for the query."""
        self._made[column.name] = column

    def null_flags(self, name: str) -> NullFlags | None:
        """Return the null rows of a column; None if there are none."""
        return null_flags_of(self.column(name)) if self.null_handling else None

    def _make(self, name: str) -> Column:
        if name == "$docId":
            return DocIdColumn(self.num_docs)
        if name == "$partitionId":
            return ConstantListColumn(name, self._partition_ids(), self.num_docs)
        if name in _VALUES:
            value = _VALUES[name](self)
            data_type, _ = VIRTUAL_COLUMNS[name]
            known = _UNKNOWN[data_type] if value is None else value
            return ConstantColumn(name, data_type, known, self.num_docs, single_value=True, all_null=value is None)
        if name.startswith(NULL_FLAG_PREFIX):
            return NullFlagColumn(name, self.column(name.removeprefix(NULL_FLAG_PREFIX)))
        field = self._fields[name]
        default = field.default_null_value
        return ConstantColumn(name, field.data_type, default, self.num_docs, single_value=field.single_value, all_null=True)

    @property
    def host_name(self) -> str:
        """The name of the answering machine."""
        return self._host_name

    def _partition_ids(self) -> list[str]:
        """Return `<column>_<partition>` for each partition of each partitioned column, or one empty text."""
        entries = [
            f"{name}_{partition}"
            for name in self.column_names
            if (info := self.stored.column(name).stats.partition) is not None
            for partition in info.partitions
        ]
        return entries or [""]


_UNKNOWN: Mapping[DataType, LiteralValue] = {
    DataType.TIMESTAMP: 0,
    DataType.LONG: 0,
    DataType.STRING: "null",
    DataType.INT: 0,
}
_VALUES: Mapping[str, Callable[[QuerySegment], LiteralValue]] = {
    "$hostName": lambda segment: segment.host_name,
    "$segmentName": lambda segment: segment.name,
    "$creationTime": lambda segment: segment.metadata.get("creationTimeMs"),
    "$startTime": lambda segment: segment.metadata.get("startTimeMs"),
    "$endTime": lambda segment: segment.metadata.get("endTimeMs"),
    "$totalDocs": lambda segment: segment.num_docs,
    "$crc": lambda segment: segment.metadata.get("crc"),
}
