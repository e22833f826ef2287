"""Columns that were added to the schema after a segment was built: the default null value in every row."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from gamay.functions.arrow import arrow_scalar
from gamay.functions.vector import Vector, take
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.segment.encode.dictionary import SortedDictionary
from gamay.segment.encode.storage_form import from_arrow, to_python
from gamay.segment.index.sorted import SortedStarts
from gamay.segment.read.computed import RepeatedColumn
from gamay.segment.spi import SORTED, Column, ColumnStats, DocIds, IndexKey, Segment, T


def with_defaults(segment: Segment, schema: Schema, table_config: TableConfig) -> Segment:
    """Return the segment extended by the stored columns of a possibly newer schema."""
    missing = [spec for spec in schema.stored_fields if spec.name not in segment.column_names]
    if not missing:
        return segment
    columns = {
        spec.name: ConstantColumn(spec, segment.num_docs, table_config.null_handling(schema, spec.name)) for spec in missing
    }
    return SegmentWithDefaults(segment, columns)


class SegmentWithDefaults:
    """A segment with added columns; implements `segment.spi.Segment`."""

    def __init__(self, segment: Segment, added: Mapping[str, Column]) -> None:
        self.name = segment.name
        self.num_docs = segment.num_docs
        self.column_names = (*segment.column_names, *added)
        self.metadata: Mapping[str, Any] = segment.metadata
        self.stored = segment
        self._added = added

    def column(self, name: str) -> Column:
        """Return a column; raises KeyError when neither segment nor schema has it."""
        added = self._added.get(name)
        return self.stored.column(name) if added is None else added


class ConstantColumn(RepeatedColumn):
    """One value in every row; implements `segment.spi.Column`. All rows are null if the table stores nulls."""

    dictionary: SortedDictionary

    def __init__(self, spec: FieldSpec, num_docs: int, keep_nulls: bool) -> None:
        self.name = spec.name
        self.data_type = spec.data_type
        self.single_value = spec.single_value
        self.num_docs = num_docs
        value = from_arrow(_array_of(spec), spec.data_type)
        self.dictionary = SortedDictionary(spec.data_type, value[: min(1, num_docs)])
        self.null_docs = BitMap(range(num_docs)) if keep_nulls and num_docs else None
        self.stats = _stats(spec, to_python(value, 0, spec.data_type), num_docs)

    @cached_property
    def _starts(self) -> SortedStarts | None:
        if not self.single_value:
            return None
        return SortedStarts(np.array([0, self.num_docs][: len(self.dictionary) + 1], np.int32))

    def index(self, key: IndexKey[T]) -> T | None:
        return key.of(self._starts) if key is SORTED else super().index(key)

    def values(self, start: int, stop: int) -> Vector:
        """Return the value, repeated for each row of [start, stop)."""
        offsets = None if self.single_value else self.offsets(start, stop)
        return Vector(self.data_type, take(self.dictionary.values.values, self.ids(start, stop)), offsets)

    def values_at(self, docs: DocIds) -> Vector:
        """Return the value, repeated for each of the rows."""
        return self.values(0, len(docs))


def _array_of(spec: FieldSpec) -> Any:
    scalar = arrow_scalar(spec.default_null_value, spec.data_type)
    return pa.array([scalar.as_py()], scalar.type)


def _stats(spec: FieldSpec, value: Any, num_docs: int) -> ColumnStats:
    total: int | float | None = None
    if spec.data_type.is_numeric and spec.data_type is not DataType.BIG_DECIMAL:
        total = value * num_docs if num_docs else type(value)(0)
    return ColumnStats(
        cardinality=min(1, num_docs),
        minimum=value if num_docs else None,
        maximum=value if num_docs else None,
        total=total,
        is_sorted=spec.single_value,
        num_values=num_docs,
        max_values_per_row=min(1, num_docs),
        num_nulls=num_docs,
        partition=None,
    )
