"""Sets of doc ids as bits: doc d is bit d & 7 of byte d >> 3, uint8 [n]."""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def set_docs(bits: Array, docs: Array) -> None:
    """Add docs (int64)."""
    for i in range(docs.size):
        bits[docs[i] >> 3] |= np.uint8(1 << (docs[i] & 7))


@kernel
def clear_docs(bits: Array, docs: Array) -> None:
    """Remove docs (int64)."""
    for i in range(docs.size):
        bits[docs[i] >> 3] &= np.uint8(255 ^ (1 << (docs[i] & 7)))


@kernel
def count_docs(bits: Array, docs: Array) -> int:
    """Return how many of some docs (int32 or int64) are in a set."""
    count = 0
    for i in range(docs.size):
        count += (bits[docs[i] >> 3] >> np.uint8(docs[i] & 7)) & 1
    return count


@kernel
def flag_docs(bits: Array, docs: Array, out: Array) -> None:
    """Write for each of some docs (int32) whether it is in a set: bool."""
    for i in range(docs.size):
        out[i] = (bits[docs[i] >> 3] >> np.uint8(docs[i] & 7)) & 1
