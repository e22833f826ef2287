"""Raw columns: values by row without a dictionary, plain or in compressed chunks.

    PASS_THROUGH, fixed width:     forward.values        := value[num_values]
    PASS_THROUGH, other types:     forward.value_offsets := i64[num_values + 1]
                                   forward.data          := bytes; value i is data[offsets[i]:offsets[i + 1]]
    other codecs:                  forward.chunks        := compressed chunk*
                                   forward.chunk_index   := i64[2 + 2 * num_chunks + 1]:
                                       values per chunk, num_values, then where each chunk begins in forward.chunks and
                                       where the last ends (num_chunks + 1), then their sizes decompressed (num_chunks)
    chunk, fixed width, decompressed  := value*
    chunk, other types, decompressed  := i32[n + 1] offsets, bytes
    forward.offsets                := as in gamay.segment.encode.forward, for multi-value columns

All chunks but the last hold the same number of values. Types of variable width with LZ4: see
`gamay.segment.encode.raw_blocks`; in format version 1 they are in chunks, too.
"""

import threading
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from gamay.base.errors import CorruptSegmentError
from gamay.functions.vector import take
from gamay.kernels.encode.encoding import gather_lists
from gamay.model.types import DataType
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.raw_blocks import BLOCK_BYTES, Blocked, write_blocks
from gamay.segment.encode.storage_form import (
    OFFSET_MAX,
    Stored,
    binary_array,
    binary_buffers,
    concat_stored,
    empty_stored,
    fixed_dtype,
)
from gamay.segment.spi import Ids, Side

PASS_THROUGH = "PASS_THROUGH"
_BLOCK_CODEC = "LZ4"
# codecs of chunks, with Arrow's names
COMPRESSIONS = {"LZ4": "lz4_raw", "ZSTANDARD": "zstd", "SNAPPY": "snappy", "GZIP": "gzip"}

# A chunk this large costs a point lookup about 30 µs and makes the calls of a scan negligible.
_CHUNK_BYTES = 128 << 10
# The default of `targetDocsPerChunk`, with which chunks are sized by bytes only.
_DEFAULT_DOCS_PER_CHUNK = 1000


# Config


def values_per_chunk(
    stored_bytes: int, num_values: int, target_docs: int, max_chunk_bytes: int, chunk_bytes: int = _CHUNK_BYTES
) -> int:
    """Return the number of values of average width per chunk."""
    width = max(1.0, stored_bytes / max(1, num_values))
    by_bytes = int(min(chunk_bytes, max_chunk_bytes) / width)
    return max(1, by_bytes if target_docs == _DEFAULT_DOCS_PER_CHUNK else min(target_docs, int(max_chunk_bytes / width)))


# Build


def write_raw(writer: BufferWriter, stored: Stored, codec: str, target_docs: int, max_chunk_bytes: int) -> list[BufferMeta]:
    """Write all values of a column in stored form."""
    fixed = isinstance(stored, np.ndarray)
    if codec == PASS_THROUGH:
        if fixed:
            return [writer.add("forward.values", [stored])]
        offsets, data = binary_buffers(stored)
        return [writer.add("forward.value_offsets", [offsets.astype(np.int64)]), writer.add("forward.data", [data])]
    # not the arrays' allocated sizes, which depend on their history: equal rows must give equal bytes
    stored_bytes = stored.nbytes if fixed else sum(buffer.nbytes for buffer in binary_buffers(stored))
    if codec == _BLOCK_CODEC and not fixed:
        per_block = values_per_chunk(stored_bytes, len(stored), target_docs, max_chunk_bytes, BLOCK_BYTES)
        return write_blocks(writer, stored, per_block)
    per_chunk = values_per_chunk(stored_bytes, len(stored), target_docs, max_chunk_bytes)
    compressor = pa.Codec(COMPRESSIONS[codec])
    chunks: list[bytes] = []
    sizes: list[int] = []
    for start in range(0, len(stored), per_chunk):
        part = stored[start : start + per_chunk]
        plain = np.ascontiguousarray(part).view(np.uint8) if fixed else _binary_chunk(part)
        sizes.append(len(plain))
        chunks.append(compressor.compress(pa.py_buffer(plain), asbytes=True))
    begins = np.cumsum([0, *map(len, chunks)])
    index = np.concatenate(([per_chunk, len(stored)], begins, sizes)).astype(np.int64)
    return [writer.add("forward.chunk_index", [index]), writer.add("forward.chunks", chunks)]


def _binary_chunk(part: pa.BinaryArray) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    offsets, data = binary_buffers(part)
    return np.concatenate((offsets.view(np.uint8), data))


# Read


class RawReader(Protocol):
    """Reader of values by position, in stored form."""

    def range(self, start: int, stop: int) -> Stored:
        """Return the values at positions [start, stop)."""
        ...

    def at(self, positions: Ids) -> Stored:
        """Return the values at ascending positions."""
        ...


class PlainFixed:
    """Reader of PASS_THROUGH values of a fixed-width type."""

    def __init__(self, values: Ids) -> None:
        self._values = values

    def range(self, start: int, stop: int) -> Stored:
        return self._values[start:stop]

    def at(self, positions: Ids) -> Stored:
        return self._values[positions]

    def search(self, value: Any, side: Side) -> int:
        """Return the first position whose value is not below `value` (left), or above it (right), in ascending values."""
        return int(self._values.searchsorted(value, side))

    def in_memory(self) -> Ids:
        """Return all values."""
        return self._values


