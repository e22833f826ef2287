"""Inverted index: the docs of each dictionary id, for single- and multi-value columns.

inverted.starts inverted.counts inverted.sets := one set of docs for each id, see gamay.segment.index.bitmaps
"""

import numpy as np
from pyroaring import BitMap

from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.forward import id_dtype
from gamay.segment.encode.metadata import ColumnMeta
from gamay.segment.index.bitmaps import DocSets, docs_by_key, write_sets
from gamay.segment.index.spi import IndexedRows, StoredColumn
from gamay.segment.spi import INVERTED, Ids

SETS = f"{INVERTED.name}.sets"


class InvertedType:
    """Implements `ColumnIndexType`. A sorted index makes an inverted one redundant."""

    key = INVERTED

    def write(self, writer: BufferWriter, rows: IndexedRows) -> list[BufferMeta]:
        if not rows.config.inverted or rows.ids is None or rows.is_sorted:
            return []
        return write_sets(writer, INVERTED.name, *docs_by_key(rows.ids, len(rows.values), rows.offsets))

    def read(self, file: BufferFile, buffers: dict[str, BufferMeta], column: StoredColumn) -> "RoaringInverted":
        return RoaringInverted(DocSets(file, buffers, INVERTED.name))

    def check(self, checker: BufferChecker, meta: ColumnMeta, num_docs: int) -> None:
        checker.sets(INVERTED.name, meta.stats.cardinality or 0, num_docs)


# Read


class RoaringInverted:
    """Implements `segment.spi.InvertedIndex`."""

    def __init__(self, sets: DocSets) -> None:
        self._sets = sets

    def rows(self, num_docs: int, *, single_value: bool) -> "tuple[Ids, Ids | None]":
        """Return (ids of all rows, int32 offsets of multi-value rows [num_docs + 1]), reconstructed from the sets of docs.

        A multi-value row has its distinct ids, ascending: the index does not record duplicates and order.
        """
        keys, docs = self._sets.pairs()
        if single_value:
            ids = np.empty(num_docs, id_dtype(len(self._sets)))
            ids[docs] = keys
            return ids, None
        offsets = np.zeros(num_docs + 1, np.int32)
        np.cumsum(np.bincount(docs, minlength=num_docs), out=offsets[1:])
        return keys[np.argsort(docs, kind="stable")].astype(id_dtype(len(self._sets))), offsets

    def docs(self, dict_id: int) -> BitMap:
        """Return the docs of one id."""
        return self._sets.get(dict_id)

    def docs_of_any(self, dict_ids: Ids) -> BitMap:
        """Return the union of the docs of several ids."""
        return self._sets.union(dict_ids)
