"""Null rows of a column: bits cached with the column, and flags for the rows of a query.

Converting a bitmap of two million rows to flags takes a millisecond, longer than many a query; bits take 0.07 ns per row.
"""

from weakref import WeakKeyDictionary

import numpy as np

from gamay.base.arrays import Mask
from gamay.kernels.rows.doc_bits import flag_docs
from gamay.query.view.docset import doc_mask
from gamay.query.view.matches import AllDocs, Block, DocIds, DocList
from gamay.segment.spi import Column

_BITS = 8


class NullFlags:
    """The rows of a column that are null, as bits."""

    def __init__(self, null_rows: Mask) -> None:
        self._bits = np.packbits(null_rows, bitorder="little")

    def within(self, start: int, stop: int) -> Mask:
        """Return a new array with one flag for each of the rows [start, stop)."""
        first = start // _BITS
        flags = np.unpackbits(self._bits[first : -(-stop // _BITS)], bitorder="little")
        return flags[start - _BITS * first : stop - _BITS * first].view(np.bool_)

    def at(self, docs: DocIds) -> Mask:
        """Return a new array with one flag for each of these rows."""
        flags = np.empty(len(docs), np.bool_)
        flag_docs(self._bits, docs, flags)
        return flags

    def of(self, block: Block) -> Mask:
        """Return one flag for each row of a block."""
        if isinstance(block, DocList):
            return self.at(block.ids)
        if isinstance(block, AllDocs):
            return self.within(block.start, block.stop)
        span = block.span
        return block.compress(self.within(span.start, span.stop).view(np.uint8)).view(np.bool_)


_KNOWN: "WeakKeyDictionary[Column, NullFlags]" = WeakKeyDictionary()


def null_flags_of(column: Column) -> NullFlags | None:
    """Return the null rows of a column; None if there are none. Cached as long as the column exists."""
    if not column.null_docs:
        return None
    known = _KNOWN.get(column)
    if known is None:
        known = _KNOWN[column] = NullFlags(doc_mask(column.null_docs, column.num_docs))
    return known
