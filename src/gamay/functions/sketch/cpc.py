"""CPC sketches (K. Lang, arXiv:1708.06839), managed by the datasketches library, in its serialised form.

A value maps to one of 64 * 2**lgK coupons, and a sketch is the set of its coupons. So values are hashed here first, and
the library is passed only those with a new coupon. Estimates are those of merged sketches, which depend on the coupons
alone, not on their order of arrival.
"""

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.convert import convert_values, python_values
from gamay.functions.sketch.compact import not_a_sketch
from gamay.functions.sketch.deferred import datasketches
from gamay.functions.sketch.entries import SEED, SEED_HASH
from gamay.functions.sketch.hashing import value_hashes
from gamay.functions.vector import Vector, take
from gamay.kernels.sketch.cpc import pairs_fit
from gamay.model.types import DataType

CpcSketch: TypeAlias = Any

DEFAULT_LG_K = 12
_COUPON_COLUMNS = 64
_WINDOW_COLUMNS = 8
_COMPRESSED, _HIP, _TABLE, _WINDOW = 2, 4, 8, 16
_CODE_BITS = 12
_PAIR_SYMBOLS = 65
_CODE_LENGTHS = (1, 2, 3, 4, 5, 7, 8, 8, 10, 10, 11)  # those of the other symbols are 12


def hashable(vector: Vector) -> Vector:
    """Return values in the types that the library accepts: integers, doubles, or text."""
    if vector.type in (DataType.UUID, DataType.BIG_DECIMAL):
        return Vector(DataType.STRING, convert_values(vector.values, vector.type, DataType.STRING))
    return vector


def coupons(vector: Vector, lg_k: int) -> Array:
    """Return the coupon of each value of `hashable`: int64, -1 for an empty text, which has none."""
    low, high = value_hashes(vector, SEED)
    _, exponents = np.frexp(high.astype(np.float64))
    # a conversion that rounds up to a power of two yields one bit too many
    bits = exponents.astype(np.int64)
    bits -= (high >> np.maximum(bits - 1, 0).astype(np.uint64)) == 0
    columns = np.minimum(_COUPON_COLUMNS - np.maximum(bits, 0), _COUPON_COLUMNS - 1)
    rows = (low & np.uint64((1 << lg_k) - 1)).astype(np.int64)
    found = rows * _COUPON_COLUMNS + columns
    if vector.type.is_text:
        offsets = np.frombuffer(vector.values.buffers()[1], np.int32)[vector.values.offset :][: len(vector) + 1]
        found[np.diff(offsets) == 0] = -1
    return np.asarray(found)


def add_values(sketches: "list[CpcSketch | None]", groups: Array, vector: Vector, rows: Array, lg_k: int) -> None:
    """Add the value vector[rows[i]] to the sketch of groups[i]."""
    values = take(vector.values, rows)
    if isinstance(values, np.ndarray) and values.dtype.kind != "f":
        values = values.astype(np.int64).view(np.uint64)  # the library treats negative integers as doubles
    listed = python_values(values)
    for group, value in zip(groups.tolist(), listed, strict=True):
        sketch = sketches[group]
        if sketch is None:
            sketch = sketches[group] = datasketches().cpc_sketch(lg_k)
        sketch.update(value)


def united(sketches: "list[CpcSketch]", lg_k: int) -> CpcSketch:
    """Return the union; a sketch of a smaller lgK reduces the result to it."""
    union = datasketches().cpc_union(lg_k)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result()


def parse(data: bytes) -> CpcSketch:
    """Deserialise a sketch. Raises QueryError 200 for invalid bytes."""
    try:
        return datasketches().cpc_sketch.deserialize(_checked(data))
    except (ValueError, IndexError, RuntimeError, MemoryError) as error:
        raise not_a_sketch("CPC", data, error) from error


