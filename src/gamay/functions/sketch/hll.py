"""HyperLogLog, bit for bit identical to Pinot's sketches of the same values (stream-lib's HyperLogLog).

A sketch of log2m has 2**log2m registers. Serialised: log2m, the number of bytes that follow, then words of six registers of
5 bits, the first in the lowest bits; all numbers are int32 big-endian.
"""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.sketch.hashing import arrow_bytes, text_or_bytes
from gamay.functions.sketch.registers import MAXIMUM, rounded
from gamay.functions.vector import Vector
from gamay.kernels.sketch.hll import hash_bytes, hash_longs, register_candidates
from gamay.model.table.sketch_limits import LOG2M_RANGE as LOG2M_RANGE

DEFAULT_LOG2M = 8
_PARSED_LOG2M_RANGE = range(1, 25)
_REGISTERS_PER_WORD = 6
_CHARACTER_OF_ZERO = 129
_REGISTER_BITS = 5
_HEX = re.compile("[0-9A-Fa-f]*")


@dataclass(frozen=True, slots=True)
class HllKind:
    """HyperLogLog; see `RegisterKind`."""

    precision: int = DEFAULT_LOG2M
    name: str = "HyperLogLog"

    @property
    def table(self) -> Array:
        return MAXIMUM

    def candidates(self, vector: Vector) -> tuple[Array, Array]:
        hashes = hash_values(vector)
        positions, ranks = np.empty(len(hashes), np.uint16), np.empty(len(hashes), np.uint8)
        register_candidates(hashes, self.precision, positions, ranks)
        return positions, ranks

    def estimate(self, registers: Array) -> Array:
        m = registers.shape[1]
        alpha = {16: 0.673, 32: 0.697, 64: 0.709}.get(m, 0.7213 / (1 + 1.079 / m))
        raw = alpha * m * m / np.exp2(-registers.astype(np.float64)).sum(axis=1)
        zeros = (registers == 0).sum(axis=1)
        with np.errstate(divide="ignore"):  # without an empty register the linear count is not used
            linear = m * np.log(m / zeros)
        return rounded(np.where((raw <= 2.5 * m) & (zeros > 0), linear, raw))

    def serialize(self, registers: Array) -> bytes:
        packed = pack_registers(registers)
        return (len(registers).bit_length() - 1).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed

    def parse(self, data: bytes) -> Array:
        log2m, size = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big")
        if log2m not in _PARSED_LOG2M_RANGE:
            raise ValueError(f"its log2m, {log2m}, is invalid")
        if size != len(data) - 8:
            raise ValueError("its length does not match its header")
        return unpack_registers(data[8:], 1 << log2m)

    def to_text(self, data: bytes) -> str:
        return data.hex()


def hash_values(vector: Vector) -> Array:
    """Return the 32-bit hash of each value: uint32. Numbers by their bits, text and decimals by UTF-8."""
    hashes = np.empty(len(vector), np.uint32)
    values = vector.values
    if vector.type.is_fixed_width:
        if values.dtype.kind == "f":
            values = values.view(np.int32 if values.dtype.itemsize == 4 else np.int64)
        hash_longs(values.astype(np.int64).view(np.uint64), hashes)
    else:
        data, offsets = arrow_bytes(text_or_bytes(vector))
        hash_bytes(offsets, data, hashes)
    return hashes


def sketch_bytes(texts: pa.Array) -> pa.Array:
    """Decode serialised sketches in texts: hexadecimal, or the old form of a character for each byte b, chr(b + 129).

    Bytes are signed in that form, so that they become the characters 1 to 256. Raises QueryError 200 for other texts.
    """
    return pa.array([_text_bytes(text) for text in texts.to_pylist()], pa.binary())


def _text_bytes(text: str) -> bytes:
    try:
        if text and ord(text[0]) >= _CHARACTER_OF_ZERO:
            return bytes((ord(character) - _CHARACTER_OF_ZERO) % 256 for character in text if _is_byte(character))
        if len(text) % 2 or not _HEX.fullmatch(text):
            raise ValueError("it is not hexadecimal text")
        return bytes.fromhex(text)
    except ValueError as error:
        shown = text[:40] + ("..." if len(text) > 40 else "")
        raise QueryError(ErrorCode.QUERY_EXECUTION, f"'{shown}' is not a serialised HyperLogLog sketch: {error}") from error


def _is_byte(character: str) -> bool:
    if not 1 <= ord(character) <= 256:
        raise ValueError(f"{character!r} does not represent a byte")
    return True


def pack_registers(registers: Array) -> bytes:
    """Return registers of 5 bits, six in each big-endian int32, in as many words as stream-lib allocates."""
    words = _words(len(registers))
    padded = np.zeros(words * _REGISTERS_PER_WORD, np.uint32)
    padded[: len(registers)] = np.minimum(registers, (1 << _REGISTER_BITS) - 1)
    shifts = np.arange(_REGISTERS_PER_WORD, dtype=np.uint32) * _REGISTER_BITS
    packed = np.bitwise_or.reduce(padded.reshape(words, -1) << shifts, axis=1)
    return bytes(packed.astype(">u4").tobytes())


def unpack_registers(data: bytes, count: int) -> Array:
    """Return the `count` registers, uint8, that `pack_registers` packed; raises ValueError if the length is wrong."""
    if len(data) != 4 * _words(count):
        raise ValueError(f"{count} registers take {4 * _words(count)} bytes, not {len(data)}")
    words = np.frombuffer(data, ">u4").astype(np.uint32)
    shifts = np.arange(_REGISTERS_PER_WORD, dtype=np.uint32) * _REGISTER_BITS
    spread = (words[:, None] >> shifts) & np.uint32((1 << _REGISTER_BITS) - 1)
    return spread.reshape(-1)[:count].astype(np.uint8)


def _words(count: int) -> int:
    words = count // _REGISTERS_PER_WORD
    return 1 if words == 0 else words if words % 32 == 0 else words + 1
