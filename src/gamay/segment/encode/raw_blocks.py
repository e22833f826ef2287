"""Raw columns of texts and bytes with LZ4: small blocks, so that single values are cheap to read.

    forward.lengths      := u8|u16|u32[num_values], the narrowest that holds the longest: bytes of each value
    forward.blocks       := LZ4 block*: the bytes of `per_block` values end to end (the last block: the remaining values)
    forward.block_index  := i64[2 + 2 * (num_blocks + 1)]: per_block, num_values, where each block begins in forward.blocks
                            and the last ends, where each begins decompressed and the last ends
    forward.block_ascii  := u8[num_blocks]: 1 where all bytes of a block are below 128
    forward.block_sample := u8[at most 8 KB]: some of the values end to end, the LZ4 dictionary of all blocks

Format version 2 has no samples; version 1 uses `gamay.segment.encode.raw.Chunked` instead.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.errors import CorruptSegmentError
from gamay.kernels.encode.lz4 import SLACK, decode_blocks, decode_values, lengths_at, lengths_to_offsets
from gamay.model.types import DataType
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.storage_form import OFFSET_MAX, Stored, binary_array, binary_buffers, concat_stored, empty_stored
from gamay.segment.spi import Ids

# Reading one value decodes half a block on average. JSON documents of 170 bytes shrink to 41 % in blocks of this size,
# and to 26 % with a shared sample, compared with 30 % in blocks of 4 KB without one.
BLOCK_BYTES = 1 << 10
_SAMPLE_BYTES = 8 << 10
_SAMPLE_SHARE = 64  # the sample must not enlarge a small column
_ASCII_MAX = 127


# Build


def write_blocks(writer: BufferWriter, stored: pa.BinaryArray, per_block: int) -> list[BufferMeta]:
    """Write all values of a column, `per_block` in each block."""
    import lz4.block  # needed only to write segments

    offsets, data = binary_buffers(stored)
    sample, plain = _sample(stored, len(data)), data.data
    cuts = [*range(0, len(stored), per_block), len(stored)]
    starts = offsets[cuts].astype(np.int64)
    blocks: list[bytes] = []
    ascii_flags = np.zeros(len(cuts) - 1, np.uint8)
    for number, (start, stop) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        blocks.append(lz4.block.compress(plain[start:stop], store_size=False, dict=sample))
        ascii_flags[number] = data[start:stop].max(initial=0) <= _ASCII_MAX
    begins = np.cumsum([0, *map(len, blocks)])
    lengths = np.diff(offsets)
    index = np.concatenate(([per_block, len(stored)], begins, starts)).astype(np.int64)
    return [
        writer.add("forward.block_index", [index]),
        writer.add("forward.block_ascii", [ascii_flags]),
        writer.add("forward.lengths", [lengths.astype(np.min_scalar_type(lengths.max(initial=0)))]),
        writer.add("forward.block_sample", [np.frombuffer(sample, np.uint8)]),
        writer.add("forward.blocks", blocks),
    ]


def _sample(stored: pa.BinaryArray, num_bytes: int) -> bytes:
    """Return values from all parts of a column, end to end."""
    limit = min(_SAMPLE_BYTES, num_bytes // _SAMPLE_SHARE)
    if limit == 0:
        return b""
    count = max(1, min(len(stored), limit * len(stored) // num_bytes))
    rows = np.arange(count) * len(stored) // count
    return binary_buffers(stored.take(pa.array(rows)))[1][:limit].tobytes()


# Read


class Blocked:
    """Implements `gamay.segment.encode.raw.RawReader`."""

    def __init__(
        self, blocks: Ids, index: Ids, lengths: Ids, ascii_flags: Ids, sample: Ids, data_type: DataType
    ) -> None:  # fmt: skip
        self._blocks = blocks
        self._sample = sample
        self._lengths = lengths
        self._ascii = ascii_flags
        self._data_type = data_type
        self._per_block = int(index[0])
        num_blocks = len(ascii_flags)
        self._begins, self._starts = index[2 : 3 + num_blocks], index[3 + num_blocks :]
        self._largest = int(np.diff(self._starts).max(initial=0))

    @classmethod
    def read(cls, file: BufferFile, buffers: dict[str, BufferMeta], data_type: DataType) -> "Blocked":
        """Open the buffers of a column."""
        index = file.array(buffers["forward.block_index"], np.int64)
        # the size of the buffer determines the width of lengths
        width = buffers["forward.lengths"].size // max(1, int(index[1])) or 1
        sample = buffers.get("forward.block_sample")
        return cls(
            file.array(buffers["forward.blocks"], np.uint8),
            index,
            file.array(buffers["forward.lengths"], f"<u{width}"),
            file.array(buffers["forward.block_ascii"], np.uint8),
            np.empty(0, np.uint8) if sample is None else file.array(sample, np.uint8),
            data_type,
        )

    def range(self, start: int, stop: int) -> Stored:
        """Return the values at positions [start, stop)."""
        if stop <= start:
            return empty_stored(self._data_type)
        first, last = start // self._per_block, -(-stop // self._per_block)
        last = min(last, len(self._ascii))
        begin = int(self._starts[first])
        size = int(self._starts[last]) - begin
        if size > OFFSET_MAX and last - first > 1:
            middle = (first + last) // 2 * self._per_block
            return concat_stored([self.range(start, middle), self.range(middle, stop)])
        # offsets of whole blocks, so that the values before `start` and after `stop` need not be removed
        values_begin = first * self._per_block
        offsets = np.empty(stop - values_begin + 1, np.int32)
        lengths_to_offsets(self._lengths[values_begin:stop], offsets)
        data = np.empty(size, np.uint8)
        self._check(decode_blocks(*self._coded(), first, last, data))
        return binary_array(offsets[start - values_begin :], data)

    def at(self, positions: Ids) -> Stored:
        """Return the values at ascending positions."""
        if len(positions) == 0:
            return empty_stored(self._data_type)
        lengths = np.empty(len(positions), self._lengths.dtype)
        size = int(lengths_at(self._lengths, positions, lengths))
        if size > OFFSET_MAX and len(positions) > 1:
            middle = len(positions) // 2
            return concat_stored([self.at(positions[:middle]), self.at(positions[middle:])])
        offsets = np.empty(len(positions) + 1, np.int32)
        lengths_to_offsets(lengths, offsets)
        data = np.empty(size, np.uint8)
        self._check(decode_values(*self._coded(), self._lengths, self._per_block, positions, data))
        return binary_array(offsets, data)

    def byte_lengths(self, start: int, stop: int) -> "Ids | None":
        """Return the byte lengths of the values at [start, stop); None unless their blocks are all ASCII."""
        blocks = self._ascii[start // self._per_block : -(-max(start, stop) // self._per_block)]
        return self._lengths[start:stop] if blocks.all() else None

    def byte_lengths_at(self, positions: Ids) -> "Ids | None":
        """Return what `byte_lengths` returns, for some positions."""
        rows = np.asarray(positions, np.int64)
        return self._lengths[rows] if self._ascii[rows // self._per_block].all() else None

    def _coded(self) -> tuple[Ids, Ids, Ids, Ids, int]:
        """Return the blocks, their compressed and decompressed starts, and scratch memory to decode one after the sample."""
        shared = len(self._sample)
        scratch = np.empty(shared + self._largest + SLACK, np.uint8)
        scratch[:shared] = self._sample
        return self._blocks, self._begins, self._starts, scratch, shared

    def _check(self, damaged: Any) -> None:
        if damaged >= 0:
            raise CorruptSegmentError(f"block {damaged} of a column's values is not LZ4: it was damaged")
