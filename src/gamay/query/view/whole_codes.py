"""Raw whole numbers of a narrow range as ids: each is its distance from the least, into a dictionary of the whole range.

So keys of groups need no hashing where their column has no dictionary of its own.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.base.errors import CorruptSegmentError
from gamay.functions.expression import Expression, column_names
from gamay.functions.frame import FramedVector
from gamay.functions.vector import EncodedVector, Vector, numpy_dtype
from gamay.kernels.tuning import WHOLE_CODES_MAX
from gamay.model.types import DataType
from gamay.query.view.matches import Block
from gamay.query.view.read import read_values
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import Column, KnowsFrame

# The dictionary is not counted, so that it may take but so small a part of what a query may hold.
_MEMORY_SHARE = 16
_ENTRY_BYTES = 8
_WHOLE = frozenset({DataType.INT, DataType.LONG, DataType.TIMESTAMP})


class WholeCodes:
    """The rows of one column, whose values lie in [least, greatest]."""

    def __init__(self, column: Column, least: int, greatest: int) -> None:
        self._column = column
        self._least = least
        data_type = column.data_type
        values = np.arange(least, greatest + 1, dtype=numpy_dtype(data_type))
        self._dictionary = Vector(data_type, values, derived={}, ascends=True)

    def read(self, block: Block) -> EncodedVector:
        """Return the values at the rows of a block. Raises CorruptSegmentError for one that lies outside the range."""
        ids = self._ids(read_values(self._column, block))
        if len(ids) and int(ids.max()) >= len(self._dictionary):
            raise CorruptSegmentError(f"column '{self._column.name}' has values that its statistics exclude")
        return EncodedVector(ids, self._dictionary)

    def _ids(self, values: Vector) -> Array:
        if isinstance(values, FramedVector) and not len(values.patches):
            frame = values.frame
            if frame.base == self._least and not len(frame.high):
                return frame.low
        distances = np.empty(len(values), np.uint32)
        np.subtract(values.values, self._least, out=distances, casting="unsafe")
        return distances


def whole_codes(segment: QuerySegment, keys: Sequence[Expression], num_rows: int) -> Mapping[str, WholeCodes]:
    """Return by name the columns that keys are made of, each of one, and that have so many rows and so narrow a range.

    num_rows: about how many rows there are; a wider range is not worth counting through.
    """
    codes: dict[str, WholeCodes] = {}
    limit = guard.memory_limit()
    most = min(WHOLE_CODES_MAX, num_rows)
    if limit is not None:
        most = min(most, limit // (_MEMORY_SHARE * _ENTRY_BYTES))
    for key in keys:
        names = column_names(key)
        column = segment.column(names[0]) if len(names) == 1 else None
        if column is None or not isinstance(column, KnowsFrame):
            continue
        least, greatest = column.stats.minimum, column.stats.maximum
        is_plain = column.data_type in _WHOLE and column.single_value and column.dictionary is None and column.has_forward
        if is_plain and isinstance(least, int) and isinstance(greatest, int) and greatest - least < most:
            codes[names[0]] = WholeCodes(column, least, greatest)
    return codes
