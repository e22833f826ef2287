"""Vectors of float32 by their nearest centroids, and how far many of them are from one.

Sums are of float32, in lanes, which processors add up side by side.
"""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def nearest_centroids(points: Array, transposed: Array, halves: Array, nearest: Array) -> None:
    """Number the centroid that is nearest to each point.

    points: float32 [n, width]; transposed: float32 [width, k], the centroids by column; halves: float32 [k], half of their
    squared lengths; nearest: int32 [n].
    """
    width, k = transposed.shape
    # of four points at once, so that a centroid is loaded once for all of them
    sums = np.empty((4, k), np.float32)
    a, b, c, d = sums[0], sums[1], sums[2], sums[3]
    last = len(points) - 1
    for first in range(0, len(points), 4):
        at = (first, min(first + 1, last), min(first + 2, last), min(first + 3, last))
        for i in range(4):
            for j in range(k):
                sums[i, j] = -halves[j]
        for w in range(width):
            row = transposed[w]
            p, q, r, s = points[at[0], w], points[at[1], w], points[at[2], w], points[at[3], w]
            for j in range(k):
                a[j] += p * row[j]
                b[j] += q * row[j]
                c[j] += r * row[j]
                d[j] += s * row[j]
        for i in range(4):
            best = 0
            for j in range(1, k):
                if sums[i, j] > sums[i, best]:
                    best = j
            nearest[at[i]] = best


@kernel
def scaled_products(rows: Array, scales: Array, ranges: Array, vector: Array, out: Array) -> None:
    """Sums of products with a vector, negative, times the row's scale.

    rows: float32 [n, width]; scales: float32 [n]; ranges: int64 [k, 2], the rows that are asked for; vector: float32
    [width]; out: float32, for each row of the ranges, one range after the other.
    """
    width = len(vector)
    whole = width - width % 8
    place = 0
    for first, stop in ranges:
        for i in range(first, stop):
            a = b = c = d = e = f = g = h = np.float32(0)
            for j in range(0, whole, 8):
                a += rows[i, j] * vector[j]
                b += rows[i, j + 1] * vector[j + 1]
                c += rows[i, j + 2] * vector[j + 2]
                d += rows[i, j + 3] * vector[j + 3]
                e += rows[i, j + 4] * vector[j + 4]
                f += rows[i, j + 5] * vector[j + 5]
                g += rows[i, j + 6] * vector[j + 6]
                h += rows[i, j + 7] * vector[j + 7]
            total = ((a + b) + (c + d)) + ((e + f) + (g + h))
            for j in range(whole, width):
                total += rows[i, j] * vector[j]
            out[place] = -total * scales[i]
            place += 1


@kernel
def squared_differences(rows: Array, ranges: Array, vector: Array, out: Array) -> None:
    """Sums of squared differences to a vector; the arguments are those of `scaled_products`."""
    width = len(vector)
    whole = width - width % 4
    place = 0
    for first, stop in ranges:
        for i in range(first, stop):
            a = b = c = d = np.float32(0)
            for j in range(0, whole, 4):
                p, q = rows[i, j] - vector[j], rows[i, j + 1] - vector[j + 1]
                r, s = rows[i, j + 2] - vector[j + 2], rows[i, j + 3] - vector[j + 3]
                a += p * p
                b += q * q
                c += r * r
                d += s * s
            total = (a + b) + (c + d)
            for j in range(whole, width):
                difference = rows[i, j] - vector[j]
                total += difference * difference
            out[place] = total
            place += 1
