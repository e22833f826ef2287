"""Passes over dictionary ids that builder and indexes need."""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@kernel
def is_ascending(values: Array) -> bool:
    """Return whether no value [n] is below the one before it."""
    for i in range(1, values.size):  # noqa: SIM110 -- Numba compiles the loop, not the generator
        if values[i] < values[i - 1]:
            return False
    return True


@kernel
def count_ids(ids: Array, counts: Array) -> None:
    """Add to int64 counts [cardinality] how often each id occurs."""
    for i in range(ids.size):
        counts[ids[i]] += 1


@kernel
def gather_lists(values: Array, starts: Array, ends: Array, out: Array) -> None:
    """Copy values[starts[i]:ends[i]] for each i end to end into `out`, which has just room for them."""
    position = 0
    for i in range(starts.size):
        for j in range(starts[i], ends[i]):
            out[position] = values[j]
            position += 1


@kernel
def list_indices(starts: Array, ends: Array, out: Array) -> None:
    """Write starts[i], …, ends[i] - 1 for each i end to end into `out`, which has just room for them."""
    position = 0
    for i in range(starts.size):
        for j in range(starts[i], ends[i]):
            out[position] = j
            position += 1
