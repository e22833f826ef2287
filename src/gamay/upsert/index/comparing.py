"""Comparison values as order-preserving int64.

Integers, times and BOOLEAN are unchanged; the bits of FLOAT and DOUBLE are transformed so that -0.0 precedes 0.0 and
NaN is last; times in a text format become milliseconds. Missing values, and texts that are not times, are ABSENT, which is
below all others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Array
from gamay.functions.arrow import arrow_scalar, arrow_type
from gamay.kernels.keys.table import ABSENT
from gamay.model.schema.schema import FieldSpec
from gamay.model.types import DataType
from gamay.segment.encode.storage_form import from_arrow
from gamay.segment.spi import DocIds, Segment

_NEGATIVE = np.int64(2**63 - 1)


def ordered(values: Array) -> Array:
    """Return order-preserving int64 [n] for numbers."""
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    bits = np.where(np.isnan(values), np.nan, values).astype(np.float64).view(np.int64)  # one NaN, of positive sign
    return np.where(bits < 0, bits ^ _NEGATIVE, bits)


def restored(numbers: Array, dtype: "np.dtype[Any]") -> Array:
    """Invert `ordered`."""
    if dtype.kind != "f":
        return numbers.astype(dtype)
    return np.where(numbers < 0, numbers ^ _NEGATIVE, numbers).view(np.float64).astype(dtype)


def beyond(values: Array, watermark: int, ttl: float, is_float: bool) -> Array:
    """Return which values lie more than `ttl` below the watermark: bool [n]."""
    if is_float:
        numbers = restored(np.append(values, watermark), np.dtype(np.float64))
        older: Array = numbers[:-1] < numbers[-1] - ttl
        return older
    with np.errstate(over="ignore"):
        difference = np.int64(watermark) - values
    found: Array = (values < watermark) & ((difference < 0) | (difference > ttl))  # the difference may wrap
    return found


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Comparison values of rows.

    values: int64 [n, number of columns]; chosen: int8 [n], the column that a row has a value for, -1 to compare all;
    refused: bool [n], rows without exactly one value for several columns.
    """

    values: Array
    chosen: Array
    refused: Array


@dataclass(frozen=True, slots=True)
class ComparisonColumns:
    """The comparison columns of a table, one or more."""

    fields: tuple[FieldSpec, ...]

    @property
    def is_float(self) -> bool:
        """Whether the values of the first column encode doubles."""
        return self.fields[0].data_type in (DataType.FLOAT, DataType.DOUBLE)

    def as_number(self, watermark: int) -> float:
        """Return a watermark in units of the first column, the stored form."""
        if not self.is_float:
            return float(watermark)
        return float(restored(np.array([watermark]), np.dtype(np.float64))[0])

    def as_ordered(self, number: float) -> int:
        """Return the watermark for a stored number."""
        return int(ordered(np.array([number]))[0]) if self.is_float else int(number)

    def of_batch(self, batch: pa.RecordBatch) -> Comparisons:
        """Return the values of a batch. In a single comparison column, null is the column's default."""
        num_rows = batch.num_rows
        values = np.empty((num_rows, len(self.fields)), np.int64)
        given = np.ones((num_rows, len(self.fields)), np.bool_)
        for k, spec in enumerate(self.fields):
            array = batch.column(spec.name)
            if len(self.fields) > 1:
                given[:, k] = pc.is_valid(array).to_numpy(zero_copy_only=False)
            filled = (
                pc.fill_null(array, arrow_scalar(spec.default_null_value, spec.data_type)) if array.null_count else array
            )
            values[:, k] = np.where(given[:, k], _numbers(from_arrow(filled, spec.data_type), spec), ABSENT)
        if len(self.fields) == 1:
            return Comparisons(values, np.full(num_rows, -1, np.int8), np.zeros(num_rows, np.bool_))
        return Comparisons(values, np.argmax(given, axis=1).astype(np.int8), given.sum(axis=1) != 1)

    def of_segment(self, segment: Segment, start: int, stop: int) -> Array:
        """Return int64 [stop - start, number of columns] of the rows [start, stop)."""
        return self._read(segment, np.arange(start, stop, dtype=np.int32), slice(start, stop))

    def at(self, segment: Segment, docs: DocIds) -> Array:
        """Return int64 [n, number of columns] of some rows, whose doc ids ascend."""
        return self._read(segment, docs, None)

    def _read(self, segment: Segment, docs: DocIds, rows: "slice | None") -> Array:
        out = np.empty((len(docs), len(self.fields)), np.int64)
        for k, spec in enumerate(self.fields):
            column = segment.column(spec.name)
            vector = column.values_at(docs) if rows is None else column.values(rows.start, rows.stop)
            out[:, k] = _numbers(vector.values, spec)
            if len(self.fields) > 1 and column.null_docs:
                flags = np.zeros(segment.num_docs, np.bool_)
                flags[np.asarray(column.null_docs.to_array())] = True
                out[flags[docs], k] = ABSENT
        return out

    def fill_in(self, batch: pa.RecordBatch, values: Array) -> pa.RecordBatch:
        """Return the batch with the values that its rows inherited; only with several columns."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for k, spec in enumerate(self.fields):
            array = columns[spec.name]
            inherited = pc.is_null(array).to_numpy(zero_copy_only=False) & (values[:, k] != ABSENT)
            if inherited.any():
                numbers = from_arrow(
                    pc.fill_null(array, arrow_scalar(spec.default_null_value, spec.data_type)), spec.data_type
                )
                filled = np.where(inherited, restored(values[:, k], numbers.dtype), numbers)
                nulls = pc.is_null(array).to_numpy(zero_copy_only=False) & ~inherited
                kind = arrow_type(spec.data_type)
                columns[spec.name] = _array(filled, kind, nulls)
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


def _numbers(stored: Any, spec: FieldSpec) -> Array:
    """Return order-preserving int64 for the values of a comparison column."""
    if spec.data_type.is_fixed_width:
        return ordered(stored)
    coded = stored.view(pa.string()).dictionary_encode()
    times = np.fromiter(_times(coded.dictionary.to_pylist(), spec), np.int64, len(coded.dictionary))
    found: Array = times[coded.indices.to_numpy()]
    return found


def _times(texts: Sequence[str], spec: FieldSpec) -> Iterator[int]:
    """Yield the milliseconds of texts, parsed as UTC, without daylight saving time, so that they preserve the order."""
    assert spec.format is not None
    form = replace(spec.format, time_zone=UTC)
    for text in texts:
        try:
            yield form.to_millis(text)
        except ValueError:
            yield ABSENT


def _array(values: Array, kind: pa.DataType, nulls: Array) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values.astype(np.int64), pa.int64(), mask=nulls).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(values.astype(np.bool_), kind, mask=nulls)
    return pa.array(values, kind, mask=nulls)
