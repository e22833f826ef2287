"""Numbering of texts and byte strings, in order of first appearance."""

import numpy as np
import pyarrow as pa

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.growth import GROWTH_MAX, expected_values
from gamay.functions.arrow import binary_buffers
from gamay.kernels.hash.arrival import encode_texts, move_texts

# growing a larger array reserves memory first
_RESERVED_BYTES = 1 << 20
_SLOTS_LEAST = 1 << 12
# offsets are int32, as Arrow's are
_BYTES_MAX = (1 << 31) - 1


class TextNumbers:
    """Numbering of texts as 0, 1, …; the time for a block depends on its texts, not on how many are known.

    what: names the purpose of the memory in error messages. kind: the Arrow type of the texts, `string` or `binary`.
    expected: the approximate number of distinct texts.
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
        """The texts, by number; not a copy, and valid only until more texts are numbered."""
        buffers = [None, pa.py_buffer(self._offsets[: self.count + 1]), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(self._kind, self.count, buffers)

    @property
    def num_bytes(self) -> int:
        """The size of the distinct texts and their offsets."""
        return int(self._offsets[self.count]) + 4 * self.count

    def number(self, texts: pa.Array) -> Array:
        """Return the number of each text: int32 [n]; texts must not be null.

        Raises QueryError 245 if they exceed the memory limit, or distinct texts 2 GiB.
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
        """Make room for one more text of `size` bytes; expected: the approximate number of distinct texts."""
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
        """Reserve memory for a larger array; the old one, which the guard knows of, exists until the new one is filled."""
        if num_bytes > _RESERVED_BYTES:
            guard.reserve(self._what, num_bytes)
