"""Points grouped by H3 cells on several levels, with the bounding box of each group.

    points.docs      := u32[n]: the rows that hold points, in the order of their cells at the finest resolution, then by doc
    points.x .y      := f64[n] each: their coordinates
    others           := serialised roaring bitmap: the rows that hold none; absent when there are no such rows
    levels[i].starts := i64[groups + 1]: group g of level i has points starts[g] … starts[g + 1] - 1
    levels[i].boxes  := f64[4, groups]: least and greatest x, least and greatest y of the group's points

Level 0 is the coarsest; each group of a level consists of whole groups of the next. In the order of H3's numbers a cell's
children are contiguous, so a cell of any resolution is a range of points.

A group's box is that of its points, not of its cell, so it is correct regardless of the shape of H3's cells at
poles, at the antimeridian and around pentagons, and of child cells that extend beyond their parent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from pyroaring import BitMap

from gamay.functions.geometry import geo_library
from gamay.kernels.encode.encoding import list_indices
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.index.bitmaps import deserialise, serialise
from gamay.segment.secondary.h3.points import Points
from gamay.segment.secondary.h3.regions import Region
from gamay.segment.spi import Ids

_FINEST = 15
_DIGIT_BITS = 3
# Every query checks all groups of the coarsest level; this number takes some microseconds.
_FEW_GROUPS = 256
_STEP = 2


@dataclass(frozen=True)
class Level:
    """The groups of one resolution. starts: int64 [groups + 1]; boxes: float64 [4, groups]."""

    starts: Ids
    boxes: Ids


@dataclass(frozen=True)
class Grouped:
    """The points of a segment in the order of their cells. docs: uint32 [n]; x, y: float64 [n]; others: rows without one."""

    docs: Ids
    x: Ids
    y: Ids
    others: BitMap
    levels: Sequence[Level]

    def search(self, region: Region) -> tuple[Ids, Ids]:
        """Return the positions of the points certainly in a region, and of those possibly in it: int64."""
        ranges: list[tuple[Ids, Ids]] = []
        groups: Ids = np.arange(len(self.levels[0].starts) - 1 if self.levels else 0)
        for number, level in enumerate(self.levels):
            inside, unknown = region.classify(*level.boxes[:, groups])
            ranges.append((level.starts[groups[inside]], level.starts[groups[inside] + 1]))
            firsts, lasts = level.starts[groups[unknown]], level.starts[groups[unknown] + 1]
            if number + 1 < len(self.levels):
                finer = self.levels[number + 1].starts
                groups = _listed(np.searchsorted(finer, firsts), np.searchsorted(finer, lasts))
            else:
                points = _listed(firsts, lasts)
                x, y = self.x[points], self.y[points]
                inside, unknown = region.classify(x, x, y, y)
                certain = _listed(*(np.concatenate(ends) for ends in zip(*ranges, strict=True)))
                return np.concatenate([certain, points[inside]]), points[unknown]
        return groups, groups


def _listed(starts: Ids, stops: Ids) -> Ids:
    out = np.empty(int((stops - starts).sum()), np.int64)
    list_indices(starts, stops, out)
    return out


# Build


def group(points: Points, resolutions: Sequence[int], num_docs: int) -> Grouped:
    """Group points by their cells of several ascending resolutions, and of coarser ones while there are too many groups."""
    cells = _cells(points, resolutions[-1])
    order = np.argsort(cells, kind="stable")
    cells, x, y = cells[order], points.x[order], points.y[order]
    levels: list[Level] = []
    wanted, coarsest = list(resolutions), resolutions[0]
    while len(cells) and (wanted or (coarsest > 0 and len(levels[0].starts) > _FEW_GROUPS)):
        if wanted:
            levels.insert(0, _level(cells, wanted.pop(), x, y))
        else:
            coarsest = max(0, coarsest - _STEP)
            levels.insert(0, _level(cells, coarsest, x, y))
    others = BitMap(range(num_docs)) - BitMap(points.docs)
    return Grouped(points.docs[order], x, y, others, levels)


def _cells(points: Points, resolution: int) -> Ids:
    """Return the cell of each point: uint64 [n]; H3 is called once for each distinct point."""
    cell_of = geo_library("h3.api.basic_int").latlng_to_cell
    distinct, codes = np.unique(points.x + 1j * points.y, return_inverse=True)
    found = map(cell_of, distinct.imag.tolist(), distinct.real.tolist(), repeat(resolution))
    cells: Ids = np.fromiter(found, np.uint64, len(distinct))[codes]
    return cells


def _level(cells: Ids, resolution: int, x: Ids, y: Ids) -> Level:
    """Return the groups of ascending cells of the finest resolution that have the same ancestor at `resolution`."""
    ancestors = cells >> np.uint64(_DIGIT_BITS * (_FINEST - resolution))
    firsts = np.concatenate(([0], np.flatnonzero(ancestors[1:] != ancestors[:-1]) + 1))
    return Level(np.append(firsts, len(cells)).astype(np.int64), _boxes(firsts, x, y))


def _boxes(firsts: Ids, x: Ids, y: Ids) -> Ids:
    return np.stack([reduce(c, firsts) for c in (x, y) for reduce in (np.minimum.reduceat, np.maximum.reduceat)])


# Write and read


def write_groups(writer: BufferWriter, grouped: Grouped) -> list[BufferMeta]:
    """Write all buffers."""
    points = [("docs", grouped.docs), ("x", grouped.x), ("y", grouped.y)]
    written = [writer.add(f"points.{name}", [values]) for name, values in points]
    if grouped.others:
        written.append(writer.add("others", [serialise(grouped.others)]))
    for number, level in enumerate(grouped.levels):
        written.append(writer.add(f"levels[{number}].starts", [level.starts]))
        written.append(writer.add(f"levels[{number}].boxes", [level.boxes]))
    return written


def open_groups(file: BufferFile, buffers: dict[str, BufferMeta], num_levels: int) -> Grouped:
    """Open what `write_groups` wrote."""
    docs = file.array(buffers["points.docs"], np.uint32)
    x, y = (file.array(buffers[f"points.{name}"], np.float64) for name in "xy")
    raw = file.array(buffers["others"], np.uint8) if "others" in buffers else None
    others = BitMap() if raw is None else deserialise(file, "others", raw)
    levels = [
        Level(
            file.array(buffers[f"levels[{number}].starts"], np.int64),
            file.array(buffers[f"levels[{number}].boxes"], np.float64).reshape(4, -1),
        )
        for number in range(num_levels)
    ]
    return Grouped(docs, x, y, others, levels)


def check_groups(checker: BufferChecker, num_levels: int, num_docs: int) -> None:
    """Raise CorruptSegmentError unless the buffers are valid groups of a segment's rows, with the boxes of their points."""
    docs = checker.array("points.docs", np.uint32)
    x, y = (checker.array(f"points.{name}", np.float64, len(docs)) for name in "xy")
    checker.expect("points.x", ((np.abs(x) <= 180) & (np.abs(y) <= 90)).all(), "points that are not on the globe")
    checker.expect("points.docs", len(docs) == 0 or docs.max() < num_docs, "rows beyond the segment")
    seen = np.zeros(num_docs, np.bool_)
    seen[docs] = True
    if num_docs > len(docs):
        raw = checker.array("others", np.uint8)
        checker.bitmap("others", raw, num_docs - len(docs), num_docs)
        seen[np.array(BitMap.deserialize(raw.tobytes()), np.uint32)] = True
    checker.expect("points.docs", len(docs) <= num_docs and seen.all(), "rows that occur twice, or not at all")
    checker.expect("points.docs", num_levels > 0 or len(docs) == 0, "points in no group")
    coarser: Ids = np.zeros(1, np.int64)
    for number in range(num_levels):
        kind = f"levels[{number}]"
        starts = checker.array(f"{kind}.starts", np.int64)
        checker.offsets(f"{kind}.starts", starts, len(docs))
        checker.expect(f"{kind}.starts", len(starts) > 1 and (starts[1:] > starts[:-1]).all(), "groups without points")
        checker.expect(f"{kind}.starts", np.isin(coarser, starts).all(), "groups of several groups of the level above")
        boxes = checker.array(f"{kind}.boxes", np.float64, 4 * (len(starts) - 1)).reshape(4, -1)
        checker.expect(f"{kind}.boxes", (boxes == _boxes(starts[:-1], x, y)).all(), "boxes of other points")
        coarser = starts
