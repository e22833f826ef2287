"""The current valid docs of one segment, for one writer and any number of readers."""

import numpy as np
from pyroaring import BitMap

from gamay.base.arrays import Array
from gamay.kernels.rows.doc_bits import clear_docs, set_docs
from gamay.segment.read.visible import VisibleDocs

_GROWTH_BYTES = 1 << 13


class SegmentDocs:
    """The valid rows of a segment (the latest of their keys) and, with a delete column, the queryable ones among them.

    Readers can call `snapshot` at any time for an immutable copy, which is made only if something has
    changed since the last one, so segments without updates cost a query nothing.
    """

    def __init__(self, num_docs: int, has_deletes: bool) -> None:
        size = -(-num_docs // 8)
        self._valid: Array = np.zeros(size, np.uint8)
        self._queryable: Array | None = np.zeros(size, np.uint8) if has_deletes else None
        self._num_docs = num_docs
        self._version = 0
        self._copies: dict[bool, tuple[int, VisibleDocs]] = {}
        self.stored_version = -1
        """The version of the snapshot on disk; -1 if there is none."""
        self.num_stored_keys = 0
        """The number of keys stored with the snapshot."""

    @property
    def num_docs(self) -> int:
        """The number of rows."""
        return self._num_docs

    @property
    def version(self) -> int:
        """Number that changes with every modification."""
        return self._version

    @property
    def num_bytes(self) -> int:
        """Bytes of the bits and their copies."""
        own = self._valid.nbytes + (0 if self._queryable is None else self._queryable.nbytes)
        return int(own * (1 + bool(self._copies)))

    def add(self, docs: Array, deletes: "Array | None" = None) -> None:
        """Make rows valid, and those without `deletes` (uint8 [n]) queryable."""
        if not len(docs):
            return
        self.grow(int(docs.max()) + 1)
        set_docs(self._valid, docs)
        if self._queryable is not None:
            set_docs(self._queryable, docs if deletes is None else docs[deletes == 0])
        self._version += 1

    def remove(self, docs: Array) -> None:
        """Make rows invalid."""
        if not len(docs):
            return
        clear_docs(self._valid, docs)
        if self._queryable is not None:
            clear_docs(self._queryable, docs)
        self._version += 1

    def grow(self, num_docs: int) -> None:
        """Grow to at least `num_docs` rows; new ones are invalid."""
        if num_docs <= self._num_docs:
            return
        size = -(-num_docs // 8)
        if size > len(self._valid):
            size = max(size, 2 * len(self._valid), _GROWTH_BYTES)
            self._valid = _extended(self._valid, size)
            self._queryable = None if self._queryable is None else _extended(self._queryable, size)
        self._num_docs = num_docs

    def load(self, valid: BitMap, queryable: "BitMap | None") -> None:
        """Load the valid docs of a snapshot."""
        docs = np.asarray(valid.to_array()).astype(np.int64)
        self.add(docs)
        if self._queryable is not None:
            deleted = valid - (valid if queryable is None else queryable)
            clear_docs(self._queryable, np.asarray(deleted.to_array()).astype(np.int64))

    def snapshot(self, with_deleted: bool = False) -> VisibleDocs:
        """Return a copy of the queryable rows; with_deleted: of the valid ones. Needs no lock."""
        version = self._version
        known = self._copies.get(with_deleted)
        if known is not None and known[0] == version:
            return known[1]
        bits = self._valid if with_deleted or self._queryable is None else self._queryable
        copy = VisibleDocs(bits.copy(), self._num_docs)
        self._copies[with_deleted] = (version, copy)
        return copy


def _extended(bits: Array, size: int) -> Array:
    grown = np.zeros(size, np.uint8)
    grown[: len(bits)] = bits
    return grown
