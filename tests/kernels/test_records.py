"""Search and numbering of sorted records, against plain loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import records as naive

from gamay.kernels.rows.records import find_records, pack_records

COLUMNS = 3
TESTS = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8).map(sorted), min_size=1, max_size=COLUMNS)


@settings(deadline=None, max_examples=200)
@given(
    records=st.lists(st.tuples(*[st.integers(0, 11)] * COLUMNS), max_size=200),
    edges=TESTS,
    least=st.sampled_from([1, 4, 1000]),
    most=st.sampled_from([1, 3, 4096]),
    kind=st.sampled_from([np.uint8, np.uint16, np.uint32]),
)
def test_the_records_in_spans_are_found(records, edges, least, most, kind):
    records = sorted(records)
    spans = [list(zip(part[::2], part[1::2], strict=False)) for part in edges]
    flat = [edge for part in spans for span in part for edge in span]
    tests = np.array([0, *np.cumsum([len(part) for part in spans]), *flat], np.int64)
    ids = np.array(records, kind).reshape(-1, COLUMNS).T.copy()
    found = np.empty(4, np.int64)
    docs = find_records(ids, len(spans), tests, np.array([least, most, 1 << 16]), found)
    count, start, stop, read = found.tolist()
    expected = naive.find(records, spans)
    assert count == len(expected)
    assert (list(range(start, stop)) if start >= 0 else docs.tolist()) == expected
    assert 0 <= read <= len(records) * len(spans)


def test_many_records_are_not_read():
    found = np.empty(4, np.int64)
    ids = np.zeros((2, 100), np.uint8)
    for most, count in ((99, -1), (100, 100)):
        tests = np.array([0, 1, 2, 0, 256, 0, 1])
        find_records(ids, 2, tests, np.array([1000, 10, most]), found)
        assert found[0] == count


@given(codes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30))
def test_ids_become_one_number(codes):
    ids = np.array([[7] * len(codes), [b for _, b in codes], [a for a, _ in codes]], np.uint8)
    shares = np.array([0, 1, 2, 3, 4, 5, 0, 100, 200, 300])
    docs = np.arange(len(codes), dtype=np.int32)[::-1].copy()
    out = np.empty(len(codes), np.int64)
    pack_records(ids, docs, np.array([2, 1]), shares, np.array([0, 6]), out)
    assert out.tolist() == [a + 100 * b for a, b in codes[::-1]]
