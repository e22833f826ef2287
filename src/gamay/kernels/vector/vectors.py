"""Distances between vectors: rows of two multi-value columns, element by element.

Row i of a column is values[offsets[i]:offsets[i + 1]] (float32 or float64); sums are in float64.
"""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def dot_products(left: Array, left_offsets: Array, right: Array, right_offsets: Array, out: Array) -> None:
    """Sums of products."""
    for i in range(out.size):
        base = right_offsets[i] - left_offsets[i]
        total = 0.0
        for j in range(left_offsets[i], left_offsets[i + 1]):
            total += np.float64(left[j]) * np.float64(right[base + j])
        out[i] = total


@kernel
def cosines(left: Array, left_offsets: Array, right: Array, right_offsets: Array, out: Array) -> None:
    """Cosines of the angles; NaN where a vector has no length."""
    for i in range(out.size):
        base = right_offsets[i] - left_offsets[i]
        total = 0.0
        one = 0.0
        other = 0.0
        for j in range(left_offsets[i], left_offsets[i + 1]):
            a = np.float64(left[j])
            b = np.float64(right[base + j])
            total += a * b
            one += a * a
            other += b * b
        if one == 0.0 or other == 0.0:
            out[i] = np.nan
        else:
            out[i] = total / (np.sqrt(one) * np.sqrt(other))


@kernel
def absolute_distances(left: Array, left_offsets: Array, right: Array, right_offsets: Array, out: Array) -> None:
    """Sums of absolute differences."""
    for i in range(out.size):
        base = right_offsets[i] - left_offsets[i]
        total = 0.0
        for j in range(left_offsets[i], left_offsets[i + 1]):
            total += abs(np.float64(left[j]) - np.float64(right[base + j]))
        out[i] = total


@kernel
def squared_distances(left: Array, left_offsets: Array, right: Array, right_offsets: Array, out: Array) -> None:
    """Sums of squared differences."""
    for i in range(out.size):
        base = right_offsets[i] - left_offsets[i]
        total = 0.0
        for j in range(left_offsets[i], left_offsets[i + 1]):
            difference = np.float64(left[j]) - np.float64(right[base + j])
            total += difference * difference
        out[i] = total
