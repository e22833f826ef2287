"""Bit packing against Python integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.kernels.encode import bitpack


def pack(values, bits):
    words = np.zeros(bitpack.words_needed(len(values), bits), np.uint64)
    bitpack.pack(values, bits, words)
    return words


@settings(deadline=None)  # the first call compiles
@given(st.data())
def test_pack_is_the_sum_of_shifted_values(data):
    bits = data.draw(st.integers(1, 32))
    values = data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=70))
    words = pack(np.array(values, np.uint32), bits)
    stream = sum(value << (i * bits) for i, value in enumerate(values))
    assert int.from_bytes(words.tobytes(), "little") == stream
    start = data.draw(st.integers(0, len(values)))
    out = np.empty(len(values) - start, np.uint32)
    bitpack.unpack(words, bits, start, out)
    assert out.tolist() == values[start:]
    indices = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=9)) if values else []
    out = np.empty(len(indices), np.uint32)
    bitpack.unpack_at(words, bits, np.array(indices, np.int32), out)
    assert out.tolist() == [values[i] for i in indices]


@pytest.mark.parametrize("bits", range(1, 33))
def test_every_width_holds_its_largest_value(bits):
    dtype = np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32
    values = np.full(1000, 2**bits - 1, dtype)
    values[::3] = 0
    out = np.empty(1000, dtype)
    bitpack.unpack(pack(values, bits), bits, 0, out)
    assert np.array_equal(out, values)
