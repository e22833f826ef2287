"""Registers of HyperLogLog++ and UltraLogLog against their definitions, and their serialised forms."""

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.functions.sketch.hll import pack_registers, unpack_registers
from gamay.functions.sketch.hllplus import HllPlusKind
from gamay.functions.sketch.registers import sketch_of
from gamay.functions.sketch.ull import UllKind
from gamay.functions.vector import Vector
from gamay.kernels.hash.hashing import murmur64a
from gamay.model.types import DataType


def longs(values: Any) -> Vector:
    return Vector(DataType.LONG, np.asarray(values, np.int64))


def rank(rest: int, bits: int) -> int:
    """The place of the first one bit among `bits`, from 1."""
    return bits - rest.bit_length() + 1


def text_hash(text: str) -> int:
    """MurmurHash64A, seed 0xe17a1465, of UTF-8."""
    data, out = np.frombuffer(text.encode(), np.uint8), np.empty(1, np.int64)
    murmur64a(data, np.array([0, len(data)], np.int64), 0xE17A1465, out)
    return int(out[0]) & (2**64 - 1)


@settings(deadline=None)
@given(st.lists(st.integers(-1000, 1000), max_size=50), st.integers(4, 8))
def test_hll_plus_registers_are_those_of_the_definition(values: list[int], p: int) -> None:
    expected = [0] * (1 << p)
    for value in values:
        h = text_hash(str(value))
        place = h >> (64 - p)
        expected[place] = max(expected[place], rank(h & ((1 << (64 - p)) - 1), 64 - p))
    assert sketch_of(HllPlusKind(p), longs(values)).tolist() == expected


def test_hll_plus_hashes_what_is_stored() -> None:
    millis = np.array([0, 1_700_000_000_123, -5], np.int64)
    flags = np.array([True, False])
    for kept, numbers in ((Vector(DataType.TIMESTAMP, millis), millis), (Vector(DataType.BOOLEAN, flags), [0, 1])):
        assert sketch_of(HllPlusKind(8), kept).tolist() == sketch_of(HllPlusKind(8), longs(list(numbers))).tolist()


def varint(number: int) -> bytes:
    return varint_more(number) if number > 127 else bytes([number])


def varint_more(number: int) -> bytes:
    return bytes([number & 127 | 128]) + varint(number >> 7)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.integers(4, 10), st.integers(0, 15))
def test_the_sparse_form_is_read(hashes: list[int], p: int, more: int) -> None:
    sp = p + more
    codes: dict[int, int] = {}
    expected = [0] * (1 << p)
    for h in hashes:
        index, rest = h >> (64 - sp), h & ((1 << (64 - p)) - 1)
        run = rank(rest, 64 - p)
        expected[h >> (64 - p)] = max(expected[h >> (64 - p)], run)
        code = index << 1 if index & ((1 << more) - 1) else ((index << 6 | run ^ 63) << 1) | 1
        codes[index] = min(code, codes.get(index, code))
    data = (-2).to_bytes(4, "big", signed=True) + varint(p) + varint(sp) + varint(1) + varint(len(codes))
    last = 0
    for code in (codes[index] for index in sorted(codes)):
        data += varint((code - last) & 0xFFFFFFFF)
        last = code
    assert HllPlusKind().parse(data).tolist() == expected


@given(st.lists(st.integers(0, 31), min_size=16, max_size=16))
def test_packed_registers_come_back(registers: list[int]) -> None:
    packed = pack_registers(np.array(registers, np.uint8))
    assert len(packed) == 12
    assert int.from_bytes(packed[:4], "big") & 31 == registers[0]
    assert unpack_registers(packed, 16).tolist() == registers


def test_ull_registers_are_those_of_the_definition() -> None:
    from gamay.functions.sketch.hashing import value_hashes

    p, vector = 3, longs(np.arange(200))
    updates: list[set[int]] = [set() for _ in range(1 << p)]
    for h in value_hashes(vector, 0)[0].tolist():
        updates[h >> (64 - p)].add(rank(h & ((1 << (64 - p)) - 1), 64 - p))
    expected = []
    for seen in updates:
        top = max(seen, default=0)
        expected.append(0 if not seen else 4 * (top + p - 2) + 2 * (top - 1 in seen) + (top - 2 in seen))
    kind = UllKind(p)
    registers = sketch_of(kind, vector)
    assert registers.tolist() == expected
    assert base64.b64decode(kind.to_text(kind.serialize(registers))) == bytes(expected)
    assert kind.parse(bytes(expected)).tolist() == expected
    singles = [sketch_of(kind, longs([value])) for value in range(200)]
    merged = np.zeros(1 << p, np.uint8)
    for single in singles:
        merged = kind.table[merged, single]
    assert merged.tolist() == expected


def test_registers_that_no_update_makes_are_refused() -> None:
    with pytest.raises(ValueError, match="does not occur"):
        UllKind().parse(bytes([1] + [0] * 7))


@pytest.mark.parametrize(("kind", "error"), [(UllKind(8), 0.8 / 16), (HllPlusKind(8), 1.04 / 16)])
@pytest.mark.parametrize("distinct", [10, 300, 20_000])
def test_estimates_have_no_bias(kind: UllKind | HllPlusKind, error: float, distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    sketches = np.stack([sketch_of(kind, longs(rng.integers(-(2**62), 2**62, distinct))) for _ in range(60)])
    off = kind.estimate(sketches) / distinct - 1
    assert abs(off.mean()) < 4 * error / np.sqrt(60) + 0.01
    assert off.std() < 1.4 * error


def test_nothing_is_estimated_as_nothing() -> None:
    empty = Vector(DataType.STRING, pa.array([], pa.string()))
    for kind in (UllKind(), HllPlusKind()):
        assert kind.estimate(sketch_of(kind, empty)[None]).tolist() == [0]
