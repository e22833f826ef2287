"""Rows in a stream partition that differs from the partition of their column's value."""

import logging
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.encode.partition import PartitionFunction, partition_function, partitions_of_column
from gamay.segment.encode.value_text import value_text

_log = logging.getLogger(__name__)


class ForeignRows:
    """Filter for the rows of a stream partition that do not belong to it; made by `foreign_rows`.

    The stream's partition is taken modulo the column's number of partitions, so that a topic may have a multiple of it.
    """

    def __init__(self, segment: str, spec: FieldSpec, function: PartitionFunction, partition: int) -> None:
        self._segment = segment
        self._spec = spec
        self._function = function
        self._partition = partition % function.num_partitions
        self._of_null = function.partition_of(value_text(spec.default_null_value, spec.data_type))
        self._found = False

    def own(self, rows: pa.RecordBatch) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Return which rows of a batch belong to the partition, bool [n]; the first foreign one is logged."""
        column = rows.column(self._spec.name)
        partitions = partitions_of_column(self._function, column, self._spec.data_type, self._of_null)
        own: np.ndarray[Any, np.dtype[np.bool_]] = np.equal(partitions, self._partition)
        if not (self._found or own.all()):
            self._found = True
            value = column[int(np.argmin(own))].as_py()
            _log.warning("%s: rows of other partitions are dropped, such as %s %r", self._segment, self._spec.name, value)
        return own


def foreign_rows(segment: str, schema: Schema, config: TableConfig, partition: int) -> ForeignRows | None:
    """Return the filter for foreign rows of a stream partition; None if it is not enabled.

    It is enabled by `dropRecordOnPartitionMismatch`, if exactly one column is partitioned.
    """
    stream, partitioning = config.ingestion.stream, config.indexing.segment_partition
    if stream is None or not stream.drop_record_on_partition_mismatch:
        return None
    if partitioning is None or len(partitioning.columns) != 1:
        return None
    ((column, declared),) = partitioning.columns.items()
    function = partition_function(declared.function_name, declared.num_partitions, declared.function_config)
    return ForeignRows(segment, schema.field(column), function, partition)
