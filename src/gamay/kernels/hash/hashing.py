"""Hashes of byte strings, exactly as producers and other systems compute them.

A list of byte strings is `data` uint8 and `offsets` [n + 1], string i being data[offsets[i]:offsets[i + 1]]; hashes come
out as int64 [n] (32-bit hashes sign-extended). Arithmetic is on uint64 and cut to 32 bits explicitly, so that compiled
and interpreted runs agree; 64-bit products wrap on purpose.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_MASK32 = np.uint64(0xFFFFFFFF)
_SIGN32 = np.uint64(0x80000000)


@kernel
def _signed32(value: Any) -> Any:
    """The low 32 bits as a signed number."""
    low = value & _MASK32
    return np.int64(low) - np.int64(4294967296) if low & _SIGN32 else np.int64(low)


@kernel
def _little_endian(data: Array, start: int, count: int) -> Any:
    """The `count` bytes from `start` as an unsigned number."""
    word = np.uint64(0)
    for i in range(count):
        word |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return word


@kernel
def _rotate_left(value: Any, count: int, width: int) -> Any:
    """Rotate within 32 or 64 bits."""
    rotated = (value << np.uint64(count)) | (value >> np.uint64(width - count))
    return rotated & _MASK32 if width == 32 else rotated


@kernel
def _murmur2(data: Array, start: int, stop: int) -> Any:
    m = np.uint64(0x5BD1E995)
    h = np.uint64(0x9747B28C) ^ np.uint64(stop - start)
    position = start
    while stop - position >= 4:
        k = (_little_endian(data, position, 4) * m) & _MASK32
        k = ((k ^ (k >> np.uint64(24))) * m) & _MASK32
        h = ((h * m) & _MASK32) ^ k
        position += 4
    if position < stop:
        h = ((h ^ _little_endian(data, position, stop - position)) * m) & _MASK32
    h = ((h ^ (h >> np.uint64(13))) * m) & _MASK32
    return _signed32(h ^ (h >> np.uint64(15)))


@kernel
def _mix_k1_x86(k: Any) -> Any:
    k = (k * np.uint64(0xCC9E2D51)) & _MASK32
    return (_rotate_left(k, 15, 32) * np.uint64(0x1B873593)) & _MASK32


@kernel
def _murmur3_x86_32(data: Array, start: int, stop: int, seed: int) -> Any:
    h = np.uint64(seed) & _MASK32
    position = start
    while stop - position >= 4:
        h = _rotate_left(h ^ _mix_k1_x86(_little_endian(data, position, 4)), 13, 32)
        h = (h * np.uint64(5) + np.uint64(0xE6546B64)) & _MASK32
        position += 4
    if position < stop:
        h ^= _mix_k1_x86(_little_endian(data, position, stop - position))
    h ^= np.uint64(stop - start)
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & _MASK32
    h = ((h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & _MASK32
    return _signed32(h ^ (h >> np.uint64(16)))


@kernel
def _signed_tail(data: Array, start: int, stop: int) -> Any:
    """Up to eight bytes XORed together at their places as *signed* numbers, as the early 64-bit variant does."""
    word = np.uint64(0)
    for i in range(stop - start):
        byte = np.int64(data[start + i])
        signed = byte - np.int64(256) if byte >= 128 else byte
        word ^= np.uint64(signed << np.int64(8 * i))
    return word


@kernel
def _fmix64(k: Any) -> Any:
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return k ^ (k >> np.uint64(33))


@kernel
def _murmur3_early(data: Array, start: int, stop: int, seed: int) -> Any:
    """Both halves of the early 128-bit variant, whose constants change with each block."""
    h1 = np.uint64(0x9368E53C2F6AF274) ^ np.uint64(seed)
    h2 = np.uint64(0x586DCD208F7CD3FD) ^ np.uint64(seed)
    c1 = np.uint64(0x87C37B91114253D5)
    c2 = np.uint64(0x4CF5AD432745937F)
    position = start
    while position < stop:
        if stop - position >= 16:
            k1 = _little_endian(data, position, 8)
            k2 = _little_endian(data, position + 8, 8)
        else:
            middle = min(position + 8, stop)
            k1 = _signed_tail(data, position, middle)
            k2 = _signed_tail(data, middle, stop)
        h1 = (h1 ^ (_rotate_left(k1 * c1, 23, 64) * c2)) + h2
        h2 = _rotate_left(h2, 41, 64)
        h2 = (h2 ^ (_rotate_left(k2 * c2, 23, 64) * c1)) + h1
        h1 = h1 * np.uint64(3) + np.uint64(0x52DCE729)
        h2 = h2 * np.uint64(3) + np.uint64(0x38495AB5)
        c1 = c1 * np.uint64(5) + np.uint64(0x7B7D159C)
        c2 = c2 * np.uint64(5) + np.uint64(0x6BCE6396)
        position += 16
    h2 ^= np.uint64(stop - start)
    h1 += h2
    h2 += h1
    h1 = _fmix64(h1)
    h2 = _fmix64(h2)
    h1 += h2
    return h1, h1 + h2


@kernel
def _fnv(data: Array, start: int, stop: int, xor_first: bool, wide: bool) -> Any:
    prime = np.uint64(0x100000001B3) if wide else np.uint64(0x01000193)
    mask = np.uint64(0xFFFFFFFFFFFFFFFF) if wide else _MASK32
    h = np.uint64(0xCBF29CE484222325) if wide else np.uint64(0x811C9DC5)
    for i in range(start, stop):
        byte = np.uint64(data[i])
        h = ((h ^ byte) * prime) & mask if xor_first else ((h * prime) & mask) ^ byte
    return np.int64(h) if wide else _signed32(h)


@kernel
def _java_string(data: Array, start: int, stop: int) -> Any:
    """31 * h + c over the UTF-16 code units of UTF-8 text."""
    h = np.uint64(0)
    position = start
    while position < stop:
        lead = np.int64(data[position])
        extra = 0 if lead < 0x80 else 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        point = lead if extra == 0 else lead & (0x3F >> extra)
        for i in range(1, extra + 1):
            point = (point << 6) | (np.int64(data[position + i]) & 0x3F)
        if extra == 3:
            h = (h * np.uint64(31) + np.uint64(0xD800 + ((point - 0x10000) >> 10))) & _MASK32
            point = 0xDC00 + ((point - 0x10000) & 0x3FF)
        h = (h * np.uint64(31) + np.uint64(point)) & _MASK32
        position += extra + 1
    return _signed32(h)


@kernel
def _java_bytes(data: Array, start: int, stop: int) -> Any:
    """31 * h + b over signed bytes, from 1."""
    h = np.uint64(1)
    for i in range(start, stop):
        byte = np.int64(data[i])
        signed = byte - 256 if byte >= 128 else byte
        h = (h * np.uint64(31) + (np.uint64(signed) & _MASK32)) & _MASK32
    return _signed32(h)


@kernel
def _murmur64a(data: Array, start: int, stop: int, seed: int) -> Any:
    m = np.uint64(0xC6A4A7935BD1E995)
    h = np.uint64(seed) ^ (np.uint64(stop - start) * m)
    position = start
    while stop - position >= 8:
        k = _little_endian(data, position, 8) * m
        h = (h ^ ((k ^ (k >> np.uint64(47))) * m)) * m
        position += 8
    if position < stop:
        h = (h ^ _little_endian(data, position, stop - position)) * m
    h = (h ^ (h >> np.uint64(47))) * m
    return np.int64(h ^ (h >> np.uint64(47)))


@kernel
def murmur2(data: Array, offsets: Array, out: Array) -> None:
    """Kafka's 32-bit murmur2."""
    for i in range(out.size):
        out[i] = _murmur2(data, offsets[i], offsets[i + 1])


