"""Extrapolation of the number of distinct values of a column, and of their frequencies, to other numbers of values.

If the cardinality is known, values are modelled as random draws: the coupon collector's problem. If only a sample is known,
the number of unseen values is estimated from how many occur once, twice and so on in it. The rates of rare values are
assumed to follow a gamma distribution, so that the new values among t times as many more are an integral in closed form
(Fisher, Corbet and Williams 1943; Efron and Thisted, "Estimating the number of unseen species", Biometrika 63, 1976).
Its two parameters are those most likely for the values that occur at most ten times: frequent values have no information
on unseen
ones (Chao and Lee 1992). So one family covers uniformly drawn values, where it is the inverted coupon collector, and long
tails, where Chao1, a lower bound, is too low.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

_RARE_MAX = 10
# drift: excess of new values in the second half over random order, as a share and in standard deviations
_DRIFT_SHARE, _DRIFT_DEVIATIONS = 0.1, 3.0


class Distinct(Protocol):
    """Distinct values of a column by the number of its values."""

    def at(self, num_values: int) -> float:
        """Return the expected number of distinct values among `num_values`."""
        ...

    def occurrences(self, num_values: int) -> tuple[Floats, Floats]:
        """Return float64 [k] and [k]: frequencies of distinct values among `num_values`, and the number of values with
        each."""
        ...


@dataclass(frozen=True, slots=True)
class Drawn:
    """Values drawn at random from a known number of distinct ones."""

    cardinality: int

    def at(self, num_values: int) -> float:
        if self.cardinality <= 1:
            return 1.0
        return -self.cardinality * math.expm1(num_values * math.log1p(-1 / self.cardinality))

    def occurrences(self, num_values: int) -> tuple[Floats, Floats]:
        entries = self.at(num_values)
        return np.array([num_values / entries]), np.array([entries])


class Sampled:
    """Values known from a sample. counts: frequency of each distinct value in it, int64 [cardinality].

    new_in_half: the number of new values in the second half of the rows, if values arrive in an order, like
    times; new values then continue at that rate. None for values in random order.
    """

    def __init__(self, counts: "np.ndarray[Any, np.dtype[np.int64]]", new_in_half: float | None = None) -> None:
        self._size = int(counts.sum())
        self._counts, self._entries = np.unique(counts, return_counts=True)
        self._new_in_half = new_in_half
        self._once = int(np.count_nonzero(counts == 1))
        self._rate, self._spread = _most_likely(np.bincount(counts[counts <= _RARE_MAX], minlength=_RARE_MAX + 1)[1:])

    def at(self, num_values: int) -> float:
        known = float(self._entries.sum())
        if num_values < self._size:  # rarefaction: the distinct values that still occur in a smaller sample
            share = num_values / self._size
            return float((self._entries * -np.expm1(self._counts * math.log1p(-share))).sum())
        more = num_values / self._size - 1
        if self._new_in_half is not None:
            return min(float(num_values), known + self._new_in_half * 2 * more)
        return min(float(num_values), known + self._once * _unseen(self._rate, self._spread, more))

    def occurrences(self, num_values: int) -> tuple[Floats, Floats]:
        # the share of values that occur once estimates the share of new ones (Good 1953)
        scale, known = num_values / self._size, float(self._entries.sum())
        new = self.at(num_values) - known
        if new <= 0:
            return self._counts * scale, self._entries.astype(np.float64)
        if self._new_in_half is not None:
            growth = 1 + new / known
            return self._counts * (scale / growth), self._entries * growth
        rare = self._once / self._size * num_values
        seen = self._counts * scale * (1 - self._once / self._size)
        each = max(1.0, rare / new)
        return np.append(np.maximum(1.0, seen), each), np.append(self._entries, new)


def sampled(ids: "np.ndarray[Any, np.dtype[Any]]", cardinality: int, *, in_order: bool) -> Sampled:
    """Return the model of a sample. ids: of its values, below `cardinality`. in_order: in order of arrival, to detect
    drift."""
    counts = np.bincount(ids, minlength=cardinality)
    if not in_order or len(ids) < 2:
        return Sampled(counts)
    middle = len(ids) // 2
    in_half = (len(np.unique(ids[:middle])) + len(np.unique(ids[middle:]))) / 2
    expected = float((1 - 0.5 ** counts.astype(np.float64)).sum())
    if expected - in_half > max(_DRIFT_SHARE * expected, _DRIFT_DEVIATIONS * math.sqrt(expected)):
        return Sampled(counts, len(counts) - in_half)
    return Sampled(counts)


def _most_likely(numbers: "np.ndarray[Any, np.dtype[np.int64]]") -> tuple[float, float]:
    """Return the maximum-likelihood (rate, spread) for the numbers of values that occur once, twice, …

    The values that occur k times are expected to be (rate + (k - 2) * spread) / k times as many as those that occur k - 1
    times; spread 0 is a Poisson distribution of that rate.
    """
    rates = np.geomspace(1e-7, 50, 600)[:, None]
    spreads = np.concatenate(([0.0], 1 - np.geomspace(1, 1e-3, 200)[1:]))[None, :]
    logs = np.zeros((len(rates), spreads.shape[1]))
    total, likelihood = np.ones_like(logs), np.zeros_like(logs)
    for times in range(2, _RARE_MAX + 1):
        logs = logs + np.log((rates + (times - 2) * spreads) / times)
        total += np.exp(logs)
        likelihood += numbers[times - 1] * logs
    likelihood -= numbers.sum() * np.log(total)
    row, column = np.unravel_index(int(np.argmax(likelihood)), likelihood.shape)
    return float(rates[row, 0]), float(spreads[0, column])


def _unseen(rate: float, spread: float, more: float) -> float:
    """Return the new values among `more` times as many values, for each value that occurs once: the integral over u from
    0 to `more` of (1 + spread * u) ** (-rate / spread).
    """
    if spread == 0:
        return -math.expm1(-rate * more) / rate
    log, power = math.log1p(spread * more), 1 - rate / spread
    if abs(power) < 1e-9:
        return log / spread
    return math.expm1(power * log) / (power * spread)
