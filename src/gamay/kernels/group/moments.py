"""Central moments and covariances of groups, in two passes over a batch and stable merges of what batches gave.

Moments of a group are a row of float64: count, mean, then the sums of the second, third and fourth powers of the deviations
from the mean (only the second where three cells are kept). Comoments are count, mean x, mean y and the sum of the products
of both deviations. The formulas for merging are those of Pébay, "Formulas for Robust, One-Pass Parallel Computation of
Covariances and Arbitrary-Order Statistical Moments" (2008).
"""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def total_squares(values: Array, mean: float, sums: Array) -> None:
    """Add the sums of the deviations from `mean` and of their squares to `sums`: float64 [2]."""
    first = second = third = fourth = 0.0
    one = two = three = four = 0.0
    whole = len(values) // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = values[i] - mean, values[i + 1] - mean, values[i + 2] - mean, values[i + 3] - mean
        first += a
        second += b
        third += c
        fourth += d
        one += a * a
        two += b * b
        three += c * c
        four += d * d
    for i in range(whole, len(values)):
        a = values[i] - mean
        first += a
        one += a * a
    sums[0] += first + second + third + fourth
    sums[1] += one + two + three + four


@kernel
def add_squares(groups: Array, values: Array, means: Array, sums: Array) -> None:
    """Add each deviation from `means[group]` and its square to `sums[group]`: float64 [number of groups, 2]."""
    for i in range(len(values)):
        group = np.uint64(groups[i])
        d = values[i] - means[group]
        sums[group, 0] += d
        sums[group, 1] += d * d


@kernel
def add_powers(groups: Array, values: Array, means: Array, sums: Array) -> None:
    """Add the first to fourth power of each deviation from `means[group]` to `sums[group]`: float64 [.., 4]."""
    for i in range(len(values)):
        group = np.uint64(groups[i])
        d = values[i] - means[group]
        square = d * d
        sums[group, 0] += d
        sums[group, 1] += square
        sums[group, 2] += square * d
        sums[group, 3] += square * square


@kernel
def add_shifted(groups: Array, values: Array, cells: Array) -> None:
    """Add rows to cells[group]: count, shift, and the sums of the distances from the shift and of their squares.

    The shift of a group is its first value. It is one of the values, so its square distance from their mean is a part of the
    sum that is wanted: what cancels out costs no more digits than the number of rows has.
    """
    for i in range(len(values)):
        group = np.uint64(groups[i])
        value = values[i]
        if cells[group, 0] == 0.0:
            cells[group, 1] = value
        d = value - cells[group, 1]
        cells[group, 0] += 1.0
        cells[group, 2] += d
        cells[group, 3] += d * d


@kernel
def moments_of_sums(counts: Array, means: Array, sums: Array, moments: Array) -> None:
    """Write the moments of groups from sums of powers of deviations from `means`, which need not be quite the means."""
    for group in range(len(counts)):
        n = np.float64(counts[group])
        moments[group, 0] = n
        if n == 0.0:
            continue
        s1, s2 = sums[group, 0], sums[group, 1]
        shift = s1 / n
        moments[group, 1] = means[group] + shift
        squares = s2 - s1 * shift
        moments[group, 2] = max(squares, 0.0) if squares == squares else np.nan
        if moments.shape[1] == 5:
            s3, s4 = sums[group, 2], sums[group, 3]
            moments[group, 3] = s3 - 3.0 * shift * s2 + 2.0 * s1 * shift * shift
            moments[group, 4] = s4 - 4.0 * shift * s3 + 6.0 * shift * shift * s2 - 3.0 * s1 * shift * shift * shift


@kernel
def merge_moments(groups: Array, part: Array, moments: Array) -> None:
    """Merge row i of `part` into `moments[groups[i]]`."""
    for i in range(len(part)):
        nb = part[i, 0]
        if nb == 0.0:
            continue
        group = np.int64(groups[i])
        na = moments[group, 0]
        if na == 0.0:
            moments[group] = part[i]
            continue
        n = na + nb
        delta = part[i, 1] - moments[group, 1]
        a2, b2 = moments[group, 2], part[i, 2]
        cross = delta * delta * (na * nb / n)
        if moments.shape[1] == 5:
            a3, b3 = moments[group, 3], part[i, 3]
            step = delta / n
            moments[group, 4] += (
                part[i, 4]
                + cross * step * step * (na * na - na * nb + nb * nb)
                + 6.0 * step * step * (na * na * b2 + nb * nb * a2)
                + 4.0 * step * (na * b3 - nb * a3)
            )
            moments[group, 3] = a3 + b3 + cross * step * (na - nb) + 3.0 * step * (na * b2 - nb * a2)
        moments[group, 2] = a2 + b2 + cross
        moments[group, 1] += delta * (nb / n)
        moments[group, 0] = n


@kernel
def add_products(groups: Array, xs: Array, ys: Array, means: Array, sums: Array) -> None:
    """Add both deviations from `means[group]` (float64 [.., 2]) and their product to `sums[group]`: float64 [.., 3]."""
    for i in range(len(xs)):
        group = np.uint64(groups[i])
        dx = xs[i] - means[group, 0]
        dy = ys[i] - means[group, 1]
        sums[group, 0] += dx
        sums[group, 1] += dy
        sums[group, 2] += dx * dy


@kernel
def comoments_of_sums(counts: Array, means: Array, sums: Array, comoments: Array) -> None:
    """Write the comoments (float64 [.., 4]) of groups from the sums of `add_products`."""
    for group in range(len(counts)):
        n = np.float64(counts[group])
        comoments[group, 0] = n
        if n > 0.0:
            comoments[group, 1] = means[group, 0] + sums[group, 0] / n
            comoments[group, 2] = means[group, 1] + sums[group, 1] / n
            comoments[group, 3] = sums[group, 2] - sums[group, 0] * (sums[group, 1] / n)


@kernel
def merge_comoments(groups: Array, part: Array, comoments: Array) -> None:
    """Merge row i of `part` into `comoments[groups[i]]`."""
    for i in range(len(part)):
        nb = part[i, 0]
        if nb == 0.0:
            continue
        group = np.int64(groups[i])
        na = comoments[group, 0]
        if na == 0.0:
            comoments[group] = part[i]
            continue
        n = na + nb
        dx = part[i, 1] - comoments[group, 1]
        dy = part[i, 2] - comoments[group, 2]
        comoments[group, 3] += part[i, 3] + dx * dy * (na * nb / n)
        comoments[group, 1] += dx * (nb / n)
        comoments[group, 2] += dy * (nb / n)
        comoments[group, 0] = n
