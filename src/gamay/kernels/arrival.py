"""Values to ids in order of arrival: open-addressing hash tables with exact comparison, one call for a whole batch.

A table is uint32 [power of two] with id + 1 in its slots and 0 where a slot is free; it is never full. Ids are only added,
so that readers may look values up while one writer adds: they pass over ids that are not below the count they know.
Numbers are compared by their bits. Texts lie end to end: text i is data[offsets[i]:offsets[i + 1]].
"""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xD6E8FEB86659FD93)


@kernel
def _mix(value: Any) -> Any:
    """Spread 64 bits over the lower ones; products wrap on purpose."""
    value = value * _ODD
    value = (value ^ (value >> np.uint64(32))) * _SECOND
    return value ^ (value >> np.uint64(32))


@kernel
def _word(data: Array, at: Any) -> Any:
    """The eight bytes from `at` as an unsigned little-endian number; written out so that one load is made of it."""
    p = np.uint64(at)
    return (
        np.uint64(data[p])
        | np.uint64(data[p + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[p + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[p + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[p + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[p + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[p + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[p + np.uint64(7)]) << np.uint64(56)
    )


@kernel
def _hash_text(data: Array, start: Any, stop: Any) -> Any:
    h = np.uint64(stop - start) * _SECOND
    while stop - start >= 8:
        h = (h ^ _word(data, start)) * _ODD
        h ^= h >> np.uint64(29)
        start += 8
    if start < stop:
        tail = np.uint64(0)
        for i in range(start, stop):
            tail = (tail << np.uint64(8)) | np.uint64(data[np.uint64(i)])
        h = (h ^ tail) * _ODD
    return _mix(h)


@kernel
def _same_text(one: Array, one_start: Any, other: Array, other_start: Any, size: Any) -> Any:
    k = np.int64(0)
    while size - k >= 8:
        if _word(one, one_start + k) != _word(other, other_start + k):
            return False
        k += 8
    while k < size:
        if one[np.uint64(one_start + k)] != other[np.uint64(other_start + k)]:
            return False
        k += 1
    return True


# Numbers


@kernel
def encode_numbers(values: Array, start: int, table: Array, entries: Array, count: Any, limit: Any, ids: Array) -> Any:
    """Write ids[i] of values[i] from i = start on, adding what is new to `entries`, of which `count` are known.

    values, entries: integers of one dtype. Returns (position, count): stops before the value that would be entry number
    `limit`, else at the end.
    """
    mask = np.uint64(len(table) - 1)
    count = np.int64(count)
    for i in range(start, len(values)):
        value = values[i]
        slot = _mix(np.uint64(value)) & mask
        while True:
            found = np.int64(table[slot]) - 1
            if found < 0:
                if count == limit:
                    return i, count
                entries[count] = value
                table[slot] = count + 1
                found = count
                count += 1
                break
            if entries[found] == value:
                break
            slot = (slot + np.uint64(1)) & mask
        ids[i] = found
    return np.int64(len(values)), count


@kernel
def find_number(value: Any, table: Array, entries: Array, count: Any) -> Any:
    """Return the id of a value, of the first `count` entries; -1 when it is not among them."""
    mask = np.uint64(len(table) - 1)
    slot = _mix(np.uint64(value)) & mask
    while True:
        found = np.int64(table[slot]) - 1
        if found < 0:
            return np.int64(-1)
        if found < count and entries[found] == value:
            return found
        slot = (slot + np.uint64(1)) & mask


@kernel
def index_numbers(entries: Array, count: int, table: Array) -> None:
    """Put the first `count` entries into a zeroed table."""
    mask = np.uint64(len(table) - 1)
    for i in range(count):
        slot = _mix(np.uint64(entries[i])) & mask
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = i + 1


# Texts


@kernel
def encode_texts(
    data: Array,
    offsets: Array,
    start: int,
    table: Array,
    entry_data: Array,
    entry_offsets: Array,
    count: Any,
    limit: Any,
    ids: Array,
) -> Any:
    """As `encode_numbers`, for texts; stops also before a new text whose bytes do not fit into `entry_data`."""
    mask = np.uint64(len(table) - 1)
    count = np.int64(count)
    for i in range(start, len(offsets) - 1):
        first = np.int64(offsets[i])
        size = np.int64(offsets[i + 1]) - first
        slot = _hash_text(data, first, first + size) & mask
        while True:
            found = np.int64(table[slot]) - 1
            if found < 0:
                end = np.int64(entry_offsets[count])
                if count == limit or end + size > len(entry_data):
                    return i, count
                for k in range(size):
                    entry_data[end + k] = data[first + k]
                entry_offsets[count + 1] = end + size
                table[slot] = count + 1
                found = count
                count += 1
                break
            at = np.int64(entry_offsets[found])
            if entry_offsets[found + 1] - at == size and _same_text(entry_data, at, data, first, size):
                break
            slot = (slot + np.uint64(1)) & mask
        ids[i] = found
    return np.int64(len(offsets) - 1), count


@kernel
def find_text(text: Array, table: Array, entry_data: Array, entry_offsets: Array, count: Any) -> Any:
    """Return the id of a text (uint8), of the first `count` entries; -1 when it is not among them."""
    mask = np.uint64(len(table) - 1)
    size = np.int64(len(text))
    slot = _hash_text(text, np.int64(0), size) & mask
    while True:
        found = np.int64(table[slot]) - 1
        if found < 0:
            return np.int64(-1)
        if found < count:
            at = np.int64(entry_offsets[found])
            if entry_offsets[found + 1] - at == size and _same_text(entry_data, at, text, np.int64(0), size):
                return found
        slot = (slot + np.uint64(1)) & mask


@kernel
def index_texts(entry_data: Array, entry_offsets: Array, count: int, table: Array) -> None:
    """Put the first `count` entries into a zeroed table."""
    mask = np.uint64(len(table) - 1)
    for i in range(count):
        slot = _hash_text(entry_data, np.int64(entry_offsets[i]), np.int64(entry_offsets[i + 1])) & mask
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = i + 1


# Flags


@kernel
def set_bits(flags: Array, start: int, bits: Array) -> None:
    """Set bit start + i of zeroed uint8 bits (lowest first) where flags[i] holds."""
    for i in range(len(flags)):
        if flags[i]:
            at = np.int64(start) + i
            bits[at >> 3] |= np.uint8(1 << (at & 7))
