"""Python functions of single values over whole columns: each distinct value is computed once.

`@by_value` covers arguments of fixed types; these helpers are for arguments of any type, and for lists as results.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.convert import array_of, placeholder, python_values, watched
from gamay.functions.distinct import distinct
from gamay.functions.text import shown_value
from gamay.functions.vector import Vector, take, take_rows
from gamay.model.types import DataType


def of_distinct(name: str, vector: Vector, function: Callable[[Any], Any], returns: DataType) -> Vector:
    """Apply a function to each distinct value; None is a null result. A ValueError becomes a QueryError."""
    codes, entries = distinct(vector)
    results = _computed(name, function, entries)
    missing = np.array([result is None for result in results], np.bool_)
    filled = [placeholder(returns) if result is None else result for result in results]
    return Vector(returns, take(array_of(filled, returns), codes), None, missing[codes] if missing.any() else None)


def lists_of_distinct(
    name: str, vector: Vector, function: Callable[[Any], Sequence[Any] | None], returns: DataType
) -> Vector:
    """Apply a function that returns a list to each distinct value; None is null. Raises QueryError as `of_distinct`."""
    codes, entries = distinct(vector)
    found = _computed(name, function, entries)
    taken = take_rows(lists_vector([[] if row is None else row for row in found], returns), codes)
    assert isinstance(taken, Vector)
    missing = np.array([row is None for row in found], np.bool_)
    return Vector(returns, taken.values, taken.offsets, missing[codes] if missing.any() else None)


def lists_vector(rows: Sequence[Sequence[Any]], element: DataType) -> Vector:
    """Return lists of Python values as a multi-value Vector."""
    offsets = np.array([0, *accumulate(len(row) for row in rows)], np.int32)
    return Vector(element, array_of([value for row in rows for value in row], element), offsets)


def _computed(name: str, function: Callable[[Any], Any], entries: Vector) -> list[Any]:
    results = []
    for value in watched(python_values(entries.values), entries.values.nbytes):
        try:
            results.append(function(value))
        except (ValueError, OverflowError, ArithmeticError) as error:
            raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}' of {shown_value(value)}: {error}") from error
    return results