class PlainBinary:
    """Reader of PASS_THROUGH values of a variable-width type."""

    def __init__(self, offsets: Ids, data: Ids) -> None:
        self._offsets = offsets
        self._data = data

    def range(self, start: int, stop: int) -> Stored:
        stop = max(start, stop)
        offsets = self._offsets[start : stop + 1]
        return binary_array((offsets - offsets[0]).astype(np.int32), self._data[offsets[0] : offsets[-1]])

    def at(self, positions: Ids) -> Stored:
        starts, ends = self._offsets[positions], self._offsets[np.asarray(positions, np.int64) + 1]
        offsets = np.zeros(len(positions) + 1, np.int64)
        np.cumsum(ends - starts, out=offsets[1:])
        data = np.empty(offsets[-1], np.uint8)
        gather_lists(self._data, starts, ends, data)
        return binary_array(offsets.astype(np.int32), data)


class Chunked:
    """Reader of compressed chunks; caches the last decompressed chunk per thread."""

    def __init__(self, chunks: Ids, index: Ids, codec: str, data_type: DataType) -> None:
        self._chunks = pa.py_buffer(chunks)
        self._codec = COMPRESSIONS[codec]
        self._data_type = data_type
        self._dtype = fixed_dtype(data_type)
        self._per_chunk, self._num_values = int(index[0]), int(index[1])
        num_chunks = -(-self._num_values // self._per_chunk)
        self._begins: list[int] = index[2 : 3 + num_chunks].tolist()
        self._sizes: list[int] = index[3 + num_chunks :].tolist()
        self._local = threading.local()

    def range(self, start: int, stop: int) -> Stored:
        if stop <= start:
            return empty_stored(self._data_type)
        first, last = start // self._per_chunk, (stop - 1) // self._per_chunk
        parts = [self._chunk(number) for number in range(first, last + 1)]
        ends = stop - last * self._per_chunk
        if ends < len(parts[-1]):
            parts[-1] = parts[-1][:ends]
        if start > first * self._per_chunk:
            parts[0] = parts[0][start - first * self._per_chunk :]
        return self._joined(parts, first, last)

    def at(self, positions: Ids) -> Stored:
        if len(positions) == 0:
            return empty_stored(self._data_type)
        positions = np.asarray(positions, np.int64)
        numbers = positions // self._per_chunk
        cuts = np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1, [len(positions)])).tolist()
        local = positions - numbers * self._per_chunk
        chosen = numbers[cuts[:-1]].tolist()
        parts = [
            take(self._chunk(number), local[first:last])
            for number, (first, last) in zip(chosen, pairwise(cuts), strict=True)
        ]
        return self._joined(parts, chosen[0], chosen[-1])

    def search(self, value: Any, side: Side) -> int:
        """Return the first position whose value is not below `value` (left), or above it (right), in ascending values.

        Only for fixed widths; about log2(chunks) chunks are decompressed.
        """
        first, last = 0, len(self._sizes)  # the chunk searched for lies in [first, last]
        while first < last:
            middle = (first + last) // 2
            chunk = self._chunk(middle)
            place = int(np.searchsorted(chunk, value, side=side))
            if place == 0:
                last = middle
            elif place == len(chunk):
                first = middle + 1
            else:
                return middle * self._per_chunk + place
        return min(first * self._per_chunk, self._num_values)

    def in_memory(self) -> None:
        """Return None: the values would have to be decompressed."""
        return

    def _joined(self, parts: list[Stored], first: int, last: int) -> Stored:
        """Join parts of the chunks from `first` to `last`, which together rarely exceed the limit of offsets."""
        if len(parts) == 1:
            return parts[0]
        if self._dtype is None and sum(self._sizes[first : last + 1]) <= OFFSET_MAX:
            return pa.concat_arrays(parts)
        return concat_stored(parts)

    def _chunk(self, number: int) -> Stored:
        local = self._local
        if getattr(local, "number", -1) == number:
            return local.chunk
        codec = getattr(local, "codec", None)
        if codec is None:
            # One codec per thread: some are stateful, and several threads may read a column.
            codec = local.codec = pa.Codec(self._codec)
        begin = self._begins[number]
        coded = self._chunks.slice(begin, self._begins[number + 1] - begin)
        try:
            plain = codec.decompress(coded, self._sizes[number])
        except (OSError, ValueError) as error:
            raise CorruptSegmentError(f"chunk {number} of a column's values is not {self._codec}: {error}") from None
        if self._dtype is not None:
            chunk: Stored = np.frombuffer(plain, self._dtype)
        else:
            num_values = min(self._per_chunk, self._num_values - number * self._per_chunk)
            head = 4 * (num_values + 1)
            offsets = np.frombuffer(plain, np.int32, num_values + 1)
            if offsets[0] != 0 or offsets[-1] > len(plain) - head or (offsets[1:] < offsets[:-1]).any():
                raise CorruptSegmentError(f"the offsets of chunk {number} of a column's values do not ascend within it")
            chunk = pa.Array.from_buffers(pa.binary(), num_values, [None, plain.slice(0, head), plain.slice(head)])
        local.number, local.chunk = number, chunk
        return chunk


def read_raw(file: BufferFile, buffers: dict[str, BufferMeta], data_type: DataType, codec: str) -> RawReader:
    """Open the values of a raw column."""
    if "forward.blocks" in buffers:
        return Blocked.read(file, buffers, data_type)
    if "forward.chunks" in buffers:
        index = file.array(buffers["forward.chunk_index"], np.int64)
        return Chunked(file.array(buffers["forward.chunks"], np.uint8), index, codec, data_type)
    dtype = fixed_dtype(data_type)
    if dtype is not None:
        return PlainFixed(file.array(buffers["forward.values"], dtype))
    offsets = file.array(buffers["forward.value_offsets"], np.int64)
    return PlainBinary(offsets, file.array(buffers["forward.data"], np.uint8))
