"""A few rows of several segments, unsorted or sorted: read together, and sorted once.

Sorting them segment by segment and merging the results takes many times as long as reading them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gamay.functions.vector import EncodedVector, Vector, take
from gamay.query.bind.binder import BoundQuery, physical_columns
from gamay.query.columns.operations import concat_vectors, take_rows
from gamay.query.columns.order import sort_array
from gamay.query.few.keys import Pieces
from gamay.query.few.stored import column_name
from gamay.query.prune.by_segments import beyond_first_rows, known_bounds
from gamay.query.selection import Rows
from gamay.query.view.matches import AllDocs, DocList
from gamay.query.view.read import read_column, read_values
from gamay.segment.spi import Segment

ROWS_MAX = 1 << 10
"""The most rows to sort together, or to ask for."""
SEGMENTS_MAX = 16
"""The most segments to read together."""
_KEPT = "few rows"


class FewRows:
    """The plan of selections of one shape that read plain columns.

    columns: the columns read. num_keys: how many of them are sort keys. shown: the result's columns, in their order.
    """

    def __init__(self, bound: BoundQuery) -> None:
        self._keys = [(column_name(key.expression), key.descending, key.nulls_last) for key in bound.order_by]
        names = {name for name, _, _ in self._keys}
        self.columns = physical_columns(bound.rows)
        self.num_keys = len(names)
        self.num_others = sum(name not in names for name in self.columns)
        self.rows = tuple(map(column_name, bound.rows))
        self.shown = tuple(map(column_name, bound.outputs))

    @classmethod
    def of(cls, bound: BoundQuery) -> "FewRows | None":
        """Return the plan for queries of this shape; None if anything but stored columns is read."""
        if not 0 < bound.limit_with_offset <= ROWS_MAX:
            return None
        if _KEPT not in bound.shared:
            parts = [*bound.rows, *(key.expression for key in bound.order_by)]
            is_plain = not bound.filters and all(column_name(part) in bound.fields for part in parts)
            bound.shared[_KEPT] = cls(bound) if is_plain else None
        kept: FewRows | None = bound.shared[_KEPT]
        return kept

    def not_needed(self, segments: Sequence[Segment], counts: Sequence[int], wanted: int) -> set[int]:
        """Return the positions of the segments all of whose rows come after the first `wanted` rows of others.

        counts: the number of rows of each segment to sort, without nulls.
        """
        name, descending, _ = self._keys[0]
        if sum(map(bool, counts)) < 2:
            return set()
        spans: list[tuple[Any, Any, int, int]] = []
        for place, (segment, count) in enumerate(zip(segments, counts, strict=True)):
            if count and (bounds := known_bounds(segment.column(name).stats)) is not None:
                spans.append((*bounds, count, place))
        return beyond_first_rows(spans, wanted, descending)

    def ordered(self, pieces: Pieces, names: Sequence[str], start: int, stop: int) -> Rows:
        """Return columns at the rows from `start` to `stop` in the query's order; ties keep the order of the pieces."""
        read = {name: _read(name, pieces) for name in self.columns}
        keys = []
        for name, descending, nulls_last in self._keys:
            values, dictionary = read[name]
            if dictionary is None:
                assert isinstance(values, Vector)
                keys.append(sort_array(values, descending, nulls_last))
            else:
                keys.append(~values if descending else values)
        keys.reverse()
        order = np.lexsort(keys)[start:stop]
        return tuple([_taken(*read[name], order) for name in names])

    def at(self, pieces: Pieces) -> Rows:
        """Return the result's columns at all rows of the pieces."""
        read = {
            name: concat_vectors([read_values(segment.column(name), block) for segment, block in pieces])
            for name in self.columns
        }
        return tuple([read[name] for name in self.shown])


def _read(name: str, pieces: Pieces) -> "tuple[Any, Vector | None]":
    """Return the values of a column, or with a sorted dictionary its ids, which have the same order."""
    if len(pieces) > 1:
        return concat_vectors([read_values(segment.column(name), block) for segment, block in pieces]), None
    ((segment, block),) = pieces
    column = segment.column(name)
    dictionary = column.dictionary
    if dictionary is None or not dictionary.is_sorted or not column.single_value:
        operand = read_column(column, block)
        return operand.decode() if isinstance(operand, EncodedVector) else operand, None
    if isinstance(block, AllDocs):
        return column.ids(block.start, block.stop), dictionary.values
    assert isinstance(block, DocList)
    return column.ids_at(block.ids), dictionary.values


def _taken(values: Any, dictionary: Vector | None, order: "np.ndarray[Any, np.dtype[np.int64]]") -> Vector:
    if dictionary is None:
        return take_rows(values, order)
    entries = dictionary.values
    ids = values[order]
    return Vector(dictionary.type, entries[ids] if isinstance(entries, np.ndarray) else take(entries, ids))
