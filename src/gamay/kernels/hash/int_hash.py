"""An open-addressed table from 64-bit keys to where they stand: probed once for each key, in linear steps.

slots: int32, a power of two in size and at least twice as many as there are keys, -1 where empty.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _first_slot(key: int, shift: int) -> Any:
    """The highest bits of the product: all bits of the key act on them, and doubles may differ in their highest alone."""
    return np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(shift))


@kernel
def _shift_to(num_slots: int) -> Any:
    """By how many bits a 64-bit number is shifted to be the number of a slot."""
    shift = 64
    while num_slots > 1:
        num_slots >>= 1
        shift -= 1
    return shift


@kernel
def fill_places(keys: Array, slots: Array) -> Any:
    """Enter the place of each key; return the place of the first key that was entered before, -1 if none was.

    keys: int64 [n]. Of equal keys the last one stays.
    """
    mask, shift, repeated = len(slots) - 1, _shift_to(len(slots)), -1
    for i in range(len(keys)):
        slot = _first_slot(keys[i], shift)
        while slots[slot] >= 0 and keys[slots[slot]] != keys[i]:
            slot = (slot + 1) & mask
        if slots[slot] >= 0 and repeated < 0:
            repeated = i
        slots[slot] = i
    return repeated


@kernel
def find_places(wanted: Array, keys: Array, slots: Array, out: Array) -> None:
    """Write the place of each wanted key, -1 for one that is not there."""
    mask, shift = len(slots) - 1, _shift_to(len(slots))
    for i in range(len(wanted)):
        slot = _first_slot(wanted[i], shift)
        while slots[slot] >= 0 and keys[slots[slot]] != wanted[i]:
            slot = (slot + 1) & mask
        out[i] = slots[slot]
