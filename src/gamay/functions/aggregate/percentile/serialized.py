"""Parsing of rows of serialised sketches, which are then merged."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.totals.totals import flatten
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.sketch.compact import not_a_sketch
from gamay.functions.vector import EncodedVector, Operand

T = TypeVar("T")

_ROWS_AT_ONCE = 1 << 12


def parsed_rows(
    kind: str, parse: Callable[[bytes], T], groups: GroupIds | None, operand: Operand, num_rows: int
) -> Iterator[tuple[Array, list[T]]]:
    """Yield groups (int32) and sketches of rows of BYTES, some rows at a time; equal bytes are parsed once.

    kind: the name of a sketch in messages. parse: raises ValueError for invalid bytes, reported as QueryError 200.
    """
    groups, values = flatten(groups, operand, num_rows)
    rows = (values.decode() if isinstance(values, EncodedVector) else values).values.to_pylist()
    of_rows = np.zeros(len(rows), np.int32) if groups is None else groups.astype(np.int32)
    known: dict[bytes, T] = {}
    for data in dict.fromkeys(rows):
        try:
            known[data] = parse(data)
        except ValueError as error:
            raise not_a_sketch(kind, data, error) from error
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        yield of_rows[part], [known[data] for data in rows[part]]
