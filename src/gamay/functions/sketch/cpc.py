"""CPC sketches (K. Lang, arXiv:1708.06839), kept by the datasketches library, and read and written in its form.

A value falls into one of 64 * 2**lgK coupons; a sketch knows which of them it has. So values are hashed here first, and
the library is only told of those that bring a coupon that is new. Estimates are those of merged sketches, which depend on
the coupons alone, not on the order in which they came.
"""

from typing import Any, TypeAlias

import numpy as np

from gamay.functions.scalar.convert import convert_values, python_values
from gamay.functions.sketch.compact import not_a_sketch
from gamay.functions.sketch.deferred import datasketches
from gamay.functions.sketch.entries import SEED, SEED_HASH
from gamay.functions.sketch.hashing import value_hashes
from gamay.functions.vector import Vector, take
from gamay.model.types import DataType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
CpcSketch: TypeAlias = Any

DEFAULT_LG_K = 12
_COUPON_COLUMNS = 64
_COMPRESSED, _HIP, _TABLE, _WINDOW = 2, 4, 8, 16


def hashable(vector: Vector) -> Vector:
    """Return values as the library takes them: whole numbers, doubles, or text."""
    if vector.type in (DataType.UUID, DataType.BIG_DECIMAL):
        return Vector(DataType.STRING, convert_values(vector.values, vector.type, DataType.STRING))
    return vector


def coupons(vector: Vector, lg_k: int) -> Array:
    """Return the coupon of each value of `hashable`: int64, -1 for an empty text, which has none."""
    low, high = value_hashes(vector, SEED)
    _, exponents = np.frexp(high.astype(np.float64))
    # A conversion that rounds up to a power of two shows one bit more than there is.
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
    """Tell the sketch of groups[i] of the value vector[rows[i]]."""
    values = take(vector.values, rows)
    if isinstance(values, np.ndarray) and values.dtype.kind != "f":
        values = values.astype(np.int64).view(np.uint64)  # the library takes negative whole numbers as doubles
    listed = python_values(values)
    for group, value in zip(groups.tolist(), listed, strict=True):
        sketch = sketches[group]
        if sketch is None:
            sketch = sketches[group] = datasketches().cpc_sketch(lg_k)
        sketch.update(value)


def united(sketches: "list[CpcSketch]", lg_k: int) -> CpcSketch:
    """Return the union; a sketch of a smaller lgK makes it as small."""
    union = datasketches().cpc_union(lg_k)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result()


def parse(data: bytes) -> "CpcSketch | None":
    """Read a sketch; None for empty bytes. Raises QueryError 200 for other bytes."""
    if not data:
        return None
    try:
        _check_header(data)
        return datasketches().cpc_sketch.deserialize(data)
    except (ValueError, IndexError, RuntimeError, MemoryError) as error:
        raise not_a_sketch("CPC", data, error) from error


def _check_header(data: bytes) -> None:
    """Refuse what the library might not survive: it believes the lengths that the header names."""
    if len(data) < 8 or data[1] != 1 or data[2] != 16 or not 4 <= data[3] <= 26 or data[4] > 63:
        raise ValueError("its header is another one")
    if int.from_bytes(data[6:8], "little") != SEED_HASH:
        raise ValueError("its values were hashed with another seed than 9001")
    flags = data[5]
    if flags & ~(_COMPRESSED | _HIP | _TABLE | _WINDOW) or not flags & _COMPRESSED:
        raise ValueError(f"its flags are {flags}")
    hip, table, window = (bool(flags & flag) for flag in (_HIP, _TABLE, _WINDOW))
    words = 2 + (1 + 4 * hip + table * (1 + window) + window if table or window else 0)
    if data[0] != words or len(data) < 4 * words:
        raise ValueError("its header is not as long as it says")
    if table or window:
        if not 0 < int.from_bytes(data[8:12], "little") <= _COUPON_COLUMNS << data[3]:
            raise ValueError("its number of coupons is impossible")
        # Behind the number of coupons come the entries of the table, where there is a window too, and the lengths; the
        # four words of the estimate stand before the lengths then, else behind them.
        start = 12 + 4 * (table and window) + 16 * (hip and table and window) if table and window else 12
        sizes = [int.from_bytes(data[start + 4 * i : start + 4 * i + 4], "little") for i in range(table + window)]
        words += sum(sizes)
    if len(data) != 4 * words:
        raise ValueError("it is not as long as its header says")
