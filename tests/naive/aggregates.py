"""Slow, obvious twins of the aggregates: one Python value at a time."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any


def _key(value: Any) -> Any:
    """NaN equals NaN, and -0.0 equals 0.0, as keys and as distinct values."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def count(values: Sequence[Any]) -> int:
    return len(values)


def total(values: Sequence[Any]) -> float:
    if all(isinstance(v, int) for v in values):
        return float(sum(values))
    if any(math.isnan(v) for v in values):
        return math.nan
    infinite = {v for v in values if math.isinf(v)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else math.nan
    return float(sum(Fraction(v) for v in values))


def low(values: Sequence[Any], grouped: bool) -> float:
    if not grouped and any(math.isnan(v) for v in values):
        return math.nan
    return float(min((v for v in values if not math.isnan(v)), default=math.inf))


def high(values: Sequence[Any], grouped: bool) -> float:
    if not grouped and any(math.isnan(v) for v in values):
        return math.nan
    return float(max((v for v in values if not math.isnan(v)), default=-math.inf))


def spread(values: Sequence[Any], grouped: bool) -> float:
    return high(values, grouped) - low(values, grouped)


def average(values: Sequence[Any]) -> float:
    return total(values) / len(values) if values else -math.inf


def distinct_count(values: Sequence[Any]) -> int:
    return len({_key(v) for v in values})


def distinct_sum(values: Sequence[Any]) -> float:
    return total([math.nan if v == "NaN" else v for v in {_key(v) for v in values}])


def percentile(values: Sequence[Any], p: float) -> float:
    if not values:
        return -math.inf
    ordered = sorted(values, key=lambda v: (math.isnan(v), v))
    return float(ordered[-1] if p == 100 else ordered[min(math.floor(len(ordered) * p / 100), len(ordered) - 1)])


def mode(values: Sequence[Any]) -> float:
    if not values:
        return -math.inf
    counts = Counter(values)
    most = max(counts.values())
    return float(min(value for value, n in counts.items() if n == most))


def groups(keys: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> dict[tuple[Any, ...], list[Any]]:
    """Return the values of each distinct key."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for key, value in zip(keys, values, strict=True):
        found.setdefault(tuple(_key(part) for part in key), []).append(value)
    return found


def hll_hash_long(value: int) -> int:
    """MurmurHash 2 of the two halves of a 64-bit number."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    low_half, high_half = value & mask, (value >> 32) & mask
    k = low_half * m & mask
    k ^= k >> 24
    h = k * m & mask
    k = high_half * m & mask
    k ^= k >> 24
    h = h * m & mask
    h ^= k * m & mask
    h ^= h >> 13
    h = h * m & mask
    return h ^ h >> 15


def hll_registers(hashes: Sequence[int], log2m: int) -> list[int]:
    registers = [0] * (1 << log2m)
    for h in hashes:
        rest = (h << log2m) & 0xFFFFFFFF | (1 << (log2m - 1)) + 1
        rank = 32 - rest.bit_length() + 1
        register = h >> (32 - log2m)
        registers[register] = max(registers[register], rank)
    return registers
