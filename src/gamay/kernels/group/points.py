"""Values put in order within each group.

starts: int64 [number of groups + 1]; the values of group g are those at starts[g] to starts[g + 1].
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import inlined, kernel

_FEW = 24  # values that are sorted by insertion


@kernel
def scatter_points(groups: Array, values: Array, places: Array, out: Array) -> None:
    """Move each value to its group's next place in `out`; places: int64 [number of groups], the next one of each."""
    for i in range(len(groups)):
        group = np.uint64(groups[i])
        out[places[group]] = values[i]
        places[group] += 1


@inlined
def sort_run(values: Array, first: Any, last: Any) -> None:
    """Sort values[first:last] by comparison."""
    if last - first > _FEW:
        values[first:last].sort()
        return
    for i in range(first + 1, last):
        value = values[i]
        j = i - 1
        while j >= first and values[j] > value:
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value


@kernel
def sort_runs(starts: Array, values: Array) -> None:
    """Sort the values of each group."""
    for group in range(len(starts) - 1):
        sort_run(values, starts[group], starts[group + 1])


@kernel
def sort_weighted_runs(starts: Array, values: Array, weights: Array) -> None:
    """Sort the values of each group and move their weights with them."""
    for group in range(len(starts) - 1):
        first, last = starts[group], starts[group + 1]
        if last - first <= _FEW:
            for i in range(first + 1, last):
                value, weight = values[i], weights[i]
                j = i - 1
                while j >= first and values[j] > value:
                    values[j + 1], weights[j + 1] = values[j], weights[j]
                    j -= 1
                values[j + 1], weights[j + 1] = value, weight
        else:
            order = np.argsort(values[first:last])
            values[first:last] = values[first:last][order]
            weights[first:last] = weights[first:last][order]


@kernel
def unite_points(starts: Array, values: Array, weights: Array, new_starts: Array) -> None:
    """Make equal values of a group one, in place; the values of each group ascend. new_starts: written."""
    end = np.int64(0)
    for group in range(len(starts) - 1):
        first = end
        begin, stop = starts[group], starts[group + 1]
        new_starts[group] = first
        for i in range(begin, stop):
            if end > first and values[end - 1] == values[i]:
                weights[end - 1] += weights[i]
            else:
                values[end], weights[end] = values[i], weights[i]
                end += 1
    new_starts[len(starts) - 1] = end


@kernel
def merge_runs(
    left: tuple[Array, Array, Array],
    right: tuple[Array, Array, Array],
    left_entries: Array,
    right_entries: Array,
    starts: Array,
    values: Array,
    weights: Array,
) -> None:
    """Merge what two lists of points hold for each group, ascending, with equal values made one.

    left, right: starts, values, weights; entry e of a list is what lies between starts[e] and starts[e + 1], ascending.
    left_entries, right_entries: for each group the entry of either list, -1 for none. starts, values, weights: written;
    there is room for all points of both.
    """
    left_starts, left_values, left_weights = left
    right_starts, right_values, right_weights = right
    end = np.int64(0)
    for group in range(len(left_entries)):
        first = end
        starts[group] = first
        i = i_end = k = k_end = np.int64(0)
        if left_entries[group] >= 0:
            i, i_end = left_starts[left_entries[group]], left_starts[left_entries[group] + 1]
        if right_entries[group] >= 0:
            k, k_end = right_starts[right_entries[group]], right_starts[right_entries[group] + 1]
        while i < i_end or k < k_end:
            if k == k_end or (i < i_end and left_values[i] <= right_values[k]):
                value, weight = left_values[i], left_weights[i]
                i += 1
            else:
                value, weight = right_values[k], right_weights[k]
                k += 1
            if end > first and values[end - 1] == value:
                weights[end - 1] += weight
            else:
                values[end], weights[end] = value, weight
                end += 1
    starts[len(left_entries)] = end


@kernel
def count_cells(tally: Array, width: int, starts: Array) -> Any:
    """Write where the cells that are not 0 of each group begin, were they listed; return how many there are.

    tally: [number of groups * width]; starts: int64 [number of groups + 1].
    """
    total = np.int64(0)
    for group in range(len(starts) - 1):
        starts[group] = total
        found = np.int64(0)
        for cell in range(group * width, (group + 1) * width):
            found += np.int64(tally[cell] != 0)
        total += found
    starts[len(starts) - 1] = total
    return total


@kernel
def list_cells(tally: Array, width: int, lut: Array, values: Array, weights: Array) -> None:
    """Write `lut[id]` of each cell that is not 0, group after group, and what it counts as a weight.

    values, weights: one longer than there are such cells: every cell is written, and the place only moves on after one that
    is not 0.
    """
    place = np.int64(0)
    for begin in range(0, len(tally), width):
        for i in range(width):
            count = tally[begin + i]
            values[place], weights[place] = lut[i], count
            place += np.int64(count != 0)


@kernel
def point_at(starts: Array, weights: Array, p: float, out: Array) -> None:
    """Write the position of the value at index floor(n * p / 100) of each group, for p = 100 the last; -1 without values."""
    for group in range(len(out)):
        first, last = starts[group], starts[group + 1]
        out[group] = -1
        total = 0.0
        for i in range(first, last):
            total += weights[i]
        index = min(np.floor(total * p / 100.0), total - 1.0)
        passed = 0.0
        for i in range(first, last):
            passed += weights[i]
            if passed > index:
                out[group] = i
                break


@kernel
def heaviest_points(starts: Array, weights: Array, firsts: Array, lasts: Array, counts: Array) -> None:
    """Write where the first and the last of the heaviest values of each group are (-1 without values), and how many."""
    for group in range(len(firsts)):
        firsts[group] = lasts[group] = -1
        counts[group] = 0
        most = 0.0
        for i in range(starts[group], starts[group + 1]):
            if weights[i] > most:
                most = weights[i]
                firsts[group] = lasts[group] = i
                counts[group] = 1
            elif weights[i] == most:
                lasts[group] = i
                counts[group] += 1


@kernel
def add_heaviest(starts: Array, values: Array, weights: Array, sums: Array) -> None:
    """Add up the heaviest values (float64) of each group."""
    for group in range(len(sums)):
        most = 0.0
        for i in range(starts[group], starts[group + 1]):
            if weights[i] > most:
                most = weights[i]
                sums[group] = values[i]
            elif weights[i] == most:
                sums[group] += values[i]
