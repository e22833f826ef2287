"""Inverted index: the docs of each dictionary id, for single- and multi-value columns.

inverted.starts inverted.counts inverted.sets := one set of docs for each id, see gamay.segment.index.bitmaps
"""

import numpy as np
from pyroaring import BitMap

from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.forward import id_dtype
from gamay.segment.index.bitmaps import DocSets, docs_by_key, write_sets
from gamay.segment.spi import Ids

KIND = "inverted"


# Build


def write_inverted(writer: BufferWriter, ids: Ids, offsets: "Ids | None", cardinality: int) -> list[BufferMeta]:
    """Write the index of a column's ids [num_values]; `offsets` [num_docs + 1] for a multi-value column."""
    return write_sets(writer, KIND, *docs_by_key(ids, cardinality, offsets))


# Read


class RoaringInverted:
    """Implements `segment.spi.InvertedIndex`."""

    def __init__(self, sets: DocSets) -> None:
        self._sets = sets

    @classmethod
    def read(cls, file: BufferFile, buffers: dict[str, BufferMeta]) -> "RoaringInverted | None":
        """Open the index, if the column has it."""
        return cls(DocSets(file, buffers, KIND)) if f"{KIND}.sets" in buffers else None

    def rows(self, num_docs: int, *, single_value: bool) -> "tuple[Ids, Ids | None]":
        """Return (ids of all rows, int32 offsets of multi-value rows [num_docs + 1]), read back from the sets of docs.

        A multi-value row has its distinct ids, ascending: how they were repeated and ordered the index does not tell.
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
