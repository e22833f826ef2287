"""Distinct counts by register sketches: HyperLogLog, HyperLogLog++, UltraLogLog.

Values of a dictionary are hashed once per entry. Over BYTES, serialised sketches are merged; an empty byte string
is an empty sketch. All sketches of one result must have the same precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.totals.totals import flatten, unsigned
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.sketch.hll import sketch_bytes
from gamay.functions.sketch.registers import MAXIMUM, RegisterKind, common_size, parse_sketches
from gamay.functions.vector import EncodedVector, Operand, Values, Vector, take
from gamay.kernels.group.aggregation import mark_ids
from gamay.kernels.sketch.hll import raise_registers
from gamay.kernels.sketch.registers import add_candidates, merge_sketches
from gamay.model.types import DataType

# above this ratio of entries to rows of a block, flags for all entries are not worth their cost
_ENTRIES_PER_ROW = 16


class RegisterState:
    """Registers of each group: uint8 [num_groups, m]; m is 0 until the first of the merged sketches arrives."""

    def __init__(self, kind: RegisterKind, merging: bool, num_groups: int) -> None:
        self._registers = np.zeros((num_groups, 0 if merging else 1 << kind.precision), np.uint8)
        self._seen: Array = np.empty(0, np.uint8)
        self._entries: Vector | None = None
        self._kind = kind
        self._merging = merging
        self._dictionary: Values = None
        self._prepared: tuple[Array, ...] = ()

    @property
    def registers(self) -> Array:
        """The registers of all rows added."""
        self._flush_seen()
        return self._registers

    @registers.setter
    def registers(self, registers: Array) -> None:
        self._registers = registers

    def grow(self, num_groups: int) -> None:
        registers = np.zeros((num_groups, self.registers.shape[1]), np.uint8)
        registers[: len(self.registers)] = self.registers
        self.registers = registers

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        groups, values = flatten(None if groups is None else unsigned(groups), operand, num_rows)
        if groups is None and not self._merging and _has_few_entries(values):
            assert isinstance(values, EncodedVector)
            self._mark(values)
            return
        if isinstance(values, EncodedVector) and len(values.dictionary) <= max(len(values), 1024):
            if values.dictionary.values is not self._dictionary:
                self._dictionary = values.dictionary.values
                self._prepared = self._prepare(values.dictionary)
            rows, prepared = values.ids, self._prepared
        else:
            vector = values.decode() if isinstance(values, EncodedVector) else values
            rows, prepared = np.arange(len(vector), dtype=np.uint32), self._prepare(vector)
        if groups is None:
            groups = np.zeros(len(rows), np.uint8)
        if self._merging:
            (sketches,) = prepared
            self._resize(sketches.shape[1])
            if sketches.shape[1]:
                merge_sketches(groups, rows, sketches, self._kind.table, self.registers)
            return
        self._raise(groups, rows, *prepared)

    def _mark(self, values: EncodedVector) -> None:
        """Mark the dictionary entries that rows of the only group have: these are hashed once, at the end."""
        if self._entries is None or values.dictionary.values is not self._entries.values:
            self._flush_seen()
            self._entries, self._seen = values.dictionary, np.zeros(len(values.dictionary), np.uint8)
        mark_ids(unsigned(values.ids), self._seen)

    def _flush_seen(self) -> None:
        if self._entries is None:
            return
        entries, self._entries = self._entries, None
        found = Vector(entries.type, take(entries.values, np.flatnonzero(self._seen)))
        positions, made = self._kind.candidates(found)
        rows = np.arange(len(found), dtype=np.uint32)
        self._raise(np.zeros(len(rows), np.uint8), rows, positions, made)

    def _raise(self, groups: Array, rows: Array, positions: Array, made: Array) -> None:
        flat = self._registers.reshape(-1)
        if self._kind.table is MAXIMUM:
            raise_registers(groups, rows, positions, made, self._kind.precision, flat)
        else:
            add_candidates(groups, rows, positions, made, self._kind.precision, self._kind.table, flat)

    def combine(self, other: "RegisterState") -> None:
        self._resize(other.registers.shape[1])
        if other.registers.shape[1]:
            self.registers = self._kind.table[self.registers, other.registers]

    def _prepare(self, vector: Vector) -> tuple[Array, ...]:
        if not self._merging:
            return self._kind.candidates(vector)
        return (parse_sketches(self._kind, sketch_bytes(vector.values) if vector.type.is_text else vector.values),)

    def _resize(self, size: int) -> None:
        if size != self.registers.shape[1]:
            size = common_size(self._kind, [size, self.registers.shape[1]])
            if size != self.registers.shape[1]:
                self.registers = np.zeros((len(self.registers), size), np.uint8)


def _has_few_entries(values: Vector | EncodedVector) -> bool:
    return isinstance(values, EncodedVector) and len(values.dictionary) <= _ENTRIES_PER_ROW * max(len(values), 1024)


@dataclass(frozen=True, slots=True)
class RegisterSketch(KeepsState):
    """A distinct count from registers. The partial is uint8 [num_groups, m]; m is 0 if there was no sketch to merge.

    merging: the argument is serialised sketches, as BYTES or text. raw: the result is the sketch as text.
    """

    kind: RegisterKind
    raw: bool
    merging: bool
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> RegisterState:
        return RegisterState(self.kind, self.merging, num_groups)

    def seal(self, state: RegisterState) -> Array:
        return state.registers

    def select(self, partial: Array, groups: Array) -> Array:
        return np.asarray(partial[groups])

    def merge(self, partials: Sequence[Array], maps: Sequence[GroupIds], num_groups: int) -> Array:
        merged = np.zeros((num_groups, common_size(self.kind, [partial.shape[1] for partial in partials])), np.uint8)
        for partial, groups in zip(partials, maps, strict=True):
            if partial.shape[1]:
                every = np.arange(len(partial), dtype=np.uint32)
                merge_sketches(unsigned(groups), every, partial, self.kind.table, merged)
        return merged

    def finish(self, partial: Array) -> Vector:
        if partial.shape[1] == 0:
            partial = np.zeros((len(partial), 1 << self.kind.precision), np.uint8)
        if self.raw:
            texts = [self.kind.to_text(self.kind.serialize(row)) for row in partial]
            return Vector(DataType.STRING, pa.array(texts, pa.string()))
        return Vector(DataType.LONG, self.kind.estimate(partial))

    def encode(self, partial: Array) -> list[pa.Array]:
        flat = pa.py_buffer(np.ascontiguousarray(partial))
        return [pa.FixedSizeBinaryArray.from_buffers(pa.binary(partial.shape[1]), len(partial), [None, flat])]

    def decode(self, arrays: Sequence[pa.Array]) -> Array:
        array = arrays[0]
        size = array.type.byte_width
        if size == 0:
            return np.zeros((len(array), 0), np.uint8)
        data = np.frombuffer(array.buffers()[1], np.uint8)
        rows = data[array.offset * size : (array.offset + len(array)) * size]
        return np.asarray(rows.reshape(-1, size))


def register_sketch(kind: RegisterKind, raw: bool, merging: bool, state_kind: str) -> RegisterSketch:
    """Return an aggregate of a kind; aggregates of equal `state_kind` share their states."""
    result_type = DataType.STRING if raw else DataType.LONG
    traits = AggregateTraits(result_type, state_kind, is_bounded=True, is_of_distinct_values=True)
    return RegisterSketch(kind, raw, merging, traits)
