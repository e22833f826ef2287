"""Scans shared by filters: the same rows as separate scans, and no row of a block is read twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.arrays import Mask
from gamay.query.view import shared_filters
from gamay.query.view.matches import DocIds
from gamay.query.view.shared_filters import SharedScan

FLAGS = np.random.default_rng(7).random(400) < 0.4


class Reading:
    """Test of rows that counts the reads of each row's flag."""

    cost = 1.0

    def __init__(self) -> None:
        self.read = np.zeros(len(FLAGS), np.int64)

    def mask(self, first: int, last: int) -> Mask:
        self.read[first:last] += 1
        return FLAGS[first:last].copy()

    def mask_at(self, docs: DocIds) -> Mask:
        np.add.at(self.read, docs, 1)
        return FLAGS[docs]


RANGES = st.tuples(st.integers(0, 399), st.integers(0, 399)).map(lambda ends: (min(ends), max(ends) + 1))
DOCS = st.lists(st.integers(0, 399), unique=True).map(sorted)


@given(st.lists(RANGES | DOCS, max_size=12), st.sampled_from([30, 1000]))
def test_answers_are_those_of_the_scan(asked: list[tuple[int, int] | list[int]], span: int) -> None:
    scan = SharedScan(Reading())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_filters, "_SPAN_MAX", span)
        for each in asked:
            if isinstance(each, tuple):
                found = scan.mask(*each)
                assert found.tolist() == FLAGS[slice(*each)].tolist()
                found[:] = False  # it is the caller's
            else:
                docs = np.array(each, np.int32)
                assert scan.mask_at(docs).tolist() == FLAGS[docs].tolist()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 99), st.integers(0, 99)), max_size=8), st.integers(0, 3))
def test_rows_of_one_block_are_read_once(asked: list[tuple[bool, int, int]], block: int) -> None:
    reading = Reading()
    scan = SharedScan(reading)
    start = 100 * block
    scan.mask_at(np.arange(start, start + 100, 7, dtype=np.int32))
    for whole, first, last in asked:
        low, high = start + min(first, last), start + max(first, last) + 1
        if whole:
            scan.mask(low, high)
        else:
            scan.mask_at(np.arange(low, high, 3, dtype=np.int32))
    assert reading.read.max() <= 1
