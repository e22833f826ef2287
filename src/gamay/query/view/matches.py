"""The rows of a segment that match a filter, and how they are read in blocks.

A filter yields one `Matches`; everything after it (grouping, aggregation, selection) iterates over blocks and reads columns
at their rows. A block is small enough for the cache and for a deadline check, and large enough to make Python's overhead
negligible.

AllDocs   every row of a range; columns are read without copying
DocList   ascending doc ids; from indexes, or from a scan that keeps few rows
DocMask   one flag for each row of a range; from a scan that keeps many
DocScan   a range whose flags are computed block by block, in the thread that then uses them, while they are in its cache
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Mask
from gamay.kernels.rows.masks import compress, masked_docs
from gamay.kernels.tuning import AGGREGATED_BLOCK_ROWS, BUDGET_PER_BLOCK_ROW, SPARSE_MASK

BLOCK_ROWS = 1 << 18
_LIMITED_ROWS_MIN = 1 << 14

DocIds: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]


def max_block_rows() -> int:
    """Return the maximum rows of a block if much is computed for each row: fewer for a query with little memory."""
    limit = guard.memory_limit()
    if limit is None:
        return AGGREGATED_BLOCK_ROWS
    return min(AGGREGATED_BLOCK_ROWS, max(_LIMITED_ROWS_MIN, limit // BUDGET_PER_BLOCK_ROW))


@dataclass(slots=True, unsafe_hash=True)  # not frozen: creation would take five times as long
class AllDocs:
    """The rows [start, stop)."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def blocks(self, rows: int = BLOCK_ROWS, window: int = 0) -> "Iterator[Block]":
        """Yield blocks of at most `rows` rows, in ascending order."""
        for first in range(self.start, self.stop, rows):
            yield AllDocs(first, min(first + rows, self.stop))

    def split(self, parts: int) -> "list[AllDocs]":
        """Return at most `parts` non-empty pieces of about equal work, in ascending order."""
        return [AllDocs(first, last) for first, last in _even_ranges(self.start, self.stop, parts)]

    def docs(self) -> DocIds:
        """Return the doc ids, ascending."""
        return np.arange(self.start, self.stop, dtype=np.int32)


@dataclass(slots=True, eq=False)  # not frozen: creation would take five times as long
class DocList:
    """The rows `docs`: int32 [n], ascending, without repeats."""

    ids: DocIds

    def __len__(self) -> int:
        return len(self.ids)

    def blocks(self, rows: int = BLOCK_ROWS, window: int = 0) -> "Iterator[Block]":
        """Yield blocks of at most `rows` rows, in ascending order."""
        for first in range(0, len(self.ids), rows):
            yield DocList(self.ids[first : first + rows])

    def split(self, parts: int) -> "list[DocList]":
        """Return at most `parts` non-empty pieces of about equal work, in ascending order."""
        return [DocList(self.ids[first:last]) for first, last in _even_ranges(0, len(self.ids), parts)]

    def docs(self) -> DocIds:
        """Return the doc ids, ascending."""
        return self.ids


@dataclass(frozen=True, slots=True, eq=False)
class DocMask:
    """The rows `start + i` where `mask[i]`: bool [n]. kept: the number of set flags, if known."""

    start: int
    mask: Mask
    kept: int | None = None

    @classmethod
    def of(cls, docs: DocIds, start: int, stop: int) -> "DocMask":
        """Return the rows `docs` of [start, stop) as flags."""
        mask = np.zeros(stop - start, np.bool_)
        mask[docs - start] = True
        return cls(start, mask, len(docs))

    def __len__(self) -> int:
        """Return the number of matching rows; counts the flags if it is not known."""
        return int(np.count_nonzero(self.mask)) if self.kept is None else self.kept

    @property
    def flags(self) -> "np.ndarray[Any, np.dtype[np.uint8]]":
        """The mask as numbers, 0 or 1."""
        return self.mask.view(np.uint8)

    @property
    def span(self) -> AllDocs:
        """The range that the flags cover."""
        return AllDocs(self.start, self.start + len(self.mask))

    def compress(self, values: "np.ndarray[Any, np.dtype[Any]]") -> "np.ndarray[Any, np.dtype[Any]]":
        """Return those of `values` [n] (numbers) whose flag is set."""
        out = np.empty(len(self) + 1, values.dtype)
        return out[: compress(values, self.flags, out)]

    def blocks(self, rows: int = BLOCK_ROWS, window: int = 0) -> "Iterator[Block]":
        """Yield blocks with at least one match, in ascending order, each of at most `rows` rows or flags.

        window: flags to process together, if more, so that few rows do not result in many blocks.
        """
        step = max(rows, window)
        for first in range(0, len(self.mask), step):
            mask = self.mask[first : first + step]
            yield from _blocks_of_mask(self.start + first, mask, rows, int(np.count_nonzero(mask)))

    def split(self, parts: int) -> "list[DocMask]":
        """Return at most `parts` non-empty pieces of about equal work, in ascending order."""
        return [DocMask(self.start + first, self.mask[first:last]) for first, last in _even_ranges(0, len(self.mask), parts)]

    def docs(self) -> DocIds:
        """Return the doc ids, ascending."""
        return flagged_docs(self.mask, self.start, self.kept)

    @property
    def keeps_most(self) -> bool:
        """Whether so many rows match that reading all of them costs less than extracting them, at any cost per row."""
        return len(self) * 4 >= len(self.mask) * 3


