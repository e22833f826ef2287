"""Pairs of rows and columns in the bit stream of a serialised CPC sketch, checked before a library relies on them."""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_CODE_BITS = 12


@kernel
def _bits(words: Array, position: int, count: int) -> Any:
    """Return up to 31 bits from a position on, the first one lowest; those behind the end are 0."""
    value = np.uint64(0)
    word = position >> 5
    for i in range(2):
        if word + i < len(words):
            value |= np.uint64(words[word + i]) << np.uint64(32 * i)
    return np.int64((value >> np.uint64(position & 31)) & np.uint64((1 << count) - 1))


@kernel
def pairs_fit(words: Array, codes: Array, num_pairs: int, base_bits: int, num_rows: int, num_columns: int) -> bool:
    """Tell whether a stream holds `num_pairs` pairs, of rows below `num_rows` and columns below `num_columns`.

    words: uint32 [n], bits from the lowest on. codes: uint16 [4096], what 12 bits begin with: the symbol, and its length in
    the upper byte. A pair is the code of the columns that are passed over in its row, the high part of the rows that are
    passed over as so many zeros and a one, and their `base_bits` low bits.
    """
    position, end = 0, 32 * len(words)
    row, column = 0, 0
    for _ in range(num_pairs):
        code = int(codes[_bits(words, position, _CODE_BITS)])
        position += code >> 8
        skipped = 0
        while position < end and _bits(words, position, 1) == 0:
            position += 1
            skipped += 1
        position += 1
        rows = (skipped << base_bits) | _bits(words, position, base_bits)
        position += base_bits
        row += rows
        column = (0 if rows else column) + (code & 0xFF)
        if position > end or row >= num_rows or column >= num_columns:
            return False
        column += 1
    return True
