"""How large tables of distinct values become, by what the first rows of a batch had: they need not grow by steps then."""

from math import expm1

# a table is made so many times as large at most, however many values seem to come
GROWTH_MAX = 64
_STEPS = 24
# values of which fewer rows are new hardly grow in number
_LEAST_SHARE = 0.25
_RATIO_MAX = 50.0


def expected_values(found: int, looked_at: int, rows: int) -> int:
    """Return about how many values a batch of rows has, of whose first rows, `looked_at`, `found` had a new one.

    They are taken to be equally frequent: of `d` values n rows have d * (1 - exp(-n / d)). Few new ones are not projected.
    """
    if looked_at == 0 or found < _LEAST_SHARE * looked_at:
        return found
    share = found / looked_at
    low, high = 0.0, _RATIO_MAX  # of looked_at / d, by which the share falls
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if -expm1(-middle) > share * middle:
            low = middle
        else:
            high = middle
    ratio = (low + high) / 2
    values = looked_at / ratio
    return min(rows, max(found, int(-values * expm1(-rows / values))))
