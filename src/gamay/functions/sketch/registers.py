"""The common interface of HyperLogLog, HyperLogLog++ and UltraLogLog: byte registers that merge value by value."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.vector import Vector
from gamay.kernels.sketch.registers import estimate_rates

MAXIMUM = np.maximum.outer(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))


class RegisterKind(Protocol):
    """One kind of sketch; sketches of equal kinds merge. `precision`: a new sketch has 2**precision registers.

    table: uint8 [256, 256], the merged value of two register values. name: for messages.
    """

    @property
    def precision(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def table(self) -> Array: ...

    def candidates(self, vector: Vector) -> tuple[Array, Array]:
        """Return for each value its register (uint16 or uint32) and the value that it gives an empty register (uint8)."""
        ...

    def estimate(self, registers: Array) -> Array:
        """Return the number of distinct values of each sketch: int64. registers: uint8 [number of sketches, m]."""
        ...

    def serialize(self, registers: Array) -> bytes:
        """Return one sketch as bytes. registers: uint8 [m]."""
        ...

    def parse(self, data: bytes) -> Array:
        """Return the registers of one sketch, uint8 [m]; raises ValueError for invalid bytes."""
        ...

    def to_text(self, data: bytes) -> str:
        """Return the bytes of a sketch as the text of a raw result."""
        ...


def sketch_of(kind: RegisterKind, vector: Vector) -> Array:
    """Return the registers of one sketch of single values: uint8 [2**precision]."""
    positions, values = kind.candidates(vector)
    registers = np.zeros(1 << kind.precision, np.uint8)
    for value in np.unique(values):  # some fifty at most
        chosen = positions[values == value]
        registers[chosen] = kind.table[registers[chosen], value]
    return registers


def parse_sketches(kind: RegisterKind, sketches: pa.Array) -> Array:
    """Return the registers of serialised sketches: uint8 [n, m], m 0 if all are empty byte strings (empty sketches).

    Raises QueryError 200 for invalid bytes, and for sketches of different precisions.
    """
    parsed = [_parse_one(kind, data) for data in sketches.to_pylist()]
    size = common_size(kind, [len(registers) for registers in parsed])
    out = np.zeros((len(parsed), size), np.uint8)
    for i, registers in enumerate(parsed):
        if len(registers):
            out[i] = registers
    return out


def _parse_one(kind: RegisterKind, data: bytes) -> Array:
    try:
        return kind.parse(data) if data else np.empty(0, np.uint8)
    except (ValueError, IndexError) as error:
        shown = data[:16].hex() + ("..." if len(data) > 16 else "")
        raise QueryError(
            ErrorCode.QUERY_EXECUTION, f"the bytes {shown} ({len(data)}) are not a serialised {kind.name} sketch: {error}"
        ) from error


def common_size(kind: RegisterKind, sizes: Sequence[int]) -> int:
    """Return the common number of registers of all sketches, 0 for none; raises QueryError if they differ."""
    found = sorted(set(sizes) - {0})
    if len(found) > 1:
        precisions = " and ".join(str(size.bit_length() - 1) for size in found)
        raise QueryError(
            ErrorCode.QUERY_EXECUTION, f"{kind.name} sketches of different precisions cannot be merged: {precisions}"
        )
    return found[0] if found else 0


def most_likely(histogram: Array, occurs: Array, idle: Array, halvings: Array) -> Array:
    """Return the maximum-likelihood estimate of each sketch's number of distinct values: float64 [number of sketches].

    Values update the registers as a Poisson process, whose rate is estimated as in two papers of O. Ertl,
    arXiv:1702.01284 and arXiv:2308.16862. histogram: int64 [number of sketches, register values]. occurs: int64 [register
    values, k], how often a register value implies that update k occurred, which has the probability 2**-halvings[k].
    idle: float64 [register values], the probability of all updates that it implies did not occur.
    """
    rates = np.empty(len(histogram))
    estimate_rates((histogram @ occurs).astype(np.float64), histogram @ idle, halvings, rates)
    return np.asarray(rates * histogram.sum(axis=1))


def histograms(registers: Array) -> Array:
    """Return how often each register value occurs in each sketch: int64 [number of sketches, 256]."""
    shifted = registers.astype(np.int64) + np.arange(len(registers), dtype=np.int64)[:, None] * 256
    return np.bincount(shifted.reshape(-1), minlength=256 * len(registers)).reshape(-1, 256)


def rounded(estimates: Array) -> Array:
    """Return estimates as int64, limited to the largest LONG."""
    limited = np.minimum(np.floor(estimates + 0.5), float((1 << 63) - 1024))
    return np.asarray(limited.astype(np.int64))
