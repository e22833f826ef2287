"""Null vector: the docs whose rows had no value.

null.docs := serialised roaring bitmap (portable format)
"""

import numpy as np
from pyroaring import BitMap

from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.metadata import ColumnMeta
from gamay.segment.index.bitmaps import deserialise, serialise
from gamay.segment.index.spi import IndexedRows, StoredColumn
from gamay.segment.spi import NULLS

_DOCS = f"{NULLS.name}.docs"


class NullType:
    """Implements `ColumnIndexType`; the index is the docs themselves."""

    key = NULLS

    def write(self, writer: BufferWriter, rows: IndexedRows) -> list[BufferMeta]:
        return [writer.add(_DOCS, [serialise(rows.null_docs)])] if len(rows.null_docs) else []

    def read(self, file: BufferFile, buffers: dict[str, BufferMeta], column: StoredColumn) -> BitMap:
        return deserialise(file, _DOCS, file.array(buffers[_DOCS], np.uint8))

    def check(self, checker: BufferChecker, meta: ColumnMeta, num_docs: int) -> None:
        checker.bitmap(_DOCS, checker.array(_DOCS, np.uint8), meta.stats.num_nulls, num_docs)
