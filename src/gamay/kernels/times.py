"""Fields of points in time: int64 milliseconds since 1970-01-01.

Divisors are written out: a constant one is compiled to a product.
"""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@kernel
def hours_of_day(times: Array, out: Array) -> None:
    """Write the hour of each time, 0 to 23."""
    for i in range(len(times)):
        out[i] = times[i] % 86_400_000 // 3_600_000


@kernel
def minutes_of_hour(times: Array, out: Array) -> None:
    """Write the minute of each time, 0 to 59."""
    for i in range(len(times)):
        out[i] = times[i] % 3_600_000 // 60_000


@kernel
def seconds_of_minute(times: Array, out: Array) -> None:
    """Write the second of each time, 0 to 59."""
    for i in range(len(times)):
        out[i] = times[i] % 60_000 // 1000
