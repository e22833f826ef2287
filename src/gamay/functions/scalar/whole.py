"""64-bit arithmetic without wrapping: it detects overflow, or saturates as Java's TimeUnit does.

Arguments are int64, arrays or scalars of NumPy, broadcast against each other.
"""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.times import quotients

Longs: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_DOUBLES_MAX = 1 << 52
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def sum_overflows(left: Any, right: Any, total: Any) -> Any:
    """Return where `total`, the wrapped sum, overflowed."""
    return ((left ^ total) & (right ^ total)) < 0


def difference_overflows(left: Any, right: Any, difference: Any) -> Any:
    """Return where `difference`, wrapped, overflowed."""
    return ((left ^ right) & (left ^ difference)) < 0


def product_overflows(left: Any, right: Any, product: Any) -> Any:
    """Return where `product`, wrapped, overflowed."""
    divisor = np.where(right == 0, 1, right)
    with np.errstate(all="ignore"):
        back = np.floor_divide(product, divisor)
    return (right != 0) & ((back != left) | ((left == LEAST) & (right == -1)))


def add(left: Any, right: Any) -> Longs:
    """Return the sum, saturated at the limits."""
    with np.errstate(over="ignore"):
        total = np.add(left, right, dtype=np.int64)
    return np.where(sum_overflows(left, right, total), np.where(np.less(left, 0), LEAST, MOST), total)


def subtract(left: Any, right: Any) -> Longs:
    """Return the difference, saturated at the limits."""
    with np.errstate(over="ignore"):
        difference = np.subtract(left, right, dtype=np.int64)
    return np.where(difference_overflows(left, right, difference), np.where(np.less(left, 0), LEAST, MOST), difference)


def multiply(left: Any, right: Any) -> Longs:
    """Return the product, saturated at the limits."""
    with np.errstate(over="ignore"):
        product = np.multiply(left, right, dtype=np.int64)
    limit = np.where(np.less(left, 0) == np.less(right, 0), MOST, LEAST)
    return np.where(product_overflows(left, right, product), limit, product)


def towards_zero(values: Any, size: Any) -> Longs:
    """Return the quotient by a positive size, truncated towards zero."""
    if (
        isinstance(size, int)
        and size < _DOUBLES_MAX
        and isinstance(values, np.ndarray)
        and values.dtype == np.int64
        and values.ndim == 1
    ):
        out = np.empty(len(values), np.int64)
        quotients(np.ascontiguousarray(values), size, out)
        return out
    quotient: Longs = (values - np.fmod(values, size)) // size
    return quotient


def scale(values: Any, factor: int) -> Longs:
    """Return the product with a positive factor, saturated at the limits; nearly as fast as a plain product."""
    limit = MOST // factor
    if factor == 1 or values.size == 0 or (values.max() <= limit and values.min() >= -limit):
        product: Longs = values * factor
        return product
    with np.errstate(over="ignore"):
        product = values * factor
    return np.where(values > limit, MOST, np.where(values < -limit, LEAST, product))


def no_later(start: Any, values: Any) -> Longs:
    """Return the starts of periods that contain values; a start that wrapped below the limit becomes the least number."""
    wrapped = start > values
    return np.where(wrapped, LEAST, start) if np.any(wrapped) else start
