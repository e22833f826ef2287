"""Slow twins of `gamay.kernels.vector.clusters`; exact for small integers, as the kernels then are."""

from typing import Any


def scaled_products(rows: Any, scales: Any, ranges: Any, vector: Any) -> list[float]:
    return [
        -sum(float(a) * float(b) for a, b in zip(rows[i], vector, strict=True)) * float(scales[i]) for i in _each(ranges)
    ]


def squared_differences(rows: Any, ranges: Any, vector: Any) -> list[float]:
    return [sum((float(a) - float(b)) ** 2 for a, b in zip(rows[i], vector, strict=True)) for i in _each(ranges)]


def nearest_centroids(points: Any, centroids: Any) -> list[int]:
    """Of equally near ones the first."""
    far = [[sum((float(a) - float(b)) ** 2 for a, b in zip(p, c, strict=True)) for c in centroids] for p in points]
    return [distances.index(min(distances)) for distances in far]


def _each(ranges: Any) -> list[int]:
    return [i for first, stop in ranges for i in range(first, stop)]
