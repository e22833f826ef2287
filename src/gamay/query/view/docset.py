"""Sets of docs: a contiguous range or a roaring bitmap, as returned by indexes, or flags of the valid rows."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from pyroaring import BitMap

from gamay.base.arrays import Mask
from gamay.kernels.rows.filter import mark_docs
from gamay.query.view.matches import AllDocs, DocList, DocMask, Matches, flagged_docs
from gamay.segment.index.bitmaps import bitmap_of

# if at least one doc in this many matches, flags for all rows are cheaper than a list of doc ids
SPARSE = 8


@dataclass(slots=True, unsafe_hash=True)  # not frozen: creation would take five times as long
class DocRange:
    """The docs [start, stop)."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True, eq=False)
class DocFlags:
    """The docs whose flag is set: mask bool [num_docs], read-only; count: the number of set flags."""

    mask: Mask
    count: int

    def __len__(self) -> int:
        return self.count


DocSet: TypeAlias = DocRange | BitMap | DocFlags


def flags_of(mask: Mask) -> DocFlags:
    """Return the docs whose flag is set."""
    return DocFlags(mask, int(np.count_nonzero(mask)))


def bitmap(docs: DocSet) -> BitMap:
    """Return a set as a bitmap."""
    if isinstance(docs, DocFlags):
        return bitmap_of(doc_ids(docs))
    return BitMap(range(docs.start, docs.stop)) if isinstance(docs, DocRange) else docs


def intersect(one: DocSet, other: DocSet) -> DocSet:
    """Return the docs that are in both sets."""
    if isinstance(one, DocRange) and isinstance(other, DocRange):
        start, stop = max(one.start, other.start), min(one.stop, other.stop)
        return DocRange(start, max(start, stop))
    if isinstance(one, DocFlags):
        return _flagged(other, one)
    if isinstance(other, DocFlags):
        return _flagged(one, other)
    return bitmap(one) & bitmap(other)


def _flagged(docs: DocSet, flags: DocFlags) -> DocSet:
    """Return the docs of a set whose flag is set."""
    num_docs = len(flags.mask)
    if len(docs) == num_docs:
        return flags
    if len(docs) * SPARSE >= num_docs:
        return flags_of(doc_mask(docs, num_docs) & flags.mask)
    if isinstance(docs, DocRange):
        kept = np.flatnonzero(flags.mask[docs.start : docs.stop]) + docs.start
    else:
        found = doc_ids(docs)
        kept = found[flags.mask[found]]
    return bitmap_of(kept)


def unite(one: DocSet, other: DocSet) -> DocSet:
    """Return the docs that are in either set."""
    if isinstance(one, DocRange) and isinstance(other, DocRange) and one.start <= other.stop and other.start <= one.stop:
        return DocRange(min(one.start, other.start), max(one.stop, other.stop))
    if isinstance(one, DocFlags) or isinstance(other, DocFlags):
        num_docs = len(one.mask if isinstance(one, DocFlags) else other.mask)  # type: ignore[union-attr]
        return flags_of(doc_mask(one, num_docs) | doc_mask(other, num_docs))
    return bitmap(one) | bitmap(other)


def complement(docs: DocSet, num_docs: int) -> DocSet:
    """Return the docs of [0, num_docs) that are not in the set."""
    if isinstance(docs, DocRange) and len(docs) == 0:
        return DocRange(0, num_docs)
    if isinstance(docs, DocRange) and docs.start == 0:
        return DocRange(docs.stop, num_docs)
    if isinstance(docs, DocRange) and docs.stop == num_docs:
        return DocRange(0, docs.start)
    if isinstance(docs, DocFlags):
        return DocFlags(~docs.mask, num_docs - docs.count)
    return BitMap(range(num_docs)) - bitmap(docs)


def doc_ids(docs: BitMap | DocFlags) -> "np.ndarray[Any, np.dtype[np.int32]]":
    """Return the docs of a bitmap, or those with a flag: int32, ascending."""
    if isinstance(docs, DocFlags):
        return flagged_docs(docs.mask, 0, docs.count)
    return np.frombuffer(docs.to_array(), np.uint32).view(np.int32)


def doc_mask(docs: DocSet, num_docs: int) -> Mask:
    """Return one flag for each doc of [0, num_docs); read-only."""
    if isinstance(docs, DocFlags):
        return docs.mask
    if not isinstance(docs, DocRange) and 2 * len(docs) > num_docs:
        # fewer docs are missing than set
        return np.logical_not(doc_mask(complement(docs, num_docs), num_docs))
    mask = np.zeros(num_docs, np.bool_)
    if isinstance(docs, DocRange):
        mask[docs.start : docs.stop] = True
    else:
        mark_docs(doc_ids(docs), mask)
    return mask


def matches_of(docs: DocSet, num_docs: int) -> Matches:
    """Return a set in the form in which rows are read."""
    if isinstance(docs, DocRange):
        return AllDocs(docs.start, docs.stop)
    if len(docs) * SPARSE < num_docs:
        return DocList(doc_ids(docs))
    return DocMask(0, doc_mask(docs, num_docs), docs.count if isinstance(docs, DocFlags) else None)
