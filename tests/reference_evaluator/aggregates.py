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


def total(values: Sequence[Any], grouped: bool = False) -> float:
    """Add up: whole numbers exactly and then rounded once."""
    if any(isinstance(value, float) for value in values):
        special = {str(value) for value in map(float, values) if not math.isfinite(value)}
        if special:
            return NAN if len(special) > 1 or "nan" in special else float(special.pop())
        return math.fsum(values)
    return float(sum(values))


def least(values: Sequence[Any], grouped: bool) -> float:
    """Without groups a NaN is the result, with groups it is passed over."""
    known = [float(value) for value in values if not _is_nan(value)]
    return NAN if len(known) < len(values) and not grouped else min(known, default=INFINITY)


def greatest(values: Sequence[Any], grouped: bool) -> float:
    known = [float(value) for value in values if not _is_nan(value)]
    return NAN if len(known) < len(values) and not grouped else max(known, default=-INFINITY)


def average(values: Sequence[Any], grouped: bool) -> float:
    return total(values) / len(values) if values else -INFINITY


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
        return ordered[-1] if percent == 100 else ordered[int(len(ordered) * percent / 100)]

    return fold


def mode(reducer: str) -> Callable[[Sequence[Any], bool], float]:
    def fold(values: Sequence[Any], grouped: bool) -> float:
        counts = Counter("NaN" if value != value else float(value) for value in values)
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
    """Bins are closed on the left, the last one on both sides; what lies outside does not count."""

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


def count(values: Sequence[Any], grouped: bool) -> int:
    return len(values)
