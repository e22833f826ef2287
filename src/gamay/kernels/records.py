"""Finding records that are sorted by several columns of ids: ranges become shorter column by column, by binary search."""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import inlined, kernel

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@inlined
def _first_from(ids: Array, start: Any, stop: Any, wanted: Any) -> Any:
    """Return the first position in [start, stop) with an id of at least `wanted`; stop where there is none."""
    low, high = np.int64(start), np.int64(stop)
    while low < high:
        middle = (low + high) >> 1
        if np.int64(ids[middle]) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _end_of_run(ids: Array, start: Any, stop: Any) -> Any:
    """Return the end of the ids equal to that at `start`, looking close by first: runs are short."""
    wanted = np.int64(ids[start])
    step = np.int64(1)
    low = np.int64(start)
    while low + step < stop and np.int64(ids[low + step]) == wanted:
        low += step
        step += step
    return _first_from(ids, low, min(low + step, np.int64(stop)), wanted + 1)


@kernel
def narrow_ranges(ids: Array, ranges: Array, spans: Array, one_by_one: bool, out: Array) -> Any:
    """Write the parts [start, stop) of ranges whose ids are in spans; return how many, or -1 when they do not fit.

    ids: unsigned [n], ascending within each range. ranges: int64 [k, 2], spans of ids: int64 [s, 2]; both ascend and do not
    overlap. one_by_one: a part for each id, so that the next column ascends in it. out: int64 [room, 2].
    """
    found = np.int64(0)
    for r in range(ranges.shape[0]):
        at, stop = ranges[r, 0], ranges[r, 1]
        for s in range(spans.shape[0]):
            at = _first_from(ids, at, stop, spans[s, 0])
            while at < stop and np.int64(ids[at]) < spans[s, 1]:
                end = _end_of_run(ids, at, stop) if one_by_one else _first_from(ids, at, stop, spans[s, 1])
                if found == out.shape[0]:
                    return np.int64(-1)
                out[found, 0] = at
                out[found, 1] = end
                found += 1
                at = end
    return found


@kernel
def list_ranges(ranges: Array, out: Array) -> None:
    """Write the positions in ranges (int64 [k, 2]) one after the other; out: int32 [as many as there are]."""
    kept = np.int64(0)
    for r in range(ranges.shape[0]):
        for position in range(ranges[r, 0], ranges[r, 1]):
            out[kept] = position
            kept += 1


@kernel
def keep_marked(ids: Array, marks: Array, docs: Array) -> Any:
    """Move those docs (int32) whose id is marked (bool [ids]) to the front; return how many there are."""
    kept = np.int64(0)
    for i in range(docs.size):
        doc = docs[i]
        docs[kept] = doc
        kept += np.int64(marks[ids[doc]])
    return kept
