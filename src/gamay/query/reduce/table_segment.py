"""The result of a query as a segment, for queries that read from it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.vector import Vector
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.query.answer.response import ResultTable
from gamay.query.columns.operations import take_rows
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.read.computed import ComputedColumn, unknown_stats
from gamay.segment.spi import DocIds


def schema_of(table: ResultTable) -> Schema:
    """Return the schema of a result's columns; raises QueryError for one without a type, such as NULL."""
    for name, column in zip(table.names, table.columns, strict=True):
        if column.type in (DataType.UNKNOWN, DataType.OBJECT):
            raise QueryError(ErrorCode.QUERY_VALIDATION, f"The column '{name}' of the subquery has no type to query it by")
    fields = [
        FieldSpec(name, column.type, single_value=not column.is_multi_value)
        for name, column in zip(table.names, table.columns, strict=True)
    ]
    return Schema("subquery", tuple(fields), enable_column_based_null_handling=True)


class _TableColumn(ComputedColumn):
    """A column of a result."""

    def __init__(self, name: str, vector: Vector) -> None:
        self.name = name
        self.data_type = vector.type
        self.single_value = not vector.is_multi_value
        self.num_docs = len(vector)
        nulls = np.empty(0, np.int64) if vector.nulls is None else np.flatnonzero(vector.nulls)
        self.null_docs = bitmap_of(nulls) if len(nulls) else None
        self._vector = Vector(vector.type, vector.values, vector.offsets)
        lengths = None if vector.offsets is None else np.diff(vector.offsets)
        longest = 1 if lengths is None else int(lengths.max(initial=0))
        self.stats = unknown_stats(len(vector.values), max_values_per_row=longest, num_nulls=len(nulls))

    def offsets(self, start: int, stop: int) -> "np.ndarray[Any, np.dtype[np.int32]]":
        offsets = self._vector.offsets
        assert offsets is not None
        cut: np.ndarray[Any, np.dtype[np.int32]] = (offsets[start : stop + 1] - offsets[start]).astype(np.int32)
        return cut

    def values(self, start: int, stop: int) -> Vector:
        values, offsets = self._vector.values, self._vector.offsets
        if offsets is None:
            return Vector(self.data_type, values[start:stop])
        return Vector(self.data_type, values[int(offsets[start]) : int(offsets[stop])], self.offsets(start, stop))

    def values_at(self, docs: DocIds) -> Vector:
        return take_rows(self._vector, docs)


class TableSegment:
    """The rows of a result as one segment."""

    name = "subquery"
    metadata: Mapping[str, Any] = {}

    def __init__(self, table: ResultTable) -> None:
        self.num_docs = table.num_rows
        self.column_names = table.names
        self._columns = {name: _TableColumn(name, column) for name, column in zip(table.names, table.columns, strict=True)}

    def column(self, name: str) -> _TableColumn:
        return self._columns[name]
