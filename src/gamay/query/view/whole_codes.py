"""Raw integers as ids, if their range is narrow, or times of which only the hour, the day etc. is needed.

An id is the distance from the minimum, into a dictionary of the whole range. Thus group keys need no hashing even if their
column has no dictionary, and functions of times are computed once for each hour, or day.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.base.errors import CorruptSegmentError
from gamay.functions.expression import Expression, column_names
from gamay.functions.frame import FramedVector
from gamay.functions.vector import EncodedVector, Vector, numpy_dtype
from gamay.kernels.times import steps_since
from gamay.kernels.tuning import WHOLE_CODES_MAX
from gamay.model.types import DataType
from gamay.query.columns.time_steps import STEPPED, step_ms
from gamay.query.view.matches import Block
from gamay.query.view.read import read_values
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import Column

# The dictionary is not counted, so that it may only take a small part of the query's memory.
_MEMORY_SHARE = 16
_ENTRY_BYTES = 8
# distances between times are doubles exactly, and steps begin within 64 bits
_EXACT_MAX = 1 << 52
_LEAST_MIN = -(1 << 62)
_WHOLE = frozenset({DataType.INT, DataType.LONG, DataType.TIMESTAMP})


class WholeCodes:
    """The rows of one column, whose values are in [least, greatest], in steps.

    dictionary: the first number of each step, which represents the step, ascending.
    """

    def __init__(self, column: Column, least: int, greatest: int, step: int = 1) -> None:
        self._column = column
        self._least = least
        self._step = step
        data_type = column.data_type
        first, last = least // step, greatest // step
        values = np.arange(first, last + 1, dtype=numpy_dtype(data_type)) * step
        values[0] = least  # the start of the first step may not fit in 64 bits
        self._begin = first * step
        self.dictionary = Vector(data_type, values, derived={}, ascends=True)

    def read(self, block: Block) -> EncodedVector:
        """Return the values at the rows of a block. Raises CorruptSegmentError for a value outside the range."""
        return EncodedVector(self.ids(read_values(self._column, block)), self.dictionary)

    def ids(self, values: Vector) -> Array:
        """Return the steps of some values of the column. Raises CorruptSegmentError for a value outside the range."""
        ids = self._ids(values)
        if len(ids) and int(ids.max()) >= len(self.dictionary):
            raise CorruptSegmentError(f"column '{self._column.name}' has values that its statistics exclude")
        return ids

    def _ids(self, values: Vector) -> Array:
        if self._step > 1:
            steps = np.empty(len(values), np.uint32)
            steps_since(values.values, self._begin, self._step, steps)
            return steps
        if isinstance(values, FramedVector) and not len(values.patches):
            frame = values.frame
            if frame.base == self._least and not len(frame.high):
                return frame.low
        distances = np.empty(len(values), np.uint32)
        np.subtract(values.values, self._least, out=distances, casting="unsafe")
        return distances


def whole_codes(
    segment: QuerySegment, keys: Sequence[Expression], arguments: Sequence[Expression], num_rows: int
) -> Mapping[str, WholeCodes]:
    """Return, by name, the key columns (of keys with one column) whose range is narrow for that many rows.

    arguments: other expressions computed for the rows. num_rows: their approximate number; a wider range is not worthwhile.
    through.
    """
    codes: dict[str, WholeCodes] = {}
    limit = guard.memory_limit()
    most = min(WHOLE_CODES_MAX, num_rows)
    if limit is not None:
        most = min(most, limit // (_MEMORY_SHARE * _ENTRY_BYTES))
    of_column: dict[str, list[Expression]] = {}
    for expression in (*keys, *arguments):
        for name in column_names(expression):
            of_column.setdefault(name, []).append(expression)
    for name in {names[0] for key in keys if len(names := column_names(key)) == 1}:
        found = step_codes(segment.column(name), of_column[name], most)
        if found is not None:
            codes[name] = found
    return codes


def step_codes(column: Column, expressions: Sequence[Expression], most: int) -> WholeCodes | None:
    """Return the codes of a raw column of integers or times from which all these expressions can be computed.

    most: the maximum number of codes; None if there would be more, or if the column has no codes.
    """
    least, greatest = column.stats.minimum, column.stats.maximum
    is_plain = column.data_type in _WHOLE and column.single_value and column.dictionary is None and column.has_forward
    if not (is_plain and isinstance(least, int) and isinstance(greatest, int)):
        return None
    if greatest - least < most:
        return WholeCodes(column, least, greatest)
    if column.data_type not in STEPPED or greatest - least >= _EXACT_MAX or least < _LEAST_MIN:
        return None
    step = min(step_ms(expression, least) for expression in expressions)
    return WholeCodes(column, least, greatest, step) if step and greatest // step - least // step < most else None
