"""t-digests of many groups at once: centroids (mean, weight), ascending within each group.

A centroid may hold the weight between quantiles q0 and q1 as long as k(q1) - k(q0) <= 1 with
k(q) = compression / (2 pi) * asin(2 q - 1), which makes centroids small at both ends.
"""

import math
from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@kernel
def compress_centroids(
    groups: Array, means: Array, weights: Array, totals: Array, compression: float, exact_until: float
) -> Any:
    """Merge neighbours in place, as far as the compression allows; return how many centroids are left.

    groups: int32 [n], ascending; means: float64 [n], ascending within a group; weights: float64 [n]; totals: float64
    [number of groups], the weight of each group. In a group of the weight `exact_until` or less only equal means are merged.
    """
    kept = -1
    before = 0.0
    limit = 0.0
    for i in range(len(groups)):
        group = groups[i]
        total = totals[group]
        # Infinities have no mean with other values.
        if kept >= 0 and groups[kept] == group and (means[i] == means[kept] or math.isfinite(means[i] - means[kept])):
            weight = weights[kept] + weights[i]
            fits = means[i] == means[kept] if total <= exact_until else before + weight <= limit * total
            if fits:
                if means[i] != means[kept]:
                    means[kept] += (means[i] - means[kept]) * (weights[i] / weight)
                weights[kept] = weight
                continue
        before = before + weights[kept] if kept >= 0 and groups[kept] == group else 0.0
        kept += 1
        groups[kept] = group
        means[kept] = means[i]
        weights[kept] = weights[i]
        angle = math.asin(min(1.0, 2.0 * before / total - 1.0)) + 2.0 * math.pi / compression
        limit = 1.0 if angle >= math.pi / 2 else (math.sin(angle) + 1.0) / 2
    return kept + 1


@kernel
def digest_quantiles(
    starts: Array, means: Array, weights: Array, bounds: Array, p: float, exact_until: float, out: Array
) -> None:
    """Write the p-th percentile of each group that has centroids, interpolated between their middles.

    starts: int64 [number of groups + 1]; bounds: float64 [number of groups, 2], smallest and largest value. A group of the
    weight `exact_until` or less has all its values: the result is the one at index floor(n * p / 100), the last for p = 100.
    """
    for group in range(len(out)):
        first = starts[group]
        last = starts[group + 1] - 1
        if last < first:
            continue
        total = 0.0
        for i in range(first, last + 1):
            total += weights[i]
        wanted = total * p / 100.0
        if total <= exact_until:
            passed = 0.0
            index = min(math.floor(wanted), total - 1.0)
            for i in range(first, last + 1):
                passed += weights[i]
                if passed > index:
                    out[group] = means[i]
                    break
            continue
        left = bounds[group, 0]
        left_at = 0.0
        passed = 0.0
        result = bounds[group, 1]
        for i in range(first, last + 2):
            right = means[i] if i <= last else bounds[group, 1]
            right_at = passed + weights[i] / 2 if i <= last else total
            if wanted <= right_at:
                share = (wanted - left_at) / (right_at - left_at) if right_at > left_at else 1.0
                # Infinite neighbours cannot be interpolated.
                result = left + (right - left) * share if math.isfinite(right - left) else (left if share < 0.5 else right)
                break
            left = right
            left_at = right_at
            if i <= last:
                passed += weights[i]
        out[group] = result
