"""Values by position: `values[positions]` without NumPy's detour over 64-bit positions, and without the GIL."""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def gather(values: Array, positions: Array, out: Array) -> None:
    """Write values[positions[i]] for each i; positions are in range and may be of any integer type."""
    for i in range(len(positions)):
        out[i] = values[np.int64(positions[i])]
