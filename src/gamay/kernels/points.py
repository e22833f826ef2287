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
