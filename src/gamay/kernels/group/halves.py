"""Sums of 64-bit integers that cannot run over: the upper and the lower 32 bits of all values are added up on their own.

sums: int64 [number of groups, 2], upper and lower halves; good for 2^31 rows, after which lower halves must be carried over.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_LOWER = np.int64(0xFFFFFFFF)


@kernel
def add_halves(groups: Array, values: Array, sums: Array) -> None:
    """Add `values[i]`, of any integer type, to `sums[group]`."""
    for i in range(len(values)):
        group = np.uint64(groups[i])
        value = np.int64(values[i])
        sums[group, 0] += value >> 32
        sums[group, 1] += value & _LOWER


@kernel
def add_coded_halves(groups: Array, ids: Array, lut: Array, sums: Array) -> None:
    """Add `lut[id]` (int64) to `sums[group]`."""
    for i in range(len(ids)):
        group = np.uint64(groups[i])
        value = lut[np.uint64(ids[i])]
        sums[group, 0] += value >> 32
        sums[group, 1] += value & _LOWER


@kernel
def total_halves(values: Array) -> tuple[Any, Any]:
    """Return the sum of the upper and that of the lower halves of integers."""
    upper = np.int64(0)
    lower = np.int64(0)
    for i in range(len(values)):
        value = np.int64(values[i])
        upper += value >> 32
        lower += value & _LOWER
    return upper, lower
