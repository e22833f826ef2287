"""Values to ids in order of arrival: open-addressing hash tables with exact comparison, one call for a whole batch.

A table has a power of two of slots, 0 where one is free, and is never full. Those of numbers are uint32 and hold id + 1;
those of texts are uint64, with 32 bits of the hash above, so that only what is very likely the same text is looked at.
Ids are only added, so that readers may look values up while one writer adds: they pass over ids that are not below the count
they know. Numbers are compared by their bits. Texts lie end to end: text i is data[offsets[i]:offsets[i + 1]].
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel
from gamay.kernels.raw_memory import byte_at, eight_at, put_byte, put_eight

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xD6E8FEB86659FD93)
_32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)
# Texts are looked up so many at once, step by step, so that the processor waits for several places in memory at a time: of 4
# million texts, a million different ones, each takes 110 ns, and 200 one by one.
_TEXTS_AT_ONCE = 256


@kernel
def _mix(value: Any) -> Any:
    """Spread 64 bits over the lower ones; products wrap on purpose."""
    value = value * _ODD
    value = (value ^ (value >> np.uint64(32))) * _SECOND
    return value ^ (value >> np.uint64(32))


# Texts are hashed, compared and copied by the addresses of where they lie end to end: to pass arrays on costs more.


@kernel
def _hash_text(texts: Any, start: Any, stop: Any) -> Any:
    """A hash of 32 bits, as uint64."""
    h = np.uint64(stop - start) * _SECOND
    if stop - start >= 8:
        while stop - start > 8:
            h = (h ^ eight_at(texts, start)) * _ODD
            h ^= h >> np.uint64(29)
            start += 8
        h = (h ^ eight_at(texts, stop - 8)) * _ODD  # the last word may begin within the one before
    else:
        tail = np.uint64(0)
        for i in range(start, stop):
            tail = (tail << np.uint64(8)) | np.uint64(byte_at(texts, i))
        h = (h ^ tail) * _ODD
    return _mix(h) >> _32


@kernel
def _same_text(one: Any, one_start: Any, other: Any, other_start: Any, size: Any) -> Any:
    k = np.int64(0)
    if size >= 8:
        while size - k > 8:
            if eight_at(one, one_start + k) != eight_at(other, other_start + k):
                return False
            k += 8
        return eight_at(one, one_start + size - 8) == eight_at(other, other_start + size - 8)
    while k < size:
        if byte_at(one, one_start + k) != byte_at(other, other_start + k):
            return False
        k += 1
    return True


@kernel
def _copy_text(texts: Any, start: Any, size: Any, out: Any, at: Any) -> None:
    k = np.int64(0)
    if size >= 8:
        while size - k > 8:
            put_eight(out, at + k, eight_at(texts, start + k))
            k += 8
        put_eight(out, at + size - 8, eight_at(texts, start + size - 8))
        return
    while k < size:
        put_byte(out, at + k, byte_at(texts, start + k))
        k += 1


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
    mask, last = np.uint64(len(table) - 1), np.int64(len(offsets) - 1)
    count = np.int64(count)
    texts, entries = np.int64(data.ctypes.data), np.int64(entry_data.ctypes.data)
    slots, ends = np.int64(table.ctypes.data), np.int64(entry_offsets.ctypes.data)
    hashes, found = np.empty(_TEXTS_AT_ONCE, np.uint64), np.empty(_TEXTS_AT_ONCE, np.int64)
    places, left = np.empty(_TEXTS_AT_ONCE, np.int64), np.empty(_TEXTS_AT_ONCE, np.int64)
    for first in range(start, last, _TEXTS_AT_ONCE):
        num_texts: Any = min(_TEXTS_AT_ONCE, last - first)
        num_left = 0
        for k in range(num_texts):
            h = _hash_text(texts, np.int64(offsets[first + k]), np.int64(offsets[first + k + 1]))
            entry = table[h & mask]
            hashes[k] = h
            found[k] = np.int64(entry & _LOW32) - 1 if entry >> _32 == h else np.int64(-1)
        for k in range(num_texts):
            places[k] = entry_offsets[max(found[k], 0)]
        for k in range(num_texts):
            at = np.int64(offsets[first + k])
            size = np.int64(offsets[first + k + 1]) - at
            f = found[k]
            is_known = f >= 0 and entry_offsets[f + 1] - places[k] == size
            if is_known and _same_text(entries, places[k], texts, at, size):
                ids[first + k] = f
            else:
                left[num_left] = k
                num_left += 1
        for j in range(num_left):
            i, h = first + left[j], hashes[left[j]]
            f = _find_slot(texts, np.int64(offsets[i]), np.int64(offsets[i + 1]), h, slots, mask, entries, ends, count)
            if f < 0:
                end, size = np.int64(entry_offsets[count]), np.int64(offsets[i + 1]) - np.int64(offsets[i])
                if count == limit or end + size > len(entry_data):
                    return i, count
                _copy_text(texts, np.int64(offsets[i]), size, entries, end)
                entry_offsets[count + 1] = end + size
                table[-1 - f] = h << _32 | np.uint64(count + 1)
                f = count
                count += 1
            ids[i] = f
    return last, count


@kernel
def _find_slot(texts: Any, start: Any, stop: Any, h: Any, table: Any, mask: Any, entries: Any, ends: Any, count: Any) -> Any:
    """Return the id of a text of a hash, of the first `count` entries; -1 - the free slot when it is not among them.

    table, ends: the addresses of the table, whose slots are numbered by `mask`, and of where entries begin and end (int32).
    """
    slot = h & mask
    while True:
        entry = eight_at(table, np.int64(slot) * 8)
        if entry == 0:
            return -1 - np.int64(slot)
        found = np.int64(entry & _LOW32) - 1
        if entry >> _32 == h and found < count:
            both = eight_at(ends, found * 4)
            at = np.int64(both & _LOW32)
            if np.int64(both >> _32) - at == stop - start and _same_text(entries, at, texts, start, stop - start):
                return found
        slot = (slot + np.uint64(1)) & mask


@kernel
def find_text(text: Array, table: Array, entry_data: Array, entry_offsets: Array, count: Any) -> Any:
    """Return the id of a text (uint8), of the first `count` entries; -1 when it is not among them."""
    start, stop = np.int64(0), np.int64(len(text))
    at, entries = np.int64(text.ctypes.data), np.int64(entry_data.ctypes.data)
    slots, ends, mask = np.int64(table.ctypes.data), np.int64(entry_offsets.ctypes.data), np.uint64(len(table) - 1)
    h = _hash_text(at, start, stop)
    return max(np.int64(-1), _find_slot(at, start, stop, h, slots, mask, entries, ends, count))


@kernel
def move_texts(table: Array, larger: Array) -> None:
    """Put all entries of a table into a larger one, which is zeroed; the texts themselves are not looked at."""
    mask = np.uint64(len(larger) - 1)
    for i in range(len(table)):
        entry = table[i]
        if entry:
            slot = (entry >> _32) & mask
            while larger[slot] != 0:
                slot = (slot + np.uint64(1)) & mask
            larger[slot] = entry


# Flags


@kernel
def set_bits(flags: Array, start: int, bits: Array) -> None:
    """Set bit start + i of zeroed uint8 bits (lowest first) where flags[i] holds."""
    for i in range(len(flags)):
        if flags[i]:
            at = np.int64(start) + i
            bits[at >> 3] |= np.uint8(1 << (at & 7))
