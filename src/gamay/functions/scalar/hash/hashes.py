"""Hashes of bytes for sampling, joining and partitioning: Murmur, FNV, CityHash, CRC-32C, and MD2.

Text is hashed as its UTF-8 bytes, other values as their text. Results are signed; 128-bit hashes are BYTES of 16:
Murmur's in Guava's order (both halves little-endian), those of the early variant and of CityHash big-endian.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base import guard
from gamay.functions.arrow import binary_buffers
from gamay.functions.convert import by_distinct, convert_values
from gamay.functions.scalar.define import ANY, const, scalar
from gamay.functions.vector import Vector
from gamay.kernels.hash import city, hashing
from gamay.kernels.hash.murmur128 import murmur3_x64_128
from gamay.model.types import DataType

INT, LONG, STRING, BYTES = DataType.INT, DataType.LONG, DataType.STRING, DataType.BYTES
_MURMUR64_SEED = 0xE17A1465
_CITY_SEED = 0x9AE16A3B2F90404F
_MASK64 = (1 << 64) - 1


def bytes_of(vector: Vector) -> pa.Array:
    """Return the bytes that are hashed for each value: bytes unchanged, other values as the UTF-8 of their text."""
    if vector.type.is_binary:
        return vector.values
    return convert_values(vector.values, vector.type, STRING).cast(pa.binary())


def _hashed(kernel: Callable[..., None], vector: Vector, *arguments: Any) -> Any:
    """Run a kernel that returns one int64 for each value."""
    offsets, data = binary_buffers(bytes_of(vector))
    out = np.empty(len(offsets) - 1, np.int64)
    kernel(data, offsets, *arguments, out)
    return out


def _halves(kernel: Callable[..., None], vector: Vector, *arguments: Any) -> tuple[Any, Any]:
    """Run a kernel that returns two halves for each value."""
    offsets, data = binary_buffers(bytes_of(vector))
    first, second = np.empty(len(offsets) - 1, np.uint64), np.empty(len(offsets) - 1, np.uint64)
    kernel(data, offsets, *arguments, first, second)
    return first, second


def _sixteen_bytes(halves: tuple[Any, Any], order: str) -> pa.Array:
    words = np.stack(halves, axis=1).astype(f"{order}u8")
    offsets = np.arange(len(words) + 1, dtype=np.int32) * 16
    return pa.Array.from_buffers(pa.binary(), len(words), [None, pa.py_buffer(offsets), pa.py_buffer(words)])


# -- Murmur


@scalar("murmurHash2", "murmur2", "murmurHash2UTF8", params=(ANY,), returns=INT)
def murmur_hash2(value: Vector) -> Any:
    """Kafka's 32-bit murmur2, as its default partitioner computes it."""
    return _hashed(hashing.murmur2, value)


@scalar("murmurHash2Bit64", params=(ANY, const(INT)), returns=LONG, optional=1)
def murmur_hash2_64(value: Vector, seed: int = _MURMUR64_SEED) -> Any:
    """MurmurHash64A; the seed is 0xe17a1465 unless given."""
    return _hashed(hashing.murmur64a, value, np.int64(seed & 0xFFFFFFFF))


@scalar("murmurHash3Bit32", params=(ANY, const(INT)), returns=INT)
def murmur_hash3_32(value: Vector, seed: int) -> Any:
    return _hashed(hashing.murmur3_x86_32, value, np.int64(seed))


@scalar("murmur3_32", params=(ANY,), returns=INT)
def murmur3_32(value: Vector) -> Any:
    """`murmurHash3Bit32` with seed 0."""
    return murmur_hash3_32(value, 0)


def _murmur3_128(value: Vector, seed: int) -> tuple[Any, Any]:
    return _halves(murmur3_x64_128, value, np.uint64(seed & _MASK64))


@scalar("murmurHash3Bit64", params=(ANY, const(INT)), returns=LONG)
def murmur_hash3_64(value: Vector, seed: int) -> Any:
    """The first half of the 128-bit hash."""
    return _murmur3_128(value, seed)[0].view(np.int64)


@scalar("murmurHash3Bit128", params=(ANY, const(INT)), returns=BYTES)
def murmur_hash3_128(value: Vector, seed: int) -> Any:
    return _sixteen_bytes(_murmur3_128(value, seed), "<")


@scalar("murmurHash3X64Bit32", params=(ANY, const(INT)), returns=INT)
def murmur_hash3_early_32(value: Vector, seed: int) -> Any:
    """The early 64-bit variant of Infinispan and Debezium, its top 32 bits."""
    return _hashed(hashing.murmur3_x64_32, value, np.int64(seed))


@scalar("murmurHash3X64Bit64", params=(ANY, const(INT)), returns=LONG)
def murmur_hash3_early_64(value: Vector, seed: int) -> Any:
    """The same 32 bits as LONG, which is what Pinot's clients expect."""
    return murmur_hash3_early_32(value, seed)


@scalar("murmurHash3X64Bit128", params=(ANY, const(INT)), returns=BYTES)
def murmur_hash3_early_128(value: Vector, seed: int) -> Any:
    return _sixteen_bytes(_halves(hashing.murmur3_early_128, value, np.int64(seed)), ">")


# -- FNV


