"""A hash table from primary keys to where their rows are, for `gamay.upsert.index.key_index`.

A table is the tuple (slots, old_slots, entries, arena, state); keys are the tuple (hashes, lows, data, offsets, is_text).

slots     uint64 [size + spill]: the directory, 0 or tag << 32 | entry + 1. A tag is the upper half of a key's hash; its
          home is tag * size >> 32, so that homes ascend with tags. Tags ascend over all slots (ordered linear probing): a
          search ends at the first greater tag, the directory grows by one sequential pass, and spare slots at its end
          stand for a wrap around; the last one stays empty and ends every search. It may be nine tenths full.
old_slots the directory before it grew, while it is moved: tags below state[LIMIT] are in `slots`, the others here.
entries   uint32 [capacity, width]: what the tag does not hold of the key (1 word of 64-bit keys; 3 words of 128-bit keys, or
          32 bits more of the hash and where in the arena the key's bytes are); segment ordinal (bit 31: bytes in the
          arena); doc id (bit 31: the row deletes its key); the comparison values, two words each, lower half first.
arena     uint8: keys that are compared exactly, each with its length in front (1 byte; 255 and 4 bytes from 255 on).
state     int64 [STATE_WORDS], the numbers below.

hashes, lows: uint64 [n], such that both together tell keys apart (`mix64`, `mix128`), or data[offsets[i]:offsets[i + 1]]
does where is_text[i] (uint8; length 0: nowhere). 64-bit products wrap on purpose.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import inlined, kernel

SIZE, OLD_SIZE, LIMIT, CURSOR, LIVE, HIGH, FREE, ARENA_USED, ARENA_DEAD, WATERMARK, KEY_WORDS, TOUCHED = range(12)
STATE_WORDS = 12
NEW, REPLACED, LATE, SKIPPED = range(4)
ORDINAL, FIRST_DOC, DROP_LATE, SKIP_EXPIRED, CHECK_EXPIRY, IS_FLOAT, GIVEN_DOCS = range(7)
OPTION_WORDS = 7
ABSENT = -(2**63)
DELETED_BIT = 1 << 31
NO_DOC = (1 << 31) - 1

_BIT31 = np.uint32(0x80000000)
_LOW31 = np.uint32(0x7FFFFFFF)
_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ONE = np.uint64(1)
_LONG = 255
_TOUCHED_ROWS = 64


@kernel
def _mix(k: Any) -> Any:
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return k ^ (k >> np.uint64(33))


@kernel
def mix64(keys: Array, hashes: Array) -> None:
    """Spread 64-bit keys over all 64-bit hashes, one to one."""
    for i in range(keys.size):
        hashes[i] = _mix(np.uint64(keys[i]) + np.uint64(0x9E3779B97F4A7C15))


@kernel
def mix128(highs: Array, lows: Array, hashes: Array) -> None:
    """Make hashes of 128-bit keys; hash and lower half together determine the key."""
    for i in range(highs.size):
        hashes[i] = _mix(np.uint64(highs[i]) ^ _mix(np.uint64(lows[i]) + np.uint64(0x9E3779B97F4A7C15)))


@inlined
def home(tag: Any, size: Any) -> Any:
    return np.int64((tag * np.uint64(size)) >> _32)


@inlined
def _comparison(entries: Array, entry: Any, word: Any) -> Any:
    return np.int64(np.uint64(entries[entry, word]) | (np.uint64(entries[entry, word + 1]) << _32))


@inlined
def _set_comparison(entries: Array, entry: Any, word: Any, value: Any) -> None:
    entries[entry, word] = np.uint32(np.uint64(value) & _LOW32)
    entries[entry, word + 1] = np.uint32(np.uint64(value) >> _32)


@inlined
def _arena_at(entries: Array, entry: Any) -> Any:
    return np.int64(np.uint64(entries[entry, 1]) | (np.uint64(entries[entry, 2]) << _32))


@kernel
def _text_size(arena: Array, position: Any) -> Any:
    """Return (bytes of a key in the arena, bytes in front of them)."""
    size = np.int64(arena[position])
    if size < _LONG:
        return size, np.int64(1)
    size = np.int64(0)
    for i in range(4):
        size |= np.int64(arena[position + 1 + i]) << (8 * i)
    return size, np.int64(5)


@kernel
def _same_text(arena: Array, position: Any, data: Array, start: Any, stop: Any) -> bool:
    size, head = _text_size(arena, position)
    if size != stop - start:
        return False
    first = position + head - start
    i = start
    while i < stop and arena[first + i] == data[i]:
        i += 1
    return bool(i == stop)


@inlined
def _seek(slots: Array, size: Any, entries: Array, arena: Array, words: Any, keys: Any, i: Any) -> Any:
    """Return (entry of key i or -1, the slot of this directory where it is or belongs)."""
    hashes, lows, data, offsets, is_text = keys
    tag = hashes[i] >> _32
    rest = np.uint32(hashes[i] & _LOW32)
    p = home(tag, size)
    found = np.int64(-1)
    while True:
        slot = slots[p]
        if slot == 0 or slot >> _32 > tag:
            break
        if slot >> _32 == tag:
            entry = np.int64(slot & _LOW32) - 1
            if entries[entry, 0] == rest:
                if words == 1:
                    found = entry
                    break
                if (entries[entry, 3] & _BIT31) != 0:
                    if (
                        is_text.size > 0
                        and is_text[i] != 0
                        and _same_text(
                            arena, _arena_at(entries, entry), data, np.int64(offsets[i]), np.int64(offsets[i + 1])
                        )
                    ):
                        found = entry
                        break
                elif (
                    (is_text.size == 0 or is_text[i] == 0)
                    and entries[entry, 1] == np.uint32(lows[i] & _LOW32)
                    and entries[entry, 2] == np.uint32(lows[i] >> _32)
                ):
                    found = entry
                    break
        p += 1
    return found, p


@inlined
def _find(slots: Array, old_slots: Array, entries: Array, arena: Array, state: Array, keys: Any, i: Any) -> Any:
    """Return (entry of key i or -1, the slot of its directory where it is or belongs)."""
    if np.int64(keys[0][i] >> _32) >= state[LIMIT]:
        entry, p = _seek(old_slots, state[OLD_SIZE], entries, arena, state[KEY_WORDS], keys, i)
    else:
        entry, p = _seek(slots, state[SIZE], entries, arena, state[KEY_WORDS], keys, i)
    return entry, p


@kernel
def _touch(slots: Array, old_slots: Array, entries: Array, state: Array, hashes: Array, start: Any, stop: Any) -> None:
    """Read the slots and entries of some keys, so that they are in the cache when they are needed.

    The loads do not wait for each other, those of a search for one key do: 10 million keys are found twice as fast.
    """
    touched = np.uint64(0)
    for i in range(start, stop):
        tag = hashes[i] >> _32
        if np.int64(tag) < state[LIMIT]:
            touched += slots[home(tag, state[SIZE])]
        else:
            touched += old_slots[home(tag, state[OLD_SIZE])]
    for i in range(start, stop):
        tag = hashes[i] >> _32
        if np.int64(tag) < state[LIMIT]:
            p = home(tag, state[SIZE])
            while slots[p] != 0 and slots[p] >> _32 < tag:
                p += 1
            if slots[p] >> _32 == tag:
                touched += np.uint64(entries[np.int64(slots[p] & _LOW32) - 1, 0])
    state[TOUCHED] = np.int64(touched >> _ONE)


@kernel
def _place(slots: Array, p: Any, slot: Any) -> bool:
    """Put a slot before position p, moving others towards the end; False, and nothing changed, when there is no room."""
    q = p
    while slots[q] != 0:
        q += 1
    if q >= slots.size - 1:
        return False
    while q > p:
        slots[q] = slots[q - 1]
        q -= 1
    slots[p] = slot
    return True


@kernel
def write_text(arena: Array, position: Any, data: Array, start: Any, stop: Any) -> Any:
    """Write a key's bytes with their length in front; returns the position behind."""
    size = stop - start
    arena[position] = np.uint8(min(size, _LONG))
    position += 1
    if size >= _LONG:
        for k in range(4):
            arena[position + k] = np.uint8((size >> (8 * k)) & 255)
        position += 4
    for k in range(size):
        arena[position + k] = data[start + k]
    return position + size


