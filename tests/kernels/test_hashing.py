"""Hash kernels against published constants, compiled and interpreted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.kernels.hash import hashing


def strings(values):
    data = np.frombuffer(b"".join(values) or b"\0", np.uint8)
    return data, np.cumsum([0, *map(len, values)])


def run(kernel, values, *arguments):
    data, offsets = strings(values)
    out = np.empty(len(values), np.int64)
    kernel(data, offsets, *arguments, out)
    return out.tolist()


def test_murmur64a_of_a_published_string():
    assert run(hashing.murmur64a, [b"testString"], 0xE17A1465) == [3907736674355139845]


def test_fnv_of_published_strings():
    assert [h % 2**32 for h in run(hashing.fnv, [b"", b"a", b"abc"], True, False)] == [0x811C9DC5, 0xE40C292C, 0x1A47E90B]


KERNELS = [
    (hashing.murmur2, ()),
    (hashing.murmur3_x86_32, (9001,)),
    (hashing.murmur3_x64_32, (9001,)),
    (hashing.murmur3_x64_32, (np.int64(-7),)),
    (hashing.fnv, (True, True)),
    (hashing.fnv, (False, False)),
    (hashing.java_bytes_hash, ()),
    (hashing.murmur64a, (0xE17A1465,)),
]


@pytest.mark.parametrize(("kernel", "arguments"), KERNELS)
@settings(deadline=None)  # the first call compiles
@given(values=st.lists(st.binary(max_size=40), max_size=5))
def test_strings_are_hashed_one_by_one(kernel, arguments, values):
    assert run(kernel, values, *arguments) == [run(kernel, [value], *arguments)[0] for value in values]
