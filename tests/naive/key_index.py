"""A primary-key index that also does everything on a plain dict, and compares."""

from collections.abc import Callable, Sequence

import numpy as np

from gamay.kernels.keys.table import DELETED_BIT, LATE, NEW, REPLACED
from gamay.upsert.index.key_index import KeyIndex, Keys, NewRows, Rules


class CheckedKeyIndex:
    """Does each operation on the index and on a dict; keys are whole numbers that `keys_of` encodes."""

    def __init__(self, index: KeyIndex, keys_of: Callable[[Sequence[int]], Keys]) -> None:
        self.index = index
        self.keys_of = keys_of
        self.rows: dict[int, tuple[int, int, int, bool]] = {}  # key -> (comparison, segment, doc, deleted)
        self.watermark: int | None = None
        self.seen: set[int] = set()
        self.docs = 0

    def put(self, rows: Sequence[tuple[int, int, bool]], segment: int) -> None:
        """Put (key, comparison, deletes) rows into a segment; equal comparison values replace."""
        expected = []
        first = self.docs
        for key, comparison, deletes in rows:
            self.seen.add(key)
            self.watermark = comparison if self.watermark is None else max(self.watermark, comparison)
            old = self.rows.get(key)
            if old is not None and comparison < old[0]:
                expected.append((LATE, -1))
            else:
                location = -1 if old is None else old[1] << 32 | old[2] | (DELETED_BIT if old[3] else 0)
                expected.append((NEW if old is None else REPLACED, location))
                self.rows[key] = (comparison, segment, self.docs, deletes)
            self.docs += 1
        put = self.index.put(
            self.keys_of([row[0] for row in rows]),
            np.array([[row[1]] for row in rows], np.int64).reshape(-1, 1),
            np.full(len(rows), -1, np.int8),
            np.array([row[2] for row in rows], np.uint8),
            np.ones(8, np.uint8),
            Rules(segment, first_doc=first),
        )
        assert list(zip(put.status.tolist(), put.previous.tolist(), strict=True)) == expected

    def build(self, parts: Sequence[Sequence[tuple[int, int, bool, bool]]], *, exact: bool) -> bool:
        """Add (key, comparison, deletes, counts) rows, each part to a segment of its number; return whether that was done.

        exact: hashes tell keys apart, so it must be done where the keys of valid rows are new and come once.
        """
        parts = list(parts)
        taken = [row[0] for part in parts for row in part if row[3]]
        news, first = [], self.docs
        for segment, part in enumerate(parts):
            docs = np.arange(first, first + len(part))
            valid, queryable = (np.zeros(first + len(part), np.bool_) for _ in range(2))
            valid[docs] = [row[3] for row in part]
            queryable[docs] = [row[3] and not row[2] for row in part]
            values = np.array([[row[1]] for row in part], np.int64).reshape(-1, 1)
            bits = [np.packbits(flags, bitorder="little") for flags in (valid, queryable)]
            news.append(NewRows(segment, docs.astype(np.int32), self.keys_of([row[0] for row in part]), values, *bits))
            first += len(part)
        built = self.index.build(iter(news), len(taken))
        assert not built or (len(set(taken)) == len(taken) and not set(taken) & set(self.rows))
        if exact:
            assert built == (len(set(taken)) == len(taken) and not set(taken) & set(self.rows))
        for segment, part in enumerate(parts):
            for key, comparison, deletes, counts in part:
                self.seen.add(key)
                if built and counts:
                    self.watermark = comparison if self.watermark is None else max(self.watermark, comparison)
                    self.rows[key] = (comparison, segment, self.docs, deletes)
                self.docs += 1
        return built

    def remove_segment(self, segment: int) -> None:
        """Remove the keys of a segment."""
        gone = [key for key, row in self.rows.items() if row[1] == segment]
        self._removed(gone, self.index.remove_segment(segment))

    def remove_expired(self, ttl: float, deleted_only: bool) -> None:
        """Remove the keys more than `ttl` below the greatest comparison value, or the deleted ones among them."""
        limit = (self.watermark or 0) - ttl
        gone = [key for key, row in self.rows.items() if row[0] < limit and (row[3] or not deleted_only)]
        rules = Rules(-1, deleted_ttl=ttl) if deleted_only else Rules(-1, ttl=ttl)
        self._removed(gone, self.index.remove_expired(rules))

    def _removed(self, gone: Sequence[int], removed: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        rows = [self.rows.pop(key) for key in gone]
        assert sorted(removed & ~DELETED_BIT) == sorted(row[1] << 32 | row[2] for row in rows)

    def check(self) -> None:
        """Compare everything."""
        assert len(self.index) == len(self.rows)
        keys = sorted(self.seen)
        locations, comparisons = self.index.find(self.keys_of(keys))
        for key, location, comparison in zip(keys, locations.tolist(), comparisons[:, 0].tolist(), strict=True):
            row = self.rows.get(key)
            assert location == (-1 if row is None else row[1] << 32 | row[2] | (DELETED_BIT if row[3] else 0))
            assert row is None or comparison == row[0]
        listed = sorted(zip(*(array.tolist() for array in self.index.items()), strict=True))
        assert listed == sorted(
            (row[1] << 32 | row[2] | (DELETED_BIT if row[3] else 0), row[0]) for row in self.rows.values()
        )
