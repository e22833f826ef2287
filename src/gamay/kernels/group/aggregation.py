"""Totals of groups: count, sum, minimum and maximum over dictionary ids or plain values.

groups: unsigned [n], the group of each row; ids: unsigned [n]; lut: int64 or float64 [cardinality], the value of each id;
values: any number type [n]. Totals have `stride` cells for each of four lanes, or one lane when stride is 0: row i adds to
lane i mod 4, so that consecutive rows of one group do not wait for each other. `pairs` hold count and sum side by side,
two cells for each group, because one cache line then serves both.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def count_groups(groups: Array, counts: Array, stride: int) -> None:
    """Add 1 to `counts[group]` for each row."""
    step = np.uint64(stride)
    whole = len(groups) // 4 * 4
    for i in range(0, whole, 4):
        counts[np.uint64(groups[i])] += 1
        counts[np.uint64(groups[i + 1]) + step] += 1
        counts[np.uint64(groups[i + 2]) + step + step] += 1
        counts[np.uint64(groups[i + 3]) + step + step + step] += 1
    for i in range(whole, len(groups)):
        counts[np.uint64(groups[i])] += 1


@kernel
def add_coded(groups: Array, ids: Array, lut: Array, sums: Array, stride: int) -> None:
    """Add `lut[id]` to `sums[group]` for each row."""
    step = np.uint64(stride)
    whole = len(groups) // 4 * 4
    for i in range(0, whole, 4):
        sums[np.uint64(groups[i])] += lut[np.uint64(ids[i])]
        sums[np.uint64(groups[i + 1]) + step] += lut[np.uint64(ids[i + 1])]
        sums[np.uint64(groups[i + 2]) + step + step] += lut[np.uint64(ids[i + 2])]
        sums[np.uint64(groups[i + 3]) + step + step + step] += lut[np.uint64(ids[i + 3])]
    for i in range(whole, len(groups)):
        sums[np.uint64(groups[i])] += lut[np.uint64(ids[i])]


@kernel
def add_values(groups: Array, values: Array, sums: Array, stride: int) -> None:
    """Add `values[i]` to `sums[group]` for each row."""
    step = np.uint64(stride)
    whole = len(groups) // 4 * 4
    for i in range(0, whole, 4):
        sums[np.uint64(groups[i])] += values[i]
        sums[np.uint64(groups[i + 1]) + step] += values[i + 1]
        sums[np.uint64(groups[i + 2]) + step + step] += values[i + 2]
        sums[np.uint64(groups[i + 3]) + step + step + step] += values[i + 3]
    for i in range(whole, len(groups)):
        sums[np.uint64(groups[i])] += values[i]


@kernel
def count_add_coded(groups: Array, ids: Array, lut: Array, pairs: Array, stride: int) -> None:
    """Add 1 to `pairs[2 * group]` and `lut[id]` to `pairs[2 * group + 1]`; stride counts cells, two for each group."""
    step = np.uint64(stride)
    one = np.uint64(1)
    whole = len(groups) // 4 * 4
    for i in range(0, whole, 4):
        cell = np.uint64(groups[i]) << one
        pairs[cell] += 1
        pairs[cell + one] += lut[np.uint64(ids[i])]
        cell = (np.uint64(groups[i + 1]) << one) + step
        pairs[cell] += 1
        pairs[cell + one] += lut[np.uint64(ids[i + 1])]
        cell = (np.uint64(groups[i + 2]) << one) + step + step
        pairs[cell] += 1
        pairs[cell + one] += lut[np.uint64(ids[i + 2])]
        cell = (np.uint64(groups[i + 3]) << one) + step + step + step
        pairs[cell] += 1
        pairs[cell + one] += lut[np.uint64(ids[i + 3])]
    for i in range(whole, len(groups)):
        cell = np.uint64(groups[i]) << one
        pairs[cell] += 1
        pairs[cell + one] += lut[np.uint64(ids[i])]


@kernel
def count_add_values(groups: Array, values: Array, pairs: Array, stride: int) -> None:
    """Add 1 to `pairs[2 * group]` and `values[i]` to `pairs[2 * group + 1]`; stride counts cells, two for each group."""
    step = np.uint64(stride)
    one = np.uint64(1)
    whole = len(groups) // 4 * 4
    for i in range(0, whole, 4):
        cell = np.uint64(groups[i]) << one
        pairs[cell] += 1
        pairs[cell + one] += values[i]
        cell = (np.uint64(groups[i + 1]) << one) + step
        pairs[cell] += 1
        pairs[cell + one] += values[i + 1]
        cell = (np.uint64(groups[i + 2]) << one) + step + step
        pairs[cell] += 1
        pairs[cell + one] += values[i + 2]
        cell = (np.uint64(groups[i + 3]) << one) + step + step + step
        pairs[cell] += 1
        pairs[cell + one] += values[i + 3]
    for i in range(whole, len(groups)):
        cell = np.uint64(groups[i]) << one
        pairs[cell] += 1
        pairs[cell + one] += values[i]


@kernel
def bound_coded(groups: Array, ids: Array, lut: Array, lows: Array, highs: Array) -> None:
    """Lower `lows[group]` and raise `highs[group]` to include `lut[id]`; NaN is passed over.

    An empty `lows` or `highs` is left alone.
    """
    if len(highs) == 0:
        for i in range(len(groups)):
            value = lut[np.uint64(ids[i])]
            group = np.uint64(groups[i])
            if value < lows[group]:
                lows[group] = value
    elif len(lows) == 0:
        for i in range(len(groups)):
            value = lut[np.uint64(ids[i])]
            group = np.uint64(groups[i])
            if value > highs[group]:
                highs[group] = value
    else:
        for i in range(len(groups)):
            value = lut[np.uint64(ids[i])]
            group = np.uint64(groups[i])
            if value < lows[group]:
                lows[group] = value
            if value > highs[group]:
                highs[group] = value


@kernel
def bound_values(groups: Array, values: Array, lows: Array, highs: Array) -> None:
    """Lower `lows[group]` and raise `highs[group]` to include `values[i]`; NaN is passed over.

    An empty `lows` or `highs` is left alone.
    """
    if len(highs) == 0:
        for i in range(len(groups)):
            value = np.float64(values[i])
            group = np.uint64(groups[i])
            if value < lows[group]:
                lows[group] = value
    elif len(lows) == 0:
        for i in range(len(groups)):
            value = np.float64(values[i])
            group = np.uint64(groups[i])
            if value > highs[group]:
                highs[group] = value
    else:
        for i in range(len(groups)):
            value = np.float64(values[i])
            group = np.uint64(groups[i])
            if value < lows[group]:
                lows[group] = value
            if value > highs[group]:
                highs[group] = value


@kernel
def total_coded(ids: Array, lut: Array) -> Any:
    """Return the sum of `lut[id]` over all rows; four running sums, so that additions overlap."""
    first = np.zeros(1, lut.dtype)[0]
    second = first
    third = first
    fourth = first
    whole = len(ids) // 4 * 4
    for i in range(0, whole, 4):
        first += lut[np.uint64(ids[i])]
        second += lut[np.uint64(ids[i + 1])]
        third += lut[np.uint64(ids[i + 2])]
        fourth += lut[np.uint64(ids[i + 3])]
    for i in range(whole, len(ids)):
        first += lut[np.uint64(ids[i])]
    return first + second + third + fourth


@kernel
def total_coded_kept(ids: Array, mask: Array, lut: Array) -> Any:
    """Return the sum of `lut[id]` over the rows with `mask[i]` 1, not 0.

    Every row's value is loaded, without a branch, which would be mispredicted.
    """
    zero = np.zeros(1, lut.dtype)[0]
    first = zero
    second = zero
    third = zero
    fourth = zero
    whole = len(ids) // 4 * 4
    for i in range(0, whole, 4):
        a, b = lut[np.uint64(ids[i])], lut[np.uint64(ids[i + 1])]
        c, d = lut[np.uint64(ids[i + 2])], lut[np.uint64(ids[i + 3])]
        first += a if mask[i] != 0 else zero
        second += b if mask[i + 1] != 0 else zero
        third += c if mask[i + 2] != 0 else zero
        fourth += d if mask[i + 3] != 0 else zero
    for i in range(whole, len(ids)):
        if mask[i] != 0:
            first += lut[np.uint64(ids[i])]
    return first + second + third + fourth


@kernel
def total_values_kept(values: Array, mask: Array, zero: Any) -> Any:
    """Return the sum of the values with `mask[i]` 1, not 0, in the type of `zero`."""
    first = zero
    second = zero
    third = zero
    fourth = zero
    whole = len(values) // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = values[i], values[i + 1], values[i + 2], values[i + 3]
        first += a if mask[i] != 0 else zero
        second += b if mask[i + 1] != 0 else zero
        third += c if mask[i + 2] != 0 else zero
        fourth += d if mask[i + 3] != 0 else zero
    for i in range(whole, len(values)):
        if mask[i] != 0:
            first += values[i]
    return first + second + third + fourth


@kernel
def total_ids(ids: Array) -> Any:
    """Return the sum of ids: uint64."""
    total = np.uint64(0)
    for i in range(len(ids)):
        total += np.uint64(ids[i])
    return total


@kernel
def total_ids_kept(ids: Array, mask: Array) -> Any:
    """Return the sum of the ids with `mask[i]` 1, not 0: uint64."""
    total = np.uint64(0)
    for i in range(len(ids)):
        total += np.uint64(ids[i]) * np.uint64(mask[i])
    return total


@kernel
def tally_coded(groups: Array, ids: Array, cardinality: int, tally: Array) -> None:
    """Add 1 to `tally[group * cardinality + id]` for each row."""
    width = np.uint64(cardinality)
    for i in range(len(ids)):
        tally[np.uint64(groups[i]) * width + np.uint64(ids[i])] += 1


@kernel
def mark_ids(ids: Array, seen: Array) -> None:
    """Set `seen[id]` for each row: uint8."""
    for i in range(len(ids)):
        seen[np.uint64(ids[i])] = 1
