"""Values by position: `values[positions]` without NumPy's detour over 64-bit positions, and without the GIL."""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@kernel
def gather(values: Array, positions: Array, out: Array) -> None:
    """Write values[positions[i]] for each i; positions are in range and may be of any integer type."""
    for i in range(len(positions)):
        out[i] = values[np.int64(positions[i])]
