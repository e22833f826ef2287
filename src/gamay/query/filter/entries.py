"""The dictionary entries that match a predicate, and their docs if rows ascend."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from gamay.base.arrays import Mask
from gamay.functions.evaluate import evaluate_entries
from gamay.functions.vector import Vector, take
from gamay.kernels.rows.filter import mark_docs
from gamay.query.bind.predicate import In, Match, Range
from gamay.query.columns.operations import truth
from gamay.query.filter.calendar import calendar_entries
from gamay.query.filter.prefixes import like_ranges
from gamay.query.filter.values import range_test
from gamay.query.view.docset import DocFlags, DocRange, DocSet
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.spi import Dictionary, SecondaryIndex

IdSet: TypeAlias = tuple[int, int] | np.ndarray[Any, np.dtype[Any]]
"""A range [first, last) of dictionary ids, or the ids themselves, ascending."""

FEW_ENTRIES = 1000
"""The number of entries from which a secondary index is used; for fewer, evaluating the expression is as fast."""

# the average size of entries, in bytes, if their number is limited
_ENTRY_BYTES = 64
# the number of dictionary entries for which one thread evaluates an expression at once
_ENTRIES_AT_ONCE = 1 << 15
# if more than one doc in this many matches, docs of many values become flags, which are faster to create than a bitmap
_FEW_DOCS = 64

Run: TypeAlias = Callable[[Sequence[Callable[[], Mask]]], list[Mask]]


def one_by_one(tasks: Sequence[Callable[[], Mask]]) -> list[Mask]:
    """Run tasks in this thread."""
    return [task() for task in tasks]


def matching(leaf: Match, values: Vector) -> Mask:
    """Return a flag for each value that matches an expression."""
    return truth(evaluate_entries(leaf.expression, values), len(values.values))


def _matching_entries(leaf: Match, values: Vector, run: Run) -> Mask:
    """Return a flag for each matching dictionary entry; many entries are divided among threads."""
    count = len(values)
    if count <= _ENTRIES_AT_ONCE:
        return matching(leaf, values)
    starts = range(0, count, _ENTRIES_AT_ONCE)
    parts = [Vector(values.type, values.values[at : at + _ENTRIES_AT_ONCE], ascends=values.ascends) for at in starts]
    return np.concatenate(run([partial(matching, leaf, part) for part in parts]))


def compared_ids(leaf: In | Range, dictionary: Dictionary) -> IdSet:
    """Return the ids of the values that match a comparison."""
    if isinstance(leaf, In):
        if len(leaf.values) == 1:
            first = dictionary.id_of(leaf.values[0])
            return (first, first + 1) if first >= 0 else (0, 0)
        return _narrow(dictionary.ids_of(leaf.values))
    if dictionary.is_sorted:
        first, last = dictionary.id_range(leaf.lower, leaf.upper, leaf.lower_inclusive, leaf.upper_inclusive)
        return first, max(first, last)
    return _narrow(np.flatnonzero(range_test(leaf, dictionary.data_type)(dictionary.values)))


def matching_ids(
    leaf: Match, dictionary: Dictionary, indexes: Iterable[SecondaryIndex], run: Run, entries_max: int | None = None
) -> IdSet | None:
    """Return the ids of the values that match an expression, evaluating it for as few as possible.

    None if it would be evaluated for more than `entries_max` values, or for `_ENTRY_BYTES` times as many bytes.
    """
    values = dictionary.values

    def are_few(*parts: Vector) -> bool:
        if entries_max is None:
            return True
        num_bytes = sum(part.values.nbytes for part in parts)
        return sum(map(len, parts)) <= entries_max and num_bytes <= entries_max * _ENTRY_BYTES

    ranges = like_ranges(leaf.expression, dictionary)
    if ranges is not None:
        parts = [_entries(values, *each) for each in ranges]
        if not are_few(*parts):
            return None
        pairs = zip(ranges, parts, strict=True)
        marked = [np.flatnonzero(_matching_entries(leaf, part, run)) + first for (first, _), part in pairs]
        return _narrow(np.concatenate(marked)) if marked else (0, 0)
    if (in_steps := calendar_entries(leaf.expression, values)) is not None:
        return _narrow(np.flatnonzero(in_steps))
    for index in indexes if len(dictionary) > FEW_ENTRIES else ():
        candidates = index.entries(leaf.expression)
        if candidates is not None and (entries_max is None or len(candidates) <= entries_max):
            some = Vector(values.type, take(values.values, candidates), ascends=values.ascends)
            return _narrow(candidates[_matching_entries(leaf, some, run)]) if are_few(some) else None
    return _narrow(np.flatnonzero(_matching_entries(leaf, values, run))) if are_few(values) else None


def _entries(values: Vector, first: int, last: int) -> Vector:
    return Vector(values.type, values.values[first:last], ascends=True)


def _narrow(ids: "np.ndarray[Any, np.dtype[Any]]") -> IdSet:
    """Return ids as a range if they have no gaps."""
    if len(ids) and int(ids[-1]) - int(ids[0]) == len(ids) - 1:
        return int(ids[0]), int(ids[-1]) + 1
    return ids.astype(np.int32, copy=False)


def sorted_docs(starts: "np.ndarray[Any, np.dtype[np.int32]]", ids: IdSet) -> DocSet:
    """Return the docs of some ids of a column whose rows ascend. starts: as in `gamay.segment.spi.SortedIndex`."""
    if isinstance(ids, tuple):
        return DocRange(int(starts[ids[0]]), int(starts[ids[1]]))
    firsts = starts[ids]
    counts = starts[ids + 1] - firsts
    ends = np.cumsum(counts, dtype=np.int32)
    num_found, num_docs = int(ends[-1]) if len(ends) else 0, int(starts[-1])
    docs = np.repeat(firsts - (ends - counts), counts) + np.arange(num_found, dtype=np.int32)
    if num_found * _FEW_DOCS < num_docs:
        return bitmap_of(docs)
    mask = np.zeros(num_docs, np.bool_)
    mark_docs(docs, mask)
    return DocFlags(mask, num_found)
