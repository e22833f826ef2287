"""Columns at the rows of a block, as operands of expressions: as ids if there is a dictionary."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Mask
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arrow import binary_buffers
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Column as ColumnExpression
from gamay.functions.expression import Expression
from gamay.functions.frame import FramedVector
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, take
from gamay.kernels.rows.masks import compress_lists, compress_texts
from gamay.kernels.tuning import RAW_TEXT_BLOCK_BYTES, RAW_TEXT_BLOCK_ROWS_MAX, RAW_TEXT_BLOCK_ROWS_MIN
from gamay.model.types import DataType
from gamay.query.columns.constants import repeated
from gamay.query.columns.operations import list_positions, with_nulls, without_nulls
from gamay.query.limits.memory_size import held_bytes
from gamay.query.view.matches import AllDocs, Block, DocIds, DocList, DocMask
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import Column, KnowsLengths, Segment

# the number of sampled rows to estimate the size of texts
_SAMPLED_ROWS = 32


def read_column(column: Column, block: Block) -> Operand:
    """Return the column's values at the rows of a block, in their order."""
    if column.dictionary is not None:
        return _read_encoded(column, column.dictionary.values, block)
    return read_values(column, block)


def is_raw_text(column: Column) -> bool:
    """Return whether a column has values of variable width and no dictionary, and must be read in small blocks."""
    return column.dictionary is None and not column.data_type.is_fixed_width


