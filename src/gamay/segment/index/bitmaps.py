"""Roaring bitmaps in buffers."""

import numpy as np
from pyroaring import BitMap

from gamay.base.errors import CorruptSegmentError
from gamay.segment.format import BufferFile, BufferMeta
from gamay.segment.spi import Ids


def bitmap_of(docs: Ids) -> BitMap:
    """Return the set of ascending doc ids."""
    return BitMap(np.ascontiguousarray(docs, np.uint32))


def serialise(docs: "Ids | BitMap") -> bytes:
    """Return the portable form of a set of docs, runs compressed: the same bytes for the same set."""
    bitmap = docs.copy() if isinstance(docs, BitMap) else bitmap_of(docs)
    bitmap.run_optimize()
    raw: bytes = bitmap.serialize()
    return raw


def deserialise(file: BufferFile, buffer: BufferMeta) -> BitMap:
    """Read a whole buffer as one bitmap; raises CorruptSegmentError when it is none."""
    try:
        return BitMap.deserialize(file.array(buffer, np.uint8).tobytes())
    except ValueError as reason:
        raise CorruptSegmentError(f"{file.path}: buffer '{buffer.kind}' is not a roaring bitmap: {reason}") from None
