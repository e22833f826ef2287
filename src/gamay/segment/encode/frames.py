"""Raw numbers in frame of reference: unsigned offsets from the least value; decimals, such as prices, as scaled integers.

    forward.low  := u8|u16|u32[num_values]: the low bytes of each code
    forward.high := u8|u16[num_values]: the high bytes, where codes have 24, 40 or 48 bits

    forward.patch_rows := i32[k], ascending: the positions of values that have no code; and forward.patches := value[k]
The frame is in the metadata. A value is base + code, scaled for DOUBLE by the decimal exponent: divided
by 10 ** exponent, which restores the bits of decimals of up to 15 digits parsed from text, or multiplied by
10 ** -exponent, which restores those computed by Arrow's and other conversions of decimals. The encoding is lossless: a
value whose bits would not be restored is stored as a patch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from gamay.functions.frame import EXACT_MAX, Frame, FramedVector
from gamay.model.types import DataType
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.storage_form import fixed_dtype
from gamay.segment.spi import Ids

LOW, HIGH = "forward.low", "forward.high"
PATCH_ROWS, PATCHES = "forward.patch_rows", "forward.patches"
FRAME = "FRAME"
"""The codec of such columns in the metadata of a segment."""

# (bits of a code, bytes in `low`, bytes in `high`)
WIDTHS: Sequence[tuple[int, int, int]] = ((8, 1, 0), (16, 2, 0), (24, 2, 1), (32, 4, 0), (40, 4, 1), (48, 4, 2))
EXPONENT_MAX = 15

# least savings in bytes per value, to outweigh the cost of two arrays or of wider sums
_SAVED_BYTES_MIN = 2
_SAMPLED = 1024
_BLOCK = 1 << 14
# at most one in this number of values may be a patch, which takes 12 bytes, and 2 ns to read
_PATCHED_SHARE, _PATCH_BYTES = 64, 12


# Config


@dataclass(frozen=True, slots=True)
class FrameMeta:
    """The frame: value i is base + code[i], scaled by a power of ten; see `gamay.functions.frame.Frame`."""

    base: int
    exponent: int = 0
    divides: bool = False


@dataclass(frozen=True, slots=True)
class Framing:
    """A frame of a column's values. codes: uint64 [n]; patch_rows: int32 [k], ascending, of values that have no code."""

    meta: FrameMeta
    codes: Ids
    low_bytes: int
    high_bytes: int
    patch_rows: Ids

    @property
    def width(self) -> int:
        """The size of a code in bytes."""
        return self.low_bytes + self.high_bytes


