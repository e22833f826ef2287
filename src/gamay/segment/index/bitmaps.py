"""Sets of docs in buffers, and docs grouped by a key.

sets of a kind K:   K.starts := i64[n + 1]: set i is K.sets[starts[i]:starts[i + 1]]
                    K.counts := i32[n]: number of docs in each set
                    K.sets   := set*, each padded with zeros to a multiple of 4 bytes
set                 := u32 doc id*, ascending, which takes 4 * counts[i] bytes
                     | serialised roaring bitmap (portable format), only where that takes fewer bytes
"""

from array import array
from typing import cast

import numpy as np
from pyroaring import BitMap

from gamay.base.errors import CorruptSegmentError
from gamay.kernels.encode.encoding import count_rows, group_positions, group_rows, list_indices, roaring_sizes
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.spi import Ids

_CONTAINER_DOCS = 1 << 16
# Setting and reading flags is faster than sorting docs if at least one in this number of docs is in the set.
_MARKED_DOCS = 64


def bitmap_of(docs: Ids) -> BitMap:
    """Return a bitmap of doc ids in any order."""
    plain = array("I")  # BitMap reads an array as a whole, but converts each number of a NumPy array to an object
    plain.frombytes(docs.astype(np.uint32, copy=False).tobytes())
    return BitMap(plain)


# Build


def serialise(docs: "Ids | BitMap") -> bytes:
    """Return the portable form of a set of docs, runs compressed: the same bytes for the same set."""
    bitmap = docs.copy() if isinstance(docs, BitMap) else bitmap_of(docs)
    bitmap.run_optimize()
    raw: bytes = bitmap.serialize()
    return raw


def docs_by_key(keys: Ids, num_keys: int, offsets: "Ids | None") -> "tuple[Ids, Ids]":
    """Sort docs by key, stably.

    keys: [num_values] below `num_keys`; offsets: int32 [num_docs + 1] where each row's values begin, None for one value
    a row. Returns int64 starts [num_keys + 1] and uint32 docs: key k holds docs[starts[k]:starts[k + 1]],
    ascending.
    """
    starts = np.zeros(num_keys + 1, np.int64)
    if offsets is None:
        positions = np.empty(len(keys), np.uint32)
        group_positions(keys, starts, positions)
        return starts, positions
    count_rows(keys, offsets, np.full(num_keys, -1, np.int32), starts[1:])
    np.cumsum(starts, out=starts)
    rows = np.empty(starts[-1], np.uint32)
    group_rows(keys, offsets, np.full(num_keys, -1, np.int32), starts[:-1].copy(), rows)
    return starts, rows


def write_sets(writer: BufferWriter, kind: str, starts: Ids, docs: Ids) -> list[BufferMeta]:
    """Write the set of docs of each key; `starts` and `docs` as from `docs_by_key`."""
    counts = np.diff(starts).astype(np.int32)
    sizes = 4 * counts.astype(np.int64)
    likely_sizes = np.empty_like(sizes)
    roaring_sizes(starts, docs, likely_sizes)
    parts: list[bytes | Ids] = []
    pending = 0  # first key of the lists not yet written: adjacent lists are written together
    for key in np.flatnonzero(likely_sizes < sizes).tolist():
        raw = serialise(docs[starts[key] : starts[key + 1]])
        raw += bytes(-len(raw) % 4)
        if len(raw) < sizes[key]:
            parts += [docs[starts[pending] : starts[key]], raw]
            sizes[key] = len(raw)
            pending = key + 1
    parts.append(docs[starts[pending] :])
    byte_starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(sizes, out=byte_starts[1:])
    return [
        writer.add(f"{kind}.starts", [byte_starts]),
        writer.add(f"{kind}.counts", [counts]),
        writer.add(f"{kind}.sets", parts),
    ]


