"""The least row of each group: the basis of MINSTRING, ANYVALUE, FIRSTWITHTIME, EXPRMIN and similar functions.

Rows are compared lexicographically, column by column. The result does not depend on how rows are divided among threads,
segments and servers: rows that are equal in all columns are interchangeable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.choose.ordering import Ordered, order, values_of
from gamay.functions.aggregate.distinct.coding import decimal_texts, decimals
from gamay.functions.aggregate.distinct.pairs import no_values
from gamay.functions.aggregate.totals.totals import flatten, repeat, unsigned
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.convert import placeholder
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, concat, take
from gamay.kernels.group.least import keep_least
from gamay.model.types import DataType

_WAITING_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class LeastRows:
    """groups: int32 [m], ascending, the groups that have a row; columns: single values [m] each."""

    groups: Array
    columns: tuple[Vector, ...]
    num_groups: int


class LeastState:
    """The least rows so far, as keys, and the rows of earlier batches whose keys are not comparable with these.

    descending: keep the greatest rows instead.
    """

    def __init__(self, types: Sequence[DataType], descending: bool, num_groups: int) -> None:
        self._types = tuple(types)
        self._descending = descending
        self._num_groups = num_groups
        self._entries: list[Values] | None = None
        self._waiting: list[LeastRows] = []
        self._start()

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        least, filled, known = self._least, self._filled, self._num_groups
        self._num_groups = num_groups
        self._start()
        self._least[:known], self._filled[:known] = least, filled

    def update(self, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        """Add a batch of rows; a multi-value argument must be the only one, and contributes a row for each of its values."""
        of_rows = None if groups is None else unsigned(groups)
        if len(args) == 1:
            of_rows, values = flatten(of_rows, args[0], num_rows)
            columns: list[Vector | EncodedVector] = [values]
        else:
            columns = [_single(arg, num_rows) for arg in args]
        if len(columns[0]) == 0:
            return
        ordered = [order(column) for column in columns]
        entries = [part.entries for part in ordered]
        if self._entries is not None and any(a is not b for a, b in zip(self._entries, entries, strict=True)):
            self._put_aside()
        self._entries = entries
        keys = _matrix(ordered, self._descending)
        keep_least(np.zeros(len(keys), np.uint8) if of_rows is None else of_rows, keys, self._least, self._filled)

    def combine(self, other: "LeastState") -> None:
        """Add the rows of another thread over the same groups."""
        self._waiting.append(other.rows())

    def rows(self) -> LeastRows:
        """Return the least rows of all rows added."""
        self._put_aside()
        if len(self._waiting) != 1:
            self._waiting = [merge_least(self._waiting, None, self._num_groups, self._types, self._descending)]
        known = self._waiting[0]
        return LeastRows(known.groups, known.columns, self._num_groups)

    def _start(self) -> None:
        self._least = np.zeros((self._num_groups, len(self._types)), np.int64)
        self._filled = np.zeros(self._num_groups, np.uint8)

    def _put_aside(self) -> None:
        if self._entries is None:
            return
        kept = _rows_of_keys(self._least, self._filled, self._types, self._entries, self._descending)
        self._entries = None
        self._start()
        self._waiting.append(kept)
        if sum(len(part.groups) for part in self._waiting[1:]) > max(_WAITING_ROWS, len(self._waiting[0].groups)):
            self._waiting = [merge_least(self._waiting, None, self._num_groups, self._types, self._descending)]


def _single(operand: Operand, num_rows: int) -> Vector | EncodedVector:
    return Vector(operand.type, repeat(operand, num_rows)) if isinstance(operand, Scalar) else operand


def _matrix(columns: Sequence[Ordered], descending: bool) -> Array:
    """Return the keys side by side: int64 [number of rows, number of columns], least for the resulting row."""
    matrix = np.empty((len(columns[0].keys), len(columns)), np.int64)
    for place, column in enumerate(columns):
        matrix[:, place] = column.keys
    return ~matrix if descending else matrix


def _rows_of_keys(
    least: Array, filled: Array, types: Sequence[DataType], entries: Sequence[Values], descending: bool
) -> LeastRows:
    groups = np.flatnonzero(filled).astype(np.int32)
    keys = ~least[groups] if descending else least[groups]
    columns = (
        values_of(data_type, np.ascontiguousarray(keys[:, place]), entries[place]) for place, data_type in enumerate(types)
    )
    return LeastRows(groups, tuple(columns), len(filled))


def merge_least(
    partials: Sequence[LeastRows],
    maps: Sequence[GroupIds] | None,
    num_groups: int,
    types: Sequence[DataType],
    descending: bool,
) -> LeastRows:
    """Merge: entry i of partials[k] goes to group maps[k][i]; without `maps`, group numbers are unchanged."""
    filled = np.zeros(num_groups, np.uint8)
    least = np.zeros((num_groups, len(types)), np.int64)
    if not any(len(partial.groups) for partial in partials):
        return LeastRows(np.empty(0, np.int32), tuple(no_values(data_type) for data_type in types), num_groups)
    groups = [partial.groups if maps is None else maps[i][partial.groups] for i, partial in enumerate(partials)]
    ordered = [
        order(Vector(data_type, concat([partial.columns[place].values for partial in partials])))
        for place, data_type in enumerate(types)
    ]
    keep_least(unsigned(np.concatenate(groups)), _matrix(ordered, descending), least, filled)
    return _rows_of_keys(least, filled, types, [part.entries for part in ordered], descending)


def select_least(partial: LeastRows, groups: Array) -> LeastRows:
    """Return the rows of these groups only, renumbered."""
    places = np.full(partial.num_groups, -1, np.int64)
    places[partial.groups] = np.arange(len(partial.groups))
    chosen = places[groups]
    kept = np.flatnonzero(chosen >= 0)
    rows = chosen[kept]
    columns = tuple(Vector(column.type, take(column.values, rows)) for column in partial.columns)
    return LeastRows(kept.astype(np.int32), columns, len(groups))


def encode_least(partial: LeastRows) -> list[pa.Array]:
    """Return the columns, with a null for each group that has no row."""
    places = np.zeros(partial.num_groups, np.int32)
    places[partial.groups] = np.arange(len(partial.groups))
    missing = np.ones(partial.num_groups, bool)
    missing[partial.groups] = False
    taken = pa.array(places, mask=missing)
    return [_stored(column).take(taken) for column in partial.columns]


def decode_least(types: Sequence[DataType], arrays: Sequence[pa.Array]) -> LeastRows:
    """Invert `encode_least`."""
    groups = np.flatnonzero(arrays[0].is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
    columns = [_loaded(data_type, array.drop_null()) for data_type, array in zip(types, arrays, strict=True)]
    return LeastRows(groups, tuple(columns), len(arrays[0]))


def spread(values: Vector, groups: Array, num_groups: int, missing: Any) -> Vector:
    """Return a value for each group: `missing`, or null if that is None, for groups that are not listed."""
    places = np.full(num_groups, len(values), np.int32)
    places[groups] = np.arange(len(groups))
    nulls = None if missing is not None else places == len(values)
    if missing is None:
        missing = placeholder(values.type)
    padded = concat([values.values, repeat(Scalar(missing, values.type), 1)])
    return Vector(values.type, take(padded, places), nulls=nulls if nulls is not None and nulls.any() else None)


def _stored(values: Vector) -> pa.Array:
    if values.type is DataType.BIG_DECIMAL:
        return decimal_texts(values.values)
    return pa.array(values.values) if isinstance(values.values, np.ndarray) else values.values


def _loaded(data_type: DataType, array: pa.Array) -> Vector:
    if data_type is DataType.BIG_DECIMAL:
        return Vector(data_type, decimals(array))
    return Vector(data_type, array.to_numpy(zero_copy_only=False) if data_type.is_fixed_width else array)
