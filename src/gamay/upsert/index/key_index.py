"""The primary-key index of a partition: from a key to the valid row, in 28 + 10 bytes a key of up to 128 bits."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gamay.base.arrays import Array
from gamay.base.errors import GamayError
from gamay.kernels.keys import build, table

# Rows of one kernel call: room for that many new keys is made before each.
BATCH_ROWS = 1 << 16
# The directory is at most this full: at 0.9 a search for a new key reads 50 slots of 8 bytes that lie side by side.
_FULL = 0.875
_GROWTH = 1.125
_SMALL_SLOTS = 1 << 16
_SPILL = 1 << 12
# Slots that move to a grown directory for each row of a batch, and at least: 8 for each new key are enough.
_MOVED_PER_ROW = 64
_MOVED_MIN = 1 << 15
_ARENA_HEAD = 5
_TAGS = 1 << 32
# Keys that are brought into the directory at a time by `build`: their part of it and they themselves take 40 KB.
_RANGE_WORDS = 1 << 11


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of n rows as the index takes them; made by `gamay.upsert.index.keys`.

    words: 1 for keys of at most 64 bits (hashes alone tell them apart), else 3. hashes, lows: uint64 [n]; lows is empty
    with 1 word. data, offsets, is_text: uint8, int64 [n + 1], uint8 [n]: bytes of the keys where is_text, which are then
    compared; empty when there are none.
    """

    words: int
    hashes: Array
    lows: Array
    data: Array
    offsets: Array
    is_text: Array

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, start: int, stop: int) -> "Keys":
        """Return the keys of the rows [start, stop)."""
        return Keys(
            self.words,
            self.hashes[start:stop],
            self.lows[start:stop],
            self.data,
            self.offsets[start : stop + 1],
            self.is_text[start:stop],
        )

    def at(self, rows: Array) -> "Keys":
        """Return the keys of some rows, in their order."""
        if not len(self.is_text):
            return Keys(self.words, self.hashes[rows], self.lows[rows] if len(self.lows) else self.lows, *NO_TEXT)
        lengths = (self.offsets[1:] - self.offsets[:-1])[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        positions = np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Keys(self.words, self.hashes[rows], self.lows[rows], self.data[positions], offsets, self.is_text[rows])


NO_TEXT: tuple[Array, Array, Array] = (np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.uint8))


