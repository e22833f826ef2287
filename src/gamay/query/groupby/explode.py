"""Rows with multi-value keys: a row belongs to the group of each combination of its keys' values."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.expression import Expression
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, concat, take, take_rows
from gamay.kernels.group.grouping import combine_lists, rows_of_lists
from gamay.model.types import DataType
from gamay.query.columns.constants import repeated
from gamay.query.groupby.states import Evaluate


def is_list(key: Operand) -> bool:
    """Whether an operand holds a list for each row."""
    return not isinstance(key, Scalar) and key.offsets is not None


def single_keys(keys: Sequence[Expression], operand: Evaluate, num_rows: int) -> tuple[list[Operand], Evaluate, int]:
    """Return the keys as single values, the evaluator of arguments for the same rows, and the number of these rows.

    Each row is repeated for each combination of its keys' values.
    """
    values = [_without_null_constant(operand(key), num_rows) for key in keys]
    if not any(map(is_list, values)):
        return values, operand, num_rows
    exploded = Exploded(values, num_rows)
    return exploded.keys, lambda argument: take_rows(operand(argument), exploded.rows), exploded.num_rows


def stored_type(key: Scalar) -> DataType:
    """Return the stored type of a constant; NULL has no values, and counts as text."""
    return DataType.STRING if key.type is DataType.UNKNOWN else key.type


def _without_null_constant(key: Operand, num_rows: int) -> Operand:
    return repeated(None, stored_type(key), num_rows) if isinstance(key, Scalar) and key.value is None else key


class Exploded:
    """A block's rows, each repeated for each combination of its keys' values.

    keys: single values [num_rows], in the order of the rows and, within a row, of its values.
    """

    def __init__(self, keys: Sequence[Operand], num_rows: int) -> None:
        self._num_source_rows = num_rows
        self._lists = [_Lists(key) for key in keys if is_list(key)]
        if len(self._lists) == 1:
            only = self._lists[0]
            self.keys = [only.values if is_list(key) else take_rows(key, self.rows) for key in keys]
            self.num_rows = only.num_values
            return
        rows, positions = self._combinations
        places = iter(positions)
        lists = iter(self._lists)
        self.keys = [take_rows(next(lists).values, next(places)) if is_list(key) else take_rows(key, rows) for key in keys]
        self.num_rows = len(rows)

    @cached_property
    def rows(self) -> Array:
        """The original row of each: int32 [num_rows]; computed only if needed."""
        if len(self._lists) > 1:
            return self._combinations[0]
        rows = np.empty(self._lists[0].num_values, np.int32)
        rows_of_lists(self._lists[0].offsets, rows)
        return rows

    @cached_property
    def _combinations(self) -> tuple[Array, list[Array]]:
        """The original row of each combination, and for each list the position of its value."""
        rows = np.arange(self._num_source_rows, dtype=np.int32)
        positions: list[Array] = []
        for lists in self._lists:
            parents = np.empty(int(np.diff(lists.offsets)[rows].sum(dtype=np.int64)), np.int32)
            places = np.empty(len(parents), np.int32)
            combine_lists(lists.offsets, rows, parents, places)
            positions = [*(earlier[parents] for earlier in positions), places]
            rows = rows[parents]
        return rows, positions


class _Lists:
    """A multi-value operand: its concatenated values, and offsets that begin with 0."""

    def __init__(self, key: Operand) -> None:
        assert not isinstance(key, Scalar)
        key = _with_one_null(key)
        assert key.offsets is not None
        first, last = int(key.offsets[0]), int(key.offsets[-1])
        self.offsets = key.offsets - key.offsets.dtype.type(first) if first else key.offsets
        self.num_values = last - first
        nulls = None if key.nulls is None else np.repeat(key.nulls, np.diff(key.offsets))
        self.values: Operand = (
            EncodedVector(key.ids[first:last], key.dictionary, None, nulls)
            if isinstance(key, EncodedVector)
            else Vector(key.type, key.values[first:last], None, nulls)
        )


def _with_one_null(key: Vector | EncodedVector) -> Vector | EncodedVector:
    """Return lists in which a null list has exactly one value, whatever a function computed in its place."""
    assert key.offsets is not None
    lengths = np.diff(key.offsets)
    if key.nulls is None or np.all(lengths[key.nulls] == 1):
        return key
    vector = key.decode() if isinstance(key, EncodedVector) else key
    lengths = np.where(key.nulls, 1, lengths)
    offsets = np.zeros(len(key) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    starts = np.where(key.nulls, len(vector.values), key.offsets[:-1])
    positions = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    values = concat([vector.values, repeated(None, vector.type, 1).values])
    return Vector(vector.type, take(values, positions), offsets, vector.nulls)
