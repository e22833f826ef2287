"""One finished column into buffers: dictionary, forward index, secondary indexes, statistics."""

from dataclasses import dataclass

from gamay.functions.expression import LiteralValue
from gamay.model.schema import FieldSpec
from gamay.model.table_config import ColumnIndexConfig
from gamay.model.types import FieldRole
from gamay.segment.accumulate import ColumnAccumulator, EncodedColumn, RawColumn
from gamay.segment.dictionary import write_dictionary
from gamay.segment.format import BufferMeta, BufferWriter
from gamay.segment.forward import packed_bits, write_ids
from gamay.segment.index.null import write_nulls
from gamay.segment.index.sorted import write_sorted
from gamay.segment.metadata import ColumnMeta, Encoding
from gamay.segment.raw import PASS_THROUGH, check_codec, write_raw
from gamay.segment.spi import ColumnStats
from gamay.segment.stats import encoded_stats, id_counts, raw_stats


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """What is to be made of one column.

    default: what stands in for a row without a value. packed: ids in the fewest bits instead of whole bytes.
    """

    spec: FieldSpec
    config: ColumnIndexConfig
    default: LiteralValue
    keep_nulls: bool
    packed: bool

    @property
    def codec(self) -> str:
        """Compression of the raw form: metrics are read whole and stay plain."""
        if self.config.codec is not None:
            return check_codec(self.config.codec, self.spec.name)
        return PASS_THROUGH if self.spec.role is FieldRole.METRIC else "LZ4"

    def accumulator(self) -> ColumnAccumulator:
        """Return the empty column."""
        return ColumnAccumulator(self.spec.data_type, self.spec.single_value, self.default, self.config.dictionary)


def write_column(writer: BufferWriter, plan: ColumnPlan, accumulator: ColumnAccumulator) -> ColumnMeta:
    """Write all buffers of a column and return its description."""
    if plan.config.dictionary:
        return _write_encoded(writer, plan, accumulator.finish_encoded())
    return _write_raw(writer, plan, accumulator.finish_raw())


def _write_encoded(writer: BufferWriter, plan: ColumnPlan, column: EncodedColumn) -> ColumnMeta:
    cardinality = len(column.dictionary)
    counts = id_counts(column.ids, cardinality)
    stats = encoded_stats(column, plan.spec.data_type, counts, None)
    bits = packed_bits(cardinality) if plan.packed else column.ids.dtype.itemsize * 8
    buffers = write_dictionary(writer, column.dictionary)
    buffers.append(write_ids(writer, column.ids, bits if plan.packed else None))
    buffers += _write_rows(writer, plan, column)
    if stats.is_sorted:
        buffers.append(write_sorted(writer, counts))
    return _describe(plan, Encoding.DICTIONARY, bits, None, stats, buffers)


def _write_raw(writer: BufferWriter, plan: ColumnPlan, column: RawColumn) -> ColumnMeta:
    config = plan.config
    stats = raw_stats(column, plan.spec.data_type, None)
    buffers = write_raw(writer, column.values, plan.codec, config.target_docs_per_chunk, config.target_max_chunk_size)
    buffers += _write_rows(writer, plan, column)
    return _describe(plan, Encoding.RAW, None, plan.codec, stats, buffers)


def _write_rows(writer: BufferWriter, plan: ColumnPlan, column: EncodedColumn | RawColumn) -> list[BufferMeta]:
    """Write what both encodings have: offsets of multi-value rows, and the null vector."""
    buffers = []
    if column.offsets is not None:
        buffers.append(writer.add("forward.offsets", [column.offsets]))
    if plan.keep_nulls and len(column.null_docs):
        buffers.append(write_nulls(writer, column.null_docs))
    return buffers


def _describe(
    plan: ColumnPlan, encoding: Encoding, bits: int | None, codec: str | None, stats: ColumnStats, buffers: list[BufferMeta]
) -> ColumnMeta:
    return ColumnMeta(
        name=plan.spec.name,
        data_type=plan.spec.data_type,
        single_value=plan.spec.single_value,
        encoding=encoding,
        id_bits=bits,
        packed=plan.packed and encoding is Encoding.DICTIONARY,
        codec=codec,
        stats=stats,
        buffers={buffer.kind: buffer for buffer in buffers},
    )
