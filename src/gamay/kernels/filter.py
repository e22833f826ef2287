"""Tests of whole columns: one flag for each row, from dictionary ids or raw numbers."""

import numpy as np

from gamay.kernels.jit import kernel


@kernel
def mark_id_range(ids, first, last, out):  # type: ignore[no-untyped-def]
    """Set out[i] = first <= ids[i] < last."""
    for i in range(ids.size):
        one = np.int64(ids[i])
        out[i] = (one >= first) & (one < last)


@kernel
def mark_id_set(ids, table, out):  # type: ignore[no-untyped-def]
    """Set out[i] = table[ids[i]]: bool [cardinality]."""
    for i in range(ids.size):
        out[i] = table[np.int64(ids[i])]


@kernel
def mark_rows_of_id_set(ids, offsets, table, out):  # type: ignore[no-untyped-def]
    """Set out[i] = any of table[ids[offsets[i]:offsets[i + 1]]]."""
    for i in range(out.size):
        found = False
        for k in range(offsets[i], offsets[i + 1]):
            found |= table[np.int64(ids[k])]
        out[i] = found


@kernel
def mark_rows_of_values(marks, offsets, out):  # type: ignore[no-untyped-def]
    """Set out[i] = any of marks[offsets[i]:offsets[i + 1]]."""
    for i in range(out.size):
        found = False
        for k in range(offsets[i], offsets[i + 1]):
            found |= marks[k]
        out[i] = found
