"""Serializes vectors to arrays in a block of bytes.

        block = (array, padding)*                        (padding: zeros up to a multiple of 16 bytes)
        array = fixed-width values | n + 1 offsets of 4 bytes, and the bytes of the texts

A letter denotes the kind of an array (`TableShape.kinds`). Such blocks are written and read in a few microseconds, which
matters for the small results of most queries. Lists, and other types without a letter, are sent as a record batch in Arrow's
IPC format (a schema message and a record batch message). All of them are read without copying.

Small dictionaries are sent with their ids, which is cheaper than decoding. Decimals are text; null flags are a separate
array, since the placeholders of null rows matter.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.coding import decimal_texts, decimals
from gamay.functions.aggregate_spi import Sent
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType

Buffer: TypeAlias = "bytes | memoryview"

_DTYPES = {letter: np.dtype(letter) for letter in "?bBhHiIqQfd"}
_LETTERS = {dtype: letter for letter, dtype in _DTYPES.items()}
_TEXT, _BYTES, _ARROW = "s", "x", "A"
_STRING, _BINARY = pa.string(), pa.binary()
_OFFSET = np.dtype(np.int32)
_ALIGNMENT = 16
_PADDING = bytes(_ALIGNMENT)
_NAMES = [str(number) for number in range(64)]
_KNOWN_SCHEMAS_MAX = 1000
_DICTIONARY_MAX = 64  # entries
_FEW = 1000


class ColumnShape(msgspec.Struct, array_like=True, frozen=True):
    """The arrays of a vector: its values, then, if it may be null, a flag per row.

    is_coded: whether the first array holds ids, and the second the dictionary. ascends: whether the dictionary is sorted.
    """

    type: str
    is_list: bool
    has_nulls: bool
    is_coded: bool = False
    ascends: bool = False


def to_arrays(column: Vector | EncodedVector, arrays: list[Sent]) -> ColumnShape:
    """Append the arrays of a column; return its shape."""
    if isinstance(column, EncodedVector) and column.offsets is None and len(column.dictionary) <= _DICTIONARY_MAX:
        entries, nulls = column.dictionary, column.nulls
        arrays += (column.ids, _stored(entries.type, entries.values))
        if nulls is not None:
            arrays.append(nulls)
        return ColumnShape(entries.type.value, False, nulls is not None, True, entries.ascends)
    vector = column.decode() if isinstance(column, EncodedVector) else column
    values = _stored(vector.type, vector.values)
    if vector.offsets is not None:
        kind = pa.LargeListArray if vector.offsets.dtype == np.int64 else pa.ListArray
        values = kind.from_arrays(_arrow(vector.offsets), _arrow(values) if isinstance(values, np.ndarray) else values)
    arrays.append(values)
    if vector.nulls is not None:
        arrays.append(vector.nulls)
    return ColumnShape(vector.type.value, vector.offsets is not None, vector.nulls is not None)


def from_arrays(shape: ColumnShape, arrays: list[Sent]) -> Vector | EncodedVector:
    """Take the arrays of a column from the front of a list. Raises ValueError for ids outside their dictionary."""
    values, offsets = arrays.pop(0), None
    data_type = DataType(shape.type)
    if shape.is_coded:
        entries = arrays.pop(0)
        # plain numbers if there are few: a NumPy call with cold code takes as long as everything else here
        ids = values.tolist() if len(values) <= _FEW else (values.min(), values.max())
        if ids and not 0 <= min(ids) <= max(ids) < len(entries):
            raise ValueError("ids that are not in their dictionary")
        dictionary = Vector(data_type, _loaded(data_type, entries), ascends=shape.ascends)
        return EncodedVector(values, dictionary, None, arrays.pop(0) if shape.has_nulls else None)
    if shape.is_list:
        offsets = values.offsets.to_numpy()
        values = values.flatten()
        if data_type.is_fixed_width and data_type is not DataType.BIG_DECIMAL:
            values = values.to_numpy()
    return Vector(data_type, _loaded(data_type, values), offsets, arrays.pop(0) if shape.has_nulls else None)


def _arrow(values: "np.ndarray[Any, np.dtype[Any]]") -> pa.Array:
    # not pa.array(values), which imports pandas if installed
    values = np.ascontiguousarray(values.view(np.uint8) if values.dtype == np.bool_ else values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def _stored(data_type: DataType, values: Any) -> Sent:
    if not isinstance(values, np.ndarray):
        return values
    if data_type is DataType.UNKNOWN:  # all null, with arbitrary values
        return np.zeros(len(values), np.uint8)
    return decimal_texts(list(values)) if values.dtype.hasobject else values


def _loaded(data_type: DataType, values: Any) -> Any:
    if data_type is DataType.BIG_DECIMAL:
        return decimals(values)
    if data_type is DataType.UNKNOWN:
        return np.full(len(values), Decimal(0), object)
    return values.view(np.bool_) if data_type is DataType.BOOLEAN else values


def pack_arrays(arrays: Sequence[Sent]) -> tuple[str, list[Buffer]]:
    """Return the kinds of arrays, a letter each, and their buffers: a block, and a batch if necessary."""
    kinds, pieces = "", list[Any]()
    for array in arrays:
        kind = _kind(array)
        kinds += kind
        if kind == _ARROW:
            continue
        if isinstance(array, np.ndarray):
            pieces.append(array.tobytes())
            size = array.nbytes
        else:
            offsets, texts = _text_pieces(array)
            pieces += (offsets, texts)
            size = len(offsets) + len(texts)
        if size % _ALIGNMENT:
            pieces.append(_PADDING[: -size % _ALIGNMENT])
    buffers: list[Buffer] = [b"".join(pieces)]
    if _ARROW in kinds:
        buffers += _batch([array for array, kind in zip(arrays, kinds, strict=True) if kind == _ARROW])
    return kinds, buffers


def _kind(array: Sent) -> str:
    if isinstance(array, np.ndarray):
        return _LETTERS[array.dtype]
    if array.null_count == 0:
        if isinstance(array, pa.StringArray):
            return _TEXT
        if isinstance(array, pa.BinaryArray):
            return _BYTES
    return _ARROW


def _text_pieces(array: pa.Array) -> tuple[bytes, memoryview]:
    """Return the offsets of texts, starting at 0, and their bytes."""
    length, skipped = len(array), array.offset
    if length == 0:
        return bytes(_OFFSET.itemsize), memoryview(b"")
    _, ends, data = array.buffers()
    offsets = np.ndarray(length + 1, _OFFSET, ends, skipped * _OFFSET.itemsize)
    first, last = int(offsets[0]), int(offsets[-1])
    texts = memoryview(b"") if data is None else memoryview(data)[first:last]
    return (offsets - _OFFSET.type(first) if first else offsets).tobytes(), texts


def _batch(arrays: Sequence[pa.Array]) -> tuple[memoryview, memoryview]:
    names = _NAMES if len(arrays) <= len(_NAMES) else [str(number) for number in range(len(arrays))]
    batch = pa.RecordBatch.from_arrays(list(arrays), names=names[: len(arrays)])
    return memoryview(batch.schema.serialize()), memoryview(batch.serialize())


def num_buffers(kinds: str) -> int:
    """Return the number of buffers that `pack_arrays` makes of arrays of these kinds."""
    return 3 if _ARROW in kinds else 1


def unpack_arrays(kinds: str, lengths: Sequence[int], buffers: Sequence[memoryview]) -> list[Sent]:
    """Return the arrays as views of the buffers. Raises QueryError 450 for invalid data."""
    try:
        block, start = buffers[0], 0
        in_batch = iter(_unpack_batch(buffers[1], buffers[2]) if len(buffers) > 1 else ())
        arrays: list[Sent] = []
        for kind, length in zip(kinds, lengths, strict=True):
            if kind == _ARROW:
                arrays.append(next(in_batch))
                continue
            if kind in (_TEXT, _BYTES):
                array, size = _texts(kind, length, pa.py_buffer(block[start:]))
            else:
                dtype = _DTYPES[kind]
                array, size = np.ndarray(length, dtype, block, start), length * dtype.itemsize
            arrays.append(array)
            start += size + (-size % _ALIGNMENT)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, StopIteration) as error:
        raise QueryError(ErrorCode.INTERNAL, f"A server sent columns that cannot be read: {error}") from error
    if start != len(block) or list(map(len, arrays)) != list(lengths):
        raise QueryError(ErrorCode.INTERNAL, "A server sent columns of a different length than declared")
    return arrays


def _texts(kind: str, length: int, data: pa.Buffer) -> tuple[pa.Array, int]:
    """Return the texts at the beginning of data, and their size in bytes."""
    offsets_bytes = (length + 1) * _OFFSET.itemsize
    text_bytes = int(np.ndarray(length + 1, _OFFSET, data)[-1])
    size = offsets_bytes + text_bytes
    if text_bytes < 0 or size > data.size:
        raise ValueError("texts that do not fit into their block")
    buffers = (None, data.slice(0, offsets_bytes), data.slice(offsets_bytes, text_bytes))
    array = pa.Array.from_buffers(_STRING if kind == _TEXT else _BINARY, length, buffers, 0)
    array.validate(full=True)
    return array, size


_schemas: dict[bytes, pa.Schema] = {}


def _unpack_batch(schema: memoryview, batch: memoryview) -> list[pa.Array]:
    key = bytes(schema)
    known = _schemas.get(key)
    if known is None:
        if len(_schemas) >= _KNOWN_SCHEMAS_MAX:
            _schemas.clear()
        known = _schemas[key] = pa.ipc.read_schema(pa.py_buffer(key))
    found = pa.ipc.read_record_batch(pa.py_buffer(batch), known)
    found.validate()
    return list(found.columns)
