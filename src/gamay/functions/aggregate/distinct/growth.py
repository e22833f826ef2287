"""Estimate of a batch's distinct values from its first rows, so that tables of distinct values grow to that size at once."""

from math import expm1

# a table grows at most by this factor at a time, whatever the estimate
GROWTH_MAX = 64
_STEPS = 24
# below this share of new values, the number of distinct values is taken as final
_LEAST_SHARE = 0.25
_RATIO_MAX = 50.0


def expected_values(found: int, looked_at: int, rows: int) -> int:
    """Estimate the number of distinct values in a batch of rows, whose first `looked_at` rows had `found` new values.

    All values are assumed equally frequent: of d values, n rows have d * (1 - exp(-n / d)). A low share of new values is
    taken as final.
    """
    if looked_at == 0 or found < _LEAST_SHARE * looked_at:
        return found
    share = found / looked_at
    low, high = 0.0, _RATIO_MAX  # bounds of looked_at / d, with which the share falls
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if -expm1(-middle) > share * middle:
            low = middle
        else:
            high = middle
    ratio = (low + high) / 2
    values = looked_at / ratio
    return min(rows, max(found, int(-values * expm1(-rows / values))))
