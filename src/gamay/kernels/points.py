"""Values put in order within each group.

starts: int64 [number of groups + 1]; the values of group g are those at starts[g] to starts[g + 1].
"""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_FEW = 24  # values that are sorted by insertion


@kernel
def scatter_points(groups: Array, values: Array, places: Array, out: Array) -> None:
    """Move each value to its group's next place in `out`; places: int64 [number of groups], the next one of each."""
    for i in range(len(groups)):
        group = np.uint64(groups[i])
        out[places[group]] = values[i]
        places[group] += 1


@kernel
def sort_runs(starts: Array, values: Array) -> None:
    """Sort the values of each group."""
    for group in range(len(starts) - 1):
        first, last = starts[group], starts[group + 1]
        if last - first <= _FEW:
            for i in range(first + 1, last):
                value = values[i]
                j = i - 1
                while j >= first and values[j] > value:
                    values[j + 1] = values[j]
                    j -= 1
                values[j + 1] = value
        else:
            values[first:last].sort()


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