@kernel
def murmur3_x86_32(data: Array, offsets: Array, seed: int, out: Array) -> None:
    """The standard MurmurHash3_x86_32."""
    for i in range(out.size):
        out[i] = _murmur3_x86_32(data, offsets[i], offsets[i + 1], seed)


@kernel
def murmur3_x64_32(data: Array, offsets: Array, seed: int, out: Array) -> None:
    """The early 128-bit murmur3 of Infinispan and Debezium, top 32 bits; not the final MurmurHash3_x64_128."""
    for i in range(out.size):
        out[i] = _signed32(_murmur3_early(data, offsets[i], offsets[i + 1], seed)[0] >> np.uint64(32))


@kernel
def murmur3_early_128(data: Array, offsets: Array, seed: int, high: Array, low: Array) -> None:
    """The early 128-bit murmur3 of Infinispan and Debezium: both halves, uint64 [n]."""
    for i in range(high.size):
        high[i], low[i] = _murmur3_early(data, offsets[i], offsets[i + 1], seed)


@kernel
def fnv(data: Array, offsets: Array, xor_first: bool, wide: bool, out: Array) -> None:
    """FNV-1a (`xor_first`) or FNV-1, of 64 (`wide`) or 32 bits."""
    for i in range(out.size):
        out[i] = _fnv(data, offsets[i], offsets[i + 1], xor_first, wide)


@kernel
def java_string_hash(data: Array, offsets: Array, out: Array) -> None:
    """`String.hashCode` of UTF-8 text."""
    for i in range(out.size):
        out[i] = _java_string(data, offsets[i], offsets[i + 1])


@kernel
def java_bytes_hash(data: Array, offsets: Array, out: Array) -> None:
    """`Arrays.hashCode` of bytes."""
    for i in range(out.size):
        out[i] = _java_bytes(data, offsets[i], offsets[i + 1])


@kernel
def murmur64a(data: Array, offsets: Array, seed: int, out: Array) -> None:
    """MurmurHash64A."""
    for i in range(out.size):
        out[i] = _murmur64a(data, offsets[i], offsets[i + 1], seed)


@kernel
def crc32c(data: Array, offsets: Array, table: Array, out: Array) -> None:
    """CRC-32C (Castagnoli); table: uint64 [256], the checksum's step for each value of a byte."""
    for i in range(out.size):
        crc = _MASK32
        for position in range(offsets[i], offsets[i + 1]):
            crc = (crc >> np.uint64(8)) ^ table[np.int64((crc ^ np.uint64(data[position])) & np.uint64(0xFF))]
        out[i] = _signed32(crc ^ _MASK32)


@kernel
def bloom_add(hashes: Array, num_probes: int, words: Array) -> None:
    """Set the bits of int64 hashes in a bloom filter of uint64 words; see gamay.segment.index.bloom."""
    num_bits = np.uint64(words.size * 64)
    for i in range(hashes.size):
        position = np.uint64(hashes[i])
        step = (position >> np.uint64(32)) | np.uint64(1)
        for _ in range(num_probes):
            bit = position % num_bits
            words[np.int64(bit >> np.uint64(6))] |= np.uint64(1) << (bit & np.uint64(63))
            position += step
