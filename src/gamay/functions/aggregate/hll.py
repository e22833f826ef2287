"""DISTINCTCOUNTHLL and DISTINCTCOUNTRAWHLL: HyperLogLog sketches, bit for bit those that Pinot makes of the same values.

A sketch of log2m (8 when not given) is 2**log2m registers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.coding import decimal_texts
from gamay.functions.aggregate.numeric import require_one_argument
from gamay.functions.aggregate.spi import GroupIds
from gamay.functions.aggregate.totals import flatten, unsigned
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.vector import EncodedVector, Operand, Values, Vector
from gamay.kernels.hll import hash_bytes, hash_longs, raise_registers, register_candidates
from gamay.model.types import DataType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DEFAULT_LOG2M = 8
_LOG2M_RANGE = range(2, 17)
_REGISTERS_PER_WORD = 6
_REGISTER_BITS = 5


class HllState:
    """Registers of each group: uint8 [num_groups << log2m]."""

    def __init__(self, log2m: int, num_groups: int) -> None:
        self.log2m = log2m
        self.registers = np.zeros(num_groups << log2m, np.uint8)
        self._dictionary: Values = None
        self._candidates: tuple[Array, Array] = (np.empty(0, np.uint16), np.empty(0, np.uint8))

    def grow(self, num_groups: int) -> None:
        registers = np.zeros(num_groups << self.log2m, np.uint8)
        registers[: len(self.registers)] = self.registers
        self.registers = registers

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        groups, values = flatten(None if groups is None else unsigned(groups), operand, num_rows)
        if isinstance(values, EncodedVector) and len(values.dictionary) <= max(len(values), 1024):
            if values.dictionary.values is not self._dictionary:
                self._dictionary = values.dictionary.values
                self._candidates = self._of_values(values.dictionary)
            rows, candidates = values.ids, self._candidates
        else:
            vector = values.decode() if isinstance(values, EncodedVector) else values
            rows, candidates = np.arange(len(vector), dtype=np.uint32), self._of_values(vector)
        if groups is None:
            groups = np.zeros(len(rows), np.uint8)
        raise_registers(groups, rows, *candidates, self.log2m, self.registers)

    def _of_values(self, vector: Vector) -> tuple[Array, Array]:
        hashes = hash_values(vector)
        positions, ranks = np.empty(len(hashes), np.uint16), np.empty(len(hashes), np.uint8)
        register_candidates(hashes, self.log2m, positions, ranks)
        return positions, ranks


def hash_values(vector: Vector) -> Array:
    """Return the 32-bit hash of each value: uint32. Numbers by their bits, text and decimals by UTF-8."""
    hashes = np.empty(len(vector), np.uint32)
    values = vector.values
    if vector.type is DataType.BIG_DECIMAL:
        values = decimal_texts(values)
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "f":
            values = values.view(np.int32 if values.dtype.itemsize == 4 else np.int64)
        hash_longs(values.astype(np.int64).view(np.uint64), hashes)
    else:
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
        data = values.buffers()[2]
        hash_bytes(offsets, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), hashes)
    return hashes


@dataclass(frozen=True, slots=True)
class Hll:
    """The partial is the registers: uint8 [num_groups, 2**log2m]."""

    log2m: int
    raw: bool
    state_kind: str

    @property
    def result_type(self) -> DataType:
        return DataType.STRING if self.raw else DataType.LONG

    @property
    def result_is_multi_value(self) -> bool:
        return False

    def allocate(self, num_groups: int) -> HllState:
        return HllState(self.log2m, num_groups)

    def grow(self, state: HllState, num_groups: int) -> HllState:
        state.grow(num_groups)
        return state

    def update(self, state: HllState, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        state.update(groups, args[0], num_rows)

    def combine(self, state: HllState, other: HllState) -> HllState:
        np.maximum(state.registers, other.registers, out=state.registers)
        return state

    def seal(self, state: HllState) -> Array:
        return state.registers.reshape(-1, 1 << self.log2m)

    def select(self, partial: Array, groups: Array) -> Array:
        return np.asarray(partial[groups])

    def merge(self, partials: Sequence[Array], maps: Sequence[GroupIds], num_groups: int) -> Array:
        merged = np.zeros((num_groups, 1 << self.log2m), np.uint8)
        for partial, groups in zip(partials, maps, strict=True):
            if len(np.unique(groups)) == len(groups):
                merged[groups] = np.maximum(merged[groups], partial)
            else:
                np.maximum.at(merged, groups, partial)
        return merged

    def finish(self, partial: Array) -> Vector:
        if self.raw:
            return Vector(DataType.STRING, pa.array([serialize(row, self.log2m).hex() for row in partial], pa.string()))
        return Vector(DataType.LONG, estimate(partial, self.log2m))

    def encode(self, partial: Array) -> list[pa.Array]:
        flat = pa.py_buffer(np.ascontiguousarray(partial))
        return [pa.FixedSizeBinaryArray.from_buffers(pa.binary(1 << self.log2m), len(partial), [None, flat])]

    def decode(self, arrays: Sequence[pa.Array]) -> Array:
        array = arrays[0]
        size = 1 << self.log2m
        data = np.frombuffer(array.buffers()[1], np.uint8)
        rows = data[array.offset * size : (array.offset + len(array)) * size]
        return np.asarray(rows.reshape(-1, size))


def estimate(registers: Array, log2m: int) -> Array:
    """Return the number of distinct values of each sketch: int64. registers: uint8 [number of sketches, 2**log2m]."""
    m = 1 << log2m
    alpha = {4: 0.673, 5: 0.697, 6: 0.709}.get(log2m, 0.7213 / (1 + 1.079 / m))
    raw = alpha * m * m / np.exp2(-registers.astype(np.float64)).sum(axis=1)
    zeros = (registers == 0).sum(axis=1)
    with np.errstate(divide="ignore"):  # no empty register: the linear count is not used, as the raw one is large
        linear = m * np.log(m / zeros)
    chosen = np.where((raw <= 2.5 * m) & (zeros > 0), linear, raw)
    rounded: Array = np.floor(chosen + 0.5).astype(np.int64)
    return rounded


def serialize(registers: Array, log2m: int) -> bytes:
    """Return one sketch as stream-lib writes it: log2m, number of bytes, words of six 5-bit registers; big-endian int32."""
    words = len(registers) // _REGISTERS_PER_WORD
    words = 1 if words == 0 else words if words % 32 == 0 else words + 1
    padded = np.zeros(words * _REGISTERS_PER_WORD, np.uint32)
    padded[: len(registers)] = registers
    shifts = np.arange(_REGISTERS_PER_WORD, dtype=np.uint32) * _REGISTER_BITS
    packed = np.bitwise_or.reduce(padded.reshape(words, -1) << shifts, axis=1)
    header = log2m.to_bytes(4, "big") + (4 * words).to_bytes(4, "big")
    return header + bytes(packed.astype(">u4").tobytes())


def _bind(call: Call, arg_types: Sequence[ValueType]) -> Hll:
    data_type, _ = require_one_argument(call, arg_types)
    if data_type is DataType.BYTES:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Aggregate '{call.name}' over BYTES merges serialised sketches, which is not supported yet",
        )
    parameter = call.args[1] if len(call.args) > 1 else Literal(DEFAULT_LOG2M, DataType.INT)
    log2m = parameter.value if isinstance(parameter, Literal) else None
    if not isinstance(log2m, int) or log2m not in _LOG2M_RANGE:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"The second argument of '{call.name}' is log2m, a whole number from {_LOG2M_RANGE[0]} to {_LOG2M_RANGE[-1]}",
        )
    return Hll(log2m, "raw" in call.name, f"hll {log2m}")


register_aggregate(["distinctCountHLL", "distinctCountHLLMV"], _bind)
register_aggregate(["distinctCountRawHLL", "distinctCountRawHLLMV"], _bind)
