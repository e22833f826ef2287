"""t-digests of many groups at once: centroids (mean, weight), ascending within each group.

A centroid may hold the weight between quantiles q0 and q1 as long as k(q1) - k(q0) <= 1 with
k(q) = compression / (2 pi) * asin(2 q - 1), which makes centroids small at both ends.
"""

import math
from typing import Any

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


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
def _on_the_way(left: float, right: float, share: float) -> float:
    """Return the value that lies the share of the way from left to right; infinite ones cannot be interpolated."""
    if math.isfinite(right - left):
        return left + (right - left) * share
    return left if share < 0.5 else right


@kernel
def _between_centroids(
    means: Array, weights: Array, first: int, last: int, low: float, high: float, total: float, wanted: float
) -> Any:
    """Return the value behind `wanted` of the `total` values of centroids first … last, as t-digest's MergingDigest does.

    A centroid of one value is that value: what lies less than half a value from its middle is not interpolated. The smallest
    and the largest value, low and high, are known, so the outer halves of the outermost centroids end there.
    """
    if first == last:
        return means[first]
    if wanted < 1.0:
        return low
    if wanted > total - 1.0:
        return high
    half = weights[first] / 2.0
    if wanted < half:
        return _on_the_way(low, means[first], (wanted - 1.0) / (half - 1.0))
    outer = weights[last] / 2.0
    if weights[last] > 1.0 and total - wanted <= outer:
        return _on_the_way(high, means[last], (total - wanted - 1.0) / (outer - 1.0) if outer > 1.0 else 0.0)
    passed = half
    for i in range(first, last):
        step = (weights[i] + weights[i + 1]) / 2.0
        if passed + step > wanted:
            from_left, from_right = wanted - passed, passed + step - wanted
            if weights[i] == 1.0:
                if from_left < 0.5:
                    return means[i]
                from_left -= 0.5
            if weights[i + 1] == 1.0:
                if from_right <= 0.5:
                    return means[i + 1]
                from_right -= 0.5
            return _on_the_way(means[i], means[i + 1], from_left / (from_left + from_right))
        passed += step
    return high


@kernel
def digest_quantiles(
    starts: Array, means: Array, weights: Array, bounds: Array, p: float, exact_until: float, out: Array
) -> None:
    """Write the p-th percentile of each group that has centroids.

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
        out[group] = _between_centroids(means, weights, first, last, bounds[group, 0], bounds[group, 1], total, wanted)
