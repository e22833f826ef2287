"""Detection of the rows of a multi-value FLOAT column that have a vector."""

from typing import Any

import numpy as np

from gamay.functions.vector import Vector


def has_vector(rows: Vector, dimension: int, nulls: "np.ndarray[Any, np.dtype[np.bool_]] | None") -> Any:
    """Return the rows that have a vector: bool [n]. Null rows, and those with only a FLOAT's default, have none.

    dimension: the length of vectors; nulls: bool [n], None if no row is null.
    """
    assert rows.offsets is not None
    lengths = np.diff(rows.offsets)
    found = lengths > 0
    if dimension > 1:
        single = np.flatnonzero(lengths == 1)
        found[single] = rows.values[rows.offsets[single]] != -np.inf
    return found if nulls is None else found & ~nulls
