"""Merging rows with those that they replace, one column at a time.

Values are numbered: the batch's rows 0 … n - 1, then the stored rows that they replace. sources: int64 [n], the number of
the row that row i replaces, -1 for none; those of the batch come before i. valid: bool [n + stored rows], False for null.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

OVERWRITE, IGNORE, MAX, MIN, FORCE_OVERWRITE = range(5)


@kernel
def choose_values(strategy: int, sources: Array, valid: Array, order: Array, chosen: Array) -> None:
    """Write to `chosen` (int64 [n]) the number of the value that each row gets.

    order: int64 [n + stored rows], ascending with the values, for MAX and MIN; empty otherwise.
    """
    for i in range(chosen.size):
        source = sources[i]
        if source < 0 or strategy == FORCE_OVERWRITE:
            chosen[i] = i
            continue
        old = chosen[source] if source < chosen.size else source
        if not valid[i]:
            chosen[i] = old
        elif not valid[old] or strategy == OVERWRITE:
            chosen[i] = i
        elif strategy == IGNORE:
            chosen[i] = old
        elif strategy == MAX:
            chosen[i] = i if order[i] >= order[old] else old
        else:
            chosen[i] = i if order[i] <= order[old] else old


@kernel
def add_values(sources: Array, valid: Array, values: Array, low: Any, high: Any) -> int:
    """Add to values[i] that of the row it replaces; valid and values (int64 or a float type) change for rows of the batch.

    Whole numbers stay between `low` and `high`; returns how many had to be kept there.
    """
    bounded = 0
    for i in range(sources.size):
        source = sources[i]
        if source < 0 or not valid[source]:
            continue
        if not valid[i]:
            values[i] = values[source]
            valid[i] = True
            continue
        old, new = values[source], values[i]
        # asked before adding: what overflows is undefined for the compiler
        if new > 0 and old > high - new:
            values[i] = high
            bounded += 1
        elif new < 0 and old < low - new:
            values[i] = low
            bounded += 1
        else:
            values[i] = old + new
    return bounded


@kernel
def list_sizes(sources: Array, offsets: Array, sizes: Array) -> None:
    """Write the lengths (int64 [n]) of all lists joined with those that they replace; offsets: int64 [n + stored + 1]."""
    for i in range(sizes.size):
        sizes[i] = offsets[i + 1] - offsets[i]
        source = sources[i]
        if source >= sizes.size:
            sizes[i] += offsets[source + 1] - offsets[source]
        elif source >= 0:
            sizes[i] += sizes[source]


@kernel
def _append(codes: Array, start: Any, size: Any, out: Array, first: Any, count: Any) -> Any:
    """Copy codes behind the first `count` of a list in `out`; returns the list's new length."""
    out[first + count : first + count + size] = codes[start : start + size]
    return count + size


@kernel
def _insert(codes: Array, start: Any, size: Any, out: Array, first: Any, count: Any) -> Any:
    """Insert codes into the first `count` of a list in `out`, which is ascending and distinct; returns its new length."""
    for k in range(start, start + size):
        place = count
        while place > 0 and out[first + place - 1] > codes[k]:
            place -= 1
        if place > 0 and out[first + place - 1] == codes[k]:
            continue
        for m in range(count, place, -1):
            out[first + m] = out[first + m - 1]
        out[first + place] = codes[k]
        count += 1
    return count


@kernel
def join_lists(
    sources: Array, offsets: Array, codes: Array, is_union: bool, starts: Array, sizes: Array, out: Array
) -> None:
    """Write the joined lists to `out` from starts[i] on; sizes[i], room at first, becomes the length.

    codes: int64, ascending with the values for a union. A list that meets no other stays as it is: which rows share a batch
    must not matter.
    """
    for i in range(sizes.size):
        source, first, count = sources[i], starts[i], np.int64(0)
        old, old_start, old_size = codes, np.int64(0), np.int64(0)
        if source >= sizes.size:
            old_start, old_size = offsets[source], offsets[source + 1] - offsets[source]
        elif source >= 0:
            old, old_start, old_size = out, starts[source], sizes[source]
        new_size = offsets[i + 1] - offsets[i]
        if is_union and old_size > 0 and new_size > 0:
            count = _insert(old, old_start, old_size, out, first, count)
            sizes[i] = _insert(codes, offsets[i], new_size, out, first, count)
        else:
            count = _append(old, old_start, old_size, out, first, count)
            sizes[i] = _append(codes, offsets[i], new_size, out, first, count)
