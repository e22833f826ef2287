"""Lookup of the records of a cuboid that match a conjunction of tests of its dimensions.

Records are sorted by their dimensions, the first one first. Tests of leading dimensions are answered by binary search, range
by range; once the ranges are short, their records are read.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.rows.records import find_records
from gamay.query.bind.predicate import Filter, In, Not, Range
from gamay.query.view.counters import EntryCounter
from gamay.query.view.docset import DocRange, DocSet
from gamay.query.view.matches import AllDocs
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.spi import Dictionary, DocIds

if TYPE_CHECKING:
    from gamay.query.filter.apply import FilterResult

Spans: TypeAlias = list[int]
"""The edges of ranges [first, last) of ids, consecutive, ascending, none empty."""

Known: TypeAlias = dict[tuple[int, int], Spans]
"""The ids that match tests, by the identities of test and dictionary, both of which exist as long as the query."""

# Ranges with fewer records than the first number on average are read: searching them for another dimension takes longer.
# At most the second number of ranges is kept; the records of more ranges are read up to the third number, else the kernels
# for whole columns scan them.
_LIMITS = np.array([16, 1 << 12, 1 << 16])
_EVERY_ID = [0, 1 << 32]


class Found:
    """Records of a cuboid: a range, or a list, int32, ascending."""

    __slots__ = ("count", "docs")

    def __init__(self, docs: "slice | DocIds", count: int) -> None:
        self.docs = docs
        self.count = count

    @classmethod
    def of(cls, filtered: "FilterResult") -> "Found":
        """Return the records that match a filter, running its scan if needed."""
        matches = filtered.matches()
        if isinstance(matches, AllDocs):
            return cls(slice(matches.start, matches.stop), len(matches))
        docs = [block.docs() for block in matches.blocks()]
        found = docs[0] if len(docs) == 1 else np.concatenate([np.empty(0, np.int32), *docs])
        filtered.walked(matches)
        return cls(found, len(found))

    def numbers(self) -> DocIds:
        """Return the records as a list."""
        return np.arange(self.docs.start, self.docs.stop, dtype=np.int32) if isinstance(self.docs, slice) else self.docs

    def doc_set(self) -> DocSet:
        """Return the records as a set of docs."""
        docs = self.docs
        return DocRange(docs.start, docs.stop) if isinstance(docs, slice) else bitmap_of(docs)


class SortedRecords:
    """The records of a cuboid.

    ids: of each dimension, [dimensions, records], records sorted by the dimensions. places: positions of the dimensions, by
    name.
    """

    def __init__(self, ids: Array, dictionaries: Sequence[Dictionary], places: Mapping[str, int]) -> None:
        self.ids = ids
        self._dictionaries = dictionaries
        self._places = places

    def find(self, parts: Sequence[Filter], counter: EntryCounter, known: "Known | None" = None) -> Found | None:
        """Return the records that match all parts; None if another method is needed.

        counter: counts the ids read. known: the spans of tests that were looked up before in other segments of the query.
        """
        wanted: dict[int, Spans] = {}
        for part in parts:
            test = part.part if isinstance(part, Not) else part
            if not isinstance(test, In | Range):
                return None
            place = self._places.get(test.column)
            if place is None or place in wanted:
                return None
            dictionary = self._dictionaries[place]
            spans = None if known is None else known.get((id(part), id(dictionary)))
            if spans is None:
                spans = _spans(test, dictionary) if part is test else _complement(_spans(test, dictionary), len(dictionary))
                if known is not None:
                    known[id(part), id(dictionary)] = spans
            wanted[place] = spans
        return self._records(wanted, counter)

    def _records(self, wanted: dict[int, Spans], counter: EntryCounter) -> Found | None:
        if not wanted:
            return Found(slice(0, self.ids.shape[1]), self.ids.shape[1])
        starts: list[int] = [0]
        edges: list[int] = []
        columns = max(wanted) + 1
        for place in range(columns):
            edges += wanted.get(place, _EVERY_ID)
            starts.append(len(edges) >> 1)
        found = np.empty(4, np.int64)
        docs = find_records(self.ids, columns, np.array(starts + edges), _LIMITS, found)
        count, start, stop, read = found.tolist()
        if count < 0:
            return None
        if read:
            counter.add(read)
        return Found(slice(start, stop), count) if start >= 0 else Found(docs, count)


def _spans(test: In | Range, dictionary: Dictionary) -> Spans:
    if isinstance(test, Range):
        first, after = dictionary.id_range(test.lower, test.upper, test.lower_inclusive, test.upper_inclusive)
        return [first, after] if first < after else []
    if len(test.values) == 1:
        only = dictionary.id_of(test.values[0])
        return [only, only + 1] if only >= 0 else []
    spans: Spans = []
    for id_ in dictionary.ids_of(test.values).tolist():
        spans += (id_, id_ + 1)
    return spans


def _complement(spans: Spans, cardinality: int) -> Spans:
    edges = [0, *spans, cardinality]
    gaps = [(first, after) for first, after in zip(edges[::2], edges[1::2], strict=True) if first < after]
    return [edge for gap in gaps for edge in gap]
