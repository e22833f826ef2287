"""From keys to group numbers.

Keys are dictionary ids (unsigned) or already packed int64; groups are numbered 0, 1, … in order of first appearance.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel
from gamay.kernels.raw_memory import prefetch


@kernel
def pack_pair(high: Array, low: Array, cardinality: int, out: Array) -> None:
    """Write `high[i] * cardinality + low[i]`; `out` may be `high` itself."""
    width = np.int64(cardinality)
    for i in range(len(out)):
        out[i] = np.int64(high[i]) * width + np.int64(low[i])


@kernel
def expand_groups(groups: Array, offsets: Array, out: Array) -> None:
    """Write each row's group once for each of the row's values, which are [offsets[i], offsets[i + 1])."""
    first = np.int64(offsets[0])
    for i in range(len(groups)):
        for position in range(np.int64(offsets[i]) - first, np.int64(offsets[i + 1]) - first):
            out[position] = groups[i]


@kernel
def rows_of_lists(offsets: Array, out: Array) -> None:
    """Write the number of each row once for each of the row's values, which are [offsets[i], offsets[i + 1])."""
    for i in range(len(offsets) - 1):
        for position in range(np.int64(offsets[i]), np.int64(offsets[i + 1])):
            out[position] = i


@kernel
def combine_lists(offsets: Array, rows: Array, parents: Array, positions: Array) -> None:
    """For each of the rows and each value of its list write the number of the row in `rows`, and where the value lies."""
    count = np.int64(0)
    for i in range(len(rows)):
        row = np.int64(rows[i])
        for position in range(np.int64(offsets[row]), np.int64(offsets[row + 1])):
            parents[count] = i
            positions[count] = position
            count += 1


@kernel
def number_by_lookup(keys: Array, lookup: Array, group_keys: Array, num_groups: int, limit: int, out: Array) -> Any:
    """Number keys by direct lookup; return the new number of groups, or -1 - that when a key beyond `limit` was dropped.

    keys: [n] in [0, len(lookup)); lookup: int32, -1 where the key is new; group_keys: int64 with room for every new group;
    out: int32 [n], the group, or `limit` for rows of keys that came after the limit was reached.
    """
    dropped = False
    groups = np.int64(num_groups)
    for i in range(len(keys)):
        key = np.int64(keys[i])
        group = lookup[key]
        if group < 0:
            if groups < limit:
                group = np.int32(groups)
                lookup[key] = group
                group_keys[groups] = key
                groups += 1
            else:
                group = np.int32(limit)
                dropped = True
        out[i] = group
    return -1 - groups if dropped else groups


# A table of more slots lies in no cache that is near: what a row reads there is asked for so many rows before, and its key,
# which the slot tells, fewer. Two million keys take 49 ns each instead of 100, half of them known 16 instead of 50.
_CACHED_SLOTS = 1 << 17
_FAR, _NEAR = 24, 12


@kernel
def _slot_of(key: Any, shift: Any) -> Any:
    """The first slot to try: the high bits of a multiplicative hash of key, folded so that high bits count too."""
    word = np.uint64(key)
    word ^= word >> np.uint64(32)
    return np.int64((word * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))


@kernel
def number_by_hash(
    keys: Array, start: int, table: Array, group_keys: Array, num_groups: int, limit: int, out: Array
) -> tuple[Any, Any, Any]:
    """Number int64 keys from row `start` on; return (rows done, number of groups, whether a key was dropped).

    It stops before a row that would fill the table to more than half; the caller rebuilds it larger and goes on.
    table: int32 with a power of two of slots, -1 where free, else a group; group_keys: int64, half as many as slots at
    least; out: int32 [n], the group, or `limit` for rows of keys that came after the limit was reached.
    """
    mask = np.int64(len(table) - 1)
    bits = 0
    while (1 << bits) < len(table):
        bits += 1
    shift = 64 - bits
    groups_max = len(table) // 2
    groups = np.int64(num_groups)
    dropped = False
    slots, known = np.int64(table.ctypes.data), np.int64(group_keys.ctypes.data)
    ahead = len(keys) - _FAR if len(table) > _CACHED_SLOTS else 0
    for i in range(start, len(keys)):
        if i < ahead:
            prefetch(slots + 4 * _slot_of(keys[i + _FAR], shift))
            prefetch(known + 8 * np.int64(table[_slot_of(keys[i + _NEAR], shift)]))
        key = keys[i]
        slot = _slot_of(key, shift)
        group = table[slot]
        while group >= 0 and group_keys[group] != key:
            slot = (slot + 1) & mask
            group = table[slot]
        if group < 0:
            if groups >= limit:
                group = np.int32(limit)
                dropped = True
            elif groups >= groups_max:
                return i, groups, dropped
            else:
                group = np.int32(groups)
                table[slot] = group
                group_keys[groups] = key
                groups += 1
        out[i] = group
    return len(keys), groups, dropped


@kernel
def rebuild_table(group_keys: Array, num_groups: int, table: Array) -> None:
    """Enter the first `num_groups` keys in an empty (all -1) table of a power of two of slots."""
    mask = np.int64(len(table) - 1)
    bits = 0
    while (1 << bits) < len(table):
        bits += 1
    shift = 64 - bits
    slots = np.int64(table.ctypes.data)
    ahead = num_groups - _FAR if len(table) > _CACHED_SLOTS else 0
    for group in range(num_groups):
        if group < ahead:
            prefetch(slots + 4 * _slot_of(group_keys[group + _FAR], shift))
        slot = _slot_of(group_keys[group], shift)
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = group


@kernel
def recode(ids: Array, codes: Array, out: Array) -> None:
    """Write `codes[id]` of each row."""
    for i in range(len(ids)):
        out[i] = codes[np.uint64(ids[i])]
