"""Tests of whole columns: one flag for each row, from dictionary ids or raw numbers."""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@kernel
def mark_id_range(ids: Array, first: int, last: int, out: Array) -> None:
    """Set out[i] = first <= ids[i] < last."""
    for i in range(ids.size):
        one = np.int64(ids[i])
        out[i] = (one >= first) & (one < last)


@kernel
def mark_id_set(ids: Array, table: Array, out: Array) -> None:
    """Set out[i] = table[ids[i]]: bool [cardinality]."""
    for i in range(ids.size):
        out[i] = table[np.int64(ids[i])]


@kernel
def mark_rows_of_id_set(ids: Array, offsets: Array, table: Array, out: Array) -> None:
    """Set out[i] = any of table[ids[offsets[i]:offsets[i + 1]]]."""
    for i in range(out.size):
        found = False
        for k in range(offsets[i], offsets[i + 1]):
            found |= table[np.int64(ids[k])]
        out[i] = found


@kernel
def mark_rows_of_values(marks: Array, offsets: Array, out: Array) -> None:
    """Set out[i] = any of marks[offsets[i]:offsets[i + 1]]."""
    for i in range(out.size):
        found = False
        for k in range(offsets[i], offsets[i + 1]):
            found |= marks[k]
        out[i] = found


@kernel
def mark_docs(docs: Array, out: Array) -> None:
    """Set out[d] for each of the docs."""
    for i in range(docs.size):
        out[docs[i]] = True
