"""Many keys added at once to a table of `gamay.kernels.keys.table`, each of which comes once and is not there yet.

Nothing is searched for: `add_entries` writes the entries one behind the other, and for each a word, the slot that it is to
have in the directory; `split_words` deals the words, and those of the keys that are there, out to ranges of tags; and
`place_words` writes a new directory from them, a range at a time, so that what is written to at random is in the cache and
no slot has to make room for another. If a key comes twice after all, `place_words` finds out, and nothing has happened yet.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import inlined, kernel
from gamay.kernels.keys.table import (
    ARENA_USED,
    DELETED_BIT,
    HIGH,
    KEY_WORDS,
    LIVE,
    WATERMARK,
    home,
    is_expired,
    set_location,
    set_values,
    write_text,
)  # fmt: skip

_32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)
_BIT31 = np.uint32(0x80000000)


@kernel
def add_entries(table: Any, keys: Any, rows: Any, bits: Any, options: Any, words: Array) -> Any:
    """Write entries for rows of a segment; returns how many. There must be room; the directory stays as it is.

    rows: (doc ids int32 [n], comparisons int64 [n, k]). bits: (valid, queryable), sets of doc ids as in
    `gamay.kernels.rows.doc_bits`: rows that are not valid are passed over, those that are not queryable delete their key.
    options: (ordinal of the segment, ttl or 0, bits as `is_expired` takes them): rows beyond the ttl are passed over.
    words: uint64, gets the slots of the entries.
    """
    _, _, entries, arena, state = table
    hashes, lows, data, offsets, is_text = keys
    docs, comparisons = rows
    valid, queryable = bits
    ordinal, ttl, float_bits = options
    key_words, watermark, position = state[KEY_WORDS], state[WATERMARK], state[ARENA_USED]
    first, used, latest = state[HIGH], state[HIGH], state[WATERMARK]
    for i in range(docs.size):
        doc = np.int64(docs[i])
        at, bit = doc >> 3, np.uint8(1 << (doc & 7))
        value = comparisons[i, 0]
        if valid[at] & bit == 0 or (ttl > 0 and is_expired(value, watermark, ttl, float_bits)):
            continue
        latest = max(latest, value)
        entries[used, 0] = np.uint32(hashes[i] & _LOW32)
        if key_words == 3:
            low = lows[i]
            flag = np.uint32(0)
            if is_text.size > 0 and is_text[i] != 0:
                low = np.uint64(position)
                flag = _BIT31
                position = write_text(arena, position, data, np.int64(offsets[i]), np.int64(offsets[i + 1]))
            entries[used, 1] = np.uint32(low & _LOW32)
            entries[used, 2] = np.uint32(low >> _32)
            entries[used, 3] = flag
        location = (np.int64(ordinal) << 32) | doc | (DELETED_BIT if queryable[at] & bit == 0 else 0)
        set_location(entries, used, key_words, location)
        set_values(entries, used, key_words, comparisons, i, False)
        words[used - first] = (hashes[i] & ~_LOW32) | np.uint64(used + 1)
        used += 1
    state[HIGH] = used
    state[LIVE] += used - first
    state[WATERMARK] = latest
    state[ARENA_USED] = position
    return used - first


@kernel
def split_words(words: Array, num_bits: int, split: Array, starts: Array) -> None:
    """Bring slots into the order of the upper bits of their tags, 1 at least; equal ones stay in the order that they have.

    split: uint64 [n], out. starts: int64 [2 ** num_bits + 1], out: where the words of each range begin.
    """
    shift = np.uint64(64 - num_bits)
    starts[:] = 0
    for i in range(words.size):
        starts[np.int64(words[i] >> shift) + 1] += 1
    for k in range(1, starts.size):
        starts[k] += starts[k - 1]
    places = starts.copy()
    for i in range(words.size):
        number = np.int64(words[i] >> shift)
        split[places[number]] = words[i]
        places[number] += 1


@inlined
def _sort_tags(slots: Array, begin: Any, end: Any, entries: Array) -> bool:
    """Sort slots by their tags where they have one home; False when two keys may be the same: all of their hash is."""
    for p in range(begin + 1, end):
        slot = slots[p]
        if slot == 0:
            continue
        q = p
        while q > begin and slots[q - 1] >> _32 > slot >> _32:
            slots[q] = slots[q - 1]
            q -= 1
        slots[q] = slot
        while q > begin and slots[q - 1] >> _32 == slot >> _32:
            q -= 1
            if entries[np.int64(slots[q] & _LOW32) - 1, 0] == entries[np.int64(slot & _LOW32) - 1, 0]:
                return False
    return True


@kernel
def place_words(words: Array, starts: Array, slots: Array, size: int, entries: Array) -> bool:
    """Write a directory, whose slots are empty yet, from what `split_words` has made.

    False when two keys may be the same, or there is no room behind the slots; what is in `slots` is then of no use.
    """
    num_ranges = starts.size - 1
    places = np.empty(size // num_ranges + 2, np.int64)
    end: Any = np.int64(0)
    for k in range(num_ranges):
        first = np.int64(k) * size // num_ranges  # the home of the least tag
        last = np.int64(k + 1) * size // num_ranges
        places[: last - first + 1] = 0
        for i in range(starts[k], starts[k + 1]):
            places[home(words[i] >> _32, size) - first] += 1
        # a slot goes to its home, or behind those whose homes come before; those with one home are sorted afterwards
        begin = max(end, first)
        for p in range(last - first + 1):
            count = places[p]
            if count > 0:
                places[p] = max(end, first + p)
                end = places[p] + count
        if end >= slots.size:
            return False
        for i in range(starts[k], starts[k + 1]):
            p = home(words[i] >> _32, size) - first
            slots[places[p]] = words[i]
            places[p] += 1
        if not _sort_tags(slots, begin, end, entries):
            return False
    return True