@dataclass(frozen=True, slots=True, eq=False)
class DocScan:
    """The rows of [start, stop) for which `mask(first, last)`, called from any thread, returns True: bool [last - first].

    found: called with the number of matching rows of each part, from any thread.
    """

    start: int
    stop: int
    mask: Callable[[int, int], Mask]
    found: Callable[[int], None] | None = None

    def __len__(self) -> int:
        """Return the number of matching rows; runs the scan."""
        return sum(len(block) for block in self.blocks())

    def blocks(self, rows: int = BLOCK_ROWS, window: int = 0) -> "Iterator[Block]":
        """Yield blocks with at least one match, in ascending order, each of at most `rows` rows or flags.

        window: flags to process together, if more, so that few rows do not result in many blocks.
        """
        step = max(rows, window)
        for first in range(self.start, self.stop, step):
            mask = self.mask(first, min(first + step, self.stop))
            matching = int(np.count_nonzero(mask))
            if self.found is not None:
                self.found(matching)
            yield from _blocks_of_mask(first, mask, rows, matching)

    def split(self, parts: int) -> "list[DocScan]":
        """Return at most `parts` non-empty pieces of about equal work, in ascending order."""
        return [self.part(first, last) for first, last in _even_ranges(self.start, self.stop, parts)]

    def part(self, start: int, stop: int) -> "DocScan":
        """Return the matches within [start, stop)."""
        return DocScan(start, stop, self.mask, self.found)

    def docs(self) -> DocIds:
        """Return the doc ids, ascending; runs the scan."""
        parts = [block.docs() for block in self.blocks()]
        return np.concatenate(parts) if parts else np.empty(0, np.int32)


Block: TypeAlias = AllDocs | DocList | DocMask
Matches: TypeAlias = AllDocs | DocList | DocMask | DocScan


def as_block(matches: Matches) -> AllDocs | DocList:
    """Return a few rows, found by indexes, as one block."""
    return matches if isinstance(matches, AllDocs | DocList) else DocList(matches.docs())


def flagged_docs(mask: Mask, start: int = 0, kept: int | None = None) -> DocIds:
    """Return `start + i` for each i whose flag is set, ascending. kept: the number of set flags, if known."""
    flags = np.ascontiguousarray(mask).view(np.uint8)
    return masked_docs(flags, start, int(np.count_nonzero(mask)) if kept is None else kept)


def _blocks_of_mask(start: int, mask: Mask, rows: int, matching: int) -> "Iterator[Block]":
    if matching == 0:
        return
    if matching == len(mask):
        yield from AllDocs(start, start + matching).blocks(rows)
    elif matching * SPARSE_MASK < len(mask):
        yield from DocList(flagged_docs(mask, start, matching)).blocks(rows)
    elif len(mask) <= rows:
        yield DocMask(start, mask, matching)
    else:
        for first in range(0, len(mask), rows):
            part = mask[first : first + rows]
            yield from _blocks_of_mask(start + first, part, rows, int(np.count_nonzero(part)))


def _even_ranges(start: int, stop: int, parts: int) -> list[tuple[int, int]]:
    """Split [start, stop) into at most `parts` non-empty ranges, at block boundaries if there are enough blocks."""
    if parts == 1:
        return [(start, stop)] if start < stop else []
    blocks = -(-(stop - start) // BLOCK_ROWS)
    unit = BLOCK_ROWS if blocks >= 4 * parts else 1
    units = -(-(stop - start) // unit)
    cuts = [min(start + unit * (units * part // parts), stop) for part in range(parts + 1)]
    return [(first, last) for first, last in itertools.pairwise(cuts) if first < last]
