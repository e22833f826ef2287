"""From the columns of a consuming segment to those of an immutable one: each as a whole, by its dictionary, never by row."""

from collections.abc import Iterator, Sequence

import numpy as np

from gamay.functions.vector import take
from gamay.kernels.encoding import group_positions, list_indices
from gamay.segment.accumulate import EncodedColumn, RawColumn
from gamay.segment.dictionary import sort_distinct
from gamay.segment.forward import id_dtype
from gamay.segment.mutable.column import ColumnState
from gamay.segment.spi import Ids


def seal_columns(states: Sequence[ColumnState], sorted_column: str | None) -> "Iterator[SealedColumn]":
    """Yield the columns with their rows in the order of the sorted column, if there is one."""
    order = None
    for state in states:
        if state.plan.spec.name == sorted_column and state.plan.spec.single_value:
            order = _ascending(state)
    return (SealedColumn(state, order) for state in states)


def _ascending(state: ColumnState) -> "Ids | None":
    """Return the docs in the order of a column's values, stable: int64 or uint32 [num_docs]; None when they are in order."""
    if state.dictionary is None:
        keys = _ranks_of_values(state)
        num_keys = int(keys.max(initial=-1)) + 1
    else:
        assert state.ids is not None
        dictionary, (ranks,) = sort_distinct([state.dictionary.stored], state.plan.spec.data_type)
        keys, num_keys = take(ranks, state.ids[: state.num_values]), len(dictionary)
    if not np.any(keys[1:] < keys[:-1]):
        return None
    docs = np.empty(len(keys), np.uint32)
    group_positions(keys, np.zeros(num_keys + 1, np.int64), docs)
    return docs


def _ranks_of_values(state: ColumnState) -> Ids:
    _, (ranks,) = sort_distinct([state.values], state.plan.spec.data_type)
    return ranks


class SealedColumn:
    """A column in the form in which the immutable segment is written; implements `column_writer.FinishedColumn`."""

    def __init__(self, state: ColumnState, order: "Ids | None") -> None:
        """`order`: the docs in their new order; None leaves them where they are."""
        self._state = state
        self._order = order

    def finish_encoded(self) -> EncodedColumn:
        state = self._state
        positions, offsets = self._positions()
        if state.dictionary is None or state.ids is None:
            dictionary, (ids,) = sort_distinct([state.values], state.plan.spec.data_type)
            ids = ids.astype(id_dtype(len(dictionary)))
            ids = ids if positions is None else take(ids, positions)
        else:
            dictionary, (new_ids,) = sort_distinct([state.dictionary.stored], state.plan.spec.data_type)
            ids = state.ids[: state.num_values]
            ids = take(new_ids.astype(id_dtype(len(dictionary))), ids if positions is None else take(ids, positions))
        return EncodedColumn(dictionary, ids, offsets, self._null_docs())

    def finish_raw(self) -> RawColumn:
        positions, offsets = self._positions()
        values = self._state.values
        return RawColumn(values if positions is None else take(values, positions), offsets, self._null_docs())

    def _positions(self) -> "tuple[Ids | None, Ids | None]":
        """Return where the values of the rows in their new order lie (None: where they are), and the rows' offsets."""
        offsets = self._state.offsets
        if offsets is None:
            return self._order, None
        offsets = offsets[: self._state.num_docs + 1]
        if self._order is None:
            return None, offsets
        starts, ends = offsets[self._order], offsets[self._order + 1]
        positions = np.empty(self._state.num_values, np.int64)
        list_indices(starts, ends, positions)
        return positions, np.concatenate(([0], np.cumsum(ends - starts))).astype(np.int32)

    def _null_docs(self) -> Ids:
        nulls = np.asarray(self._state.nulls.docs(self._state.num_docs).to_array(), np.int64)
        if self._order is None or not len(nulls):
            return nulls
        is_null = np.zeros(self._state.num_docs, np.bool_)
        is_null[nulls] = True
        return np.flatnonzero(is_null[self._order])