@inlined
def _new_entry(entries: Array, arena: Array, state: Array, keys: Any, i: Any) -> Any:
    """Take an entry for key i and write the key there; there must be room."""
    hashes, lows, data, offsets, is_text = keys
    if state[FREE] > 0:
        entry = state[FREE] - 1
        state[FREE] = np.int64(entries[entry, 0])
    else:
        entry = state[HIGH]
        state[HIGH] += 1
    state[LIVE] += 1
    entries[entry, 0] = np.uint32(hashes[i] & _LOW32)
    if state[KEY_WORDS] == 3:
        low = lows[i]
        flag = np.uint32(0)
        if is_text.size > 0 and is_text[i] != 0:
            low = np.uint64(state[ARENA_USED])
            flag = _BIT31
            state[ARENA_USED] = write_text(arena, state[ARENA_USED], data, np.int64(offsets[i]), np.int64(offsets[i + 1]))
        entries[entry, 1] = np.uint32(low & _LOW32)
        entries[entry, 2] = np.uint32(low >> _32)
        entries[entry, 3] = flag
    return entry


@inlined
def _free(entries: Array, arena: Array, state: Array, entry: Any) -> None:
    if state[KEY_WORDS] == 3 and entries[entry, 3] & _BIT31:
        size, head = _text_size(arena, _arena_at(entries, entry))
        state[ARENA_DEAD] += size + head
    entries[entry, 0] = np.uint32(state[FREE])
    state[FREE] = entry + 1
    state[LIVE] -= 1