@dataclass(frozen=True, slots=True)
class Rules:
    """How rows are put.

    ordinal: of their segment. first_doc: the doc id of the first row that is kept, unless doc ids are given.
    drop_late: out-of-order rows get no doc id. skip_expired: neither do rows beyond `ttl`, which are not looked up.
    check_expiry: entries beyond `ttl`, deleted ones beyond `deleted_ttl`, count as absent. is_float: the comparison values
    stand for doubles.
    """

    ordinal: int
    first_doc: int = 0
    drop_late: bool = False
    skip_expired: bool = False
    check_expiry: bool = False
    is_float: bool = False
    ttl: float = 0.0
    deleted_ttl: float = 0.0


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows of a segment whose keys are new. docs: int32 [n]; comparisons: int64 [n, num_comparisons]. valid, queryable:
    uint8, the segment's valid rows and those of them that do not delete their key, as bits (`kernels.doc_bits`); of
    the n rows those are taken that count.
    """

    ordinal: int
    docs: Array
    keys: Keys
    comparisons: Array
    valid: Array
    queryable: Array


@dataclass(frozen=True, slots=True)
class Put:
    """What became of rows: status int8 [n] (NEW, REPLACED, LATE, SKIPPED of `kernels.key_table`); previous int64 [n]: where
    the row is that a row replaced, ordinal << 32 | doc and DELETED_BIT, or -1; docs int64 [n], -1 for dropped rows. places,
    values: what `KeyIndex.undo` needs, empty unless asked for.
    """

    status: Array
    previous: Array
    docs: Array
    places: Array
    values: Array


class KeyIndex:
    """A table that grows without long pauses; one thread at a time.

    words: as in `Keys`. num_comparisons: values that each key is compared by.
    """

    def __init__(self, words: int, num_comparisons: int = 1) -> None:
        self.words = words
        self.num_comparisons = num_comparisons
        self._spill = _SPILL
        self._state = np.zeros(table.STATE_WORDS, np.int64)
        self._state[table.WATERMARK] = table.ABSENT
        self._state[table.KEY_WORDS] = words
        self._state[table.LIMIT] = _TAGS
        self._state[table.SIZE] = 1024
        self._slots = np.zeros(1024 + self._spill, np.uint64)
        self._old = np.empty(0, np.uint64)
        self._entries = np.zeros((1024, words + 2 + 2 * num_comparisons), np.uint32)
        self._arena = np.zeros(1024, np.uint8)

    def __len__(self) -> int:
        return self._live

    @property
    def _live(self) -> int:
        return int(self._state[table.LIVE])

    @property
    def watermark(self) -> int:
        """The greatest comparison value that was ever put; `ABSENT` before there is one."""
        return int(self._state[table.WATERMARK])

    def raise_watermark(self, value: int) -> None:
        """Let the watermark be at least this."""
        self._state[table.WATERMARK] = max(self.watermark, value)

    def set_watermark(self, value: int) -> None:
        """Let the watermark be this, ABSENT for none: the rows that had raised it are rolled back."""
        self._state[table.WATERMARK] = value

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in (self._slots, self._old, self._entries, self._arena))

    def put(
        self, keys: Keys, comparisons: Array, chosen: Array, deletes: Array, wins_tie: Array, rules: Rules,
        docs: "Array | None" = None, *, undoable: bool = False,
    ) -> Put:  # fmt: skip
        """Take rows in order, as `kernels.key_table.put_rows` describes; `docs` are their doc ids where these are known.

        comparisons: int64 [n, num_comparisons], changed where values are inherited; chosen: int8 [n]; deletes: uint8 [n].
        """
        num_rows = len(keys)
        status, previous = np.empty(num_rows, np.int8), np.empty(num_rows, np.int64)
        given = docs is not None
        places = np.empty(num_rows if undoable else 0, np.int64)
        values = np.empty((len(places), self.num_comparisons), np.int64)
        docs = np.empty(num_rows, np.int64) if docs is None else docs
        flags = (rules.drop_late, rules.skip_expired, rules.check_expiry, rules.is_float, given)
        options = np.array([rules.ordinal, rules.first_doc, *flags], np.int64)
        ttls = np.array([rules.ttl, rules.deleted_ttl])
        start = 0
        while start < num_rows:
            stop = min(start + BATCH_ROWS, num_rows)
            part = keys.part(start, stop)
            self._make_room(part)
            rows = (comparisons[start:stop], chosen[start:stop], deletes[start:stop])
            old = slice(start, stop) if undoable else slice(0, 0)
            out = (status[start:stop], previous[start:stop], docs[start:stop], places[old], values[old])
            done = int(table.put_rows(self._table(), _arrays(part), rows, wins_tie, options, ttls, out))
            if done < stop - start:
                self._widen()
            start += done
        return Put(status, previous, docs, places, values)

    def build(self, parts: "Iterable[NewRows]", num_keys: int, *, ttl: float = 0.0, is_float: bool = False) -> bool:
        """Add rows of several segments, many times as fast as by `put`, where each key comes once and is not there yet.

        False, and nothing has changed, where that does not hold. num_keys: how many they are at most. ttl: rows that lie
        further below the watermark are passed over; is_float: as in `Rules`. The directory is written anew, with the keys
        that were there before.
        """
        self._finish_growth()
        before = self._state.copy()
        size = max(int((self._live + num_keys) / _FULL) + 1, int(before[table.SIZE]))
        self._check_size(size)
        self._make_entries(int(before[table.HIGH]) + num_keys)
        slots = np.zeros(size + self._spill, np.uint64)
        num_words = self._live
        slots[:num_words] = self._slots[self._slots != 0]  # the new directory holds what is to be in it, in any order
        bits, built = np.zeros(2 * is_float, np.int64), False
        try:
            for part in parts:
                self._make_arena(part.keys)
                options = (part.ordinal, ttl, bits)
                rows, sets = (part.docs, part.comparisons), (part.valid, part.queryable)
                num_words += build.add_entries(self._table(), _arrays(part.keys), rows, sets, options, slots[num_words:])
            built = _in_order(slots, num_words, size, self._entries)
        finally:
            if not built:
                self._state[:] = before
        if built:
            self._slots, self._state[table.SIZE] = slots, size
        return built

    def undo(self, keys: Keys, put: Put) -> None:
        """Undo what the last `put` did, which was `undoable`. Keys that it added stay, as deletions that all replace.

        The watermark stays.
        """
        table.undo_rows(self._table(), _arrays(keys), put.status, put.places, put.values)

    def find(self, keys: Keys) -> tuple[Array, Array]:
        """Return (locations int64 [n], -1 where a key is absent; comparisons int64 [n, num_comparisons])."""
        locations = np.empty(len(keys), np.int64)
        comparisons = np.full((len(keys), self.num_comparisons), table.ABSENT, np.int64)
        table.find_rows(self._table(), _arrays(keys), locations, comparisons)
        return locations, comparisons

    def take(self, keys: Keys) -> tuple[Array, Array]:
        """Return what `find` does, and remove the keys that are there; where one comes again, it is absent."""
        self._finish_growth()
        locations = np.empty(len(keys), np.int64)
        comparisons = np.full((len(keys), self.num_comparisons), table.ABSENT, np.int64)
        table.take_rows(self._table(), _arrays(keys), locations, comparisons)
        return locations, comparisons

    def swap(self, other: "KeyIndex") -> None:
        """Exchange all keys with another index of the same kind of keys."""
        for name in ("_spill", "_state", "_slots", "_old", "_entries", "_arena"):
            mine, others = getattr(self, name), getattr(other, name)
            setattr(self, name, others)
            setattr(other, name, mine)

    def move(self, keys: Keys, sources: Array, targets: Array) -> Array:
        """Let keys that are at sources[i] be at targets[i] (ordinal << 32 | doc); return which did: bool [n]."""
        moved = np.empty(len(keys), np.bool_)
        table.move_rows(self._table(), _arrays(keys), sources, targets, moved)
        return moved

    def remove_segment(self, ordinal: int) -> Array:
        """Remove all keys of a segment; return where they were."""
        return self._remove(ordinal, Rules(-1))

    def remove_expired(self, rules: Rules) -> Array:
        """Remove the keys beyond `ttl` and the deleted ones beyond `deleted_ttl`; return where they were."""
        return self._remove(-1, rules)

    def items(self) -> tuple[Array, Array]:
        """Return (locations int64 [len], first comparison values int64 [len]), in no order that means anything."""
        locations, comparisons = np.empty(self._live, np.int64), np.empty(self._live, np.int64)
        table.list_entries(self._table(), locations, comparisons)
        return locations, comparisons

    def _remove(self, ordinal: int, rules: Rules) -> Array:
        self._finish_growth()
        ttls = np.array([rules.ttl, rules.deleted_ttl])
        parts = []
        while True:
            removed = np.empty(min(self._live, 1 << 20), np.int64)
            count = int(table.remove_rows(self._table(), ordinal, self.watermark, ttls, rules.is_float, removed))
            parts.append(removed[:count])
            if count < len(removed) or not count:
                break
        self._give_back()
        return np.concatenate(parts)

    def _table(self) -> tuple[Array, ...]:
        return self._slots, self._old, self._entries, self._arena, self._state

    def _make_room(self, keys: Keys) -> None:
        """Make room for a batch in which all keys are new, and go on with the growth that is under way."""
        state, added = self._state, len(keys)
        wanted = int(state[table.HIGH]) + added
        if wanted > len(self._entries):
            _resize(self._entries, max(wanted, len(self._entries) * (2 if wanted < _SMALL_SLOTS else 33 / 32)))
        self._make_arena(keys)
        needed = (self._live + added) / _FULL
        if needed > state[table.SIZE]:
            self._finish_growth()
            factor = 2 if needed < _SMALL_SLOTS else _GROWTH
            self._start_growth(int(max(needed, state[table.SIZE] * factor)) + 1)
        if state[table.OLD_SIZE]:
            self._migrate(max(_MOVED_PER_ROW * added, _MOVED_MIN))

    def _make_entries(self, wanted: int) -> None:
        """Make room for so many entries and no more; those of an empty index come in large pages."""
        if wanted > len(self._entries):
            if self._state[table.HIGH]:
                _resize(self._entries, wanted)
            else:
                self._entries = np.empty((wanted, self._entries.shape[1]), np.uint32)

    def _make_arena(self, keys: Keys) -> None:
        """Make room for the bytes of a batch of keys."""
        if len(keys.is_text):
            wanted = int(self._state[table.ARENA_USED] + keys.offsets[-1] - keys.offsets[0]) + _ARENA_HEAD * len(keys)
            if wanted > len(self._arena):
                _resize(self._arena, max(wanted, len(self._arena) * 33 / 32))

    def _check_size(self, size: int) -> None:
        if size >= _TAGS // 2:
            raise GamayError(
                f"a partition has {self._live:,} primary keys, which is all that it can have: use more partitions"
            )

    def _start_growth(self, size: int) -> None:
        self._check_size(size)
        state = self._state
        self._old, self._slots = self._slots, np.zeros(size + self._spill, np.uint64)
        state[table.OLD_SIZE], state[table.SIZE] = state[table.SIZE], size
        state[table.LIMIT] = state[table.CURSOR] = 0

    def _migrate(self, count: int) -> None:
        if not table.migrate(self._table(), count):
            raise GamayError("the primary-key index has too many keys with one hash: use another hashFunction")
        if not self._state[table.OLD_SIZE]:
            self._old = np.empty(0, np.uint64)

    def _finish_growth(self) -> None:
        if self._state[table.OLD_SIZE]:
            self._migrate(len(self._old))

    def _widen(self) -> None:
        """Make room at the end of the directory, where keys with the greatest hashes gather."""
        self._finish_growth()
        self._spill = max(2 * self._spill, 2 * BATCH_ROWS)
        self._start_growth(int(self._state[table.SIZE]))
        self._finish_growth()

    def _give_back(self) -> None:
        """Return memory when less than half of it is used."""
        state = self._state
        live, dead = self._live, int(state[table.ARENA_DEAD])
        spare = int(state[table.HIGH]) > max(2 * live, BATCH_ROWS)
        if not spare and dead <= max(int(state[table.ARENA_USED]) // 2, BATCH_ROWS):
            return
        entries = np.zeros((max(live, 1024), self._entries.shape[1]), np.uint32)
        arena = np.zeros(max(int(state[table.ARENA_USED]) - dead, 1024), np.uint8)
        table.copy_live(self._table(), entries, arena)
        self._entries, self._arena = entries, arena
        if live / _FULL < state[table.SIZE] / 2 and state[table.SIZE] > 1024:
            self._start_growth(max(int(live / _FULL * _GROWTH) + 1, 1024))
            self._finish_growth()


def _in_order(slots: Array, num_words: int, size: int, entries: Array) -> bool:
    """Make a directory of the words that lie at its beginning; False when there are keys that may be the same."""
    num_bits = max(num_words // _RANGE_WORDS, 2).bit_length() - 1
    words, starts = np.empty(num_words, np.uint64), np.empty((1 << num_bits) + 1, np.int64)
    build.split_words(slots[:num_words], num_bits, words, starts)
    slots[:num_words] = 0
    return bool(build.place_words(words, starts, slots, size, entries))


def _arrays(keys: Keys) -> tuple[Array, ...]:
    return keys.hashes, keys.lows, keys.data, keys.offsets, keys.is_text


def _resize(array: Array, rows: float) -> None:
    """Grow an array in place: large ones are moved by the kernel's page tables, not copied. Nobody else refers to them."""
    array.resize((int(rows), *array.shape[1:]), refcheck=False)
