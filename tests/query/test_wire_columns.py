"""Vectors and partials in the format sent between servers and brokers."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType
from gamay.query.buffers.columns import ColumnShape, from_arrays, pack_arrays, to_arrays, unpack_arrays

TEXTS = st.lists(st.text(max_size=8), max_size=12)
DTYPES = ("?", "b", "B", "h", "H", "i", "I", "q", "Q", "f", "d")


def sent(arrays: list[Any]) -> list[Any]:
    """Return arrays decoded from copied buffers, as after a socket."""
    kinds, buffers = pack_arrays(arrays)
    received = [memoryview(bytearray(buffer)) for buffer in buffers]
    return unpack_arrays(kinds, [len(array) for array in arrays], received)


def travelled(column: Vector | EncodedVector) -> Vector | EncodedVector:
    arrays: list[Any] = []
    shape = to_arrays(column, arrays)
    left = sent(arrays)
    found = from_arrays(shape, left)
    assert left == []
    return found


@given(TEXTS, st.integers(0, 3), st.lists(st.floats(), max_size=12), st.sampled_from(DTYPES))
def test_arrays_of_all_kinds_and_lengths_travel_together(
    texts: list[str], skipped: int, floats: list[float], dtype: str
) -> None:
    cut = pa.array(["before"] * skipped + texts, pa.string()).slice(skipped)
    numbers = np.nan_to_num(np.array(floats)).clip(0, 100).astype(dtype)
    lists = pa.array([[1], [], [2, 3]], pa.list_(pa.int32()))
    data = cut.cast(pa.binary())
    found = sent([cut, numbers, lists, np.array(floats), data])
    assert found[0].equals(pa.array(texts, pa.string()))
    assert found[1].dtype == numbers.dtype
    assert found[1].tolist() == numbers.tolist()
    assert found[2].equals(lists)
    assert found[3].tobytes() == np.array(floats).tobytes()
    assert found[4].equals(data)


@pytest.mark.parametrize("nulls", [None, np.array([True, False, False, True, False])])
@pytest.mark.parametrize("num_entries", [3, 5000])
def test_ids_travel_with_a_small_dictionary_and_as_values_with_a_large_one(nulls: Any, num_entries: int) -> None:
    dictionary = Vector(DataType.STRING, pa.array([f"é{i:05}" for i in range(num_entries)], pa.string()), ascends=True)
    column = EncodedVector(np.array([2, 0, 1, 2, 0], np.uint16), dictionary, None, nulls)
    found = travelled(column)
    assert isinstance(found, EncodedVector) is (num_entries == 3)
    if isinstance(found, EncodedVector):
        assert found.dictionary.ascends
        assert found.ids.dtype == np.uint16
    plain = found.decode() if isinstance(found, EncodedVector) else found
    assert plain.values.equals(column.decode().values)
    assert (plain.nulls is None) is (nulls is None)
    assert plain.nulls is None or plain.nulls.tolist() == nulls.tolist()


def test_no_rows_travel() -> None:
    empty = EncodedVector(np.empty(0, np.uint8), Vector(DataType.STRING, pa.array([], pa.string())))
    assert len(travelled(empty)) == 0
    assert len(travelled(Vector(DataType.LONG, np.empty(0, np.int64), np.zeros(1, np.int32)))) == 0


def test_nonsense_is_refused_and_never_read_beyond_the_buffers() -> None:
    arrays = [pa.array(["one", "two", "three"], pa.string()), np.arange(3), np.arange(3, dtype=np.uint8)]
    kinds, (block,) = pack_arrays(arrays)
    rng = random.Random(7)
    for _ in range(2000):
        damaged = bytearray(block)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 127, 128, 255))
        try:
            found = unpack_arrays(kinds, [3, 3, 3], [memoryview(damaged)])
        except QueryError:
            continue
        found[0].validate(full=True)
        assert [len(array) for array in found] == [3, 3, 3]
    for wrong in (block[:-16], bytes(block) + bytes(16), b""):
        with pytest.raises(QueryError):
            unpack_arrays(kinds, [3, 3, 3], [memoryview(bytearray(wrong))])
    for lengths in ([3, 3], [3, 3, 1 << 40], [3, -1, 3], [0, 3, 3]):
        with pytest.raises(QueryError):
            unpack_arrays(kinds, lengths, [memoryview(bytearray(block))])
    with pytest.raises(QueryError):
        unpack_arrays("s?z", [3, 3, 3], [memoryview(bytearray(block))])


def test_ids_that_are_not_in_their_dictionary_are_refused() -> None:
    shape = ColumnShape("STRING", False, False, True)
    for ids in (np.array([0, 2], np.uint8), np.array([-1, 0], np.int32), np.full(2000, 2, np.uint8)):
        with pytest.raises(ValueError, match="dictionary"):
            from_arrays(shape, [ids, pa.array(["a", "b"], pa.string())])
