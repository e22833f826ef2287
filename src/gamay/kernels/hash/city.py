"""CityHash v1.1 (Pike and Alakuijala, https://github.com/google/cityhash): 32, 64 and 128 bits of byte strings.

Strings are data[offsets[i]:offsets[i + 1]] (uint8). 64-bit sums and products wrap on purpose; 32-bit ones are done in 64
bits and cut, so that compiled and interpreted runs agree.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)
_MUL = np.uint64(0x9DDFEA08EB382D69)
_C1 = np.uint64(0xCC9E2D51)
_C2 = np.uint64(0x1B873593)
_ADD = np.uint64(0xE6546B64)
_LOW = np.uint64(0xFFFFFFFF)


@kernel
def _fetch(data: Array, start: int, count: int) -> Any:
    """`count` bytes as an unsigned little-endian number."""
    word = np.uint64(0)
    for i in range(count):
        word |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return word


@kernel
def _fetch64(data: Array, start: int) -> Any:
    return _fetch(data, start, 8)


@kernel
def _swap(value: Any, count: int) -> Any:
    """Reverse the order of the lowest `count` bytes."""
    out = np.uint64(0)
    for i in range(count):
        out = (out << np.uint64(8)) | ((value >> np.uint64(8 * i)) & np.uint64(0xFF))
    return out


# 32 bits


@kernel
def _rotate32(value: Any, count: int) -> Any:
    return ((value >> np.uint64(count)) | (value << np.uint64(32 - count))) & _LOW


@kernel
def _fmix(h: Any) -> Any:
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & _LOW
    h = ((h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & _LOW
    return h ^ (h >> np.uint64(16))


@kernel
def _mixed(a: Any) -> Any:
    return (_rotate32((a * _C1) & _LOW, 17) * _C2) & _LOW


@kernel
def _step(h: Any, count: int) -> Any:
    return (_rotate32(h, count) * np.uint64(5) + _ADD) & _LOW


@kernel
def _mur(a: Any, h: Any) -> Any:
    return _step(h ^ _mixed(a), 19)


@kernel
def _short32(data: Array, start: int, length: int) -> Any:
    """Up to 24 bytes."""
    n = np.uint64(length)
    if length <= 4:
        b = np.uint64(0)
        c = np.uint64(9)
        for i in range(length):
            byte = np.uint64(data[start + i])
            signed = byte | np.uint64(0xFFFFFF00) if byte & np.uint64(0x80) else byte
            b = (b * _C1 + signed) & _LOW
            c ^= b
        return _fmix(_mur(b, _mur(n, c)))
    if length <= 12:
        a = (n + _fetch(data, start, 4)) & _LOW
        five = (n * np.uint64(5)) & _LOW
        b = (five + _fetch(data, start + length - 4, 4)) & _LOW
        c = (np.uint64(9) + _fetch(data, start + ((length >> 1) & 4), 4)) & _LOW
        return _fmix(_mur(c, _mur(b, _mur(a, five))))
    half = start + (length >> 1)
    h = _mur(_fetch(data, half - 4, 4), n)
    h = _mur(_fetch(data, start + 4, 4), h)
    h = _mur(_fetch(data, start + length - 8, 4), h)
    h = _mur(_fetch(data, half, 4), h)
    h = _mur(_fetch(data, start, 4), h)
    return _fmix(_mur(_fetch(data, start + length - 4, 4), h))


@kernel
def _city32(data: Array, start: int, length: int) -> Any:
    if length <= 24:
        return _short32(data, start, length)
    end = start + length
    h = np.uint64(length)
    g = (_C1 * h) & _LOW
    f = g
    h = _step(h ^ _mixed(_fetch(data, end - 4, 4)), 19)
    h = _step(h ^ _mixed(_fetch(data, end - 16, 4)), 19)
    g = _step(g ^ _mixed(_fetch(data, end - 8, 4)), 19)
    g = _step(g ^ _mixed(_fetch(data, end - 12, 4)), 19)
    f = _step((f + _mixed(_fetch(data, end - 20, 4))) & _LOW, 19)
    position = start
    for _ in range((length - 1) // 20):
        a0 = _mixed(_fetch(data, position, 4))
        a1 = _fetch(data, position + 4, 4)
        a2 = _mixed(_fetch(data, position + 8, 4))
        a3 = _mixed(_fetch(data, position + 12, 4))
        a4 = _fetch(data, position + 16, 4)
        h = _step(h ^ a0, 18)
        f = (_rotate32((f + a1) & _LOW, 19) * _C1) & _LOW
        g = _step((g + a2) & _LOW, 18)
        h = _step(h ^ ((a3 + a1) & _LOW), 19)
        g = (_swap(g ^ a4, 4) * np.uint64(5)) & _LOW
        h = _swap((h + a4 * np.uint64(5)) & _LOW, 4)
        f = (f + a0) & _LOW
        f, h, g = g, f, h
        position += 20
    for turn in (11, 17):
        g = (_rotate32(g, turn) * _C1) & _LOW
        f = (_rotate32(f, turn) * _C1) & _LOW
    h = _step((h + g) & _LOW, 19)
    h = (_rotate32(h, 17) * _C1) & _LOW
    h = _step((h + f) & _LOW, 19)
    return (_rotate32(h, 17) * _C1) & _LOW


# 64 bits


@kernel
def _rotate(value: Any, count: int) -> Any:
    return (value >> np.uint64(count)) | (value << np.uint64(64 - count))


@kernel
def _shift_mix(value: Any) -> Any:
    return value ^ (value >> np.uint64(47))


@kernel
def _pair(u: Any, v: Any, mul: Any) -> Any:
    """Hash 16 bytes down to 8."""
    a = _shift_mix((u ^ v) * mul)
    return _shift_mix((v ^ a) * mul) * mul


@kernel
def _upto16(data: Array, start: int, length: int) -> Any:
    n = np.uint64(length)
    if length >= 8:
        mul = _K2 + n * np.uint64(2)
        a = _fetch64(data, start) + _K2
        b = _fetch64(data, start + length - 8)
        return _pair(_rotate(b, 37) * mul + a, (_rotate(a, 25) + b) * mul, mul)
    if length >= 4:
        mul = _K2 + n * np.uint64(2)
        first = _fetch(data, start, 4)
        return _pair(n + (first << np.uint64(3)), _fetch(data, start + length - 4, 4), mul)
    if length > 0:
        y = np.uint64(data[start]) + (np.uint64(data[start + (length >> 1)]) << np.uint64(8))
        z = n + (np.uint64(data[start + length - 1]) << np.uint64(2))
        return _shift_mix((y * _K2) ^ (z * _K0)) * _K2
    return _K2


@kernel
def _upto64(data: Array, start: int, length: int) -> Any:
    """17 to 64 bytes."""
    end = start + length
    mul = _K2 + np.uint64(length) * np.uint64(2)
    if length <= 32:
        a = _fetch64(data, start) * _K1
        b = _fetch64(data, start + 8)
        c = _fetch64(data, end - 8) * mul
        d = _fetch64(data, end - 16) * _K2
        return _pair(_rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c, mul)
    a = _fetch64(data, start) * _K2
    b = _fetch64(data, start + 8)
    c = _fetch64(data, end - 24)
    d = _fetch64(data, end - 32)
    e = _fetch64(data, start + 16) * _K2
    f = _fetch64(data, start + 24) * np.uint64(9)
    g = _fetch64(data, end - 8)
    h = _fetch64(data, end - 16) * mul
    u = _rotate(a + g, 43) + (_rotate(b, 30) + c) * np.uint64(9)
    v = ((a + g) ^ d) + f + np.uint64(1)
    w = _swap((u + v) * mul, 8) + h
    x = _rotate(e + f, 42) + c
    y = (_swap((v + w) * mul, 8) + g) * mul
    z = e + f + c
    a = _swap((x + z) * mul + y, 8) + b
    return _shift_mix((z + a) * mul + d + h) * mul + x


@kernel
def _weak(data: Array, start: int, a: Any, b: Any) -> Any:
    """Mix 32 bytes into two numbers."""
    z = _fetch64(data, start + 24)
    a = a + _fetch64(data, start)
    b = _rotate(b + a + z, 21)
    c = a
    a = a + _fetch64(data, start + 8) + _fetch64(data, start + 16)
    return a + z, b + _rotate(a, 44) + c


@kernel
def _round(data: Array, start: int, x: Any, y: Any, z: Any, v0: Any, v1: Any, w0: Any, w1: Any) -> Any:
    """Mix 64 bytes into the seven numbers of the state; x and z change places."""
    x = _rotate(x + y + v0 + _fetch64(data, start + 8), 37) * _K1
    y = _rotate(y + v1 + _fetch64(data, start + 48), 42) * _K1
    x ^= w1
    y += v0 + _fetch64(data, start + 40)
    z = _rotate(z + w0, 33) * _K1
    v0, v1 = _weak(data, start, v1 * _K1, x + w0)
    w0, w1 = _weak(data, start + 32, z + w1, y + _fetch64(data, start + 16))
    return z, y, x, v0, v1, w0, w1


@kernel
def _city64(data: Array, start: int, length: int) -> Any:
    if length <= 16:
        return _upto16(data, start, length)
    if length <= 64:
        return _upto64(data, start, length)
    n = np.uint64(length)
    end = start + length
    x = _fetch64(data, end - 40)
    y = _fetch64(data, end - 16) + _fetch64(data, end - 56)
    z = _pair(_fetch64(data, end - 48) + n, _fetch64(data, end - 24), _MUL)
    v0, v1 = _weak(data, end - 64, n, z)
    w0, w1 = _weak(data, end - 32, y + _K1, x)
    x = x * _K1 + _fetch64(data, start)
    for block in range((length - 1) // 64):
        x, y, z, v0, v1, w0, w1 = _round(data, start + 64 * block, x, y, z, v0, v1, w0, w1)
    return _pair(_pair(v0, w0, _MUL) + _shift_mix(y) * _K1 + z, _pair(v1, w1, _MUL) + x, _MUL)


# 128 bits


@kernel
def _city_murmur(data: Array, start: int, length: int, seed0: Any, seed1: Any) -> Any:
    """Fewer than 128 bytes."""
    a, b = seed0, seed1
    if length <= 16:
        a = _shift_mix(a * _K1) * _K1
        c = b * _K1 + _upto16(data, start, length)
        d = _shift_mix(a + (_fetch64(data, start) if length >= 8 else c))
    else:
        c = _pair(_fetch64(data, start + length - 8) + _K1, a, _MUL)
        d = _pair(b + np.uint64(length), c + _fetch64(data, start + length - 16), _MUL)
        a = a + d
        left = length - 16
        while left > 0:
            a = (a ^ (_shift_mix(_fetch64(data, start) * _K1) * _K1)) * _K1
            b = b ^ a
            c = (c ^ (_shift_mix(_fetch64(data, start + 8) * _K1) * _K1)) * _K1
            d = d ^ c
            start += 16
            left -= 16
    a = _pair(a, c, _MUL)
    b = _pair(d, b, _MUL)
    return a ^ b, _pair(b, a, _MUL)


@kernel
def _seeded128(data: Array, start: int, length: int, seed0: Any, seed1: Any) -> Any:
    if length < 128:
        return _city_murmur(data, start, length, seed0, seed1)
    x, y, z = seed0, seed1, _K1 * np.uint64(length)
    v0 = _rotate(y ^ _K1, 49) * _K1 + _fetch64(data, start)
    v1 = _rotate(v0, 42) * _K1 + _fetch64(data, start + 8)
    w0 = _rotate(y + z, 35) * _K1 + x
    w1 = _rotate(x + _fetch64(data, start + 88), 53) * _K1
    left = length
    while left >= 128:
        for _ in range(2):
            x, y, z, v0, v1, w0, w1 = _round(data, start, x, y, z, v0, v1, w0, w1)
            start += 64
        left -= 128
    x += _rotate(v0 + z, 49) * _K0
    y = y * _K0 + _rotate(w1, 37)
    z = z * _K0 + _rotate(w0, 27)
    w0 = w0 * np.uint64(9)
    v0 = v0 * _K0
    tail = 0
    while tail < left:
        tail += 32
        at = start + left - tail
        y = _rotate(x + y, 42) * _K0 + v1
        w0 += _fetch64(data, at + 16)
        x = x * _K0 + w0
        z += w1 + _fetch64(data, at)
        w1 += v0
        v0, v1 = _weak(data, at, v0 + z, v1)
        v0 = v0 * _K0
    x = _pair(x, v0, _MUL)
    y = _pair(y + z, w0, _MUL)
    return _pair(x + v1, w1, _MUL) + y, _pair(x + w1, y + v1, _MUL)


@kernel
def city32(data: Array, offsets: Array, out: Array) -> None:
    """CityHash32, sign-extended: int64 [n]."""
    for i in range(out.size):
        h = np.int64(_city32(data, offsets[i], offsets[i + 1] - offsets[i]))
        out[i] = h - np.int64(4294967296) if h >= np.int64(2147483648) else h


@kernel
def city64(data: Array, offsets: Array, out: Array) -> None:
    """CityHash64: uint64 [n]."""
    for i in range(out.size):
        out[i] = _city64(data, offsets[i], offsets[i + 1] - offsets[i])


@kernel
def city64_seeded(data: Array, offsets: Array, seed0: Any, seed1: Any, out: Array) -> None:
    """CityHash64WithSeeds (uint64 seeds; with one seed the first is 0x9AE16A3B2F90404F): uint64 [n]."""
    for i in range(out.size):
        out[i] = _pair(_city64(data, offsets[i], offsets[i + 1] - offsets[i]) - seed0, seed1, _MUL)


@kernel
def city128(data: Array, offsets: Array, first: Array, second: Array) -> None:
    """CityHash128: the lower and the upper half, uint64 [n]."""
    for i in range(first.size):
        start = offsets[i]
        length = offsets[i + 1] - start
        if length >= 16:
            first[i], second[i] = _seeded128(
                data, start + 16, length - 16, _fetch64(data, start), _fetch64(data, start + 8) + _K0
            )
        else:
            first[i], second[i] = _seeded128(data, start, length, _K0, _K1)
