"""Distribution of a job's rows over segments: by partition, in ranges of a column, sorted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import arrow_scalar
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.segment.encode.partition import partition_function, partitions_of_column
from gamay.segment.encode.value_text import value_text

_HASH_SPACE = (1 << 31) - 1
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Layout:
    """Distribution of rows over segments.

    rows_per_segment: approximate number of rows. range_column: segments have ranges of it. sort_column: order within a
    segment. partition_column: segments have one partition of it. None if the table has no such column.
    """

    rows_per_segment: int
    range_column: str | None
    sort_column: str | None
    partition_column: str | None

    @classmethod
    def of(
        cls, schema: Schema, table_config: TableConfig, rows_per_segment: int, sort_column: str | None = None
    ) -> "Layout":
        """Return the layout of a table's config; `sort_column` overrides its sorted column.

        Raises InvalidConfigError for a sort column that rows cannot be sorted by.
        """
        if sort_column is not None and (sort_column not in schema or not schema.field(sort_column).single_value):
            what = "has several values in a row" if sort_column in schema else "is not in the schema"
            raise InvalidConfigError(f"sortColumn: the column '{sort_column}' {what}, so that rows cannot be sorted by it")
        sorted_column = sort_column or table_config.sorted_column
        time_column = table_config.time_column
        partitioning = table_config.indexing.segment_partition
        partitioned = next(iter(partitioning.columns), None) if partitioning is not None else None
        return cls(rows_per_segment, time_column or sorted_column, sorted_column or time_column, partitioned)

    @property
    def order(self) -> tuple[str, ...]:
        """Return the sort columns of rows within a segment."""
        return tuple(dict.fromkeys(name for name in (self.sort_column, self.range_column) if name))


def partitioner(schema: Schema, table_config: TableConfig, column: str | None) -> "Callable[[pa.RecordBatch], pa.Array]":
    """Return a function that returns the partition of each row of a batch; all 0 without a column."""
    if column is None:
        return lambda batch: pa.array(np.zeros(batch.num_rows, np.int32))
    spec = schema.field(column)
    partitioning = table_config.indexing.segment_partition
    assert partitioning is not None
    config = partitioning.columns[column]
    function = partition_function(config.function_name, config.num_partitions, config.function_config)
    of_null = function.partition_of(value_text(spec.default_null_value, spec.data_type))

    def partitions(batch: pa.RecordBatch) -> pa.Array:
        return pa.array(partitions_of_column(function, batch.column(column), spec.data_type, of_null))

    return partitions


class RangeKeys:
    """The keys by which rows are assigned to ranges: the values of the layout's range column, with defaults for nulls.

    Without such a column rows have no keys, and are assigned by hashes of their values: the assignment must be
    deterministic, since a task may run again.
    """

    def __init__(self, schema: Schema, layout: Layout) -> None:
        self._spec = None if layout.range_column is None else schema.field(layout.range_column)
        self._hashed = [spec for spec in schema.stored_fields if spec.single_value]

    def keys(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the keys of a batch without nulls; None without a range column."""
        if self._spec is None:
            return None
        keys = filled(batch.column(self._spec.name), self._spec)
        return keys.cast(pa.int64()) if self._spec.data_type is DataType.TIMESTAMP else keys

    def places(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the keys, or else uniformly distributed 64-bit hashes."""
        keys = self.keys(batch)
        if keys is not None:
            return keys
        total = np.zeros(batch.num_rows, np.uint64)
        for spec in self._hashed:
            total = (total ^ _numbers(batch.column(spec.name), spec)) * _PRIME
            total ^= total >> np.uint64(29)
        return pa.array((total * _PRIME).view(np.int64))


def filled(column: Any, spec: FieldSpec) -> Any:
    """Return a column, an Arrow array or chunked array, with the default value for nulls."""
    return column.fill_null(arrow_scalar(spec.default_null_value, spec.data_type))


def _numbers(column: pa.Array, spec: FieldSpec) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return a number for each value, equal for equal values."""
    values = filled(column, spec)
    if pa.types.is_floating(values.type):
        return np.asarray(values.cast(pa.float64()).to_numpy()).view(np.uint64)
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type) or pa.types.is_timestamp(values.type):
        return np.asarray(values.cast(pa.int64()).to_numpy()).view(np.uint64)
    hashing = partition_function("Murmur", _HASH_SPACE, None)
    return partitions_of_column(hashing, values, spec.data_type, 0).astype(np.uint64)
