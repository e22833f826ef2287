"""Aggregates by their definitions in the reference, from the list of all values."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

INFINITY = float("inf")
NAN = float("nan")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


class Rough(float):
    """A sum that depends on the order of addition; `tolerance` is what that may make of it."""

    tolerance = 0.0


class Estimate(int):
    """A count that a sketch estimates."""


class Unordered(list[Any]):
    """Values in any order."""


def _rough(value: float, tolerance: float) -> Rough:
    made = Rough(value)
    made.tolerance = tolerance
    return made


def total(values: Sequence[Any], grouped: bool = False) -> float:
    """Add up: whole numbers exactly and then rounded once."""
    if any(isinstance(value, float) for value in values):
        special = {str(value) for value in map(float, values) if not math.isfinite(value)}
        if special:
            return NAN if len(special) > 1 or "nan" in special else float(special.pop())
        return _rough(math.fsum(values), 1e-9 * max(map(abs, values)))
    exact = float(sum(values))
    size = max(map(abs, values), default=0)
    return _rough(exact, 1e-9 * size) if size > 2**53 else exact


def least(values: Sequence[Any], grouped: bool) -> float:
    """Without groups a NaN is the result, with groups it is passed over."""
    known = [float(value) for value in values if not _is_nan(value)]
    return NAN if len(known) < len(values) and not grouped else min(known, default=INFINITY)


def greatest(values: Sequence[Any], grouped: bool) -> float:
    known = [float(value) for value in values if not _is_nan(value)]
    return NAN if len(known) < len(values) and not grouped else max(known, default=-INFINITY)


def average(values: Sequence[Any], grouped: bool) -> float:
    if not values:
        return -INFINITY
    added = total(values)
    mean = added / len(values)
    return _rough(mean, added.tolerance) if isinstance(added, Rough) else mean


def spread(values: Sequence[Any], grouped: bool) -> float:
    return greatest(values, grouped) - least(values, grouped) if values else -INFINITY


def _distinct(values: Sequence[Any]) -> list[Any]:
    return list({"NaN" if _is_nan(value) else value: value for value in values}.values())


def distinct_count(values: Sequence[Any], grouped: bool) -> int:
    return len(_distinct(values))


def distinct_sum(values: Sequence[Any], grouped: bool) -> float:
    return total(_distinct(values))


def distinct_average(values: Sequence[Any], grouped: bool) -> float:
    distinct = _distinct(values)
    return total(distinct) / len(distinct) if distinct else NAN


def _ascending(values: Sequence[Any]) -> list[float]:
    return sorted(map(float, values), key=lambda value: (value != value, 0.0 if value != value else value))


def percentile(percent: float) -> Callable[[Sequence[Any], bool], float]:
    def fold(values: Sequence[Any], grouped: bool) -> float:
        if not values:
            return -INFINITY
        ordered = _ascending(values)
        return (ordered[-1] if percent == 100 else ordered[int(len(ordered) * percent / 100)]) + 0.0

    return fold


def mode(reducer: str) -> Callable[[Sequence[Any], bool], float]:
    def fold(values: Sequence[Any], grouped: bool) -> float:
        counts = Counter("NaN" if value != value else float(value) + 0.0 for value in values)  # there is one zero
        most = max(counts.values(), default=0)
        modes = _ascending([value for value, count in counts.items() if count == most])
        if not modes:
            return -INFINITY
        return {"MIN": modes[0], "MAX": modes[-1], "AVG": sum(modes) / len(modes)}[reducer]

    return fold


def moments(power: int, sample: bool, root: bool) -> Callable[[Sequence[Any], bool], float]:
    def fold(values: Sequence[Any], grouped: bool) -> float:
        count = len(values)
        if count < 1 + sample:
            return -INFINITY
        mean = math.fsum(values) / count
        variance = math.fsum((value - mean) ** power for value in values) / (count - sample)
        return math.sqrt(variance) if root else variance

    return fold


def covariance(sample: bool) -> Callable[[Sequence[tuple[Any, Any]], bool], float]:
    def fold(pairs: Sequence[tuple[Any, Any]], grouped: bool) -> float:
        count = len(pairs)
        if count < 1 + sample:
            return -INFINITY
        mean_x, mean_y = (math.fsum(pair[i] for pair in pairs) / count for i in (0, 1))
        return math.fsum((x - mean_x) * (y - mean_y) for x, y in pairs) / (count - sample)

    return fold


def by_time(last: bool, of_nothing: Any) -> Callable[[Sequence[tuple[Any, int]], bool], Any]:
    """The value at the first or last time; times are distinct."""

    def fold(pairs: Sequence[tuple[Any, int]], grouped: bool) -> Any:
        if not pairs:
            return of_nothing
        return (max if last else min)(pairs, key=lambda pair: pair[1])[0]

    return fold


def histogram(low: float, high: float, bins: int) -> Callable[[Sequence[Any], bool], list[float]]:
    """Bins are closed on the left, the last one on both sides; values outside do not count."""

    def fold(values: Sequence[Any], grouped: bool) -> list[float]:
        counts = [0.0] * bins
        for value in values:
            if low <= value <= high:
                counts[min(int((value - low) / ((high - low) / bins)), bins - 1)] += 1
        return counts

    return fold


def extreme(last: bool, of_nothing: Any) -> Callable[[Sequence[Any], bool], Any]:
    """MINLONG, MAXLONG, MINSTRING and MAXSTRING."""
    return lambda values, grouped: (max if last else min)(values) if values else of_nothing


def exact_sum(values: Sequence[Any], grouped: bool) -> int:
    return sum(values)


def precise_sum(scale: int | None) -> Callable[[Sequence[Any], bool], str | None]:
    def fold(values: Sequence[Any], grouped: bool) -> str | None:
        if not values:
            return None
        exact = sum((Decimal(repr(v)) if isinstance(v, float) else Decimal(v) for v in values), Decimal(0))
        return format(exact if scale is None else exact.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_EVEN), "f")

    return fold


def all_true(values: Sequence[Any], grouped: bool) -> bool:
    return all(values)


def any_true(values: Sequence[Any], grouped: bool) -> bool:
    return any(values)


def flattened(fold: Callable[[Sequence[Any], bool], Any]) -> Callable[[Sequence[Any], bool], Any]:
    """The same over all values of all lists."""
    return lambda lists, grouped: fold([value for values in lists for value in values], grouped)


def theta_count(values: Sequence[Any], grouped: bool) -> int:
    """Exact for so few values; Apache DataSketches pass over the empty text."""
    return len([value for value in _distinct(values) if value != ""])


def estimated_count(values: Sequence[Any], grouped: bool) -> Estimate:
    return Estimate(len(_distinct(values)))


def collected(values: Sequence[Any], grouped: bool) -> Unordered:
    return Unordered(values)


def collected_distinct(values: Sequence[Any], grouped: bool) -> Unordered:
    return Unordered(_distinct(values))


def shape(fourth: bool) -> Callable[[Sequence[Any], bool], float]:
    """SKEWNESS and KURTOSIS of samples, corrected for bias."""

    def fold(values: Sequence[Any], grouped: bool) -> float:
        n = len(values)
        if n < 3 + fourth:
            return NAN
        mean = math.fsum(values) / n
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
        if variance < 1e-19:
            return 0.0
        deviation = math.sqrt(variance)
        if not fourth:
            return n / ((n - 1) * (n - 2)) * math.fsum(((value - mean) / deviation) ** 3 for value in values)
        heavy = math.fsum(((value - mean) / deviation) ** 4 for value in values)
        correction = 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))
        return n * (n + 1) / ((n - 1) * (n - 2) * (n - 3)) * heavy - correction

    return fold


def count(values: Sequence[Any], grouped: bool) -> int:
    return len(values)
