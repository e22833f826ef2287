"""HyperLogLog++, with the registers of stream-lib's HyperLogLogPlus, which Pinot uses.

A sketch of precision p has 2**p registers, which 64-bit hashes select: MurmurHash64A of bytes, and of the text of all
other values, including numbers; BOOLEAN as 0 or 1, TIMESTAMP as its milliseconds. Serialised: int32 -2, then p, sp, a 0
and the number of bytes that follow as variable-length numbers, then the registers packed as in
`gamay.functions.sketch.hll`. The sparse form (a 1, the number of entries, their differences) is read, but not written:
sketches of few values are as accurate without it.

Estimates are maximum-likelihood ones, which need no table of measured biases.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.convert import convert_values
from gamay.functions.sketch.hashing import arrow_bytes
from gamay.functions.sketch.hll import pack_registers, unpack_registers
from gamay.functions.sketch.registers import MAXIMUM, histograms, most_likely, rounded
from gamay.functions.vector import Vector
from gamay.kernels.hash.hashing import murmur64a
from gamay.kernels.sketch.registers import rank_candidates
from gamay.model.types import DataType

DEFAULT_PRECISION = 14
_PARSED_RANGE = range(4, 26)
_SEED = 0xE17A1465
_VERSION = (-2).to_bytes(4, "big", signed=True)
_RANKS = 64
_STORED = {DataType.BOOLEAN: DataType.INT, DataType.TIMESTAMP: DataType.LONG}


@dataclass(frozen=True, slots=True)
class HllPlusKind:
    """HyperLogLog++; see `RegisterKind`. sparse_precision: only stored in serialised sketches."""

    precision: int = DEFAULT_PRECISION
    sparse_precision: int = 0
    name: str = "HyperLogLog++"

    @property
    def table(self) -> Array:
        return MAXIMUM

    def candidates(self, vector: Vector) -> tuple[Array, Array]:
        data, offsets = arrow_bytes(vector.values if vector.type.is_binary else _texts(vector))
        hashes = np.empty(len(vector), np.int64)
        murmur64a(data, offsets, _SEED, hashes)
        positions, ranks = np.empty(len(hashes), np.uint32), np.empty(len(hashes), np.uint8)
        rank_candidates(hashes.view(np.uint64), self.precision, positions, ranks)
        return positions, ranks

    def estimate(self, registers: Array) -> Array:
        return rounded(most_likely(histograms(registers)[:, :_RANKS], *_likelihood()))

    def serialize(self, registers: Array) -> bytes:
        packed = pack_registers(registers)
        precision = len(registers).bit_length() - 1
        header = b"".join(_variable(number) for number in (precision, self.sparse_precision, 0, len(packed)))
        return _VERSION + header + packed

    def parse(self, data: bytes) -> Array:
        if data[:4] != _VERSION:
            raise ValueError("it does not begin with version 2")
        precision, position = _read_variable(data, 4)
        sparse_precision, position = _read_variable(data, position)
        form, position = _read_variable(data, position)
        count, position = _read_variable(data, position)
        if precision not in _PARSED_RANGE or form not in (0, 1):
            raise ValueError(f"the precision {precision} or the form {form} is invalid")
        if form == 0:
            if count != len(data) - position:
                raise ValueError("its length does not match its header")
            return unpack_registers(data[position:], 1 << precision)
        if not precision <= sparse_precision <= 32:
            raise ValueError(f"the sparse precision {sparse_precision} is invalid")
        return _read_sparse(data, position, count, precision, sparse_precision)

    def to_text(self, data: bytes) -> str:
        return data.hex()


def _texts(vector: Vector) -> pa.Array:
    """Return values as the texts that are hashed."""
    stored = _STORED.get(vector.type, vector.type)
    values = vector.values if stored is vector.type else convert_values(vector.values, vector.type, stored)
    return convert_values(values, stored, DataType.STRING)


@lru_cache(maxsize=1)
def _likelihood() -> tuple[Array, Array, Array]:
    """Return what each register value implies: that update k = value occurred, and none above it; see `most_likely`."""
    ranks = np.arange(_RANKS)
    occurs = np.eye(_RANKS, dtype=np.int64)
    occurs[0, 0] = 0
    return occurs, 2.0**-ranks, ranks.astype(np.float64)


def _read_sparse(data: bytes, position: int, count: int, precision: int, sparse_precision: int) -> Array:
    if count > len(data) - position:
        raise ValueError("its length does not match its header")
    codes = np.empty(count, np.int64)
    code = 0
    for i in range(count):
        difference, position = _read_variable(data, position)
        codes[i] = code = (code + difference) & 0xFFFFFFFF
    explicit = codes & 1 == 1
    indices = np.where(explicit, codes >> 7, codes >> 1)
    rest = (codes << (precision + 31 - sparse_precision)) & 0xFFFFFFFF
    with np.errstate(divide="ignore"):
        leading = np.where(rest > 0, 31 - np.floor(np.log2(np.maximum(rest, 1))), 32)
    ranks = np.where(explicit, ((codes >> 1) & 63) ^ 63, leading + 1)
    registers = np.zeros(1 << precision, np.uint8)
    places = indices >> (sparse_precision - precision)
    if count and places.max() >= len(registers):
        raise ValueError("an entry is outside the registers")
    np.maximum.at(registers, places, ranks.astype(np.uint8))
    return registers


def _variable(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _read_variable(data: bytes, position: int) -> tuple[int, int]:
    """Return the variable-length number at a position, and the position after it."""
    number = 0
    for i in range(5):
        if position + i >= len(data):
            raise ValueError("it is truncated")
        byte = data[position + i]
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return number & 0xFFFFFFFF, position + i + 1
    raise ValueError("a number has more than 5 bytes")
