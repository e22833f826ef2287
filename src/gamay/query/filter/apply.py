"""Application of a filter to a segment: the matching rows."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gamay.base.arrays import Mask
from gamay.kernels.rows.masks import compress
from gamay.query.bind.predicate import Filter
from gamay.query.filter.entries import Run, one_by_one
from gamay.query.filter.resolve import Indexed, Narrowed, Resolver
from gamay.query.filter.scan import Scan, mask_within, rows_within
from gamay.query.filter.zoned import ZonedScan
from gamay.query.view.counters import EntryCounter, MatchedRows, ScannedEntries
from gamay.query.view.docset import SPARSE, DocRange, DocSet, doc_ids, doc_mask, intersect, matches_of
from gamay.query.view.matches import BLOCK_ROWS, DocIds, DocList, DocScan, Matches
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import Segment


@dataclass(slots=True)  # not frozen, as one is created for each segment of each query
class FilterResult:
    """The rows of a segment that match a filter.

    docs: the rows, if indexes alone answered (their number is known then); else None, or the rows that `scan` must test.
    entries: counts the values that scans read; complete once all rows of `matches` have been read.
    of_consuming: whether the segment is still being consumed, for the counters.
    """

    docs: DocSet | None
    scan: Scan | None
    num_docs: int
    entries: EntryCounter
    of_consuming: bool = False
    _found: EntryCounter = field(default_factory=MatchedRows)

    @property
    def count(self) -> int | None:
        """The number of matching rows, if known without reading any."""
        return None if self.docs is None or self.scan is not None else len(self.docs)

    @property
    def matches_all(self) -> bool:
        """Whether every row is known to match."""
        return self.count == self.num_docs

    def matches(self) -> Matches:
        """Return the rows in the form in which they are read; scans run while the rows are read if that is faster."""
        if self.scan is None:
            assert self.docs is not None
            return matches_of(self.docs, self.num_docs)
        if self.docs is None:
            return self._scan(0, self.num_docs, self.scan.mask)
        if isinstance(self.docs, DocRange):
            return self._scan(self.docs.start, self.docs.stop, self.scan.mask)
        if len(self.docs) * SPARSE < self.num_docs:
            return DocList(_surviving(self.scan, doc_ids(self.docs)))
        return self._scan(0, self.num_docs, _within(doc_mask(self.docs, self.num_docs), len(self.docs), self.scan))

    def walked(self, matches: Matches) -> int:
        """Return the number of matching rows in (a piece of) `matches`, which has been read once."""
        return self._found.take() if isinstance(matches, DocScan) else len(matches)

    def _scan(self, start: int, stop: int, test: Callable[[int, int], Mask]) -> DocScan:
        return DocScan(start, stop, test, self._found.add)


def apply_filter(filter_: Filter, segment: Segment, run: Run = one_by_one) -> FilterResult:
    """Return the visible rows of a segment that match a filter (`run`: see `Resolver`)."""
    shared = segment.shared if isinstance(segment, QuerySegment) else None
    counter = ScannedEntries() if shared is None else shared.entries
    resolved = Resolver(segment, counter, run).resolve(filter_)
    if isinstance(resolved, ZonedScan):
        resolved = Narrowed(resolved.span, resolved)
    visible = segment.visible if isinstance(segment, QuerySegment) else None
    if visible is not None:
        if isinstance(resolved, (Indexed, Narrowed)):
            docs = intersect(resolved.docs, visible)
            scan = resolved.scan if isinstance(resolved, Narrowed) and len(docs) else None
            return FilterResult(docs, scan, segment.num_docs, counter)
        return FilterResult(visible, resolved, segment.num_docs, counter)
    if isinstance(resolved, Indexed):
        return FilterResult(resolved.docs, None, segment.num_docs, counter)
    if isinstance(resolved, Narrowed):
        return FilterResult(resolved.docs, resolved.scan, segment.num_docs, counter)
    return FilterResult(None, resolved, segment.num_docs, counter)


def _surviving(scan: Scan, docs: DocIds) -> DocIds:
    parts = [_kept(chunk, scan.mask_at(chunk)) for chunk in np.split(docs, range(BLOCK_ROWS, len(docs), BLOCK_ROWS))]
    return np.concatenate(parts)


def _kept(docs: DocIds, mask: Mask) -> DocIds:
    kept = np.empty(np.count_nonzero(mask) + 1, np.int32)
    return kept[: compress(docs, mask.view(np.uint8), kept)]


def _within(flags: Mask, num_flagged: int, scan: Scan) -> Callable[[int, int], Mask]:
    """Return the test of a range of rows that applies the scan only to the flagged rows, if these are few."""

    if 2 * num_flagged >= len(flags):
        return lambda first, last: mask_within(scan, flags[first:last], first)

    def mask(first: int, last: int) -> Mask:
        inside = flags[first:last]
        matching = np.count_nonzero(inside)
        return (rows_within if matching * SPARSE < last - first else mask_within)(scan, inside, first)

    return mask
