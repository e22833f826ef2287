"""Times of buckets: conversion between a result's time column, in a date-time format, and milliseconds."""

from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.vector import Vector
from gamay.model.schema.datetime_format import DateTimeFormat, DateTimeKind
from gamay.model.types import DataType
from gamay.query.answer.values import json_values
from gamay.query.columns.constants import values_of
from gamay.sql.query import Gapfill

_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)


def times_ms(column: Vector, fmt: DateTimeFormat) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return the milliseconds of a time column, int64 [n]; raises QueryError for a value that does not match the format."""
    if column.is_multi_value or (column.nulls is not None and column.nulls.any()):
        raise _execution("the time must have exactly one value in every row")
    if column.type is DataType.TIMESTAMP or (fmt.kind is DateTimeKind.TIMESTAMP and column.type in _WHOLE):
        millis: np.ndarray[Any, np.dtype[np.int64]] = column.values.astype(np.int64, copy=False)
        return millis
    if fmt.kind is DateTimeKind.EPOCH and column.type in _WHOLE:
        return _rescaled(column.values.astype(np.int64), fmt.size * fmt.unit.value, 1_000_000)
    if isinstance(column.values, np.ndarray):
        distinct, back = np.unique(column.values, return_inverse=True)
        listed = json_values(Vector(column.type, distinct))
    else:
        coded = column.values.dictionary_encode()
        listed, back = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    try:
        distinct_ms = np.array([fmt.to_millis(value) for value in listed], np.int64)
    except (ValueError, OverflowError, TypeError) as error:
        raise _execution(f"the time is not in the format '{fmt.text}': {error}") from None
    return distinct_ms[back]


def bucket_labels(gapfill: Gapfill, like: Vector, num_buckets: int) -> Vector:
    """Return the starts of the buckets as a column of the type of the times `like`, in the given format."""
    fmt = gapfill.format
    millis = gapfill.start_ms + gapfill.bucket_ms * np.arange(num_buckets, dtype=np.int64)
    if like.type is DataType.TIMESTAMP:
        return Vector(like.type, millis)
    if fmt.kind is DateTimeKind.EPOCH:
        labels: list[Any] = _rescaled(millis, 1_000_000, fmt.size * fmt.unit.value).tolist()
    else:
        labels = [fmt.from_millis(ms) for ms in millis.tolist()]
    try:
        if like.type.is_text:
            return Vector(like.type, values_of(like.type, [str(label) for label in labels]))
        return Vector(like.type, values_of(like.type, [int(label) for label in labels]))
    except (ValueError, OverflowError, TypeError):
        raise _execution(f"times in the format '{fmt.text}' do not fit a column of type {like.type.value}") from None


def _rescaled(
    values: "np.ndarray[Any, np.dtype[np.int64]]", numerator: int, denominator: int
) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return values * numerator // denominator, reduced first so that intermediate results fit in 64 bits."""
    shared = np.gcd(numerator, denominator)
    result: np.ndarray[Any, np.dtype[np.int64]] = values * (numerator // shared) // (denominator // shared)
    return result


def _execution(message: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_EXECUTION, f"GAPFILL: {message}")
