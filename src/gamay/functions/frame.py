"""Numbers in frame of reference: small unsigned codes relative to the least value, for decimals in units of a power of ten.

A frame is the stored form of a column, or of a block of its rows. It is decoded when values are needed; sums, bounds and
comparisons use the codes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamay.base.arrays import Array, Mask
from gamay.functions.vector import EncodedVector, Vector, numpy_dtype, take
from gamay.kernels.encode.frame import CODE_KINDS, decode_decimals, decode_whole, mark_codes
from gamay.kernels.group.aggregation import total_ids, total_ids_kept
from gamay.kernels.rows.filter import mark_id_range
from gamay.kernels.tuning import CACHED_ENTRIES_MAX
from gamay.model.types import DataType

_BITS = 8
# up to this many rows, taking array addresses for a kernel costs more than the computation itself
_FEW_ROWS = 256
_NO_ROWS = np.empty(0, np.int32)
_COUNTED = frozenset({DataType.INT, DataType.LONG})
EXACT_MAX = 1 << 53
"""All integers up to this magnitude are doubles."""


@dataclass(slots=True, eq=False)  # not frozen: small queries make several, and freezing takes five times as long
class Frame:
    """Codes of values: value i is `base + code[i]`, for DOUBLE with `exponent` decimal places.

    low: uint8, uint16 or uint32 [n]; high: uint8 or uint16 [n], the bits above those of `low`, or empty. data_type: INT,
    LONG, TIMESTAMP or DOUBLE. exponent: 0 for integers. divides: whether `base + code` is divided by 10 ** exponent, as
    parsing "0.07" as a double does, or multiplied by the double 10 ** -exponent, as converting a decimal may; the results
    differ in the last bits.
    """

    data_type: DataType
    low: Array
    high: Array
    base: int
    exponent: int = 0
    divides: bool = False

    def __len__(self) -> int:
        return len(self.low)

    @property
    def bits(self) -> int:
        """The number of bits of a code."""
        return _BITS * (self.low.itemsize + (self.high.itemsize if len(self.high) else 0))

    @property
    def kind(self) -> int:
        """The kind of codes, see `gamay.kernels.encode.frame`."""
        return CODE_KINDS[self.low.itemsize, self.high.itemsize if len(self.high) else 0]

    @property
    def addresses(self) -> tuple[int, int]:
        """The addresses of `low` and `high`, valid while the frame is alive."""
        low = self.low.ctypes.data
        return low, self.high.ctypes.data if len(self.high) else low

    @property
    def places(self) -> int:
        """The decimal places in the form of kernels: negative for multiplication."""
        return self.exponent if self.divides else -1 - self.exponent

    @property
    def is_of_doubles(self) -> bool:
        """Whether all possible values, as integers, are exact doubles."""
        return -EXACT_MAX <= self.base <= EXACT_MAX - (1 << self.bits)

    def cut(self, start: int, stop: int) -> "Frame":
        """Return the rows [start, stop), without copying."""
        return self._over(self.low[start:stop], self.high[start:stop])

    def at(self, positions: Array) -> "Frame":
        """Return the rows at positions."""
        return self._over(take(self.low, positions), take(self.high, positions) if len(self.high) else self.high)

    def kept(self, compress: Callable[[Array], Array]) -> "Frame":
        """Return the rows that a function keeps of an array."""
        return self._over(compress(self.low), compress(self.high) if len(self.high) else self.high)

    def decode(self) -> Array:
        """Return the values."""
        if self.data_type is DataType.DOUBLE and len(self) <= _FEW_ROWS:
            return self._decode_few()
        out = np.empty(len(self), self.decoded_dtype)
        self.decode_into(out)
        return out.astype(numpy_dtype(self.data_type), copy=False)

    @property
    def decoded_dtype(self) -> "np.dtype[Any]":
        """The dtype of decoded values: float64 or int64."""
        return np.dtype(np.float64 if self.data_type is DataType.DOUBLE else np.int64)

    def decode_into(self, out: Array) -> None:
        """Write the values, as `decoded_dtype`, into an array of equal length."""
        if self.data_type is DataType.DOUBLE:
            decode_decimals(self.kind, *self.addresses, self.base, self.places, out)
        else:
            decode_whole(self.kind, *self.addresses, self.base, out)

    def _decode_few(self) -> Array:
        decimals = self.low.astype(np.float64)
        if len(self.high):
            decimals += self.high * float(1 << _BITS * self.low.itemsize)
        decimals += self.base
        if self.divides:
            decimals /= 10**self.exponent
        else:
            decimals *= 1 / 10**self.exponent
        return decimals

    def value_of(self, code: int) -> int | float:
        """Return the value of a code, even of one that no row has."""
        number = self.base + code
        if self.data_type is not DataType.DOUBLE:
            return number
        return number / 10**self.exponent if self.divides else number * float(f"1e-{self.exponent}")

    def as_number(self, total: int) -> int | float:
        """Return an integer sum in the type of the values: for decimals the nearest double."""
        return total / 10**self.exponent if self.data_type is DataType.DOUBLE else total

    def total(self) -> int:
        """Return the exact sum of all values as an integer, see `as_number`."""
        codes = int(total_ids(self.low))
        if len(self.high):
            codes += int(total_ids(self.high)) << _BITS * self.low.itemsize
        return len(self) * self.base + codes

    def total_kept(self, mask: Array, kept: int) -> int:
        """Sum as `total` does, over the rows whose `mask` (uint8) is 1, not 0; kept: the number of ones."""
        codes = int(total_ids_kept(self.low, mask))
        if len(self.high):
            codes += int(total_ids_kept(self.high, mask)) << _BITS * self.low.itemsize
        return kept * self.base + codes

    def least(self) -> int | float:
        """Return the least value; the frame must not be empty."""
        low, high = self.low, 0
        if len(self.high):
            high = int(self.high.min())
            low = low[self.high == high]
        return self.value_of((high << _BITS * self.low.itemsize) + int(low.min()))

    def greatest(self) -> int | float:
        """Return the greatest value; the frame must not be empty."""
        low, high = self.low, 0
        if len(self.high):
            high = int(self.high.max())
            low = low[self.high == high]
        return self.value_of((high << _BITS * self.low.itemsize) + int(low.max()))

    def first_code(self, holds: Callable[[Any], bool]) -> int:
        """Return the least code whose value satisfies a monotonic condition, or 2 ** bits if none does."""
        first, last = 0, 1 << self.bits
        while first < last:
            middle = (first + last) // 2
            if holds(self.value_of(middle)):
                last = middle
            else:
                first = middle + 1
        return first

    def mark(self, first: int, last: int) -> Mask:
        """Return for each row whether first <= code < last."""
        if first >= last or not len(self):
            return np.zeros(len(self), np.bool_)
        if last - first == 1 << self.bits:
            return np.ones(len(self), np.bool_)
        out = np.empty(len(self), np.bool_)
        if len(self.high):
            mark_codes(self.kind, *self.addresses, np.uint64(first), np.uint64(last - first), out)
        else:
            mark_id_range(self.low, first, last, out)
        return out

    def _over(self, low: Array, high: Array) -> "Frame":
        return Frame(self.data_type, low, high, self.base, self.exponent, self.divides)


def frame_of_ids(operand: EncodedVector) -> Frame | None:
    """Return ids as codes if a dictionary has every integer of a range and is too large for a near cache; else None.

    Row ids and sequence numbers are such: adding costs less than a distant lookup for each.
    """
    values = operand.dictionary.values
    if operand.type not in _COUNTED or not operand.dictionary.ascends or len(values) <= CACHED_ENTRIES_MAX:
        return None
    least = int(values[0])
    if operand.offsets is not None or int(values[-1]) - least != len(values) - 1:
        return None
    return Frame(operand.type, operand.ids, operand.ids[:0], least)


class FramedVector(Vector):
    """Single values in a frame, decoded when `values` is first read.

    patch_rows: int32 [k], ascending: the rows whose value has no code (theirs is arbitrary); patches: their values.
    """

    __slots__ = ("_decoded", "frame", "patch_rows", "patches")

    def __init__(
        self, frame: Frame, patch_rows: Array = _NO_ROWS, patches: Array = _NO_ROWS, nulls: "Mask | None" = None
    ) -> None:
        self.frame = frame
        self.patch_rows = patch_rows
        self.patches = patches
        self._decoded: Array | None = None
        self.type = frame.data_type
        self.offsets = None
        self.nulls = nulls
        self.derived = None
        self.ascends = False

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def values(self) -> Any:
        """The values, as in `Vector`."""
        if self._decoded is None:
            decoded = self.frame.decode()
            if len(self.patch_rows):
                decoded[self.patch_rows] = self.patches
            self._decoded = decoded
        return self._decoded

    def with_nulls(self, nulls: "Mask | None") -> "FramedVector":
        """Return the values with other null flags."""
        return FramedVector(self.frame, self.patch_rows, self.patches, nulls)

    def cut(self, start: int, stop: int) -> "FramedVector":
        """Return the rows [start, stop), without copying codes."""
        frame = self.frame.cut(start, stop)
        if not len(self.patch_rows):
            return FramedVector(frame)
        first, last = self.patch_rows.searchsorted(np.array([start, stop], np.int32)).tolist()
        return FramedVector(frame, self.patch_rows[first:last] - np.int32(start), self.patches[first:last])

    @property
    def is_plain_double(self) -> bool:
        """Whether all values are given by their codes, in a frame of doubles."""
        return self.type is DataType.DOUBLE and self.frame.is_of_doubles and not len(self.patches)

    def parts(self, rows: int) -> Iterator[tuple[int, Array]]:
        """Yield parts of `rows` rows: the first row, and the values as `Frame.decoded_dtype`, valid until the next part.

        All parts share one buffer: new ones would be in fresh pages, which cost more than decoding.
        """
        buffer = np.empty(min(rows, len(self)), self.frame.decoded_dtype)
        for start in range(0, len(self), rows):
            part = self.cut(start, start + rows)
            values = buffer[: len(part)]
            part.frame.decode_into(values)
            values[part.patch_rows] = part.patches
            yield start, values

    def at(self, rows: Array) -> "FramedVector":
        frame, nulls = self.frame.at(rows), None if self.nulls is None else self.nulls[rows]
        if not len(self.patch_rows):
            return FramedVector(frame, nulls=nulls)
        places, has_patch = self.patches_at(rows)
        return FramedVector(frame, np.flatnonzero(has_patch).astype(np.int32), self.patches[places[has_patch]], nulls)

    def patches_at(self, rows: Array) -> tuple[Array, Mask]:
        """Return for each row its position among the patches, and whether it is one. There must be patches."""
        places = np.minimum(self.patch_rows.searchsorted(rows), len(self.patch_rows) - 1)
        return places, self.patch_rows[places] == rows

    def kept(self, mask: Mask, compress: Callable[[Array], Array]) -> "FramedVector":
        """Return the rows whose flag is set; `compress` keeps these rows of an array."""
        frame = self.frame.kept(compress)
        if not len(self.patch_rows):
            return FramedVector(frame)
        kept = mask[self.patch_rows]
        rows = (np.cumsum(mask, dtype=np.int32) - np.int32(1))[self.patch_rows[kept]]
        return FramedVector(frame, rows, self.patches[kept])

    def total(self) -> int | float:
        """Return the sum of all values."""
        return self._with_patches(self.frame.total(), self.patch_rows, self.patches)

    def total_kept(self, mask: Array, kept: int) -> int | float:
        """Return the sum of the rows whose `mask` (uint8) is 1, not 0; kept: the number of ones."""
        has_patch = mask[self.patch_rows].view(np.bool_)
        return self._with_patches(self.frame.total_kept(mask, kept), self.patch_rows[has_patch], self.patches[has_patch])

    def _with_patches(self, total: int, rows: Array, patches: Array) -> int | float:
        """Correct an integer sum of codes by the values of the patches among the rows."""
        if not len(rows):
            return self.frame.as_number(total)
        total -= self.frame.at(rows).total()
        if self.type is not DataType.DOUBLE:
            return total + int(sum(patches.tolist()))
        with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs make NaN
            return self.frame.as_number(total) + float(patches.sum())
