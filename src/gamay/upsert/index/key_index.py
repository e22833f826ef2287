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
# Slots migrated to a grown directory per row of a batch, and at least; 8 per new key would be enough.
_MOVED_PER_ROW = 64
_MOVED_MIN = 1 << 15
_ARENA_HEAD = 5
_TAGS = 1 << 32
# Keys that `build` inserts into the directory at a time: they and their part of it take 40 KB.
_RANGE_WORDS = 1 << 11


@dataclass(frozen=True, slots=True)
class Keys:
    """Encoded keys of n rows; made by `gamay.upsert.index.keys`.

    words: 1 for keys of at most 64 bits (hashes alone distinguish them), else 3. hashes, lows: uint64 [n]; lows is empty
    with 1 word. data, offsets, is_text: uint8, int64 [n + 1], uint8 [n]: bytes of the keys with is_text, which are
    compared; empty if there are none.
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
    """Parameters of `put`.

    ordinal: of the rows' segment. first_doc: the doc id of the first row that is kept, unless doc ids are given.
    drop_late: out-of-order rows get no doc id. skip_expired: rows beyond `ttl` are not looked up and get no doc id either.
    check_expiry: entries beyond `ttl`, deleted ones beyond `deleted_ttl`, are treated as absent. is_float: the comparison
    values encode doubles.
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
    the n rows, only valid ones are added.
    """

    ordinal: int
    docs: Array
    keys: Keys
    comparisons: Array
    valid: Array
    queryable: Array


@dataclass(frozen=True, slots=True)
class Put:
    """Result of `put`: status int8 [n] (NEW, REPLACED, LATE, SKIPPED of `kernels.key_table`); previous int64 [n]: the
    location of the replaced row, ordinal << 32 | doc and DELETED_BIT, or -1; docs int64 [n], -1 for dropped rows. places,
    values: for `KeyIndex.undo`, empty unless requested.
    """

    status: Array
    previous: Array
    docs: Array
    places: Array
    values: Array


class KeyIndex:
    """A hash table that grows incrementally, without long pauses. Not thread-safe.

    words: as in `Keys`. num_comparisons: number of comparison values per key.
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
        """The greatest comparison value ever put; `ABSENT` if there is none."""
        return int(self._state[table.WATERMARK])

    def raise_watermark(self, value: int) -> None:
        """Raise the watermark to at least `value`."""
        self._state[table.WATERMARK] = max(self.watermark, value)

    def set_watermark(self, value: int) -> None:
        """Set the watermark, ABSENT for none, after a rollback of the rows that had raised it."""
        self._state[table.WATERMARK] = value

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in (self._slots, self._old, self._entries, self._arena))

    def put(
        self, keys: Keys, comparisons: Array, chosen: Array, deletes: Array, wins_tie: Array, rules: Rules,
        docs: "Array | None" = None, *, undoable: bool = False,
    ) -> Put:  # fmt: skip
        """Put rows in order, as described in `kernels.key_table.put_rows`. docs: their doc ids, if known.

        comparisons: int64 [n, num_comparisons], modified where values are inherited; chosen: int8 [n]; deletes: uint8 [n].
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
        """Add rows of several segments in bulk, if each key occurs once and is not in the index; much faster than `put`.

        Return False, with nothing changed, if that does not hold. num_keys: maximum number of keys. ttl: rows further
        below the watermark are skipped; is_float: as in `Rules`. The directory is rebuilt, including the present keys.
        """
        self._finish_growth()
        before = self._state.copy()
        size = max(int((self._live + num_keys) / _FULL) + 1, int(before[table.SIZE]))
        self._check_size(size)
        self._make_entries(int(before[table.HIGH]) + num_keys)
        slots = np.zeros(size + self._spill, np.uint64)
        num_words = self._live
        slots[:num_words] = self._slots[self._slots != 0]  # the new directory first holds its words unordered
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
        """Undo the last `put`, which must have been `undoable`. Keys that it added remain as deletions that any row
        replaces.

        The watermark remains.
        """
        table.undo_rows(self._table(), _arrays(keys), put.status, put.places, put.values)

    def find(self, keys: Keys) -> tuple[Array, Array]:
        """Return (locations int64 [n], -1 for absent keys; comparisons int64 [n, num_comparisons])."""
        locations = np.empty(len(keys), np.int64)
        comparisons = np.full((len(keys), self.num_comparisons), table.ABSENT, np.int64)
        table.find_rows(self._table(), _arrays(keys), locations, comparisons)
        return locations, comparisons

    def take(self, keys: Keys) -> tuple[Array, Array]:
        """Return what `find` returns, and remove the keys found; a repeated key is absent the second time."""
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
        """Move keys located at sources[i] to targets[i] (ordinal << 32 | doc); return which were moved: bool [n]."""
        moved = np.empty(len(keys), np.bool_)
        table.move_rows(self._table(), _arrays(keys), sources, targets, moved)
        return moved

    def remove_segment(self, ordinal: int) -> Array:
        """Remove all keys of a segment; return their locations."""
        return self._remove(ordinal, Rules(-1))

    def remove_expired(self, rules: Rules) -> Array:
        """Remove the keys beyond `ttl` and the deleted ones beyond `deleted_ttl`; return their locations."""
        return self._remove(-1, rules)

    def items(self) -> tuple[Array, Array]:
        """Return (locations int64 [len], first comparison values int64 [len]), unordered."""
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
        """Reserve capacity for a batch, assuming that all its keys are new, and continue a growth in progress."""
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
        """Reserve capacity for exactly `wanted` entries; those of an empty index use huge pages."""
        if wanted > len(self._entries):
            if self._state[table.HIGH]:
                _resize(self._entries, wanted)
            else:
                self._entries = np.empty((wanted, self._entries.shape[1]), np.uint32)

    def _make_arena(self, keys: Keys) -> None:
        """Reserve capacity for the bytes of a batch of keys."""
        if len(keys.is_text):
            wanted = int(self._state[table.ARENA_USED] + keys.offsets[-1] - keys.offsets[0]) + _ARENA_HEAD * len(keys)
            if wanted > len(self._arena):
                _resize(self._arena, max(wanted, len(self._arena) * 33 / 32))

    def _check_size(self, size: int) -> None:
        if size >= _TAGS // 2:
            raise GamayError(f"a partition has {self._live:,} primary keys, which is the maximum: use more partitions")

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
        """Extend the overflow area at the end of the directory, for keys with the greatest hashes."""
        self._finish_growth()
        self._spill = max(2 * self._spill, 2 * BATCH_ROWS)
        self._start_growth(int(self._state[table.SIZE]))
        self._finish_growth()

    def _give_back(self) -> None:
        """Release memory if less than half of it is used."""
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
    """Build a directory in place from the words at its beginning; return False if keys may be equal."""
    num_bits = max(num_words // _RANGE_WORDS, 2).bit_length() - 1
    words, starts = np.empty(num_words, np.uint64), np.empty((1 << num_bits) + 1, np.int64)
    build.split_words(slots[:num_words], num_bits, words, starts)
    slots[:num_words] = 0
    return bool(build.place_words(words, starts, slots, size, entries))


def _arrays(keys: Keys) -> tuple[Array, ...]:
    return keys.hashes, keys.lows, keys.data, keys.offsets, keys.is_text


def _resize(array: Array, rows: float) -> None:
    """Grow an array in place: large ones are remapped by the operating system, not copied. There must be no other
    references."""
    array.resize((int(rows), *array.shape[1:]), refcheck=False)
