"""Finding records that are sorted by several columns of ids: ranges become shorter column by column, by binary search."""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import inlined, kernel


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
def _narrow(ids: Array, ranges: Array, count: Any, spans: Array, one_by_one: Any, out: Array) -> Any:
    """Write the parts of the first `count` ranges whose ids are in spans; return how many, or -1 when they do not fit.

    ids ascend within each range. one_by_one: a part for each id, so that the next column ascends in it.
    """
    found = np.int64(0)
    for r in range(count):
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


@inlined
def _is_in(wanted: Any, spans: Array) -> Any:
    """Whether an id is in one of the spans, which ascend."""
    low, high = np.int64(0), np.int64(spans.shape[0])
    while low < high:
        middle = (low + high) >> 1
        if spans[middle, 1] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low < spans.shape[0] and spans[low, 0] <= wanted


@kernel
def find_records(ids: Array, columns: int, tests: Array, limits: Array, found: Array) -> Any:
    """Return the records whose ids are in spans, int32, ascending; their ranges are looked for by binary search, then read.

    ids: unsigned [all columns, records], records sorted by the columns. columns: the first so many are tested. tests: int64,
    where the spans of each of these start and the last ones end, counted in spans, then the spans, [first, last) each,
    ascending in each column.
    limits: int64; ranges of fewer records than limits[0] on average are read, ranges are at most limits[1], and records
    that are read limits[2]. found: int64 [4], is set to how many records there are, the range [start, stop) that they are
    where they are one (else both are -1, and the records are returned), and how many ids were read. There are -1 records
    where there would be too many to read.
    """
    starts, spans = tests[: columns + 1], tests[columns + 1 :].reshape((-1, 2))
    room = min(limits[1], max(np.int64(ids.shape[1]), np.int64(1)))
    ranges, others = np.empty((room, 2), np.int64), np.empty((room, 2), np.int64)
    ranges[0, 0], ranges[0, 1] = 0, ids.shape[1]
    count, records, column = np.int64(1), np.int64(ids.shape[1]), np.int64(0)
    while column < columns and records >= limits[0] * count and records > 0:
        part = spans[starts[column] : starts[column + 1]]
        narrower = _narrow(ids[column], ranges, count, part, column + 1 < columns, others)
        if narrower < 0:
            break
        ranges, others, count = others, ranges, narrower
        records = np.int64(0)
        for r in range(count):
            records += ranges[r, 1] - ranges[r, 0]
        column += 1
    found[0], found[1], found[2], found[3] = records, -1, -1, 0
    if records == 0 or (column == columns and count == 1):
        found[1], found[2] = (ranges[0, 0], ranges[0, 1]) if records else (np.int64(0), np.int64(0))
        return np.empty(0, np.int32)
    if records > limits[2]:
        found[0] = -1
        return np.empty(0, np.int32)
    docs = np.empty(records, np.int32)
    kept = np.int64(0)
    for r in range(count):
        for doc in range(ranges[r, 0], ranges[r, 1]):
            matches = True
            for c in range(column, columns):
                found[3] += 1
                if not _is_in(np.int64(ids[c, doc]), spans[starts[c] : starts[c + 1]]):
                    matches = False
                    break
            docs[kept] = doc
            kept += np.int64(matches)
    found[0] = kept
    return docs[:kept]


@kernel
def pack_records(ids: Array, docs: Array, places: Array, codes: Array, starts: Array, out: Array) -> None:
    """Write one number for the ids that each record has in some columns.

    ids: unsigned [columns, records]. docs: int32. places: int64, the columns. codes: int64, codes[starts[k] + id] is the
    share of an id of column places[k] in the number. out: int64 [docs].
    """
    for i in range(docs.size):
        packed = np.int64(0)
        for k in range(places.size):
            packed += codes[starts[k] + np.int64(ids[places[k], docs[i]])]
        out[i] = packed
