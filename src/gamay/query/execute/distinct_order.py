"""DISTINCT with ORDER BY and LIMIT: skips rows whose first key is beyond the last of the first distinct rows."""

import numpy as np

from gamay.functions.expression import Column
from gamay.functions.vector import EncodedVector, Scalar
from gamay.query.bind.binder import BoundQuery, SortKey, key_column
from gamay.query.columns.order import Bound, CommonBound, bound_of
from gamay.query.groupby.table import GroupTable, take_key
from gamay.query.view.matches import AllDocs, DocIds, DocList, Matches
from gamay.query.view.read import segment_reader
from gamay.query.view.virtual import QuerySegment

# a bound that keeps more than one row in this many costs as much as grouping
_LEFT_OUT_LEAST = 4


class FirstKey:
    """The first sort key of distinct rows in one segment.

    leaves_out: whether the bound is known, or assumed, to exclude enough rows to be worthwhile.
    """

    def __init__(self, segment: QuerySegment, place: int, name: str, sort: SortKey) -> None:
        self._segment = segment
        self._place = place
        self._name = name
        self._sort = sort
        self._common = CommonBound(sort.descending)
        self._bound: Bound | None = None
        self.leaves_out = True

    @classmethod
    def of(cls, bound: BoundQuery, segment: QuerySegment) -> "FirstKey | None":
        """Return the first key of a query, if it is a column ordered by its values or ids; else None."""
        sort = bound.order_by[0]
        for place, row in enumerate(bound.rows):
            if sort.expression == key_column(place) and isinstance(row, Column):
                column = segment.column(row.name)
                if column.single_value and (column.dictionary is None or column.dictionary.is_sorted):
                    return cls(segment, place, row.name, sort)
        return None

    def learn(self, table: GroupTable) -> None:
        """Take the last of the first groups, in order, as the bound for further rows."""
        last = take_key(table.keys[self._place], np.array([table.num_groups - 1]))
        vector = last.decode() if isinstance(last, EncodedVector) else last
        bound = bound_of(vector, self._sort.descending, self._sort.nulls_last)
        dictionary = self._segment.column(self._name).dictionary
        if bound is None or dictionary is None:
            self._bound = bound
            return
        self._common.offer(bound, vector.type)
        self._bound = self._common.tightened(None, dictionary, self._sort.nulls_last)

    def with_a_chance(self, matches: Matches) -> Matches:
        """Return the rows that are not beyond the bound."""
        if self._bound is None or not self.leaves_out:
            return matches
        found: list[DocIds] = []
        looked_at = 0
        reader, key = segment_reader(self._segment), Column(self._name)
        for block in matches.blocks():
            operand = reader(block)(key)
            assert not isinstance(operand, Scalar)
            rows = self._bound.candidates(operand)
            found.append((rows + block.start).astype(np.int32) if isinstance(block, AllDocs) else block.docs()[rows])
            looked_at += len(operand)
        kept = np.concatenate(found) if found else np.empty(0, np.int32)
        self.leaves_out = len(kept) * _LEFT_OUT_LEAST <= looked_at
        return DocList(kept)
