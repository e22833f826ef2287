"""Values of JSON documents at plain paths (`$.a.b[0]`), without parsing whole documents: columns at memory speed.

The value of each document at the path is classified by kind; strings without escapes, numbers of up to 18 digits, true
and false are parsed in place. All others, rare in most data, are parsed document by document in `json_steps`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Array
from gamay.functions.arrow import binary_buffers
from gamay.functions.scalar.json.steps import Step
from gamay.functions.vector import take
from gamay.kernels.json.columns import locate_in_documents
from gamay.kernels.json.numbers import parse_reals, parse_wholes
from gamay.kernels.json.paths import (
    ESCAPED,
    LARGE,
    MISSING,
    NULL,
    REAL,
    UNSURE,
    WHOLE,
    copy_slices,
    locate_values,
    mark_equal,
)

# extra bytes after copied texts, so that the last one is copied as fast as the others
_SLACK = 16


@dataclass(frozen=True, eq=False)
class Found:
    """The value at a path in each document: `kinds` uint8 [n] of `gamay.kernels.json.paths`, at data[begins[i]:ends[i]]."""

    kinds: Array
    begins: Array
    ends: Array
    data: Array

    @cached_property
    def is_absent(self) -> Array:
        """Whether the value is missing or null: bool [n]."""
        return self.is_one_of(MISSING, NULL)

    @cached_property
    def is_rare(self) -> Array:
        """Whether a document, or its value, needs the general parser: bool [n]."""
        return self.is_one_of(ESCAPED, LARGE, UNSURE)

    def rows(self, *kinds: int) -> Array:
        """Return the rows with one of these kinds: int64, ascending."""
        return np.flatnonzero(self.is_one_of(*kinds))

    def texts(self, rows: Array) -> pa.StringArray:
        """Return the values at some rows, in their JSON form."""
        begins, ends = self.begins[rows], self.ends[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(ends - begins, out=offsets[1:])
        out = np.empty(int(offsets[-1]) + _SLACK, np.uint8)
        copy_slices(self.data, begins, ends, offsets, out)
        return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out))

    def is_one_of(self, *kinds: int) -> Array:
        """Return for each row whether its kind is one of these: bool [n]."""
        table = np.zeros(256, np.bool_)
        table[list(kinds)] = True
        return np.asarray(take(table, self.kinds))

    def mark_equal(self, text: str, kinds: Sequence[int], flags: Array) -> None:
        """Set the flags (bool [n]) of those values of some kinds whose JSON form equals a text."""
        compared = np.zeros(256, np.bool_)
        compared[list(kinds)] = True
        wanted = np.frombuffer(text.encode(), np.uint8)
        mark_equal(self.data, self.kinds, self.begins, self.ends, compared, wanted, flags)

    def wholes(self) -> tuple[Array, Array]:
        """Return the rows with integers, and their values: int64."""
        rows = self.rows(WHOLE)
        numbers = np.empty(len(rows), np.int64)
        parse_wholes(self.data, self.begins[rows], self.ends[rows], numbers)
        return rows, numbers

    def reals(self) -> tuple[Array, Array]:
        """Return the rows with other numbers, and their values: float64."""
        rows = self.rows(REAL)
        numbers, is_left = np.empty(len(rows)), np.empty(len(rows), np.bool_)
        if parse_reals(self.data, self.begins[rows], self.ends[rows], numbers, is_left):
            numbers[is_left] = pc.cast(self.texts(rows[is_left]), pa.float64()).to_numpy()
        return rows, numbers


def scan(
    documents: pa.StringArray, steps: Sequence[Step], *, is_json: bool = False, rows: "Array | None" = None
) -> Found | None:
    """Find a path in each document; None if it has steps other than names and non-negative positions.

    rows: the documents to search, which the result is restricted to. is_json: whether every document is known to be JSON,
    as in a column of that type.
    """
    if not all(kind == "key" or (kind == "index" and argument >= 0) for kind, argument in steps):
        return None
    names = [argument.encode() if kind == "key" else b"" for kind, argument in steps]
    places = np.array([-1 if kind == "key" else argument for kind, argument in steps], np.int64)
    bounds = np.zeros(len(steps) + 1, np.int64)
    np.cumsum([len(name) for name in names], out=bounds[1:])
    keys = np.frombuffer(b"".join(names) or b"\0", np.uint8)
    offsets, data = binary_buffers(documents)
    starts, stops = (offsets[:-1], offsets[1:]) if rows is None else (take(offsets, rows), take(offsets, rows + 1))
    count = len(starts)
    kinds, begins, ends = np.empty(count, np.uint8), np.empty(count, np.int64), np.empty(count, np.int64)
    locate = locate_in_documents if is_json and steps else locate_values
    locate(data, starts, stops, keys, bounds, places, kinds, begins, ends)
    return Found(kinds, begins, ends, data)