@kernel
def is_expired(comparison: Any, watermark: Any, ttl: Any, bits: Array) -> bool:
    """Whether a comparison value lies more than `ttl` (> 0) below the watermark.

    bits: int64 [2] to work in for values that stand for doubles, empty for whole numbers.
    """
    if comparison >= watermark:
        return False
    if bits.size:
        bits[0] = comparison ^ np.int64(0x7FFFFFFFFFFFFFFF) if comparison < 0 else comparison
        bits[1] = watermark ^ np.int64(0x7FFFFFFFFFFFFFFF) if watermark < 0 else watermark
        values = bits.view(np.float64)
        return bool(values[0] < values[1] - ttl)
    if comparison < 0 and watermark >= 0:  # the difference may need more than 63 bits, and what overflows is undefined
        return bool(np.float64(watermark) - np.float64(comparison) > ttl)
    return bool(watermark - comparison > ttl)


@inlined
def _location(entries: Array, entry: Any, words: Any) -> Any:
    """Ordinal << 32 | doc, with the bit of deleted rows."""
    return (np.int64(entries[entry, words] & _LOW31) << 32) | np.int64(entries[entry, words + 1])


@inlined
def _order(entries: Array, entry: Any, first: Any, values: Array, row: Any, chosen: Any) -> Any:
    """Compare a row's comparison values with an entry's: 1 greater, 0 equal, -1 smaller.

    first: the entry's first word of them. chosen: the column that the row gives, which alone is compared, and an absent one
    loses; -1: column by column.
    """
    begin = max(chosen, 0)
    end = chosen + 1 if chosen >= 0 else values.shape[1]
    order = 0
    for k in range(begin, end):
        old = _comparison(entries, entry, first + 2 * k)
        if values[row, k] != old:
            order = 1 if values[row, k] > old else -1
            break
    return order


@inlined
def set_location(entries: Array, entry: Any, words: Any, location: Any) -> None:
    flag = entries[entry, words] & _BIT31 if words == 3 else np.uint32(0)
    entries[entry, words] = flag | np.uint32(location >> 32)
    entries[entry, words + 1] = np.uint32(location & np.int64(0xFFFFFFFF))


@inlined
def set_values(entries: Array, entry: Any, words: Any, values: Array, row: Any, inherits: Any) -> None:
    """Write a row's comparison values; inherits: those that it does not have are those that its key had before."""
    for k in range(values.shape[1]):
        if inherits and values[row, k] == ABSENT:
            values[row, k] = _comparison(entries, entry, words + 2 + 2 * k)
        _set_comparison(entries, entry, words + 2 + 2 * k, values[row, k])


@inlined
def _get_values(entries: Array, entry: Any, words: Any, values: Array, row: Any) -> None:
    for k in range(values.shape[1]):
        values[row, k] = _comparison(entries, entry, words + 2 + 2 * k)


