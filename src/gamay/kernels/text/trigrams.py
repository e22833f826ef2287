"""Trigrams of texts that lie end to end: `data` uint8, text i is data[offsets[i]:offsets[i + 1]].

A trigram is three neighbouring bytes of a text, ASCII letters in lower case, as a number of 24 bits, the first byte highest.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def _folded(byte: Any) -> Any:
    wide = np.int64(byte)
    return wide + 32 if 65 <= wide <= 90 else wide


@kernel
def mark_trigrams(data: Array, offsets: Array, occurs: Array) -> None:
    """Set the flag of each trigram that occurs: bool [1 << 24]."""
    for text in range(len(offsets) - 1):
        start, stop = np.int64(offsets[text]), np.int64(offsets[text + 1])
        if stop - start < 3:
            continue
        code = _folded(data[start]) << 8 | _folded(data[start + 1])
        for at in range(start + 2, stop):
            code = (code << 8 | _folded(data[at])) & 0xFFFFFF
            occurs[code] = True


@kernel
def number_trigrams(data: Array, offsets: Array, number_of: Array, numbers: Array, ends: Array) -> None:
    """Write the number of each trigram of each text, int32 end to end, and where those of each text end.

    number_of: int32 [1 << 24]. A text of n bytes has max(0, n - 2) trigrams; repeats are written as often as they occur.
    """
    count = 0
    for text in range(len(offsets) - 1):
        start, stop = np.int64(offsets[text]), np.int64(offsets[text + 1])
        if stop - start >= 3:
            code = _folded(data[start]) << 8 | _folded(data[start + 1])
            for at in range(start + 2, stop):
                code = (code << 8 | _folded(data[at])) & 0xFFFFFF
                numbers[count] = number_of[code]
                count += 1
        ends[text] = count
