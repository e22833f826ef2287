"""Where the values of each dictionary id lie, in chains that one writer lengthens while readers walk them.

heads: uint32 [number of ids], 1 + the last position of an id, 0 without any. links: uint32 [number of positions], 2 + the
position before of the same id, 1 at the first; 0 is not written yet.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def link(ids: Array, start: int, heads: Array, links: Array) -> None:
    """Add the positions start + i of ids[i]; the link is written before the head that leads to it."""
    for i in range(len(ids)):
        key = np.int64(ids[i])
        position = np.int64(start) + i
        links[position] = heads[key] + 1
        heads[key] = position + 1


@kernel
def walk(wanted: Array, num_values: int, heads: Array, links: Array, out: Array) -> Any:
    """Write the positions below `num_values` of all wanted ids, those of an id descending; return how many there are.

    Returns -1 when `out` is too small, or when a link is met that is not there yet (or not in this mapping of them).
    """
    count = np.int64(0)
    for i in range(len(wanted)):
        position = np.int64(heads[np.int64(wanted[i])]) - 1
        while position >= 0:
            if position >= len(links):
                return np.int64(-1)
            step = np.int64(links[position])
            if step == 0:
                return np.int64(-1)
            if position < num_values:
                if count == len(out):
                    return np.int64(-1)
                out[count] = position
                count += 1
            position = step - 2
    return count


@kernel
def widen_zones(values: Array, start: int, zone_bits: int, lows: Array, highs: Array) -> None:
    """Take values[i], at row start + i, into the bounds of its zone of 2**zone_bits rows; NaN makes them infinite."""
    for i in range(len(values)):
        row = np.int64(start) + i
        zone = row >> zone_bits
        value = values[i]
        if row & ((np.int64(1) << zone_bits) - 1) == 0:
            lows[zone] = value
            highs[zone] = value
        if value != value:
            lows[zone] = -np.inf
            highs[zone] = np.inf
        else:
            lows[zone] = min(lows[zone], value)
            highs[zone] = max(highs[zone], value)
