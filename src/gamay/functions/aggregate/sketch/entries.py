"""States of theta and integer-tuple sketches: from hashed values, or merged from serialised sketches."""

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.pairs import Pairs
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.sketch.compact import theta_entries, tuple_entries
from gamay.functions.sketch.entries import Entries, Mode, hashes_of, limited, merged, no_entries, union
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType

_WAITING_ROWS = 1 << 20
_MERGED_AT_ONCE = 1 << 22


class ThetaState:
    """The theta sketch of each group, of at most k hashes.

    Dictionary ids are collected as pairs and hashed at the end, each entry once; other values are hashed as they arrive.
    """

    def __init__(self, data_type: DataType, k: int, theta: int, num_groups: int) -> None:
        self._k = k
        self._theta = theta
        self._entries = no_entries(num_groups, theta)
        self._pairs = Pairs(data_type, num_groups, False)
        self._waiting: list[tuple[Array, Array]] = []
        self._waiting_rows = 0

    def grow(self, num_groups: int) -> None:
        self._entries = grown(self._entries, num_groups, self._theta)
        self._pairs.grow(num_groups)

    def update(self, groups: GroupIds | None, values: Vector | EncodedVector) -> None:
        """Add single values."""
        if isinstance(values, EncodedVector):
            self._pairs.update(groups, values, len(values))
            return
        of_rows = np.zeros(len(values), np.int32) if groups is None else groups.astype(np.int32)
        self._waiting.append((of_rows, hashes_of(values)))
        self._waiting_rows += len(values)
        if self._waiting_rows > _WAITING_ROWS:
            self._flush()

    def combine(self, other: "ThetaState") -> None:
        self._flush()
        self._entries = union([self._entries, other.finished()], self._k)

    def finished(self) -> Entries:
        """Return the sketches of all rows added."""
        self._flush()
        partial = self._pairs.partial()
        if len(partial.groups) == 0:
            return self._entries
        if isinstance(partial.values, EncodedVector):
            hashes = hashes_of(partial.values.dictionary)[partial.values.ids]
        else:
            hashes = hashes_of(partial.values)
        return self._with(partial.groups, hashes)

    def _flush(self) -> None:
        if self._waiting:
            waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
            groups, hashes = (np.concatenate([part[i] for part in waiting]) for i in (0, 1))
            self._entries = self._with(groups, hashes)

    def _with(self, groups: Array, hashes: Array) -> Entries:
        mine = self._entries
        seen = mine.seen.copy()
        seen[groups[hashes != 0]] = True
        every = np.concatenate([mine.groups, groups]), np.concatenate([mine.hashes, hashes])
        return limited(*every, None, mine.thetas, seen, self._k)


class MergedState:
    """The union of serialised sketches of each group. `mode`: None for theta sketches."""

    def __init__(self, k: int, theta: int, mode: Mode | None, num_groups: int) -> None:
        self._k = k
        self._theta = theta
        self._mode = mode
        self._entries = no_entries(num_groups, theta, numbers=mode is not None)

    def grow(self, num_groups: int) -> None:
        self._entries = grown(self._entries, num_groups, self._theta)

    def update(self, groups: GroupIds | None, values: Vector | EncodedVector) -> None:
        """Add sketches, as BYTES."""
        of_rows = np.zeros(len(values), np.int32) if groups is None else groups.astype(np.int32)
        if isinstance(values, EncodedVector):
            used, rows = np.unique(values.ids, return_inverse=True)
            sketches = self._read(values.dictionary.values.take(pa.array(used)))
        else:
            sketches, rows = self._read(values.values), np.arange(len(values))
        if self._mode is None:  # theta sketches are idempotent: a repeated sketch changes nothing
            of_rows, rows = np.unique(np.stack([of_rows, rows]), axis=1)
        ends = np.cumsum(sketches.counts[rows])
        pieces = np.searchsorted(ends, np.arange(_MERGED_AT_ONCE, int(ends[-1]) if len(ends) else 0, _MERGED_AT_ONCE))
        for part_rows, part_groups in zip(np.split(rows, pieces), np.split(of_rows, pieces), strict=True):
            self._add(_repeated(sketches, part_rows), part_groups)

    def combine(self, other: "MergedState") -> None:
        self._entries = union([self._entries, other._entries], self._k, self._mode or Mode.SUM)

    def finished(self) -> Entries:
        """Return the sketches of all rows added."""
        return self._entries

    def _add(self, sketches: Entries, groups: Array) -> None:
        every = np.arange(self._entries.num_groups, dtype=np.int32)
        maps = [every, groups]
        self._entries = merged([self._entries, sketches], maps, len(every), self._k, self._mode or Mode.SUM)

    def _read(self, values: pa.Array) -> Entries:
        sketches = values.to_pylist()
        return theta_entries(sketches) if self._mode is None else tuple_entries(sketches)


def _repeated(sketches: Entries, rows: Array) -> Entries:
    """Return the sketches numbered rows[i], which may repeat."""
    counts = sketches.counts
    starts = np.cumsum(counts) - counts
    lengths = counts[rows]
    groups = np.repeat(np.arange(len(rows), dtype=np.int32), lengths)
    places = np.arange(len(groups)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(starts[rows], lengths)
    numbers = None if sketches.numbers is None else sketches.numbers[places]
    return Entries(groups, sketches.hashes[places], numbers, sketches.thetas[rows], sketches.seen[rows])


def grown(entries: Entries, num_groups: int, theta: int) -> Entries:
    """Return the sketches, extended by empty ones."""
    more = num_groups - entries.num_groups
    thetas = np.concatenate([entries.thetas, np.full(more, theta, np.uint64)])
    return Entries(
        entries.groups, entries.hashes, entries.numbers, thetas, np.concatenate([entries.seen, np.zeros(more, np.bool_)])
    )


def encode_entries(entries: Entries) -> list[pa.Array]:
    """Return sketches as Arrow arrays of equal lengths, to be sent."""
    offsets = np.zeros(entries.num_groups + 1, np.int32)
    np.cumsum(entries.counts, out=offsets[1:])
    columns = [entries.hashes] if entries.numbers is None else [entries.hashes, entries.numbers]
    lists = [pa.ListArray.from_arrays(pa.array(offsets), pa.array(column)) for column in columns]
    return [*lists, pa.array(entries.thetas), pa.array(entries.seen)]


def decode_entries(arrays: "list[pa.Array]") -> Entries:
    """Invert `encode_entries`."""
    *lists, thetas, seen = arrays
    groups = np.repeat(np.arange(len(thetas), dtype=np.int32), np.diff(lists[0].offsets.to_numpy()))
    columns = [column.flatten().to_numpy() for column in lists]
    numbers = columns[1] if len(columns) > 1 else None
    return Entries(groups, columns[0], numbers, thetas.to_numpy(), seen.to_numpy(zero_copy_only=False))
