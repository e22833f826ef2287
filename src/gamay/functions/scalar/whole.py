"""64-bit arithmetic that does not wrap: it tells where a result does not fit, or stops at the limits as Java's TimeUnit.

Arguments are int64, arrays or scalars of NumPy, broadcast against each other.
"""

from typing import Any

import numpy as np

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def sum_overflows(left: Any, right: Any, total: Any) -> Any:
    """Tell where `total`, the wrapped sum, has the wrong sign."""
    return ((left ^ total) & (right ^ total)) < 0


def difference_overflows(left: Any, right: Any, difference: Any) -> Any:
    """Tell where `difference`, wrapped, has the wrong sign."""
    return ((left ^ right) & (left ^ difference)) < 0


def product_overflows(left: Any, right: Any, product: Any) -> Any:
    """Tell where `product`, wrapped, does not divide back."""
    divisor = np.where(right == 0, 1, right)
    with np.errstate(all="ignore"):
        back = np.floor_divide(product, divisor)
    return (right != 0) & ((back != left) | ((left == LEAST) & (right == -1)))


def add(left: Any, right: Any) -> Any:
    """Return the sum, the nearest limit where it does not fit."""
    with np.errstate(over="ignore"):
        total = np.add(left, right, dtype=np.int64)
    return np.where(sum_overflows(left, right, total), np.where(np.less(left, 0), LEAST, MOST), total)


def subtract(left: Any, right: Any) -> Any:
    """Return the difference, the nearest limit where it does not fit."""
    with np.errstate(over="ignore"):
        difference = np.subtract(left, right, dtype=np.int64)
    return np.where(difference_overflows(left, right, difference), np.where(np.less(left, 0), LEAST, MOST), difference)


def multiply(left: Any, right: Any) -> Any:
    """Return the product, the nearest limit where it does not fit."""
    with np.errstate(over="ignore"):
        product = np.multiply(left, right, dtype=np.int64)
    limit = np.where(np.less(left, 0) == np.less(right, 0), MOST, LEAST)
    return np.where(product_overflows(left, right, product), limit, product)


def towards_zero(values: Any, size: Any) -> Any:
    """Return the quotient by a positive size without its fraction."""
    return (values - np.fmod(values, size)) // size
