"""Sets of docs that indexes answer with: a contiguous range, or a roaring bitmap."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from pyroaring import BitMap

from gamay.kernels.filter import mark_docs
from gamay.query.matches import AllDocs, DocList, DocMask, Matches

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# from one doc in so many on, flags for all rows are cheaper than a list of doc ids
SPARSE = 8


@dataclass(frozen=True, slots=True)
class DocRange:
    """The docs [start, stop)."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


DocSet: TypeAlias = DocRange | BitMap


def bitmap(docs: DocSet) -> BitMap:
    """Return a set as a bitmap."""
    return BitMap(range(docs.start, docs.stop)) if isinstance(docs, DocRange) else docs


def intersect(one: DocSet, other: DocSet) -> DocSet:
    """Return the docs that are in both sets."""
    if isinstance(one, DocRange) and isinstance(other, DocRange):
        start, stop = max(one.start, other.start), min(one.stop, other.stop)
        return DocRange(start, max(start, stop))
    return bitmap(one) & bitmap(other)


def unite(one: DocSet, other: DocSet) -> DocSet:
    """Return the docs that are in either set."""
    if isinstance(one, DocRange) and isinstance(other, DocRange) and one.start <= other.stop and other.start <= one.stop:
        return DocRange(min(one.start, other.start), max(one.stop, other.stop))
    return bitmap(one) | bitmap(other)


def complement(docs: DocSet, num_docs: int) -> DocSet:
    """Return the docs of [0, num_docs) that are not in the set."""
    if isinstance(docs, DocRange) and len(docs) == 0:
        return DocRange(0, num_docs)
    if isinstance(docs, DocRange) and docs.start == 0:
        return DocRange(docs.stop, num_docs)
    if isinstance(docs, DocRange) and docs.stop == num_docs:
        return DocRange(0, docs.start)
    return BitMap(range(num_docs)) - bitmap(docs)


def doc_ids(docs: BitMap) -> "np.ndarray[Any, np.dtype[np.int32]]":
    """Return the docs of a bitmap: int32, ascending."""
    return np.frombuffer(docs.to_array(), np.uint32).view(np.int32)


def doc_mask(docs: DocSet, num_docs: int) -> Mask:
    """Return one flag for each doc of [0, num_docs)."""
    if not isinstance(docs, DocRange) and 2 * len(docs) > num_docs:
        # the docs that are missing are fewer to mark
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
    return DocMask(0, doc_mask(docs, num_docs))
