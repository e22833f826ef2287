"""One column while its segment is built: rows are kept as encoded chunks, which are sorted and joined at the end.

Memory is bounded by the segment: a dictionary column keeps for each chunk its distinct values and their narrow ids, a
raw column its values.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import arrow_scalar
from gamay.functions.expression import LiteralValue
from gamay.model.types import DataType
from gamay.segment.encode.dictionary import sort_distinct
from gamay.segment.encode.forward import id_dtype
from gamay.segment.encode.storage_form import Stored, concat_stored, empty_stored, from_arrow
from gamay.segment.spi import Ids

_VALUES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """All rows of a column with its dictionary. ids: narrow unsigned [num_values]; offsets: int32 [rows + 1] or None."""

    dictionary: Stored
    ids: Ids
    offsets: "Ids | None"
    null_docs: Ids


@dataclass(frozen=True, slots=True)
class RawColumn:
    """All rows of a column as values. offsets: int32 [rows + 1] or None; null_docs: int64 docs without a value."""

    values: Stored
    offsets: "Ids | None"
    null_docs: Ids


class ColumnAccumulator:
    """Accumulator of the rows of one column, in chunks."""

    def __init__(self, data_type: DataType, single_value: bool, default: LiteralValue, encode: bool) -> None:
        """`default` replaces nulls; `encode` keeps chunks as ids instead of values."""
        self._data_type = data_type
        self._single_value = single_value
        self._default = arrow_scalar(default, data_type)
        self._encode = encode
        self._values: list[Stored] = []
        self._ids: list[Ids] = []
        self._lengths: list[Ids] = []
        self._null_docs: list[Ids] = []
        self._num_docs = 0

    def append(self, array: pa.Array) -> None:
        """Append rows: an array of the schema's type, nulls included."""
        num_docs = len(array)
        values, lengths, nulls = without_nulls(array, self._single_value, self._default)
        if lengths is not None:
            self._lengths.append(lengths)
        if nulls is not None:
            self._null_docs.append(np.flatnonzero(nulls) + self._num_docs)
        self._num_docs += num_docs
        if not self._encode:
            self._values.append(from_arrow(values, self._data_type))
        elif self._data_type is DataType.BOOLEAN:
            self._values.append(np.array([0, 1], np.uint8))
            self._ids.append(from_arrow(values, self._data_type))
        else:
            encoded = values.dictionary_encode()
            self._values.append(from_arrow(encoded.dictionary, self._data_type))
            self._ids.append(encoded.indices.to_numpy().astype(id_dtype(len(encoded.dictionary))))

    def finish_encoded(self) -> EncodedColumn:
        """Return the rows with one sorted dictionary; only if `encode`."""
        dictionary, ids_of_parts = sort_distinct(self._values, self._data_type)
        dtype = id_dtype(len(dictionary))
        ids = np.empty(sum(map(len, self._ids)), dtype)
        position = 0
        for part, ids_of_part in zip(self._ids, ids_of_parts, strict=True):
            np.take(ids_of_part.astype(dtype), part, out=ids[position : position + len(part)], mode="clip")
            position += len(part)
        if self._data_type is DataType.BOOLEAN:
            dictionary, ids = _drop_unused(dictionary, ids)
        return EncodedColumn(dictionary, ids, self._offsets(), self._nulls())

    def finish_raw(self) -> RawColumn:
        """Return the rows as values; only if not `encode`."""
        values = concat_stored(self._values) if self._values else empty_stored(self._data_type)
        return RawColumn(values, self._offsets(), self._nulls())

    def _offsets(self) -> "Ids | None":
        if self._single_value:
            return None
        offsets = np.zeros(self._num_docs + 1, np.int64)
        if self._lengths:
            np.cumsum(np.concatenate(self._lengths), out=offsets[1:])
        if offsets[-1] > _VALUES_MAX:
            raise InvalidConfigError(
                f"a column has {offsets[-1]:,} values in one segment, more than {_VALUES_MAX:,}: make segments smaller"
            )
        return offsets.astype(np.int32)

    def _nulls(self) -> Ids:
        return np.concatenate(self._null_docs) if self._null_docs else np.empty(0, np.int64)


def without_nulls(array: pa.Array, single_value: bool, default: pa.Scalar) -> "tuple[pa.Array, Ids | None, Ids | None]":
    """Return the stored form of rows of the schema's type: (values, lengths, nulls).

    values: without nulls, NaN and -0.0; lengths: int32, the number of values of each row, None for a single-value column;
    nulls: bool, the rows whose value was missing and replaced by the default, None if there are none.
    """
    if not single_value:
        return _flatten(array, default)
    values, nulls = _fill_nulls(_normalise(array), default)
    return values, None, nulls


def _normalise(array: pa.Array) -> pa.Array:
    """Make NaN null and -0.0 zero."""
    if not pa.types.is_floating(array.type):
        return array
    array = pc.add(array, pa.scalar(0.0, array.type))
    is_nan = pc.is_nan(array)
    return pc.if_else(is_nan, pa.scalar(None, array.type), array) if pc.any(is_nan).as_py() else array


def _fill_nulls(array: pa.Array, default: pa.Scalar) -> "tuple[pa.Array, Ids | None]":
    if array.null_count == 0:
        return array, None
    return pc.fill_null(array, default), pc.is_null(array).to_numpy(zero_copy_only=False)


def _flatten(array: pa.Array, default: pa.Scalar) -> "tuple[pa.Array, Ids, Ids | None]":
    """Return (values, int32 lengths of rows, null rows or None); a row without values gets the default."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int32)
    values = _normalise(array.flatten())
    if values.null_count:
        present = pc.is_valid(values).to_numpy(zero_copy_only=False)
        kept_before = np.concatenate(([0], np.cumsum(present)))
        ends = np.cumsum(lengths)
        lengths = (kept_before[ends] - kept_before[ends - lengths]).astype(np.int32)
        values = values.drop_null()
    empty = lengths == 0
    if not empty.any():
        return values, lengths, None
    padded = np.maximum(lengths, 1)
    starts = np.cumsum(padded) - padded
    source = np.empty(int(padded.sum()), np.int64)
    is_default = np.zeros(len(source), np.bool_)
    is_default[starts[empty]] = True
    source[is_default] = len(values)
    source[~is_default] = np.arange(len(values))
    extended = pa.concat_arrays([values, pa.array([default.as_py()], values.type)])
    return extended.take(pa.array(source)), padded, empty


def _drop_unused(dictionary: Stored, ids: Ids) -> tuple[Stored, Ids]:
    """Remove the unused entries of a BOOLEAN dictionary."""
    used = np.unique(ids)
    return dictionary[used], np.searchsorted(used, ids).astype(np.uint8)
