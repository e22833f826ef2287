"""Null vector: the docs whose row had no value.

null.docs := serialised roaring bitmap (portable format)
"""

import numpy as np
from pyroaring import BitMap

from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.index.bitmaps import deserialise, serialise
from gamay.segment.spi import Ids

KIND = "null.docs"


def write_nulls(writer: BufferWriter, null_docs: Ids) -> BufferMeta:
    """Write the vector; `null_docs` are ascending doc ids."""
    return writer.add(KIND, [serialise(null_docs)])


def read_nulls(file: BufferFile, buffers: dict[str, BufferMeta]) -> BitMap | None:
    """Open the vector, if the column has it."""
    return deserialise(file, KIND, file.array(buffers[KIND], np.uint8)) if KIND in buffers else None
