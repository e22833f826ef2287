"""Numbers out of texts that lie in `data` (uint8): number i is data[begins[i]:ends[i]], written as in JSON."""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

# Numbers below 2 ** 53 and powers of ten up to this one are doubles exactly, so a product or quotient of two is rounded once
# and thus right (William D. Clinger: How to Read Floating Point Numbers Accurately, 1990).
_EXACT_MAX = 1 << 53
_POWERS = np.array([10.0**power for power in range(23)])
_DIGITS_MAX = 18


@kernel
def parse_wholes(data: Array, begins: Array, ends: Array, out: Array) -> None:
    """Write whole numbers of 18 digits at most: int64."""
    for i in range(len(out)):
        position, stop = np.int64(begins[i]), np.int64(ends[i])
        is_negative = data[np.uint64(position)] == 45
        position += is_negative
        number = np.int64(0)
        while position < stop:
            number = number * 10 + (np.int64(data[np.uint64(position)]) - 48)
            position += 1
        out[i] = -number if is_negative else number


@kernel
def parse_reals(data: Array, begins: Array, ends: Array, out: Array, is_left: Array) -> Any:
    """Write numbers with a fraction or an exponent as doubles; is_left: bool, those that it takes more to round.

    Returns how many are left.
    """
    left = 0
    for i in range(len(out)):
        position, stop = np.int64(begins[i]), np.int64(ends[i])
        is_negative = data[np.uint64(position)] == 45
        position += is_negative
        digits, number, power, in_fraction = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        while position < stop:
            byte = np.int64(data[np.uint64(position)])
            position += 1
            if byte == 46:
                in_fraction = np.int64(1)
                continue
            if byte == 69 or byte == 101:
                break
            number = number * 10 + (byte - 48)
            digits += 1
            power -= in_fraction
            if digits > _DIGITS_MAX:
                break
        if position < stop and digits <= _DIGITS_MAX:
            is_below_one = data[np.uint64(position)] == 45
            position += is_below_one or data[np.uint64(position)] == 43
            exponent = np.int64(0)
            while position < stop:
                exponent = min(exponent * 10 + (np.int64(data[np.uint64(position)]) - 48), np.int64(10_000))
                position += 1
            power += -exponent if is_below_one else exponent
        is_exact = digits <= _DIGITS_MAX and number <= _EXACT_MAX and abs(power) < len(_POWERS)
        is_left[i] = not is_exact
        left += not is_exact
        if is_exact:
            size = number / _POWERS[-power] if power < 0 else number * _POWERS[power]
            out[i] = -size if is_negative else size
    return left
