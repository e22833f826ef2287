"""Ids in order of arrival against a Python dict."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.functions.arrow import binary_buffers
from gamay.kernels.hash import arrival

SLOTS = 64
LIMITS = st.integers(0, 40)
TEXTS = st.binary(max_size=40) | st.sampled_from([b"", b"a" * 8, b"a" * 9, b"\0" * 8])


def expected(values, limit):
    """(ids, entries, position) of a loop over the values."""
    ids, known = [], {}
    for value in values:
        if value not in known:
            if len(known) == limit:
                break
            known[value] = len(known)
        ids.append(known[value])
    return ids, list(known), len(ids)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@settings(deadline=None)
@given(data=st.data())
def test_numbers(dtype, data):
    info = np.iinfo(dtype)
    values = data.draw(st.lists(st.integers(info.min, info.max) | st.integers(-3, 3), max_size=60))
    limit = data.draw(LIMITS)
    table, entries, ids = np.zeros(SLOTS, np.uint32), np.zeros(40, dtype), np.zeros(len(values), np.uint16)
    array = np.array(values, dtype)
    position, count = arrival.encode_numbers(array, 0, table, entries, 0, limit, ids)
    want_ids, want_entries, want_position = expected(values, limit)
    assert (position, entries[:count].tolist(), ids[:position].tolist()) == (want_position, want_entries, want_ids)
    again = np.zeros(SLOTS, np.uint32)
    arrival.index_numbers(entries, count, again)
    for known in (0, count // 2, count):
        for value in array:
            found = want_entries.index(int(value)) if int(value) in want_entries[:known] else -1
            assert arrival.find_number(value, table, entries, known) == found
            assert arrival.find_number(value, again, entries, known) == found


@settings(deadline=None)
@given(
    values=st.lists(st.binary(max_size=40) | st.sampled_from([b"", b"a" * 8, b"a" * 9, b"\0" * 8]), max_size=60),
    limit=LIMITS,
)
def test_texts(values, limit):
    offsets, data = binary_buffers(pa.array(values, pa.binary()))
    table, ids = np.zeros(SLOTS, np.uint64), np.zeros(len(values), np.uint8)
    entry_data, entry_offsets = np.zeros(4000, np.uint8), np.zeros(41, np.int32)
    position, count = arrival.encode_texts(data, offsets, 0, table, entry_data, entry_offsets, 0, limit, ids)
    want_ids, want_entries, want_position = expected(values, limit)
    entries = [entry_data[a:b].tobytes() for a, b in pairwise(entry_offsets[: count + 1])]
    assert (position, entries, ids[:position].tolist()) == (want_position, want_entries, want_ids)
    again = np.zeros(2 * SLOTS, np.uint64)
    arrival.move_texts(table, again)
    for known in (0, count // 2, count):
        for value in {*values, b"other"}:
            found = want_entries.index(value) if value in want_entries[:known] else -1
            text = np.frombuffer(value, np.uint8)
            assert arrival.find_text(text, table, entry_data, entry_offsets, known) == found
            assert arrival.find_text(text, again, entry_data, entry_offsets, known) == found


def test_a_text_that_does_not_fit_ends_the_call():
    offsets, data = binary_buffers(pa.array([b"abc", b"abc", b"defg"], pa.binary()))
    table, ids, entry_offsets = np.zeros(SLOTS, np.uint64), np.zeros(3, np.uint8), np.zeros(4, np.int32)
    assert arrival.encode_texts(data, offsets, 0, table, np.zeros(6, np.uint8), entry_offsets, 0, 3, ids) == (2, 1)


@given(flags=st.lists(st.booleans(), max_size=40), start=st.integers(0, 20))
def test_bits(flags, start):
    bits = np.zeros(8, np.uint8)
    arrival.set_bits(np.array(flags, np.bool_), start, bits)
    assert np.unpackbits(bits, bitorder="little").tolist() == ([False] * start + flags + [False] * 64)[:64]