def expected_set_bytes(docs: Ids, num_docs: int, run_docs: float) -> Ids:
    """Estimate the bytes that `serialise` produces for sets of randomly distributed docs: float64 [k].

    docs: float64 [k], the size of each set. run_docs: factor by which runs of docs are longer than random ones.
    """
    all_containers = max(1.0, num_docs / _CONTAINER_DOCS)
    runs = np.maximum(1.0, docs * (1 - docs / max(1, num_docs)) / run_docs)
    containers = np.minimum(np.ceil(all_containers), runs)
    containers = np.maximum(1.0, -containers * np.expm1(-runs / containers))
    sizes: Ids = 8 + 8 * containers + np.minimum(np.minimum(2 * docs, 4 * runs + 2 * containers), 8192 * containers)
    return sizes


# Read


def deserialise(file: BufferFile, kind: str, raw: Ids) -> BitMap:
    """Return a bitmap from its portable form; raises CorruptSegmentError if it is invalid."""
    try:
        return BitMap.deserialize(cast(bytes, raw))  # accepts any buffer; the annotation is too narrow
    except (ValueError, IndexError) as reason:
        raise CorruptSegmentError(f"{file.path}: buffer '{kind}' does not hold a roaring bitmap: {reason}") from None


class DocSets:
    """Many sets of docs, each deserialised on access. counts: int32, the number of docs of each."""

    def __init__(self, file: BufferFile, buffers: dict[str, BufferMeta], kind: str) -> None:
        self._file = file
        self._kind = f"{kind}.sets"
        self._starts = file.array(buffers[f"{kind}.starts"], np.int64)
        self.counts = file.array(buffers[f"{kind}.counts"], np.int32)
        self._sets = file.array(buffers[self._kind], np.uint8)

    def __len__(self) -> int:
        return len(self.counts)

    def get(self, key: int) -> BitMap:
        """Return a set of docs, which the caller may change."""
        raw = self._sets[self._starts.item(key) : self._starts.item(key + 1)]
        if len(raw) == 4 * self.counts.item(key):
            return bitmap_of(raw.view(np.uint32))
        return deserialise(self._file, self._kind, raw)

    def pairs(self) -> tuple[Ids, Ids]:
        """Return all pairs of key and doc, in ascending order: int32 [n], uint32 [n]."""
        ends = np.cumsum(self.counts, dtype=np.int64)
        docs = np.empty(int(ends[-1]) if len(ends) else 0, np.uint32)
        is_list = np.diff(self._starts) == 4 * self.counts.astype(np.int64)
        listed = np.flatnonzero(is_list)
        lengths = self.counts[listed].astype(np.int64)
        sources, targets = np.empty(int(lengths.sum()), np.int64), np.empty(int(lengths.sum()), np.int64)
        list_indices(self._starts[listed] >> 2, (self._starts[listed] >> 2) + lengths, sources)
        list_indices(ends[listed] - lengths, ends[listed], targets)
        docs[targets] = self._sets.view(np.uint32)[sources]
        for key in np.flatnonzero(~is_list).tolist():
            docs[ends[key] - self.counts[key] : ends[key]] = self.get(key).to_array()
        return np.repeat(np.arange(len(self), dtype=np.int32), self.counts), docs

    def union(self, keys: Ids) -> BitMap:
        """Return the union of several sets."""
        if len(keys) == 1:
            return self.get(int(keys[0]))
        keys = np.asarray(keys, np.int64)
        is_list = self._starts[keys + 1] - self._starts[keys] == 4 * self.counts[keys].astype(np.int64)
        bitmaps = [self.get(key) for key in keys[~is_list].tolist()]
        listed = keys[is_list]
        if len(listed):
            starts, ends = self._starts[listed] >> 2, self._starts[listed + 1] >> 2
            positions = np.empty(int((ends - starts).sum()), np.int64)
            list_indices(starts, ends, positions)
            bitmaps.append(_united(self._sets.view(np.uint32)[positions]))
        return BitMap.union(*bitmaps) if bitmaps else BitMap()


def _united(docs: Ids) -> BitMap:
    """Return a bitmap of unordered docs: uint32 [n]."""
    highest = int(docs.max(initial=0))
    if len(docs) * _MARKED_DOCS < highest:
        return bitmap_of(np.sort(docs))
    flags = np.zeros(highest + 1, np.bool_)
    flags[docs] = True
    return bitmap_of(np.flatnonzero(flags))
