"""The contribution of a row to a sketch that is maintained while rows arrive, as bytes.

A row of values contributes an *addition* of 5 bytes: the register of its value (uint32, little-endian), and the value for
that register (uint8). A row with a serialised sketch contributes the sketch, in the dense form of the metric's kind.
"""

import numpy as np
import pyarrow as pa

from gamay.functions.sketch.hll import HllKind, pack_registers
from gamay.functions.sketch.hllplus import DEFAULT_PRECISION, HllPlusKind
from gamay.functions.sketch.registers import RegisterKind
from gamay.functions.vector import Vector
from gamay.kernels.group.rollup import ADDITION_BYTES
from gamay.model.table.rollup import Rollup, RollupFunction


def kind_of(rollup: Rollup) -> RegisterKind:
    """Return the kind of sketch of a metric."""
    if rollup.function is RollupFunction.DISTINCT_COUNT_HLL:
        return HllKind(rollup.parameters[0]) if rollup.parameters else HllKind()
    assert rollup.function is RollupFunction.DISTINCT_COUNT_HLL_PLUS
    precision, sparse_precision = (*rollup.parameters, *(DEFAULT_PRECISION, 0)[len(rollup.parameters) :])
    return HllPlusKind(precision, sparse_precision)


def additions_of(kind: RegisterKind, vector: Vector) -> pa.Array:
    """Return the additions of single values: binary, without nulls."""
    positions, values = kind.candidates(vector)
    packed = np.empty((len(vector), ADDITION_BYTES), np.uint8)
    packed[:, :4] = positions.astype("<u4").view(np.uint8).reshape(-1, 4)
    packed[:, 4] = values
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(ADDITION_BYTES), len(packed), [None, pa.py_buffer(packed)])
    return fixed.cast(pa.binary())


def dense(kind: RegisterKind, data: bytes) -> bytes:
    """Convert a serialised sketch to the dense form of `kind`; empty bytes, an empty sketch, stay empty.

    Raises ValueError for invalid bytes, and for a sketch of another precision.
    """
    try:
        registers = kind.parse(data) if data else None
    except IndexError as error:
        raise ValueError(str(error)) from error
    if registers is None:
        return b""
    if len(registers) != 1 << kind.precision:
        raise ValueError(f"its precision is {len(registers).bit_length() - 1}, that of the metric is {kind.precision}")
    return kind.serialize(registers)


def empty_sketch(kind: RegisterKind) -> bytes:
    """Return the sketch of no values, of the same length as all others of its kind."""
    return kind.serialize(np.zeros(1 << kind.precision, np.uint8))


def header_bytes(kind: RegisterKind) -> int:
    """Return the number of bytes before the registers of a sketch."""
    words = len(pack_registers(np.zeros(1 << kind.precision, np.uint8)))
    return len(empty_sketch(kind)) - words
