"""Sets of pairs of a code and a group as bits: pair (c, g) of `width` groups is bit c * width + g, of words of 64 bits."""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel
from gamay.kernels.raw_memory import trailing_zeros


@kernel
def mark_codes(codes: Array, words: Array) -> None:
    """Add the pair of each code where there is one group. words: uint64."""
    for i in range(len(codes)):
        cell = np.uint64(codes[i])
        words[cell >> np.uint64(6)] |= np.uint64(1) << (cell & np.uint64(63))


@kernel
def mark_pairs(codes: Array, groups: Array, width: int, words: Array) -> None:
    """Add the pair of each row. codes, groups: unsigned, or int32 and not negative; words: uint64."""
    step = np.uint64(width)
    for i in range(len(codes)):
        cell = np.uint64(codes[i]) * step + np.uint64(groups[i])
        words[cell >> np.uint64(6)] |= np.uint64(1) << (cell & np.uint64(63))


@kernel
def mark_cells(codes: Array, groups: Array, width: int, cells: Array) -> None:
    """Set `cells[code * width + group]` for each row: uint8.

    Few pairs come again and again: a byte is written, 0.4 ns, where a bit waits for the one before in its word, 1.5 ns.
    """
    step = np.uint64(width)
    for i in range(len(codes)):
        cells[np.uint64(codes[i]) * step + np.uint64(groups[i])] = 1


@kernel
def drop_repeats(keys: Array) -> int:
    """Move the first of each run of equal keys (int64) to the front; return how many there are."""
    count = 0
    for i in range(len(keys)):
        keys[count] = keys[i]
        count += i + 1 == len(keys) or keys[i + 1] != keys[i]
    return count


@kernel
def list_pairs(words: Array, width: int, codes: Array, groups: Array) -> None:
    """Write all pairs, ascending by code, then group. codes: uint32, groups: int32, as many as there are."""
    count, code, end = 0, np.int64(0), np.int64(width)
    for i in range(len(words)):
        bits = words[i]
        while bits:
            cell = np.int64(i) * 64 + trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            if cell >= end:
                code = cell // width
                end = (code + 1) * width
            codes[count] = code
            groups[count] = cell - code * width
            count += 1