def find_framing(values: Ids, data_type: DataType) -> Framing | None:
    """Return the frame of a column's values in stored form; None if none fits or the savings are too small."""
    dtype = fixed_dtype(data_type)
    if dtype is None or data_type in (DataType.BOOLEAN, DataType.FLOAT) or len(values) == 0:
        return None
    if dtype.kind == "i":
        everything = np.ones(len(values), np.bool_)
        framing = _narrowest(values, everything, FrameMeta(0), dtype.itemsize)
        # the default that replaces nulls of dimensions is far from all other values
        return framing or _narrowest(values, values != np.iinfo(dtype).min, FrameMeta(0), dtype.itemsize)
    step = max(1, len(values) // _SAMPLED)
    meta = _decimal_places(np.ascontiguousarray(values[::step]))
    return None if meta is None else _narrowest(*_scaled(values, meta), meta, dtype.itemsize)


def _decimal_places(sample: Ids) -> FrameMeta | None:
    """Return the frame, without base, that encodes a sample of doubles in the fewest bytes; None if none fits."""
    best, fewest = None, float(len(sample) * sample.itemsize)
    for exponent, divides in product(range(EXPONENT_MAX + 1), (False, True)):
        meta = FrameMeta(0, exponent, divides)
        framing = _narrowest(*_scaled(sample, meta), meta, sample.itemsize)
        size = fewest if framing is None else len(sample) * framing.width + len(framing.patch_rows) * _PATCH_BYTES
        if size < fewest:
            best, fewest = meta, size
    return best


def _scaled(values: Ids, meta: FrameMeta) -> "tuple[Ids, Ids]":
    """Return doubles as integers in units of 10 ** -exponent, and a mask of those that are restored bit by bit."""
    scale = float(10**meta.exponent)
    whole, has_code = np.empty(len(values), np.int64), np.empty(len(values), np.bool_)
    for start in range(0, len(values), _BLOCK):  # blocks that fit the cache take a third of the time
        part, rows = values[start : start + _BLOCK], slice(start, start + _BLOCK)
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = np.rint(part * scale)
            scaled = np.where(np.abs(scaled) < EXACT_MAX, scaled, 0) + 0.0  # no -0.0, which integers do not have
        found = scaled / scale if meta.divides else scaled * (1 / scale)
        whole[rows] = scaled
        # not compared as numbers, since -0.0 equals 0.0
        has_code[rows] = found.view(np.int64) == part.view(np.int64)
    return whole, has_code


def _narrowest(whole: Ids, has_code: Ids, meta: FrameMeta, itemsize: int) -> Framing | None:
    """Return the frame of integers with the fewest bytes; values without a code become patches."""
    patch_rows = np.flatnonzero(~has_code).astype(np.int32)
    if len(patch_rows) > len(whole) // _PATCHED_SHARE:
        return None
    coded = whole[has_code] if len(patch_rows) else whole
    base, highest = int(coded.min()), int(coded.max())
    for bits, low, high in WIDTHS:
        if highest - base < 1 << bits:
            if low + high + _SAVED_BYTES_MIN > itemsize:
                return None
            codes = whole.astype(np.int64, copy=False).view(np.uint64) - np.uint64(base % (1 << 64))
            codes[patch_rows] = 0
            return Framing(replace(meta, base=base), codes, low, high, patch_rows)
    return None


# Build


def write_frame(writer: BufferWriter, framing: Framing, values: Ids) -> list[BufferMeta]:
    """Write the codes of all values, and the patches."""
    codes, rows = framing.codes, framing.patch_rows
    buffers = [writer.add(LOW, [codes.astype(f"<u{framing.low_bytes}")])]
    if framing.high_bytes:
        high = codes >> np.uint64(8 * framing.low_bytes)
        buffers.append(writer.add(HIGH, [high.astype(f"<u{framing.high_bytes}")]))
    if len(rows):
        buffers += [writer.add(PATCH_ROWS, [rows]), writer.add(PATCHES, [values[rows]])]
    return buffers


# Read


class Framed:
    """A column in frame of reference; implements `gamay.segment.encode.raw.RawReader`. vector: all its values."""

    def __init__(self, vector: FramedVector) -> None:
        self.vector = vector

    @classmethod
    def read(
        cls, file: BufferFile, buffers: dict[str, BufferMeta], data_type: DataType, meta: FrameMeta, num_values: int
    ) -> "Framed":
        """Open the buffers of a column without copying them."""
        low, high = (
            file.array(buffers[kind], f"<u{buffers[kind].size // num_values}") if kind in buffers else np.empty(0, np.uint8)
            for kind in (LOW, HIGH)
        )
        frame = Frame(data_type, low, high, meta.base, meta.exponent, meta.divides)
        if PATCHES not in buffers:
            return cls(FramedVector(frame))
        rows, patches = file.array(buffers[PATCH_ROWS], np.int32), file.array(buffers[PATCHES], fixed_dtype(data_type))
        return cls(FramedVector(frame, rows, patches))

    def range(self, start: int, stop: int) -> Ids:
        decoded: Ids = self.vector.cut(start, max(start, stop)).values
        return decoded

    def at(self, positions: Ids) -> Ids:
        decoded: Ids = self.vector.at(positions).values
        return decoded