@inlined
def _outcome(
    entries: Array, entry: Any, state: Array, values: Array, row: Any, chosen: Any, wins_tie: Array, options: Array,
    ttls: Array, bits: Array,
) -> Any:  # fmt: skip
    """Return what a row does to the entry of its key: NEW when the entry has expired, REPLACED or LATE."""
    words = state[KEY_WORDS]
    location = _location(entries, entry, words)
    outcome = REPLACED if location & NO_DOC == NO_DOC else -1
    if options[CHECK_EXPIRY] and outcome < 0:
        stored = _comparison(entries, entry, words + 2)
        if ttls[0] > 0 and is_expired(stored, state[WATERMARK], ttls[0], bits):
            outcome = NEW
        elif ttls[1] > 0 and location & DELETED_BIT and is_expired(stored, state[WATERMARK], ttls[1], bits):
            outcome = REPLACED
    if outcome < 0:
        order = _order(entries, entry, words + 2, values, row, chosen)
        wins = wins_tie[location >> 32]
        outcome = REPLACED if wins == 2 or (wins < 2 and (order > 0 or (order == 0 and wins == 1))) else LATE
    return outcome


@kernel
def put_rows(table: Any, keys: Any, rows: Any, wins_tie: Array, options: Array, ttls: Array, out: Any) -> Any:
    """Take the rows of a batch in order; returns how many were taken, fewer only when the directory has no room.

    rows: (comparisons int64 [n, k] order-preserving with ABSENT, chosen int8 [n] as in `_order`, deletes uint8 [n]).
    wins_tie: uint8 [ordinals]: 1 when a row wins over a row of that segment with an equal comparison value, 2 over any row,
    3 over none.
    options: int64 [OPTION_WORDS]; ttls: float64 [2], of keys and of deleted keys, 0 for none. Entries beyond them count as
    absent where options[CHECK_EXPIRY] (the deleted row is then replaced).
    out: (status int8 [n], previous int64 [n], docs int64 [n], places int64 [n], values int64 [n, k]). status: NEW, REPLACED,
    LATE or SKIPPED. previous: where the replaced row is (ordinal << 32 | doc, bit 31 of the doc: it was a deletion) or -1.
    docs: the row's doc id, -1 when it is dropped; they are read instead where options[GIVEN_DOCS]. places, values: what the
    key's entry said before, -1 for none, for `undo_rows`; both may be empty.
    Comparison values that a row does not have and its key had before are filled in.
    """
    slots, old_slots, entries, arena, state = table
    comparisons, chosen, deletes = rows
    status, previous, docs, places, values = out
    words = state[KEY_WORDS]
    doc = options[FIRST_DOC]
    bits = np.zeros(2 * options[IS_FLOAT], np.int64)
    for i in range(status.size):
        if i & (_TOUCHED_ROWS - 1) == 0:
            _touch(slots, old_slots, entries, state, keys[0], i, min(i + _TOUCHED_ROWS, status.size))
        value = comparisons[i, 0]
        if value > state[WATERMARK]:
            state[WATERMARK] = value
        previous[i] = -1
        if options[SKIP_EXPIRED] and is_expired(value, state[WATERMARK], ttls[0], bits):
            status[i] = SKIPPED
            docs[i] = -1
            continue
        entry, p = _find(slots, old_slots, entries, arena, state, keys, i)
        outcome = NEW
        if places.size:
            places[i] = -1
            if entry >= 0:
                places[i] = _location(entries, entry, words)
                _get_values(entries, entry, words, values, i)
        if entry >= 0:
            outcome = _outcome(entries, entry, state, comparisons, i, chosen[i], wins_tie, options, ttls, bits)
            if outcome == REPLACED and entries[entry, words + 1] & _LOW31 != NO_DOC:
                previous[i] = _location(entries, entry, words)
        else:
            tag = keys[0][i] >> _32
            slot = (tag << _32) | np.uint64(state[FREE] if state[FREE] > 0 else state[HIGH] + 1)
            placed = _place(old_slots, p, slot) if np.int64(tag) >= state[LIMIT] else _place(slots, p, slot)
            if not placed:
                options[FIRST_DOC] = doc
                return i
            entry = _new_entry(entries, arena, state, keys, i)
        status[i] = outcome
        if not options[GIVEN_DOCS]:
            docs[i] = -1 if outcome == LATE and options[DROP_LATE] else doc
            doc += docs[i] >= 0
        if outcome != LATE:
            location = (options[ORDINAL] << 32) | docs[i] | (DELETED_BIT if deletes[i] else 0)
            set_location(entries, entry, words, location)
            set_values(entries, entry, words, comparisons, i, outcome == REPLACED and chosen[i] >= 0)
    options[FIRST_DOC] = doc
    return status.size


