"""Matches by the rows that reading them scans: their number, splitting at the front, and the matches in runs of groups."""

import numpy as np

from gamay.base.arrays import Array
from gamay.query.view.matches import AllDocs, DocList, DocMask, DocScan, Matches


def span_of(matches: Matches) -> int:
    """Return the number of rows that reading the matches scans."""
    if isinstance(matches, DocList):
        return len(matches)
    return len(matches.mask) if isinstance(matches, DocMask) else matches.stop - matches.start


def of_runs(matches: AllDocs | DocMask | DocScan, groups: Array, rows: int) -> list[Matches]:
    """Return the matches among some groups of rows, a part for each run of groups.

    groups: numbers, ascending; group i has the rows [rows * i, rows * (i + 1)).
    """
    runs = np.split(groups, np.flatnonzero(np.diff(groups) > 1) + 1)
    return [_within(matches, int(run[0]) * rows, (int(run[-1]) + 1) * rows) for run in runs]


def _within(matches: AllDocs | DocMask | DocScan, start: int, stop: int) -> Matches:
    span = matches.span if isinstance(matches, DocMask) else matches
    start = max(start, span.start)
    stop = max(start, min(stop, span.stop))
    if isinstance(matches, DocMask):
        return DocMask(start, matches.mask[start - span.start : stop - span.start])
    return matches.part(start, stop) if isinstance(matches, DocScan) else AllDocs(start, stop)


def cut(matches: Matches, rows: int) -> tuple[Matches, Matches]:
    """Return the part within the first `rows` scanned rows, and the rest."""
    if isinstance(matches, DocList):
        return DocList(matches.ids[:rows]), DocList(matches.ids[rows:])
    if isinstance(matches, DocMask):
        return DocMask(matches.start, matches.mask[:rows]), DocMask(matches.start + rows, matches.mask[rows:])
    middle = min(matches.start + rows, matches.stop)
    if isinstance(matches, DocScan):
        return matches.part(matches.start, middle), matches.part(middle, matches.stop)
    return AllDocs(matches.start, middle), AllDocs(middle, matches.stop)
