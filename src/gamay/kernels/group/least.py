"""The least row of each group, where rows are compared by several int64 keys, the first one first."""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def keep_least(groups: Array, keys: Array, least: Array, filled: Array) -> None:
    """Lower `least[group]` to `keys[i]` where that is less.

    groups: [n]; keys: int64 [n, number of keys]; least: int64 [number of groups, number of keys]; filled: uint8 [number of
    groups], 0 where the group had no row yet.
    """
    width = keys.shape[1]
    for i in range(len(groups)):
        group = np.uint64(groups[i])
        better = filled[group] == 0
        if not better:
            for k in range(width):
                if keys[i, k] != least[group, k]:
                    better = keys[i, k] < least[group, k]
                    break
        if better:
            filled[group] = 1
            for k in range(width):
                least[group, k] = keys[i, k]