@kernel
def undo_rows(table: Any, keys: Any, status: Array, places: Array, values: Array) -> None:
    """Put the entries of a batch, the last that was put, back to what they said before it.

    Entries that it added stay, as deletions without a row (NO_DOC) that any row replaces.
    """
    slots, old_slots, entries, arena, state = table
    words = state[KEY_WORDS]
    for i in range(status.size - 1, -1, -1):
        if status[i] == LATE or status[i] == SKIPPED:
            continue
        entry, _ = _find(slots, old_slots, entries, arena, state, keys, i)
        if places[i] >= 0:
            set_location(entries, entry, words, places[i])
            set_values(entries, entry, words, values, i, False)
        else:
            set_location(entries, entry, words, _location(entries, entry, words) | DELETED_BIT | NO_DOC)
            for k in range(values.shape[1]):
                _set_comparison(entries, entry, words + 2 + 2 * k, ABSENT)


@kernel
def find_rows(table: Any, keys: Any, locations: Array, comparisons: Array) -> None:
    """Look keys up: locations int64 [n] as `previous` above, -1 where absent; comparisons int64 [n, k]."""
    slots, old_slots, entries, arena, state = table
    words = state[KEY_WORDS]
    for i in range(locations.size):
        if i & (_TOUCHED_ROWS - 1) == 0:
            _touch(slots, old_slots, entries, state, keys[0], i, min(i + _TOUCHED_ROWS, locations.size))
        entry, _ = _find(slots, old_slots, entries, arena, state, keys, i)
        locations[i] = -1
        if entry >= 0:
            locations[i] = _location(entries, entry, words)
            _get_values(entries, entry, words, comparisons, i)


@kernel
def take_rows(table: Any, keys: Any, locations: Array, comparisons: Array) -> None:
    """Look keys up, as `find_rows` does, and remove those that are there; nothing may be left in the old directory."""
    slots, old_slots, entries, arena, state = table
    words = state[KEY_WORDS]
    for i in range(locations.size):
        entry, p = _find(slots, old_slots, entries, arena, state, keys, i)
        locations[i] = -1
        if entry >= 0:
            locations[i] = _location(entries, entry, words)
            _get_values(entries, entry, words, comparisons, i)
            _free(entries, arena, state, entry)
            while p + 1 < slots.size and slots[p + 1] != 0 and home(slots[p + 1] >> _32, state[SIZE]) <= p:
                slots[p] = slots[p + 1]
                p += 1
            slots[p] = np.uint64(0)


@kernel
def move_rows(table: Any, keys: Any, sources: Array, targets: Array, moved: Array) -> None:
    """Let keys that are at sources[i] be at targets[i] (ordinal << 32 | doc, without the bit); moved: bool [n], whether."""
    slots, old_slots, entries, arena, state = table
    words = state[KEY_WORDS]
    for i in range(moved.size):
        if i & (_TOUCHED_ROWS - 1) == 0:
            _touch(slots, old_slots, entries, state, keys[0], i, min(i + _TOUCHED_ROWS, moved.size))
        entry, _ = _find(slots, old_slots, entries, arena, state, keys, i)
        moved[i] = False
        if entry >= 0:
            location = _location(entries, entry, words)
            if location & ~DELETED_BIT == sources[i]:
                set_location(entries, entry, words, targets[i] | (location & DELETED_BIT))
                moved[i] = True