def _checked(data: bytes) -> bytes:
    """Return a sketch that the library can safely parse; raises ValueError for one that might crash it.

    The library trusts the sizes in the bytes, and unpacks that many pairs and window bytes, even beyond the end: so pairs
    are validated here, and the window is followed by as many bits as the library may read.
    """
    if len(data) < 8 or data[1] != 1 or data[2] != 16 or not 4 <= data[3] <= 26 or data[4] > 63:
        raise ValueError("its header is invalid")
    if int.from_bytes(data[6:8], "little") != SEED_HASH:
        raise ValueError("its values were hashed with a seed other than 9001")
    flags, rows = data[5], 1 << data[3]
    if flags & ~(_COMPRESSED | _HIP | _TABLE | _WINDOW) or not flags & _COMPRESSED:
        raise ValueError(f"its flags, {flags}, are invalid")
    hip, table, window = (bool(flags & flag) for flag in (_HIP, _TABLE, _WINDOW))
    words = 2 + (1 + 4 * hip + table * (1 + window) + window if table or window else 0)
    if data[0] != words or len(data) < 4 * words:
        raise ValueError("the length of its header is wrong")
    if not (table or window):
        if len(data) != 4 * words:
            raise ValueError("its length does not match its header")
        return data
    coupons = int.from_bytes(data[8:12], "little")
    if not 0 < coupons <= _COUPON_COLUMNS * rows or window != (2 * coupons >= rows):
        raise ValueError("its number of coupons is impossible")
    # The number of coupons is followed by the entries of the table, if there is a window too, and the lengths; the four
    # words of the estimate come before the lengths in that case, else after them.
    start = 12 + 4 * (table and window) + 16 * (hip and table and window)
    sizes = [int.from_bytes(data[start + 4 * i : start + 4 * i + 4], "little") for i in range(table + window)]
    if len(data) != 4 * (words + sum(sizes)):
        raise ValueError("its length does not match its header")
    if table:
        pairs = np.frombuffer(data, "<u4", sizes[0], len(data) - 4 * sizes[0])
        entries = int.from_bytes(data[12:16], "little") if window else coupons
        _check_pairs(pairs, entries, rows, _COUPON_COLUMNS - _WINDOW_COLUMNS if window else _COUPON_COLUMNS)
    return _padded(data, 4 * words, start + 4 * table, sizes[-1], rows) if window else data


def _check_pairs(words: Array, count: int, rows: int, columns: int) -> None:
    """Raise ValueError unless the bits of a table encode exactly `count` pairs of a row and a column."""
    if not 0 < count <= 32 * len(words):
        raise ValueError(f"{count} pairs do not fit into its table")
    base_bits = max((rows // count).bit_length() - 1, 0)
    if not pairs_fit(words, _pair_codes(), count, base_bits, rows, columns):
        raise ValueError(f"its table does not hold {count} pairs")


def _padded(data: bytes, header: int, place: int, words: int, rows: int) -> bytes:
    """Return the sketch with room after its window for the longest codes. place: the offset of the window's word count."""
    if 32 * words < rows:
        raise ValueError("its window is too short")
    padding = max(_CODE_BITS * rows // 32 + 2 - words, 0)
    window = header + 4 * words
    size = (words + padding).to_bytes(4, "little")
    return data[:place] + size + data[place + 4 : window] + bytes(4 * padding) + data[window:]


@lru_cache(maxsize=1)
def _pair_codes() -> Array:
    """Return the symbol that 12 bits of a table begin with, and in the upper byte its number of bits; see `pairs_fit`.

    Symbols have codes of the above lengths, in ascending order, written from the highest bit on.
    """
    codes = np.empty(1 << _CODE_BITS, np.uint16)
    following = 0
    for symbol, length in enumerate((*_CODE_LENGTHS, *[_CODE_BITS] * (_PAIR_SYMBOLS - len(_CODE_LENGTHS)))):
        for code in range(following, following + (1 << (_CODE_BITS - length))):
            codes[int(f"{code:0{_CODE_BITS}b}"[::-1], 2)] = length << 8 | symbol
        following += 1 << (_CODE_BITS - length)
    return codes
