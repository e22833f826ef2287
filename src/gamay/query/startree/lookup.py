"""Which records of a cuboid satisfy a conjunction of tests of its dimensions.

Records are sorted by their dimensions, the first one first. Tests of leading dimensions are answered by binary search, range
by range; once the ranges are short, the records in them are looked at.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from pyroaring import BitMap

from gamay.kernels.records import keep_marked, list_ranges, narrow_ranges
from gamay.query.filter.counters import EntryCounter
from gamay.query.filter.docset import DocRange, DocSet
from gamay.query.matches import AllDocs
from gamay.query.predicate import Filter, In, Not, Range
from gamay.segment.spi import Dictionary, DocIds, Ids

if TYPE_CHECKING:
    from gamay.query.filter.apply import FilterResult

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Spans: TypeAlias = list[tuple[int, int]]
"""Ranges [first, last) of ids, ascending, none empty, none next to another."""

# Shorter ranges are read: looking for the ids of another dimension in each takes longer.
_RANGE_LEAST = 16
_RANGES_MAX = 1 << 12
# more records are scanned by the kernels for whole columns
_READ_MAX = 1 << 16


class Found:
    """Records of a cuboid: a range, or a list, int32, ascending."""

    __slots__ = ("count", "docs")

    def __init__(self, docs: "slice | DocIds", count: int) -> None:
        self.docs = docs
        self.count = count

    @classmethod
    def of(cls, filtered: "FilterResult") -> "Found":
        """Return the records that a filter lets through; a scan runs for it."""
        matches = filtered.matches()
        if isinstance(matches, AllDocs):
            return cls(slice(matches.start, matches.stop), len(matches))
        docs = [block.docs() for block in matches.blocks()]
        found = docs[0] if len(docs) == 1 else np.concatenate([np.empty(0, np.int32), *docs])
        filtered.walked(matches)
        return cls(found, len(found))

    def numbers(self) -> DocIds:
        """Return them as a list."""
        return np.arange(self.docs.start, self.docs.stop, dtype=np.int32) if isinstance(self.docs, slice) else self.docs

    def doc_set(self) -> DocSet:
        """Return them as indexes do."""
        docs = self.docs
        return DocRange(docs.start, docs.stop) if isinstance(docs, slice) else BitMap(docs.view(np.uint32))


class SortedRecords:
    """The records of a cuboid.

    ids: of each dimension, [num_records], in the order in which the records are sorted. places: of the dimensions, by name.
    """

    def __init__(self, ids: Sequence[Ids], dictionaries: Sequence[Dictionary], places: Mapping[str, int]) -> None:
        self._ids = ids
        self._dictionaries = dictionaries
        self._places = places
        self._num_records = len(ids[0]) if ids else 1

    def find(self, parts: Sequence[Filter], counter: EntryCounter) -> Found | None:
        """Return the records for which all parts hold; None where that takes other means. counter: of ids that are read."""
        wanted: dict[int, Spans] = {}
        for part in parts:
            is_negated = isinstance(part, Not)
            test = part.part if isinstance(part, Not) else part
            if not isinstance(test, In | Range):
                return None
            place = self._places.get(test.column)
            if place is None or place in wanted:
                return None
            dictionary = self._dictionaries[place]
            spans = _spans(test, dictionary)
            if is_negated:
                spans = _complement(spans, len(dictionary))
            if not spans:
                return Found(slice(0, 0), 0)
            if spans != [(0, len(dictionary))]:
                wanted[place] = spans
        return self._records(wanted, counter)

    def _records(self, wanted: dict[int, Spans], counter: EntryCounter) -> Found | None:
        ranges = np.array([(0, self._num_records)])
        count = self._num_records
        last = max(wanted, default=-1)
        for place in range(last + 1):
            if count < _RANGE_LEAST * len(ranges):
                break
            spans = wanted.get(place) or [(0, len(self._dictionaries[place]))]
            room = np.empty((min(_RANGES_MAX, count), 2), np.int64)
            found = narrow_ranges(self._ids[place], ranges, np.array(spans), place < last, room)
            if found < 0:
                break
            ranges = room[:found]
            count = int((ranges[:, 1] - ranges[:, 0]).sum())
            wanted.pop(place, None)
            if not count:
                return Found(slice(0, 0), 0)
        if not wanted and len(ranges) == 1:
            return Found(slice(int(ranges[0, 0]), int(ranges[0, 1])), count)
        if count > _READ_MAX:
            return None
        docs = np.empty(count, np.int32)
        list_ranges(ranges, docs)
        for place, spans in wanted.items():
            counter.add(len(docs))
            marks = np.zeros(len(self._dictionaries[place]), np.bool_)
            for first, after in spans:
                marks[first:after] = True
            docs = docs[: keep_marked(self._ids[place], marks, docs)]
        return Found(docs, len(docs))


def _spans(test: In | Range, dictionary: Dictionary) -> Spans:
    if isinstance(test, Range):
        first, after = dictionary.id_range(test.lower, test.upper, test.lower_inclusive, test.upper_inclusive)
        return [(first, after)] if first < after else []
    if len(test.values) == 1:
        only = dictionary.id_of(test.values[0])
        return [(only, only + 1)] if only >= 0 else []
    spans: Spans = []
    for id_ in dictionary.ids_of(test.values).tolist():
        if spans and spans[-1][1] == id_:
            spans[-1] = spans[-1][0], id_ + 1
        else:
            spans.append((id_, id_ + 1))
    return spans


def _complement(spans: Spans, cardinality: int) -> Spans:
    edges = [0, *(edge for span in spans for edge in span), cardinality]
    return [(first, after) for first, after in zip(edges[::2], edges[1::2], strict=True) if first < after]
