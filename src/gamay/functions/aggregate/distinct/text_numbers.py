"""Texts and byte strings as small integers, in order of first appearance."""

import numpy as np
import pyarrow as pa

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.growth import GROWTH_MAX, expected_values
from gamay.functions.arrow import binary_buffers
from gamay.kernels.hash.arrival import encode_texts, move_texts

# what is larger grows only where there is memory for it
_RESERVED_BYTES = 1 << 20
_SLOTS_LEAST = 1 << 12
# offsets are int32, as Arrow's are
_BYTES_MAX = (1 << 31) - 1


class TextNumbers:
    """Numbers texts 0, 1, …; each block of them takes as long as it has texts, however many are known.

    what: tells users what the memory is for. kind: the Arrow type of the texts, `string` or `binary`.
    expected: how many there will be, about.
    """

    def __init__(self, what: str, kind: pa.DataType, expected: int = 0) -> None:
        self.count = 0
        self._what = what
        self._kind = kind
        self._table = np.zeros(max(_SLOTS_LEAST, 2 << expected.bit_length()), np.uint64)
        self._offsets = np.zeros(len(self._table) // 2 + 1, np.int32)
        self._data = np.empty(1 << 14, np.uint8)

    @property
    def texts(self) -> pa.Array:
        """The text of each number; no copy, and not to be kept while there are more to come."""
        buffers = [None, pa.py_buffer(self._offsets[: self.count + 1]), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(self._kind, self.count, buffers)

    @property
    def num_bytes(self) -> int:
        """What the distinct texts take, with their offsets."""
        return int(self._offsets[self.count]) + 4 * self.count

    def number(self, texts: pa.Array) -> Array:
        """Return the number of each text, none of which is null: int32 [n].

        Raises QueryError 245 when they take more memory than there may be, or distinct ones more than 2 GiB.
        """
        offsets, data = binary_buffers(texts)
        out = np.empty(len(texts), np.int32)
        done, before = 0, self.count
        while True:
            done, count = encode_texts(
                data, offsets, done, self._table, self._data, self._offsets, self.count, len(self._offsets) - 1, out
            )
            self.count = int(count)
            if done == len(texts):
                return out
            expected = before + expected_values(self.count - before, done, len(texts))
            self._make_room(int(offsets[done + 1]) - int(offsets[done]), expected)

    def _make_room(self, size: int, expected: int) -> None:
        """Make room for one more text of so many bytes, wherever it is lacking; expected: how many there will be, about."""
        used = int(self._offsets[self.count])
        if used + size > len(self._data):
            if used + size > _BYTES_MAX:
                raise QueryError(
                    ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
                    f"The {self._what} of the query have more than 2 GiB of text: filter more, or use shorter keys",
                )
            self._data = self._grown(self._data, used, min(2 * (used + size), _BYTES_MAX))
        if self.count == len(self._offsets) - 1:
            factor = 2
            while factor < GROWTH_MAX and factor * self.count < expected:
                factor *= 2
            self._offsets = self._grown(self._offsets, self.count + 1, factor * self.count + 1)
            self._reserve((2 * factor + 4) * self.count * self._table.itemsize)
            table, self._table = self._table, np.zeros(factor * len(self._table), np.uint64)
            move_texts(table, self._table)

    def _grown(self, array: Array, used: int, length: int) -> Array:
        self._reserve(length * array.itemsize)
        grown = np.empty(length, array.dtype)
        grown[:used] = array[:used]
        return grown

    def _reserve(self, num_bytes: int) -> None:
        """The old array stays until the new one is filled, but is told to the guard already."""
        if num_bytes > _RESERVED_BYTES:
            guard.reserve(self._what, num_bytes)
