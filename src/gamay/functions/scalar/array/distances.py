"""Distances, products, norms and dimensions of vectors, which are multi-value columns of FLOAT (or other numbers).

Both vectors of a row must have the same dimension. `euclideanDistance` is the sum of squares, `l2Distance` its root.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.scalar.define import fixed, lists, scalar
from gamay.functions.vector import Vector
from gamay.kernels.vector.vectors import absolute_distances, cosines, dot_products, squared_distances
from gamay.model.types import DataType

FLOAT, DOUBLE, INT = DataType.FLOAT, DataType.DOUBLE, DataType.INT
_PAIR = (lists(FLOAT), lists(FLOAT))


def _each_row(name: str, kernel: Callable[..., None], left: Vector, right: Vector) -> Any:
    """Return one number for each row: float64; a vector of one row is used for all. All kernels are symmetric.

    Raises QueryError if the vectors have different lengths.
    """
    if len(left) == 1:
        left, right = right, left
    assert left.offsets is not None
    assert right.offsets is not None
    lengths, others = np.diff(left.offsets), np.diff(right.offsets)
    different = np.flatnonzero(lengths != others)
    if len(different):
        row = int(different[0])
        has, needs = lengths[row], others[row % len(others)]
        raise QueryError(
            ErrorCode.QUERY_EXECUTION,
            f"Function '{name}': the vectors of a row have {has} and {needs} elements; they must have equally many",
        )
    out = np.empty(len(lengths))
    offsets = right.offsets if len(others) == len(lengths) else np.zeros(len(lengths), right.offsets.dtype)
    kernel(left.values, left.offsets, right.values, offsets, out)
    return out


@scalar("cosineDistance", params=(*_PAIR, fixed(DOUBLE)), returns=DOUBLE, optional=1, repeats_lists=True)
def cosine_distance(left: Vector, right: Vector, default: float = float("nan")) -> Any:
    """1 - cosine of the angle between two vectors; the default if one has norm 0."""
    distance = 1 - _each_row("cosineDistance", cosines, left, right)
    return distance if default != default else np.where(np.isnan(distance), default, distance)


@scalar("innerProduct", "dotProduct", params=_PAIR, returns=DOUBLE, repeats_lists=True)
def inner_product(left: Vector, right: Vector) -> Any:
    return _each_row("innerProduct", dot_products, left, right)


@scalar("l1Distance", params=_PAIR, returns=DOUBLE, repeats_lists=True)
def l1_distance(left: Vector, right: Vector) -> Any:
    """The sum of absolute differences."""
    return _each_row("l1Distance", absolute_distances, left, right)


@scalar("l2Distance", params=_PAIR, returns=DOUBLE, repeats_lists=True)
def l2_distance(left: Vector, right: Vector) -> Any:
    """The square root of the sum of squared differences."""
    return np.sqrt(_each_row("l2Distance", squared_distances, left, right))


@scalar("euclideanDistance", params=_PAIR, returns=DOUBLE, repeats_lists=True)
def euclidean_distance(left: Vector, right: Vector) -> Any:
    """The sum of squared differences, without the root."""
    return _each_row("euclideanDistance", squared_distances, left, right)


@scalar("vectorDims", params=(lists(FLOAT),), returns=INT)
def vector_dims(vector: Vector) -> Any:
    assert vector.offsets is not None
    return np.diff(vector.offsets)


@scalar("vectorNorm", params=(lists(FLOAT),), returns=DOUBLE)
def vector_norm(vector: Vector) -> Any:
    """The norm of a vector: the square root of the sum of squares."""
    return np.sqrt(_each_row("vectorNorm", dot_products, vector, vector))