def raw_text_rows(read: Callable[[Block], Iterable[Operand]], num_rows: int) -> int:
    """Return how many rows of raw texts to read at once, by the size of some of them.

    read: returns the operands at the rows of a block. num_rows: the number of rows in all.
    """
    if num_rows <= RAW_TEXT_BLOCK_ROWS_MIN:
        return RAW_TEXT_BLOCK_ROWS_MIN
    docs = (np.arange(_SAMPLED_ROWS) * (num_rows // _SAMPLED_ROWS)).astype(np.int32)
    size = sum(held_bytes(as_vector(operand, len(docs)).values) for operand in read(DocList(docs)))
    rows = RAW_TEXT_BLOCK_BYTES * _SAMPLED_ROWS // max(1, size)
    return min(max(rows, RAW_TEXT_BLOCK_ROWS_MIN), RAW_TEXT_BLOCK_ROWS_MAX)


def read_values(column: Column, block: Block) -> Vector:
    """Return the column's values at the rows of a block, decoded."""
    if isinstance(block, AllDocs):
        return _without_nulls(column.values(block.start, block.stop))
    if isinstance(block, DocList):
        return _without_nulls(column.values_at(block.ids))
    try:
        span = column.values(block.span.start, block.span.stop)
    except QueryError as error:
        if error.code is not ErrorCode.QUERY_EXECUTION:
            raise
        # a condition of a FILTER clause cannot be computed for a row, perhaps for one that is not kept
        return read_values(column, DocList(block.docs()))
    if isinstance(span, FramedVector):
        return span.kept(block.mask, block.compress)
    if span.offsets is None:
        if column.data_type.is_fixed_width:
            return Vector(span.type, block.compress(span.values))
        return Vector(span.type, _texts_kept(span.values, block))
    kept, offsets = _rows_kept(span.offsets, block.mask)
    return Vector(span.type, take(span.values, np.flatnonzero(kept)), offsets)


def _read_encoded(column: Column, dictionary: Vector, block: Block) -> Operand:
    if isinstance(block, DocList):
        if column.single_value:
            return EncodedVector(column.ids_at(block.ids), dictionary)
        return _lists_at(column, dictionary, block.ids)
    span = block if isinstance(block, AllDocs) else block.span
    ids = column.ids(span.start, span.stop)
    offsets = None if column.single_value else column.offsets(span.start, span.stop)
    if isinstance(block, DocMask):
        if offsets is None:
            ids = block.compress(ids)
        else:
            lengths = np.diff(offsets)
            kept = np.empty(int(np.dot(lengths, block.flags)), ids.dtype)
            kept_offsets = np.empty(len(block) + 1, np.int32)
            compress_lists(ids, offsets, block.flags, kept, kept_offsets)
            ids, offsets = kept, kept_offsets
    return EncodedVector(ids, dictionary, offsets)


def _lists_at(column: Column, dictionary: Vector, docs: DocIds) -> EncodedVector:
    """Return the ids of some rows of a multi-value column; arrays that begin at row 0 are those of the segment, not
    copies."""
    stop = int(docs[-1]) + 1 if len(docs) else 0
    positions, offsets = list_positions(column.offsets(0, stop), docs)
    return EncodedVector(column.ids(0, stop)[positions], dictionary, offsets)


def _texts_kept(values: Values, block: DocMask) -> Values:
    """Return those of `values` (a text, bytes or decimal for each row of the span) whose flag is set."""
    if not isinstance(values, pa.Array):
        return take(values, np.flatnonzero(block.mask))
    offsets, data = binary_buffers(values)
    kept_offsets = np.empty(len(block) + 1, np.int32)
    kept = np.empty(len(data), np.uint8)
    compress_texts(data, offsets, block.flags, kept, kept_offsets)
    buffers = [None, pa.py_buffer(kept_offsets), pa.py_buffer(kept)]
    return pa.Array.from_buffers(values.type, len(block), buffers)


def _rows_kept(
    offsets: "np.ndarray[Any, Any]", mask: "np.ndarray[Any, Any]"
) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Return flags of the values that belong to kept rows (bool [number of values]), and the offsets of the kept rows."""
    lengths = np.diff(offsets)
    kept_offsets = np.zeros(np.count_nonzero(mask) + 1, np.int32)
    np.cumsum(lengths[mask], out=kept_offsets[1:])
    return np.repeat(mask, lengths), kept_offsets


def _without_nulls(values: Vector) -> Vector:
    """Drop the null flags: the query decides whether a null reads as null or as the column's default value."""
    return values if values.nulls is None else Vector(values.type, values.values, values.offsets)


class Readable(Protocol):
    """A replacement for a column."""

    def read(self, block: Block) -> Operand:
        """Return the values at the rows of a block, in their order."""
        ...


_NO_OTHERS: Mapping[str, Readable] = MappingProxyType({})


class ColumnReader:
    """Reader of named columns at a block, each read once; with nulls if the query handles nulls.

    others: replacements for columns, by their names.
    """

    def __init__(self, segment: Segment, block: Block, others: Mapping[str, Readable] = _NO_OTHERS) -> None:
        self._segment = segment
        self._block = block
        self._others = others
        self._read: dict[str, Operand] = {}

    def __call__(self, name: str) -> Operand:
        known = self._read.get(name)
        if known is None:
            other = self._others.get(name)
            operand = read_column(self._segment.column(name), self._block) if other is None else other.read(self._block)
            nulls = self._nulls(name)
            known = self._read[name] = operand if nulls is None else with_nulls(operand, nulls)
        return known

    def text_lengths(self, name: str) -> Vector | None:
        """Return the number of characters of each text of a column if known without reading the texts; else None."""
        column, block = self._segment.column(name), self._block
        if name in self._read or not isinstance(column, KnowsLengths):
            return None
        if isinstance(block, DocList):
            lengths = column.ascii_lengths_at(block.ids)
        else:
            span = block.span if isinstance(block, DocMask) else block
            lengths = column.ascii_lengths(span.start, span.stop)
            if lengths is not None and isinstance(block, DocMask):
                lengths = block.compress(lengths)
        return None if lengths is None else Vector(DataType.INT, lengths.astype(np.int32), None, self._nulls(name))

    def _nulls(self, name: str) -> Mask | None:
        flags = self._segment.null_flags(name) if isinstance(self._segment, QuerySegment) else None
        return None if flags is None else flags.of(self._block)


def segment_reader(
    segment: Segment, others: Mapping[str, Readable] = _NO_OTHERS
) -> Callable[[Block], Callable[[Expression], Operand]]:
    """Return the function that, for a block, returns the function that computes an expression at the block's rows.

    others: what is read in place of columns, by their names.
    """

    reads_nulls = isinstance(segment, QuerySegment) and segment.null_handling

    def reader(block: Block) -> Callable[[Expression], Operand]:
        column, num_rows = ColumnReader(segment, block, others), len(block)
        return lambda expression: compute(expression, column, num_rows, reads_nulls)

    return reader


def compute(expression: Expression, column: Callable[[str], Operand], num_rows: int, reads_nulls: bool) -> Operand:
    """Return an expression's values; a plain column stays as it is read.

    With `reads_nulls`, at no rows there is an (empty) null mask unless the values are never null; without it, a row for
    which a function has no value (CASE without ELSE, NULLIF) holds the placeholder of the type.
    """
    if isinstance(expression, ColumnExpression):
        return column(expression.name)
    operand = evaluate(expression, column, num_rows)
    if isinstance(operand, Scalar) or (operand.nulls is not None) == reads_nulls:
        return operand
    if reads_nulls:
        return operand if num_rows else with_nulls(operand, np.zeros(0, np.bool_))
    return without_nulls(operand)


def as_vector(operand: Operand, num_rows: int) -> Vector:
    """Return an operand as values, a constant repeated for each row."""
    if isinstance(operand, EncodedVector):
        return operand.decode()
    if isinstance(operand, Vector):
        return operand
    return repeated(operand.value, operand.type, num_rows)