def _fnv(xor_first: bool, wide: bool) -> Callable[[Vector], Any]:
    def fnv(value: Vector) -> Any:
        return _hashed(hashing.fnv, value, xor_first, wide)

    return fnv


for _name, _xor_first in (("fnv1", False), ("fnv1a", True)):
    for _bits, _type in ((32, INT), (64, LONG)):
        scalar(f"{_name}Hash{_bits}", f"{_name}Hash{_bits}UTF8", f"{_name}_{_bits}", params=(ANY,), returns=_type)(
            _fnv(_xor_first, _bits == 64)
        )


# -- CityHash


@scalar("cityHash32", params=(ANY,), returns=LONG)
def city_hash32(value: Vector) -> Any:
    """CityHash32 of version 1.1, as a signed number."""
    return _hashed(city.city32, value)


@scalar("cityHash64", params=(ANY, const(LONG), const(LONG)), returns=LONG, optional=2)
def city_hash64(value: Vector, seed: int | None = None, seed1: int | None = None) -> Any:
    """CityHash64 of version 1.1, with no, one or two seeds."""
    offsets, data = binary_buffers(bytes_of(value))
    out = np.empty(len(offsets) - 1, np.uint64)
    if seed is None:
        city.city64(data, offsets, out)
    else:
        first, second = (_CITY_SEED, seed) if seed1 is None else (seed, seed1)
        city.city64_seeded(data, offsets, np.uint64(first & _MASK64), np.uint64(second & _MASK64), out)
    return out.view(np.int64)


@scalar("cityHash128", params=(ANY,), returns=BYTES)
def city_hash128(value: Vector) -> Any:
    return _sixteen_bytes(_halves(city.city128, value), ">")


# -- CRC-32C


def _crc32c_table() -> Any:
    """Return uint64 [256]: each byte shifted through the reflected polynomial 0x82F63B78."""
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = np.where(table & np.uint64(1), (table >> np.uint64(1)) ^ np.uint64(0x82F63B78), table >> np.uint64(1))
    return table


_CRC32C = _crc32c_table()


@scalar("crc32c", params=(ANY,), returns=INT)
def crc32c(value: Vector) -> Any:
    return _hashed(hashing.crc32c, value, _CRC32C)


# -- MD2, which none of the libraries provides

# fmt: off
_MD2 = bytes((
    41, 46, 67, 201, 162, 216, 124, 1, 61, 54, 84, 161, 236, 240, 6, 19, 98, 167, 5, 243, 192, 199, 115, 140, 152, 147,
    43, 217, 188, 76, 130, 202, 30, 155, 87, 60, 253, 212, 224, 22, 103, 66, 111, 24, 138, 23, 229, 18, 190, 78, 196, 214,
    218, 158, 222, 73, 160, 251, 245, 142, 187, 47, 238, 122, 169, 104, 121, 145, 21, 178, 7, 63, 148, 194, 16, 137, 11,
    34, 95, 33, 128, 127, 93, 154, 90, 144, 50, 39, 53, 62, 204, 231, 191, 247, 151, 3, 255, 25, 48, 179, 72, 165, 181,
    209, 215, 94, 146, 42, 172, 86, 170, 198, 79, 184, 56, 210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4, 241,
    69, 157, 112, 89, 100, 113, 135, 32, 134, 91, 207, 101, 230, 45, 168, 2, 27, 96, 37, 173, 174, 176, 185, 246, 28, 70,
    97, 105, 52, 64, 126, 15, 85, 71, 163, 35, 221, 81, 175, 58, 195, 92, 249, 206, 186, 197, 234, 38, 44, 83, 13, 110,
    133, 40, 132, 9, 211, 223, 205, 244, 65, 129, 77, 82, 106, 220, 55, 200, 108, 193, 171, 250, 36, 225, 123, 8, 12, 189,
    177, 74, 120, 136, 149, 139, 227, 99, 232, 109, 233, 203, 213, 254, 59, 0, 29, 57, 242, 239, 183, 14, 102, 88, 208,
    228, 166, 119, 114, 248, 235, 117, 75, 10, 49, 68, 80, 180, 143, 237, 31, 26, 219, 153, 141, 51, 159, 17, 131, 20,
))
# fmt: on


_CHECKED_BYTES = 1 << 12  # 10 ms


def _md2(message: bytes) -> str:
    """RFC 1319."""
    padding = 16 - len(message) % 16
    padded = message + bytes([padding]) * padding
    checksum = bytearray(16)
    last = 0
    for start in range(0, len(padded), 16):
        for i in range(16):
            checksum[i] ^= _MD2[padded[start + i] ^ last]
            last = checksum[i]
    state = bytearray(48)
    whole = padded + bytes(checksum)
    for start in range(0, len(whole), 16):
        if not start % _CHECKED_BYTES:
            guard.check()
        block = whole[start : start + 16]
        state[16:32] = block
        state[32:48] = bytes(a ^ b for a, b in zip(state[:16], block, strict=True))
        t = 0
        for turn in range(18):
            for i in range(48):
                t = state[i] = state[i] ^ _MD2[t]
            t = (t + turn) & 0xFF
    return state[:16].hex()


@scalar("md2", params=(ANY,), returns=STRING)
def md2(value: Vector) -> Any:
    return by_distinct(bytes_of(value), _md2, STRING)
