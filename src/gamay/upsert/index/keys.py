"""Encoding of primary-key columns to keys of the index.

The bytes of a key are, for one column, those of its value (numbers big-endian, text in UTF-8); for several, those of all
values end to end, each of variable width preceded by its length (4 bytes, big-endian). hashFunction selects what is stored:

NONE      everything: up to 128 bits unchanged, longer keys as bytes
UUID      16 bytes of each column; as with NONE for a key of which not all columns are UUIDs
MD5, MURMUR3, XXH128  128 bits; XXHASH 64 bits. Keys with equal hashes are the same key.
The hash function is not visible from outside; those of the XX family are also computed with MurmurHash3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Array
from gamay.functions.arrow import arrow_scalar, binary_buffers
from gamay.functions.vector import Vector
from gamay.kernels.hash.murmur128 import murmur3_x64_128
from gamay.kernels.keys import key_bytes
from gamay.kernels.keys.table import mix64, mix128
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.types import DataType
from gamay.segment.encode.storage_form import Stored, fixed_dtype, from_arrow
from gamay.segment.spi import Column, DocIds, Segment
from gamay.upsert.index.key_index import NO_TEXT, Keys

_UUID_BYTES = 16
_WHOLE = 8, 16  # bytes of keys that the index stores unchanged, in 1 and in 3 words


@dataclass(frozen=True, slots=True)
class KeyEncoder:
    """Encoder of the keys of one table. fields: the primary-key columns; function: upsertConfig.hashFunction."""

    fields: tuple[FieldSpec, ...]
    function: str

    @classmethod
    def of(cls, schema: Schema, function: str) -> "KeyEncoder":
        """Return the encoder of a schema's primary key."""
        return cls(tuple(schema.field(name) for name in schema.primary_key_columns), function)

    @property
    def words(self) -> int:
        """The `words` of `KeyIndex` for these keys."""
        if self.function == "XXHASH":
            return 1
        return 1 if self.function == "NONE" and self._width is not None and self._width <= _WHOLE[0] else 3

    @property
    def keeps_bytes(self) -> bool:
        """Whether keys are compared by their bytes, which the index then stores."""
        return self.function == "NONE" and (self._width is None or self._width > _WHOLE[1])

    def of_batch(self, batch: pa.RecordBatch) -> Keys:
        """Return the keys of a batch; null is the column's default null value."""
        return self._encode([_stored_of_array(batch.column(spec.name), spec) for spec in self.fields])

    def of_segment(self, segment: Segment, start: int, stop: int) -> Keys:
        """Return the keys of the rows [start, stop) of a segment."""
        columns = [segment.column(spec.name) for spec in self.fields]
        if len(columns) == 1 and _repeats(columns[0], stop - start):
            return self._of_dictionary(columns[0], np.asarray(columns[0].ids(start, stop)))
        return self._encode([_stored_of_vector(column.values(start, stop)) for column in columns])

    def at(self, segment: Segment, docs: DocIds) -> Keys:
        """Return the keys of some rows of a segment, whose doc ids ascend."""
        columns = [segment.column(spec.name) for spec in self.fields]
        if len(columns) == 1 and _repeats(columns[0], len(docs)):
            return self._of_dictionary(columns[0], np.asarray(columns[0].ids_at(docs)))
        return self._encode([_stored_of_vector(column.values_at(docs)) for column in columns])

    def _of_dictionary(self, column: Column, ids: Array) -> Keys:
        assert column.dictionary is not None
        return self._encode([_stored_of_vector(column.dictionary.values)]).at(ids)

    @property
    def _width(self) -> int | None:
        """The bytes of every key, None if they vary."""
        widths = [_UUID_BYTES if f.data_type is DataType.UUID else _key_width(f.data_type) for f in self.fields]
        return None if None in widths else sum(width for width in widths if width is not None)

    def _encode(self, columns: Sequence[Stored]) -> Keys:
        num_rows = len(columns[0])
        if self.function == "UUID":
            return self._uuids(columns, num_rows)
        if self.function == "NONE" and self._width is not None and self._width <= _WHOLE[1]:
            whole = np.zeros((num_rows, _WHOLE[self._width > _WHOLE[0]]), np.uint8)
            parts = [self._fixed_bytes(column, spec) for column, spec in zip(columns, self.fields, strict=True)]
            whole[:, whole.shape[1] - self._width :] = np.hstack(parts) if len(parts) > 1 else parts[0]
            return _whole_keys(whole)
        data, offsets = self._bytes(columns, num_rows)
        low, high = np.empty(num_rows, np.uint64), np.empty(num_rows, np.uint64)
        if self.function == "MD5":
            key_bytes.md5(data, offsets, low, high)
        else:
            murmur3_x64_128(data, offsets, 0, low, high)
        if self.function == "NONE":
            return Keys(3, low, high, data, offsets, np.ones(num_rows, np.uint8))
        if self.function == "XXHASH":
            return Keys(1, low, np.empty(0, np.uint64), *NO_TEXT)
        return _keys128(low, high)

    def _uuids(self, columns: Sequence[Stored], num_rows: int) -> Keys:
        """Return keys of 16 bytes per column; the bytes of the key if a value is not a UUID."""
        good = np.ones(num_rows, np.bool_)
        parts = []
        for column, spec in zip(columns, self.fields, strict=True):
            part, readable = np.zeros((num_rows, _UUID_BYTES), np.uint8), np.zeros(num_rows, np.bool_)
            if spec.data_type is DataType.UUID:
                part, readable = self._fixed_bytes(column, spec), np.ones(num_rows, np.bool_)
            elif spec.data_type.is_text:
                offsets, data = binary_buffers(column)
                key_bytes.parse_uuids(data, offsets, part, readable)
            good &= readable
            parts.append(part)
        if len(parts) == 1 and good.all():
            return _whole_keys(parts[0])
        data, offsets = self._bytes(columns, num_rows)
        hashes, lows = np.empty(num_rows, np.uint64), np.empty(num_rows, np.uint64)
        murmur3_x64_128(data, offsets, 0, hashes, lows)
        is_text = np.ones(num_rows, np.uint8)
        if len(parts) == 1:
            whole = _whole_keys(parts[0])
            hashes[good], lows[good], is_text[good] = whole.hashes[good], whole.lows[good], 0
            return Keys(3, hashes, lows, data, offsets, is_text)
        if not good.any():
            return Keys(3, hashes, lows, data, offsets, is_text)
        # 16 bytes per column replace the text; a prefix that no length has distinguishes them from other keys
        marked = np.hstack([np.full((num_rows, 1), 255, np.uint8), *parts])
        sizes = np.where(good, marked.shape[1], offsets[1:] - offsets[:-1])
        joined_offsets = np.zeros(num_rows + 1, np.int64)
        np.cumsum(sizes, out=joined_offsets[1:])
        joined = np.empty(joined_offsets[-1], np.uint8)
        starts = joined_offsets[:-1][good]
        key_bytes.append_fixed(np.ascontiguousarray(marked[good]), starts.copy(), joined)
        others = np.flatnonzero(~good)
        lengths = sizes[others]
        where = np.repeat(joined_offsets[:-1][others] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        source = np.repeat(offsets[:-1][others] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        joined[where] = data[source]
        murmur3_x64_128(joined, joined_offsets, 0, hashes, lows)
        return Keys(3, hashes, lows, joined, joined_offsets, is_text)

    def _bytes(self, columns: Sequence[Stored], num_rows: int) -> tuple[Array, Array]:
        """Return (data uint8, offsets int64 [n + 1]): the bytes of each key."""
        offsets = np.zeros(num_rows + 1, np.int64)
        if len(columns) == 1 and not isinstance(columns[0], np.ndarray):
            text_offsets, data = binary_buffers(columns[0])
            return data, text_offsets.astype(np.int64)
        sizes = np.zeros(num_rows, np.int64)
        for column, spec in zip(columns, self.fields, strict=True):
            width = _key_width(spec.data_type)
            sizes += 4 + np.diff(binary_buffers(column)[0]) if width is None else width
        np.cumsum(sizes, out=offsets[1:])
        data = np.empty(offsets[-1], np.uint8)
        positions = offsets[:-1].copy()
        for column, spec in zip(columns, self.fields, strict=True):
            if isinstance(column, np.ndarray):
                key_bytes.append_fixed(self._fixed_bytes(column, spec), positions, data)
            else:
                text_offsets, text = binary_buffers(column)
                key_bytes.append_text(text, text_offsets, positions, data)
        return data, offsets

    def _fixed_bytes(self, column: Stored, spec: FieldSpec) -> Array:
        """Return uint8 [n, width], big-endian."""
        if spec.data_type is DataType.UUID:
            return np.ascontiguousarray(binary_buffers(column)[1].reshape(-1, _UUID_BYTES))
        if spec.data_type is DataType.BOOLEAN:
            column = column.astype(np.int32)
        return np.ascontiguousarray(column).byteswap().view(np.uint8).reshape(len(column), column.dtype.itemsize)


def _key_width(data_type: DataType) -> int | None:
    dtype = fixed_dtype(data_type)
    return None if dtype is None else 4 if data_type is DataType.BOOLEAN else dtype.itemsize


def _whole_keys(whole: Array) -> Keys:
    """Return keys of uint8 [n, 8] or [n, 16], which are big-endian numbers."""
    halves = np.ascontiguousarray(whole).view(">u8").astype(np.uint64)
    if halves.shape[1] == 1:
        hashes = np.empty(len(halves), np.uint64)
        mix64(halves[:, 0], hashes)
        return Keys(1, hashes, np.empty(0, np.uint64), *NO_TEXT)
    return _keys128(np.ascontiguousarray(halves[:, 1]), np.ascontiguousarray(halves[:, 0]))


def _keys128(low: Array, high: Array) -> Keys:
    hashes = np.empty(len(low), np.uint64)
    mix128(high, low, hashes)
    return Keys(3, hashes, low, *NO_TEXT)


def _repeats(column: Column, num_rows: int) -> bool:
    """Whether encoding the values of a column's dictionary is cheaper than those of the rows."""
    return column.dictionary is not None and len(column.dictionary) <= num_rows


def _stored_of_array(array: pa.Array, spec: FieldSpec) -> Stored:
    if array.null_count:
        array = pc.fill_null(array, arrow_scalar(spec.default_null_value, spec.data_type))
    return from_arrow(array, spec.data_type)


def _stored_of_vector(vector: Vector) -> Stored:
    if vector.type is DataType.BIG_DECIMAL:
        return pa.array([format(value, "f").encode() for value in vector.values], pa.binary())
    if isinstance(vector.values, np.ndarray):
        return vector.values.view(np.uint8) if vector.type is DataType.BOOLEAN else vector.values
    return vector.values.view(pa.binary())
