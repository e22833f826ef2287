"""Which bin of a histogram a value falls in."""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def find_bins(values: Array, edges: Array, per_width: float, bins: Array) -> None:
    """Write the bin of each value: int32, -1 outside of all.

    Bin i holds edges[i] <= value < edges[i + 1], the last one its upper edge, too. edges: float64, strictly ascending;
    per_width: bins for each unit where all are equally wide, else 0, and the bin is searched.
    """
    last = len(edges) - 1
    low, high = edges[0], edges[last]
    for i in range(len(values)):
        value = np.float64(values[i])
        if not (value >= low and value <= high):
            bins[i] = -1
            continue
        if per_width > 0.0:
            # Rounding may miss by one.
            found = np.int64((value - low) * per_width)
            if found >= last:
                found = np.int64(last - 1)
            if value < edges[found]:
                found -= 1
            elif found < last - 1 and value >= edges[found + 1]:
                found += 1
        else:
            found = np.int64(0)
            stop = np.int64(last)
            while stop - found > 1:
                middle = (found + stop) // 2
                if value >= edges[middle]:
                    found = middle
                else:
                    stop = middle
        bins[i] = found


@kernel
def count_bins(groups: Array, bins: Array, counts: Array) -> None:
    """Add 1 to `counts[group, bin]` (int64) for each row whose bin is not -1."""
    for i in range(len(bins)):
        if bins[i] >= 0:
            counts[np.uint64(groups[i]), bins[i]] += 1


@kernel
def count_coded_bins(groups: Array, ids: Array, bins_of_ids: Array, counts: Array) -> None:
    """Add 1 to `counts[group, bins_of_ids[id]]` (int64) for each row whose bin is not -1."""
    for i in range(len(ids)):
        found = bins_of_ids[np.uint64(ids[i])]
        if found >= 0:
            counts[np.uint64(groups[i]), found] += 1
