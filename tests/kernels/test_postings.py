"""Chains of positions and bounds of zones against plain loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.kernels.encode import postings


@settings(deadline=None)
@given(ids=st.lists(st.integers(0, 9), max_size=60), cut=st.integers(0, 60), seen=st.integers(0, 60))
def test_chains_lead_to_every_position(ids, cut, seen):
    heads, links = np.zeros(10, np.uint32), np.zeros(60, np.uint32)
    for start, stop in ((0, cut), (cut, len(ids))):
        postings.link(np.array(ids[start:stop], np.uint8), start, heads, links)
    for wanted in ([0], [3], [1, 2, 9]):
        out = np.empty(60, np.uint32)
        count = postings.walk(np.array(wanted, np.int32), seen, heads, links, out)
        expected = [i for i, value in enumerate(ids[:seen]) if value in wanted]
        assert sorted(out[:count].tolist()) == expected
        if expected:
            assert postings.walk(np.array(wanted, np.int32), seen, heads, links, out[: len(expected) - 1]) == -1


def test_a_link_that_is_not_there_yet_is_told():
    heads, links = np.array([3], np.uint32), np.zeros(3, np.uint32)
    out = np.empty(9, np.uint32)
    assert postings.walk(np.array([0]), 2, heads, links, out) == -1
    assert postings.walk(np.array([0]), 2, heads, links[:2], out) == -1


@settings(deadline=None)
@given(values=st.lists(st.integers(-9, 9), max_size=40), cut=st.integers(0, 40))
def test_zones_have_the_bounds_of_their_rows(values, cut):
    lows, highs = np.zeros(10, np.int64), np.zeros(10, np.int64)
    for start, stop in ((0, cut), (cut, len(values))):
        postings.widen_zones(np.array(values[start:stop], np.int64), start, 2, lows, highs)
    zones = [values[i : i + 4] for i in range(0, len(values), 4)]
    assert lows[: len(zones)].tolist() == [min(zone) for zone in zones]
    assert highs[: len(zones)].tolist() == [max(zone) for zone in zones]
