"""An open-addressed table from 64-bit keys to where they stand: probed once for each key, in linear steps.

slots: int32, a power of two in size and at least twice as many as there are keys, -1 where empty.
"""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _first_slot(key: int, mask: int) -> Any:
    mixed = np.uint64(key) * _GOLDEN
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))


@kernel
def fill_places(keys: Array, slots: Array) -> Any:
    """Enter the place of each key; return the place of the first key that was entered before, -1 if none was.

    keys: int64 [n]. Of equal keys the last one stays.
    """
    mask, repeated = len(slots) - 1, -1
    for i in range(len(keys)):
        slot = _first_slot(keys[i], mask)
        while slots[slot] >= 0 and keys[slots[slot]] != keys[i]:
            slot = (slot + 1) & mask
        if slots[slot] >= 0 and repeated < 0:
            repeated = i
        slots[slot] = i
    return repeated


@kernel
def find_places(wanted: Array, keys: Array, slots: Array, out: Array) -> None:
    """Write the place of each wanted key, -1 for one that is not there."""
    mask = len(slots) - 1
    for i in range(len(wanted)):
        slot = _first_slot(wanted[i], mask)
        while slots[slot] >= 0 and keys[slots[slot]] != wanted[i]:
            slot = (slot + 1) & mask
        out[i] = slots[slot]
