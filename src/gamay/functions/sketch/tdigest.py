"""t-digests as bytes, in the two forms of t-digest's MergingDigest.

Form 1: the form (int), the smallest and the largest value and the compression (doubles), the number of centroids (int), then
weight and mean of each (doubles). Form 2: the form (int), the smallest and the largest value (doubles), the compression
(float), the sizes of two buffers and the number of centroids (shorts), then weights and means as before (floats). All is
big-endian.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamay.base.arrays import Array

_FORMS: dict[int, tuple[struct.Struct, np.dtype[Any]]] = {
    1: (struct.Struct(">idddi"), np.dtype(">f8")),
    2: (struct.Struct(">iddfhhh"), np.dtype(">f4")),
}


@dataclass(frozen=True, slots=True, eq=False)
class TDigest:
    """Centroids in ascending order of their means: float64 [n]; low, high: smallest and largest value."""

    means: Array
    weights: Array
    low: float
    high: float


_EMPTY = TDigest(np.empty(0), np.empty(0), np.inf, -np.inf)


def parse(data: bytes) -> TDigest:
    """Parse a t-digest; empty bytes are an empty one. Raises ValueError for invalid bytes."""
    if not data:
        return _EMPTY
    form = _FORMS.get(int.from_bytes(data[:4], "big"))
    if form is None:
        raise ValueError("it does not begin with 1 or 2")
    head, number = form
    if len(data) < head.size:
        raise ValueError("it is too short")
    _, low, high, *_, count = head.unpack_from(data)
    if count < 0 or len(data) != head.size + 2 * number.itemsize * count:
        raise ValueError("its length does not match its header")
    weights, means = np.frombuffer(data[head.size :], number).astype(np.float64).reshape(count, 2).T
    if not (np.isfinite(weights) & (weights > 0)).all() or np.isnan(means).any():
        raise ValueError("a centroid has no weight, or no mean")
    order = np.argsort(means, kind="stable")
    return TDigest(means[order], weights[order], low, high) if count else _EMPTY
