"""Numbers as small unsigned codes above a base: `low` and `high` hold the low and the high bytes of each code.

Two arrays take 3, 5 or 6 bytes a value and are read as quickly as one, for a vector instruction widens each. Kernels take
the addresses of both, and the kind that CODE_KINDS tells for their bytes, so that one compiled form serves all widths, and
arrays that are mapped as well as those that are not. Whoever calls keeps the arrays.
"""

from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel
from gamay.kernels.raw_memory import pointing

CODE_KINDS = {(1, 0): 0, (2, 0): 1, (2, 1): 2, (4, 0): 3, (4, 1): 4, (4, 2): 5}
_LOW_BYTES, _HIGH_BYTES = (1, 2, 2, 4, 4, 4), (0, 0, 1, 0, 1, 2)

_bytes = pointing(types.uint8)
_halfwords = pointing(types.uint16)
_words = pointing(types.uint32)


@kernel
def _whole(low: Array, high: Array, base: Any, out: Array) -> None:
    if len(high):
        top = np.int64(1) << np.int64(8 * low.itemsize)
        for i in range(len(out)):
            out[i] = base + (np.int64(high[i]) * top + np.int64(low[i]))
    else:
        for i in range(len(out)):
            out[i] = base + np.int64(low[i])


@kernel
def _decimals(low: Array, high: Array, base: Any, scale: Any, divides: Any, out: Array) -> None:
    """Multiply, or divide: 0.33 and 0.65 ns a value."""
    top = np.float64(np.int64(1) << np.int64(8 * low.itemsize))
    if len(high) and divides:
        for i in range(len(out)):
            out[i] = (base + (np.float64(high[i]) * top + np.float64(low[i]))) / scale
    elif len(high):
        for i in range(len(out)):
            out[i] = (base + (np.float64(high[i]) * top + np.float64(low[i]))) * scale
    elif divides:
        for i in range(len(out)):
            out[i] = (base + np.float64(low[i])) / scale
    else:
        for i in range(len(out)):
            out[i] = (base + np.float64(low[i])) * scale


@kernel
def _mark(low: Array, high: Array, first: Any, count: Any, out: Array) -> None:
    shift = np.uint64(8 * low.itemsize)
    for i in range(len(out)):
        out[i] = ((np.uint64(high[i]) << shift | np.uint64(low[i])) - first) < count


@kernel
def decode_whole(kind: int, low: int, high: int, base: int, out: Array) -> None:
    """Set out[i] = base + code[i]; out: int64."""
    n = len(out)
    none, above = carray(_bytes(low), 0), carray(_bytes(high), n)
    if kind == 0:
        _whole(carray(_bytes(low), n), none, base, out)
    elif kind <= 2:
        _whole(carray(_halfwords(low), n), none if kind == 1 else above, base, out)
    elif kind <= 4:
        _whole(carray(_words(low), n), none if kind == 3 else above, base, out)
    else:
        _whole(carray(_words(low), n), carray(_halfwords(high), n), base, out)


@kernel
def decode_decimals(kind: int, low: int, high: int, base: int, places: int, out: Array) -> None:
    """Set out[i] = (base + code[i]) / 10 ** places; for places < 0 that times the double 10 ** (1 + places); out: float64.

    base + code[i] is at most 2 ** 53, and places at most 22, so that only the last step rounds.
    """
    n, divides, scale = len(out), places >= 0, 1.0
    for _ in range(places if divides else -1 - places):
        scale *= 10.0  # exact, and so its inverse is the double that is nearest
    scale = scale if divides else 1.0 / scale
    start = np.float64(base)
    none, above = carray(_bytes(low), 0), carray(_bytes(high), n)
    if kind == 0:
        _decimals(carray(_bytes(low), n), none, start, scale, divides, out)
    elif kind <= 2:
        _decimals(carray(_halfwords(low), n), none if kind == 1 else above, start, scale, divides, out)
    elif kind <= 4:
        _decimals(carray(_words(low), n), none if kind == 3 else above, start, scale, divides, out)
    else:
        _decimals(carray(_words(low), n), carray(_halfwords(high), n), start, scale, divides, out)


@kernel
def decode_decimals_from(step: Array, kind: int, start: int, out: Array) -> None:
    """Do what `decode_decimals` does from row `start` on. step: addresses of low and high, base, places, from index 3 on."""
    low, high = step[3] + _LOW_BYTES[kind] * start, step[4] + _HIGH_BYTES[kind] * start
    decode_decimals(kind, low, high, step[5], step[6], out)


@kernel
def mark_codes(kind: int, low: int, high: int, first: Any, count: Any, out: Array) -> None:
    """Set out[i] = first <= code[i] < first + count, for codes in two arrays; first, count: uint64."""
    n = len(out)
    if kind == 2:
        _mark(carray(_halfwords(low), n), carray(_bytes(high), n), first, count, out)
    elif kind == 4:
        _mark(carray(_words(low), n), carray(_bytes(high), n), first, count, out)
    else:
        _mark(carray(_words(low), n), carray(_halfwords(high), n), first, count, out)
