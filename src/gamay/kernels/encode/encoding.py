"""Passes over dictionary ids that builder and indexes need."""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def is_ascending(values: Array) -> bool:
    """Return whether no value [n] is below the one before it."""
    for i in range(1, values.size):  # noqa: SIM110 -- Numba compiles the loop, not the generator
        if values[i] < values[i - 1]:
            return False
    return True


@kernel
def count_ids(ids: Array, counts: Array) -> None:
    """Add to int64 counts [cardinality] how often each id occurs."""
    for i in range(ids.size):
        counts[ids[i]] += 1


@kernel
def gather_lists(values: Array, starts: Array, ends: Array, out: Array) -> None:
    """Copy values[starts[i]:ends[i]] for each i end to end into `out`, which has just room for them."""
    position = 0
    for i in range(starts.size):
        for j in range(starts[i], ends[i]):
            out[position] = values[j]
            position += 1


@kernel
def list_indices(starts: Array, ends: Array, out: Array) -> None:
    """Write starts[i], …, ends[i] - 1 for each i end to end into `out`, which has just room for them."""
    position = 0
    for i in range(starts.size):
        for j in range(starts[i], ends[i]):
            out[position] = j
            position += 1


@kernel
def group_positions(keys: Array, starts: Array, positions: Array) -> None:
    """Counting sort: positions [n] of keys [n] by key, stable; key k ends up at positions[starts[k]:starts[k + 1]].

    starts: zeroed int64 [number of keys + 1].
    """
    for i in range(keys.size):
        starts[keys[i] + 1] += 1
    for k in range(1, starts.size):
        starts[k] += starts[k - 1]
    cursor = starts[:-1].copy()
    for i in range(keys.size):
        key = np.int64(keys[i])
        positions[cursor[key]] = i
        cursor[key] += 1


@kernel
def mark_lists(holds: Array, offsets: Array, out: Array) -> None:
    """Set out[i] to whether any of holds[offsets[i]:offsets[i + 1]] is true."""
    for i in range(out.size):
        for j in range(offsets[i], offsets[i + 1]):
            if holds[j]:
                out[i] = True
                break


@kernel
def count_rows(keys: Array, offsets: Array, latest: Array, counts: Array) -> None:
    """Add to int64 counts [number of keys] in how many rows each key occurs; row i has keys[offsets[i]:offsets[i + 1]].

    latest: int32 [number of keys], all -1.
    """
    for row in range(offsets.size - 1):
        for i in range(offsets[row], offsets[row + 1]):
            key = np.int64(keys[i])
            counts[key] += latest[key] != row
            latest[key] = row


@kernel
def group_rows(keys: Array, offsets: Array, latest: Array, places: Array, rows: Array) -> None:
    """Write the rows of each key into `rows`, ascending, each once, from places[key] on; rows as of `count_rows`.

    latest: int32 [number of keys], all -1. places: int64 [number of keys], which end up behind each key's rows.
    """
    for row in range(offsets.size - 1):
        for i in range(offsets[row], offsets[row + 1]):
            key = np.int64(keys[i])
            if latest[key] != row:
                latest[key] = row
                rows[places[key]] = row
                places[key] += 1


@kernel
def roaring_sizes(starts: Array, docs: Array, out: Array) -> None:
    """Estimate the bytes of a serialised roaring bitmap of each group of docs, into int64 out [number of groups].

    Group k is docs[starts[k]:starts[k + 1]] and ascends.
    """
    for k in range(starts.size - 1):
        containers = 0
        runs = 0
        for i in range(starts[k], starts[k + 1]):
            doc = np.int64(docs[i])
            before = np.int64(docs[i - 1]) if i > starts[k] else np.int64(-1 << 16)
            containers += doc >> 16 != before >> 16
            runs += doc != before + 1
        count = starts[k + 1] - starts[k]
        out[k] = 8 + 8 * containers + min(2 * count, 4 * runs + 2 * containers, 8192 * containers)
