"""Scans that skip rows in which a column's zone map rules out matches."""

from typing import Any

import numpy as np

from gamay.base.arrays import Mask
from gamay.functions.vector import numpy_dtype
from gamay.query.bind.predicate import In, Range
from gamay.query.filter.scan import Scan
from gamay.query.view.docset import DocRange
from gamay.query.view.matches import DocIds
from gamay.segment.spi import Column
from gamay.segment.zones import ZONE_ROWS, Zones

ZONE_MAP = "zone_map"
"""The name of a column's zones in EXPLAIN and in the option `skipIndexes`."""

# scanning this many zones between two runs takes no longer than another call
_GAP_MAX = 8
# a scan of a larger share of the rows reads all of them
_SHARE_MAX = 0.5


class ZonedScan:
    """Scan of some runs of zones; the other zones have no matches.

    edges: int64 [2 n], ascending: where each run begins and ends. share: the fraction of the rows that are in runs.
    """

    index = ZONE_MAP

    def __init__(self, scan: Scan, edges: "np.ndarray[Any, np.dtype[np.int64]]", share: float) -> None:
        self.scan = scan
        self._edges = edges
        self._share = share
        self.cost = scan.cost * share

    @property
    def span(self) -> DocRange:
        """The range from the beginning of the first run to the end of the last."""
        return DocRange(int(self._edges[0]), int(self._edges[-1]))

    def over(self, scan: Scan) -> "ZonedScan":
        """Return another scan, with the same matches as this one, over the same zones."""
        return ZonedScan(scan, self._edges, self._share)

    def mask(self, first: int, last: int) -> Mask:
        edges = self._edges[self._edges.searchsorted(first, "right") :]
        begins_within = len(edges) % 2 == 1
        if begins_within and last <= edges[0]:
            return self.scan.mask(first, last)
        cuts = [*edges[: edges.searchsorted(last)].tolist(), last]
        if begins_within:
            cuts.insert(0, first)
        out = np.zeros(last - first, np.bool_)
        for start, stop in zip(cuts[::2], cuts[1::2], strict=False):
            out[start - first : stop - first] = self.scan.mask(start, stop)
        return out

    def mask_at(self, docs: DocIds) -> Mask:
        return self.scan.mask_at(docs)


def zoned(scan: Scan, found: Mask, num_docs: int) -> Scan:
    """Return a scan of the given zones, at least one; the scan itself if they are a large share."""
    if np.count_nonzero(found) > _SHARE_MAX * len(found):
        return scan
    flags = np.zeros(len(found) + 2, np.bool_)
    flags[1:-1] = found
    edges = np.flatnonzero(flags[1:] != flags[:-1])
    gaps = edges[2::2] - edges[1:-1:2]
    kept = np.repeat(gaps > _GAP_MAX, 2)
    edges = np.concatenate([edges[:1], edges[1:-1][kept], edges[-1:]]) * ZONE_ROWS
    edges[-1] = min(edges[-1], num_docs)
    share = float((edges[1::2] - edges[::2]).sum()) / num_docs
    return ZonedScan(scan, edges, share) if share <= _SHARE_MAX else scan


def zones_of_values(zones: Zones, leaf: In | Range, column: Column) -> Mask | None:
    """Return the zones in which a raw column may have matches of a predicate; None if they cannot tell."""
    dtype = numpy_dtype(column.data_type)
    bounds = leaf.values if isinstance(leaf, In) else [bound for bound in (leaf.lower, leaf.upper) if bound is not None]
    if any(bound != bound or isinstance(bound, float) != (dtype.kind == "f") for bound in bounds):
        return None
    if isinstance(leaf, In):
        return zones.holding(np.sort(np.array(leaf.values, dtype)))
    lower, upper = (None if bound is None else dtype.type(bound) for bound in (leaf.lower, leaf.upper))
    return zones.meeting(lower, upper)
