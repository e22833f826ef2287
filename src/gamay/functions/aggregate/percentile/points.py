"""Buffer of values to be digested, which sorts them within their groups."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.lookup import lookup_values, numbers
from gamay.functions.aggregate.totals.totals import flatten, unsigned
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.vector import EncodedVector, Operand, Values
from gamay.kernels.group.aggregation import count_groups, tally_coded
from gamay.kernels.group.points import count_cells, list_cells, scatter_points, sort_runs
from gamay.kernels.rows.radix import sort_numbers
from gamay.kernels.tuning import (
    DIGEST_BUFFER_ROWS,
    DIGEST_BUFFER_ROWS_PER_GROUP,
    SORTED_RUN_MIN,
    TALLY_CELLS_MAX,
    TALLY_CELLS_PER_ROW,
)

ToPoints: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class SortedPoints:
    """Weighted values, ascending within each group.

    starts: int64 [num_groups + 1], the start of each group; values: float64 or int64 [n]; weights: float64 [n].
    """

    starts: Array
    values: Array
    weights: Array


def starts_of(groups: Array, num_groups: int) -> Array:
    """Return the start of each group once entries are sorted by group: int64 [num_groups + 1]."""
    starts = np.zeros(num_groups + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=num_groups), out=starts[1:])
    return starts


def groups_of(starts: Array) -> Array:
    """Return the group of each entry: int32."""
    return np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))


def bring_together(groups: Array, starts: Array, column: Array) -> Array:
    """Return a column stably sorted by group."""
    gathered = np.empty_like(column)
    scatter_points(unsigned(groups), column, starts[:-1].copy(), gathered)
    return gathered


def buffer_rows(num_groups: int) -> int:
    """Return the capacity of a buffer: larger for many groups, as each flush costs a merge of all their digests."""
    return max(DIGEST_BUFFER_ROWS, DIGEST_BUFFER_ROWS_PER_GROUP * num_groups)


class PointBuffer:
    """Buffer of rows for digests. Ids of one dictionary are only counted while the table of groups and ids is small.

    to_points: maps numbers to points, in the same order. NaN is dropped first, and rows are flushed when the buffer is
    full, except with `keeps_all`.
    """

    def __init__(self, to_points: ToPoints, num_groups: int, keeps_all: bool = False) -> None:
        self._to_points = to_points
        self._num_groups = num_groups
        self._keeps_all = keeps_all
        # the first `_waiting_rows` entries are used; a single group needs no groups
        self._points: Array = np.empty(0)
        self._groups: Array = np.empty(0, np.int32)
        self._waiting_rows = 0
        self._dictionary: Values = None
        self._lut: Array = np.empty(0)
        self._ascends = True
        self._tally: Array | None = None

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> list[SortedPoints]:
        """Add a batch of rows; return the points that are flushed, if the buffer is full."""
        groups, values = flatten(None if groups is None else unsigned(groups), operand, num_rows)
        if not isinstance(values, EncodedVector):
            return self._wait(groups, numbers(values.type, values.values))
        ready: list[SortedPoints] = []
        if values.dictionary.values is not self._dictionary:
            ready = self._flush_tally()
            self._dictionary = values.dictionary.values
            self._lut = lookup_values(values.dictionary)
            self._ascends = values.dictionary.ascends
        cells = self._num_groups * len(self._lut)
        if self._tally is None and cells > min(TALLY_CELLS_MAX, TALLY_CELLS_PER_ROW * max(len(values), 1)):
            return ready + self._wait(groups, self._lut[values.ids])
        if self._tally is None:
            self._tally = np.zeros(cells, np.int64)
        if groups is None:
            count_groups(values.ids, self._tally, 0)
        else:
            tally_coded(groups, values.ids, len(self._lut), self._tally)
        return ready

    def take_counts(self, other: "PointBuffer") -> None:
        """Move the counts of another buffer over the same groups here, if both counted ids of one dictionary."""
        if self._tally is None or other._tally is None or self._dictionary is not other._dictionary:
            return
        self._tally += other._tally
        other._tally = None

    def regroup(self, num_groups: int) -> list[SortedPoints]:
        """Make room for more groups; return the points of the old groups."""
        ready = self.flush()
        self._num_groups = num_groups
        return ready

    def flush(self) -> list[SortedPoints]:
        """Return all buffered rows as points."""
        return self._flush_tally() + self._flush_waiting()

    def _wait(self, groups: GroupIds | None, values: Array) -> list[SortedPoints]:
        if values.dtype.kind == "f" and not self._keeps_all:
            found = ~np.isnan(values)
            if not found.all():
                values, groups = values[found], None if groups is None else groups[found]
        points, first, last = self._to_points(values), self._waiting_rows, self._waiting_rows + len(values)
        self._points = _with_room(self._points, first, last, points.dtype)
        self._points[first:last] = points
        if self._num_groups > 1:
            self._groups = _with_room(self._groups, first, last, self._groups.dtype)
            self._groups[first:last] = 0 if groups is None else groups
        self._waiting_rows = last
        is_full = last > buffer_rows(self._num_groups) and not self._keeps_all
        return self._flush_waiting() if is_full else []

    def _flush_waiting(self) -> list[SortedPoints]:
        count = self._waiting_rows
        if count == 0:
            return []
        ready = [sort_points(self._groups[:count], self._points[:count], self._num_groups)]
        self._points, self._groups, self._waiting_rows = np.empty(0), np.empty(0, np.int32), 0
        return ready

    def _flush_tally(self) -> list[SortedPoints]:
        if self._tally is None:
            return []
        if not self._ascends and len(self._tally):
            order = np.argsort(self._lut)
            self._tally, self._lut = self._tally.reshape(self._num_groups, -1)[:, order].reshape(-1), self._lut[order]
            self._dictionary = None  # the ids are permuted
        width, starts = len(self._lut), np.empty(self._num_groups + 1, np.int64)
        count = count_cells(self._tally, width, starts)
        values, weights = np.empty(count + 1, self._lut.dtype), np.empty(count + 1)
        if width:
            list_cells(self._tally, width, self._lut, values, weights)
        values, weights = values[:count], weights[:count]  # ascending within a group, NaN last
        self._tally = None
        if values.dtype.kind == "f" and not self._keeps_all:
            found = ~np.isnan(values)
            if not found.all():
                starts = np.concatenate(([0], np.cumsum(found)))[starts]
                values, weights = values[found], weights[found]
        return [SortedPoints(starts, self._to_points(values), weights)]


def _with_room(array: Array, used: int, wanted: int, dtype: "np.dtype[Any]") -> Array:
    """Return an array with the first `used` entries of another, enlarged to at least `wanted`, of a dtype for both."""
    if used:
        dtype = np.result_type(array, dtype)
    if wanted <= len(array) and array.dtype == dtype:
        return array
    larger = np.empty(max(wanted, 2 * len(array)), dtype)
    larger[:used] = array[:used]
    return larger


def sort_points(groups: Array, values: Array, num_groups: int) -> SortedPoints:
    """Return sorted points of weight 1. groups: int32 [n], ignored if there is only one."""
    weights = np.ones(len(values))
    if num_groups == 1:
        ordered = values.copy()
        sort_numbers(ordered)
        return SortedPoints(np.array([0, len(values)]), ordered, weights)
    starts = starts_of(groups, num_groups)
    gathered = bring_together(groups, starts, values)
    if num_groups * SORTED_RUN_MIN > len(values):
        sort_runs(starts, gathered)
    else:
        for start, end in pairwise(starts.tolist()):
            sort_numbers(gathered[start:end])
    return SortedPoints(starts, gathered, weights)
