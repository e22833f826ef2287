"""Conversion of the columns of a consuming segment to those of an immutable one, by whole columns and dictionaries."""

from collections.abc import Iterator, Sequence

import numpy as np

from gamay.functions.vector import take
from gamay.kernels.encode.encoding import group_positions, list_indices
from gamay.segment.encode.dictionary import sort_distinct
from gamay.segment.encode.forward import id_dtype
from gamay.segment.encode.storage_form import Stored
from gamay.segment.mutable.column import ColumnState
from gamay.segment.spi import Ids
from gamay.segment.write.accumulate import EncodedColumn, RawColumn


def seal_columns(
    states: Sequence[ColumnState], sorted_column: str | None, kept: "Ids | None" = None
) -> "Iterator[SealedColumn]":
    """Yield the columns with their rows ordered by the sorted column, if there is one.

    kept: the docs to keep in the sealed segment, ascending; None keeps all.
    """
    order = kept
    for state in states:
        if state.plan.spec.name == sorted_column and state.plan.spec.single_value:
            order = _ascending(state, kept)
    return (SealedColumn(state, order, is_part=kept is not None) for state in states)


def _ascending(state: ColumnState, kept: "Ids | None") -> "Ids | None":
    """Sort the docs, or those in `kept`, stably by a column's values: int64 or uint32. Return None if all are kept and in
    order.
    """
    if state.dictionary is None:
        keys = _ranks_of_values(state)
        num_keys = int(keys.max(initial=-1)) + 1
    else:
        assert state.ids is not None
        dictionary, (ranks,) = sort_distinct([state.dictionary.stored], state.plan.spec.data_type)
        keys, num_keys = take(ranks, state.ids[: state.num_values]), len(dictionary)
    if kept is not None:
        keys = take(keys, kept)
    if not np.any(keys[1:] < keys[:-1]):
        return kept
    docs = np.empty(len(keys), np.uint32)
    group_positions(keys, np.zeros(num_keys + 1, np.int64), docs)
    return docs if kept is None else kept[docs]


def _ranks_of_values(state: ColumnState) -> Ids:
    _, (ranks,) = sort_distinct([state.values], state.plan.spec.data_type)
    return ranks


class SealedColumn:
    """A column in the form for writing an immutable segment; implements `column_writer.FinishedColumn`."""

    def __init__(self, state: ColumnState, order: "Ids | None", *, is_part: bool = False) -> None:
        """`order`: the docs in their new order; None keeps the order. is_part: `order` does not contain all docs."""
        self._state = state
        self._order = order
        self._is_part = is_part

    def finish_encoded(self) -> EncodedColumn:
        state = self._state
        positions, offsets = self._positions()
        if self._is_part and positions is not None:
            dictionary, ids = self._part(positions)
        elif state.dictionary is None or state.ids is None:
            dictionary, (ids,) = sort_distinct([state.values], state.plan.spec.data_type)
            ids = ids.astype(id_dtype(len(dictionary)))
            ids = ids if positions is None else take(ids, positions)
        else:
            dictionary, (new_ids,) = sort_distinct([state.dictionary.stored], state.plan.spec.data_type)
            ids = state.ids[: state.num_values]
            ids = take(new_ids.astype(id_dtype(len(dictionary))), ids if positions is None else take(ids, positions))
        return EncodedColumn(dictionary, ids, offsets, self._null_docs())

    def _part(self, positions: Ids) -> tuple[Stored, Ids]:
        """Return a dictionary with only the values at some positions, and their ids."""
        state = self._state
        if state.dictionary is None or state.ids is None:
            dictionary, (ids,) = sort_distinct([take(state.values, positions)], state.plan.spec.data_type)
            return dictionary, ids.astype(id_dtype(len(dictionary)))
        stored = state.dictionary.stored
        old_ids = take(state.ids[: state.num_values], positions)
        used = np.zeros(len(stored), np.bool_)
        used[old_ids] = True
        dictionary, (ranks,) = sort_distinct([take(stored, np.flatnonzero(used))], state.plan.spec.data_type)
        new_ids = np.zeros(len(stored), id_dtype(len(dictionary)))
        new_ids[used] = ranks
        return dictionary, take(new_ids, old_ids)

    def finish_raw(self) -> RawColumn:
        positions, offsets = self._positions()
        state = self._state
        values = state.values
        if state.dictionary is not None and state.ids is not None:
            values = take(state.dictionary.stored, state.ids[: state.num_values])
        return RawColumn(values if positions is None else take(values, positions), offsets, self._null_docs())

    def _positions(self) -> "tuple[Ids | None, Ids | None]":
        """Return the positions of the values in the rows' new order (None: unchanged), and the rows' offsets."""
        offsets = self._state.offsets
        if offsets is None:
            return self._order, None
        offsets = offsets[: self._state.num_docs + 1]
        if self._order is None:
            return None, offsets
        starts, ends = offsets[self._order], offsets[self._order + 1]
        new_offsets = np.concatenate(([0], np.cumsum(ends - starts))).astype(np.int32)
        positions = np.empty(new_offsets[-1], np.int64)
        list_indices(starts, ends, positions)
        return positions, new_offsets

    def _null_docs(self) -> Ids:
        nulls = np.asarray(self._state.nulls.docs(self._state.num_docs).to_array(), np.int64)
        if self._order is None or not len(nulls):
            return nulls
        is_null = np.zeros(self._state.num_docs, np.bool_)
        is_null[nulls] = True
        return np.flatnonzero(is_null[self._order])