@kernel
def migrate(table: Any, count: int) -> bool:
    """Move `count` slots of the old directory to the new one; returns False when the new one has no room for a slot.

    Tags ascend in both, and those in the new one are below the limit: what moves goes behind them. It stops before a slot
    in use only: were empty ones passed over, a new key could be put there, where no move finds it.
    """
    slots, old_slots, _, _, state = table
    size, limit, position = state[SIZE], state[LIMIT], state[CURSOR]
    target = home(np.uint64(limit), size)
    while target < slots.size and slots[target] != 0:
        target += 1
    following = position
    while following < old_slots.size:
        slot = old_slots[following]
        following += 1
        if slot != 0:
            tag = np.int64(slot >> _32)
            # all slots of one tag move together: what is below the limit is in the new directory
            if count <= 0 and tag >= limit:
                break
            target = max(target, home(slot >> _32, size))
            if target >= slots.size - 1:
                return False
            slots[target] = slot
            target += 1
            limit = tag + 1
            position = following
        count -= 1
    else:
        position, limit = old_slots.size, np.int64(1) << 32
        state[OLD_SIZE] = 0
    state[CURSOR] = position
    state[LIMIT] = limit
    return True


@kernel
def remove_rows(table: Any, ordinal: int, watermark: int, ttls: Array, is_float: bool, removed: Array) -> Any:
    """Remove the keys of a segment (ordinal, -1 for none), or those beyond a TTL; nothing may be left in the old directory.

    Writes the locations to `removed` (int64) and returns their number; when that is full, more may be left.
    """
    slots, _, entries, arena, state = table
    words = state[KEY_WORDS]
    bits = np.zeros(2 if is_float else 0, np.int64)
    target = np.int64(0)
    count = 0
    for p in range(slots.size):
        slot = slots[p]
        if slot == 0:
            continue
        slots[p] = np.uint64(0)
        if count < removed.size:
            entry = np.int64(slot & _LOW32) - 1
            location = _location(entries, entry, words)
            stored = _comparison(entries, entry, words + 2)
            if (
                location >> 32 == ordinal
                or (ttls[0] > 0 and is_expired(stored, watermark, ttls[0], bits))
                or (ttls[1] > 0 and location & DELETED_BIT and is_expired(stored, watermark, ttls[1], bits))
            ):
                removed[count] = location
                count += 1
                _free(entries, arena, state, entry)
                continue
        target = max(target, home(slot >> _32, state[SIZE]))
        slots[target] = slot
        target += 1
    return count


@kernel
def copy_live(table: Any, entries: Array, arena: Array) -> None:
    """Copy the entries in use, in the order of the directory, and their bytes, to smaller arrays, and let the slots say so.

    Nothing may be left in the old directory. Afterwards `entries` and `arena` are the table's.
    """
    slots, _, old_entries, old_arena, state = table
    used = np.int64(0)
    end = np.int64(0)
    for p in range(slots.size):
        slot = slots[p]
        if slot == 0:
            continue
        entry = np.int64(slot & _LOW32) - 1
        for k in range(entries.shape[1]):
            entries[used, k] = old_entries[entry, k]
        if state[KEY_WORDS] == 3 and old_entries[entry, 3] & _BIT31:
            start = _arena_at(old_entries, entry)
            size, head = _text_size(old_arena, start)
            for k in range(size + head):
                arena[end + k] = old_arena[start + k]
            entries[used, 1] = np.uint32(np.uint64(end) & _LOW32)
            entries[used, 2] = np.uint32(np.uint64(end) >> _32)
            end += size + head
        used += 1
        slots[p] = (slot >> _32 << _32) | np.uint64(used)
    state[HIGH] = used
    state[FREE] = 0
    state[ARENA_USED] = end
    state[ARENA_DEAD] = 0


@kernel
def list_entries(table: Any, locations: Array, comparisons: Array) -> Any:
    """Write the location (int64 [live]) and first comparison value of every key; returns how many there are."""
    slots, old_slots, entries, _, state = table
    words = state[KEY_WORDS]
    count = 0
    for p in range(slots.size + old_slots.size):
        slot = slots[p] if p < slots.size else old_slots[p - slots.size]
        if slot != 0 and (p < slots.size or np.int64(slot >> _32) >= state[LIMIT]):
            entry = np.int64(slot & _LOW32) - 1
            locations[count] = _location(entries, entry, words)
            comparisons[count] = _comparison(entries, entry, words + 2)
            count += 1
    return count
