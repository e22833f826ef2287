"""Whole columns of 64-bit numbers put in order by their digits, where NumPy's sort does not have fast vector code.

The bits of a number are changed such that unsigned order is its order, NaN last, and the least is 0. Three passes by digits
of 11 bits cover the 33 highest bits of the greatest (least significant digit first: Knuth, TAOCP 3, 5.2.5); runs that are
equal in those are sorted by comparison.
"""

from typing import Any

import numpy as np
from llvmlite.binding import get_host_cpu_name

from gamay.base.arrays import Array
from gamay.kernels.group.points import sort_run
from gamay.kernels.jit import inlined, kernel
from gamay.kernels.raw_memory import has_features

_DIGIT_BITS, _DIGITS = 11, 3
_BUCKETS = 1 << _DIGIT_BITS
_SIGN = np.uint64(1 << 63)
_INFINITY, _NAN = np.uint64(0x7FF0000000000000), np.uint64(0x7FF8000000000000)
_SIGN_SHIFT = np.int64(63)
_MANY = 4096  # numbers from which digits pay

# NumPy sorts with AVX-512 by instructions that Zen 4 has in microcode only, which makes them slower than plain code.
_BY_DIGITS = not has_features("avx512f") or get_host_cpu_name().startswith("znver")


def sort_numbers(values: Array) -> None:
    """Sort an array in place, NaN last."""
    if _BY_DIGITS and len(values) >= _MANY and values.dtype in (np.float64, np.int64) and values.flags.c_contiguous:
        words = values.view(np.uint64)
        sort_words(words, np.empty_like(words), values.dtype.kind == "f")
    else:
        values.sort()


@inlined
def _ordered(word: Any, is_float: Any) -> Any:
    if not is_float:
        return word ^ _SIGN
    if word & ~_SIGN > _INFINITY:  # NaN has either sign
        word = _NAN
    return word ^ (np.uint64(np.int64(word) >> _SIGN_SHIFT) | _SIGN)


@inlined
def _as_before(word: Any, is_float: Any) -> Any:
    return word ^ (np.uint64(np.int64(~word) >> _SIGN_SHIFT) | _SIGN) if is_float else word ^ _SIGN


@kernel
def _sort_equal_tops(words: Array, low: Any) -> None:
    """Sort each run of words that are equal above their `low` lowest bits."""
    first = 0
    while first < words.size:
        top = words[first] >> low
        last = first + 1
        while last < words.size and words[last] >> low == top:
            last += 1
        if last - first > 1:
            sort_run(words, first, last)
        first = last


@kernel
def _by_digit(source: Array, target: Array, shift: Any, places: Array) -> None:
    """Move words to where the words with their digit begin. places: int64 [_BUCKETS], how many words have each digit."""
    place = np.int64(0)
    for digit in range(_BUCKETS):
        count = places[digit]
        places[digit] = place
        place += count
    for i in range(source.size):
        word = source[i]
        digit = (word >> shift) & np.uint64(_BUCKETS - 1)
        target[places[digit]] = word
        places[digit] += 1


@kernel
def sort_words(words: Array, scratch: Array, is_float: bool) -> None:
    """Sort numbers in place. words: uint64 [n], the bits of doubles or of int64; scratch: uint64 [n]."""
    least: Any = ~np.uint64(0)
    greatest: Any = np.uint64(0)
    for i in range(words.size):
        word = _ordered(words[i], is_float)
        least, greatest = min(least, word), max(greatest, word)
    high = np.int64(0)
    while high < 64 and (greatest - least) >> np.uint64(high) != 0:
        high += 1
    low: Any = max(high - _DIGITS * _DIGIT_BITS, 0)
    counts = np.zeros((_DIGITS, _BUCKETS), np.int64)
    for i in range(words.size):
        words[i] = _ordered(words[i], is_float) - least
        word = words[i] >> np.uint64(low)
        for digit in range(_DIGITS):
            counts[digit, (word >> np.uint64(_DIGIT_BITS * digit)) & np.uint64(_BUCKETS - 1)] += 1
    source, target = words, scratch
    for digit in range((high - low + _DIGIT_BITS - 1) // _DIGIT_BITS):
        _by_digit(source, target, np.uint64(low + _DIGIT_BITS * digit), counts[digit])
        source, target = target, source
    if low > 0:
        _sort_equal_tops(source, np.uint64(low))
    for i in range(words.size):
        words[i] = _as_before(source[i] + least, is_float)
