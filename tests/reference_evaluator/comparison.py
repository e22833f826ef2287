"""Comparison of answers with those expected by the evaluator."""

import math
from collections import Counter
from typing import Any

from tests.reference_evaluator.aggregates import Estimate, Rough, Unordered
from tests.reference_evaluator.tree import hashable


def is_close(found: Any, expected: Any) -> bool:
    """Tell whether two values are equal: doubles to nine digits, since sums depend on the order of addition."""
    if isinstance(expected, Estimate):
        return type(found) is int and abs(found - expected) <= 2 + expected * 0.15
    if isinstance(expected, Unordered):
        return isinstance(found, list) and sorted(map(repr, found)) == sorted(map(repr, expected))
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_close, found, expected))
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, float) and isinstance(expected, float):
        if found != found or expected != expected:
            return found != found and expected != expected
        tolerance = max(1e-6, expected.tolerance if isinstance(expected, Rough) else 0.0)
        return found == expected or math.isclose(found, expected, rel_tol=1e-9, abs_tol=tolerance)
    same = found == expected or (found != found and expected != expected)  # NaN, here of decimals, is no other than itself
    return type(found) is type(expected) and bool(same)


def compare_rows(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the found rows that are not among the expected ones, with multiplicity."""
    missing = Counter(map(_key, expected))
    doubtful = []
    for row in found:
        key = _key(row)
        if missing[key] > 0:
            missing[key] -= 1
        else:
            doubtful.append(row)
    if not doubtful:
        return []
    left = list((missing & Counter(map(_key, expected))).elements())
    originals: dict[Any, list[tuple[Any, ...]]] = {}
    for row in expected:
        originals.setdefault(_key(row), []).append(row)
    candidates = [originals[key][0] for key in left]
    wrong = []
    for row in doubtful:
        near = next((i for i, one in enumerate(candidates) if all(map(is_close, row, one))), None)
        if near is None:
            wrong.append(row)
        else:
            del candidates[near]
    return wrong


def _key(row: tuple[Any, ...]) -> Any:
    return tuple((isinstance(value, float), isinstance(value, bool), hashable(value)) for value in row)
