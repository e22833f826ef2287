"""Writing of one finished column to buffers: dictionary, forward index, indexes, statistics."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gamay.base.errors import InvalidConfigError
from gamay.functions.expression import LiteralValue
from gamay.functions.vector import Vector, take
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.table.table_config import ColumnIndexConfig
from gamay.model.types import DataType
from gamay.segment.encode.dictionary import write_dictionary
from gamay.segment.encode.format import BufferMeta, BufferWriter
from gamay.segment.encode.forward import packed_bits, write_ids
from gamay.segment.encode.metadata import ColumnMeta, Encoding
from gamay.segment.encode.partition import PartitionFunction, partition_function, partition_info
from gamay.segment.encode.storage_form import Stored, fixed_dtype, to_values
from gamay.segment.index.registry import COLUMN_INDEXES
from gamay.segment.index.spi import IndexedRows
from gamay.segment.spi import ColumnStats, Ids, PartitionInfo
from gamay.segment.write.accumulate import ColumnAccumulator, EncodedColumn, RawColumn
from gamay.segment.write.forms import RawForm, dictionary_costs_time, raw_form
from gamay.segment.write.stats import encoded_stats, id_counts, raw_stats


@dataclass(frozen=True)
class ColumnPlan:
    """How to write one column.

    default: replaces nulls. keep_nulls: store which rows are null. keep_bounds: store the least and the
    greatest value in the metadata.
    """

    spec: FieldSpec
    config: ColumnIndexConfig
    default: LiteralValue
    keep_nulls: bool
    keep_bounds: bool
    indexing: IndexingConfig

    def __post_init__(self) -> None:
        """Raise InvalidConfigError for an impossible configuration, before any row is accepted."""
        config, spec = self.config, self.spec
        if config.range and not config.dictionary and fixed_dtype(spec.data_type) is None:
            raise InvalidConfigError(
                f"column '{spec.name}' cannot have a range index: raw columns of type {spec.data_type.value} have none; "
                "give it a dictionary"
            )
        if config.partition is not None and not spec.single_value:
            raise InvalidConfigError(f"column '{spec.name}' is multi-value, so the table cannot be partitioned by it")

    def raw_form(self, values: Stored, is_sorted: bool) -> RawForm:
        """Return the storage form of values without a dictionary. is_sorted: those of single-value rows ascend."""
        return raw_form(self.config, self.spec.role, self.spec.data_type, values, is_sorted)

    @cached_property
    def partition(self) -> PartitionFunction | None:
        """The partition function, if the table is partitioned by this column."""
        declared = self.config.partition
        if declared is None:
            return None
        return partition_function(declared.function_name, declared.num_partitions, declared.function_config)

    def accumulator(self) -> ColumnAccumulator:
        """Return an empty accumulator of the column."""
        return ColumnAccumulator(self.spec.data_type, self.spec.single_value, self.default, self.config.dictionary)

    def dictionary_pays(self, num_values: int, cardinality: int, raw_bytes: float | None = None) -> bool:
        """Return False if a dictionary saves too little space, as defined by `optimizeDictionary`, or slows down queries.

        raw_bytes: of all values in their raw form; None: their plain size, as defined by `optimizeDictionary`.
        """
        if not self.config.may_drop_dictionary or not self.spec.single_value:
            return True
        dtype = fixed_dtype(self.spec.data_type)
        if self.config.by_cost and dtype is not None:
            raw_width = dtype.itemsize if raw_bytes is None else raw_bytes / max(1, num_values)
            return not dictionary_costs_time(num_values, cardinality, dtype.itemsize, raw_width)
        if dtype is None:
            ratio = self.indexing.no_dictionary_cardinality_ratio_threshold
            return ratio is None or cardinality < ratio * num_values
        encoded_bytes = cardinality * dtype.itemsize + -(-num_values * packed_bits(cardinality) // 8)
        return num_values * dtype.itemsize > self.indexing.no_dictionary_size_ratio_threshold * encoded_bytes

    def why_dictionary(self) -> str:
        """Return the reason why a column has a dictionary."""
        if self.config.by_cost:
            return "its dictionary stays in the cache, or saves much room"
        return "optimizeDictionary: its dictionary saves room" if self.config.optimize_dictionary else ""


class FinishedColumn(Protocol):
    """All rows of a column, in the form that the plan selects; finished only once."""

    def finish_encoded(self) -> EncodedColumn: ...
    def finish_raw(self) -> RawColumn: ...


def write_column(writer: BufferWriter, plan: ColumnPlan, finished: FinishedColumn) -> ColumnMeta:
    """Write all buffers of a column and return its description."""
    if not plan.config.dictionary:
        return _write_raw(writer, plan, finished.finish_raw(), None)
    column = finished.finish_encoded()
    cardinality = len(column.dictionary)
    if not plan.config.may_drop_dictionary or plan.dictionary_pays(len(column.ids), cardinality, _raw_bytes(plan, column)):
        return write_encoded(writer, plan, column)
    decoded = RawColumn(take(column.dictionary, column.ids), column.offsets, column.null_docs)
    return _write_raw(writer, plan, decoded, cardinality)


def _raw_bytes(plan: ColumnPlan, column: EncodedColumn) -> float | None:
    """Return the bytes of the values without the dictionary, from the frame of the distinct values."""
    if not isinstance(column.dictionary, np.ndarray):
        return None
    framing = plan.raw_form(column.dictionary, is_sorted=False).framing
    return float(len(column.ids) * (column.dictionary.itemsize if framing is None else framing.width))


def write_encoded(writer: BufferWriter, plan: ColumnPlan, column: EncodedColumn) -> ColumnMeta:
    """Write all buffers of a column that keeps its dictionary, and return its description."""
    data_type = plan.spec.data_type
    cardinality = len(column.dictionary)
    counts = id_counts(column.ids, cardinality)
    stats = encoded_stats(column, data_type, counts, _partition(plan, column.dictionary))
    bits = packed_bits(cardinality) if plan.config.packed else column.ids.dtype.itemsize * 8
    buffers = write_dictionary(writer, column.dictionary)
    if plan.config.forward:
        buffers.append(write_ids(writer, column.ids, bits if plan.config.packed else None))
    buffers += _write_rows(writer, plan, column, stats.is_sorted, counts)
    return _describe(plan, Encoding.DICTIONARY, bits, None, stats, buffers)


def _write_raw(writer: BufferWriter, plan: ColumnPlan, column: RawColumn, cardinality: int | None) -> ColumnMeta:
    values = column.values
    stats = replace(raw_stats(column, plan.spec.data_type, _partition(plan, values)), cardinality=cardinality)
    form = plan.raw_form(values, stats.is_sorted and plan.spec.single_value)
    buffers = form.write(writer, values, plan.config)
    buffers += _write_rows(writer, plan, column, stats.is_sorted)
    return _describe(plan, Encoding.RAW, None, form, stats, buffers)


def _write_rows(
    writer: BufferWriter, plan: ColumnPlan, column: EncodedColumn | RawColumn, is_sorted: bool, counts: "Ids | None" = None
) -> list[BufferMeta]:
    """Write the parts common to both encodings: offsets of multi-value rows, and indexes. counts: occurrences of each id."""
    values, ids = (column.dictionary, column.ids) if isinstance(column, EncodedColumn) else (column.values, None)
    null_docs = column.null_docs if plan.keep_nulls else column.null_docs[:0]
    rows = IndexedRows(plan.config, plan.spec.data_type, values, ids, counts, column.offsets, null_docs, is_sorted)
    buffers = []
    if column.offsets is not None and plan.config.forward:
        buffers.append(writer.add("forward.offsets", [column.offsets]))
    for index_type in COLUMN_INDEXES:
        buffers += index_type.write(writer, rows)
    return buffers


def _partition(plan: ColumnPlan, values: Stored) -> PartitionInfo | None:
    if plan.partition is None:
        return None
    data_type: DataType = plan.spec.data_type
    try:
        return partition_info(plan.partition, Vector(data_type, to_values(values, data_type)))
    except ValueError as reason:
        raise InvalidConfigError(f"the table cannot be partitioned by column '{plan.spec.name}': {reason}") from None


def _describe(
    plan: ColumnPlan,
    encoding: Encoding,
    bits: int | None,
    form: RawForm | None,
    stats: ColumnStats,
    buffers: list[BufferMeta],
) -> ColumnMeta:
    stats = stats if plan.keep_bounds else replace(stats, minimum=None, maximum=None)
    return ColumnMeta(
        name=plan.spec.name,
        data_type=plan.spec.data_type,
        single_value=plan.spec.single_value,
        encoding=encoding,
        id_bits=bits,
        packed=plan.config.packed and encoding is Encoding.DICTIONARY,
        codec=None if form is None else form.codec,
        stats=stats,
        buffers={buffer.kind: buffer for buffer in buffers},
        frame=None if form is None else form.frame,
        reason=plan.why_dictionary() if form is None else form.reason,
    )
