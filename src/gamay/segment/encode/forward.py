"""Dictionary ids by row: byte-aligned (read without copying) or bit-packed (unpacked range by range).

forward.ids      := u8|u16|u32[num_values], the narrowest that holds the cardinality      (aligned)
forward.packed   := u64[words]: ids of `idBits` bits each, see gamay.kernels.encode.bitpack       (packed)
forward.offsets  := i32[num_docs + 1]: row d of a multi-value column holds the values offsets[d] … offsets[d + 1] - 1

A column whose forward index is disabled has none of these buffers; its sorted or inverted index has the ids of its rows.
"""

from typing import Protocol

import numpy as np

from gamay.functions.vector import take
from gamay.kernels.encode import bitpack
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.spi import Ids


def id_dtype(cardinality: int) -> "np.dtype[np.unsignedinteger]":
    """Return the narrowest of uint8, uint16 and uint32 that holds ids below `cardinality`."""
    if cardinality <= 1 << 8:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16) if cardinality <= 1 << 16 else np.dtype(np.uint32)


def packed_bits(cardinality: int) -> int:
    """Return the fewest bits, at least 1, that hold ids below `cardinality`."""
    return max(1, (cardinality - 1).bit_length())


def write_ids(writer: BufferWriter, ids: Ids, bits: int | None) -> BufferMeta:
    """Write ids: byte-aligned if `bits` is None, else packed to that width."""
    if bits is None:
        return writer.add("forward.ids", [ids])
    words = np.zeros(bitpack.words_needed(len(ids), bits), np.uint64)
    bitpack.pack(ids, bits, words)
    return writer.add("forward.packed", [words])


class IdReader(Protocol):
    """Reader of ids by position."""

    def range(self, start: int, stop: int) -> Ids:
        """Return the ids at positions [start, stop)."""
        ...

    def at(self, positions: Ids) -> Ids:
        """Return the ids at ascending positions."""
        ...


class AlignedIds:
    """Byte-aligned ids."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids

    def range(self, start: int, stop: int) -> Ids:
        return self._ids[start:stop]

    def at(self, positions: Ids) -> Ids:
        ids: Ids = take(self._ids, positions)
        return ids


class PackedIds:
    """Bit-packed ids."""

    def __init__(self, words: Ids, bits: int, cardinality: int) -> None:
        self._words = words
        self._bits = bits
        self._dtype = id_dtype(cardinality)

    def range(self, start: int, stop: int) -> Ids:
        out = np.empty(max(0, stop - start), self._dtype)
        bitpack.unpack(self._words, self._bits, start, out)
        return out

    def at(self, positions: Ids) -> Ids:
        out = np.empty(len(positions), self._dtype)
        bitpack.unpack_at(self._words, self._bits, positions, out)
        return out


class SortedIds:
    """The ids of a column whose rows ascend, from the first doc of each id: int32 [cardinality + 1]."""

    def __init__(self, starts: Ids) -> None:
        self._starts = starts
        self._dtype = id_dtype(len(starts) - 1)

    def range(self, start: int, stop: int) -> Ids:
        counts = np.diff(np.clip(self._starts, start, max(start, stop)))
        return np.repeat(np.arange(len(counts), dtype=self._dtype), counts)

    def at(self, positions: Ids) -> Ids:
        return (np.searchsorted(self._starts, positions, side="right") - 1).astype(self._dtype)


def read_ids(file: BufferFile, buffers: dict[str, BufferMeta], cardinality: int, bits: int) -> IdReader:
    """Open the ids of a column in either form."""
    if "forward.packed" in buffers:
        return PackedIds(file.array(buffers["forward.packed"], np.uint64), bits, cardinality)
    return AlignedIds(file.array(buffers["forward.ids"], id_dtype(cardinality)))
