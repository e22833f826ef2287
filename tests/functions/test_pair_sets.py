"""Sets of pairs against Counters, in every representation."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.functions.aggregate.distinct import pair_sets
from gamay.functions.aggregate.distinct.pair_sets import Entries, HashedPairs, PairBits, PairTally, SortedPairs
from gamay.functions.aggregate.distinct.pairs import Pairs, PairsPartial, merge_pairs, select_pairs
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType

ROWS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 300)), max_size=60)
KINDS = {"bits": PairBits, "tally": PairTally, "hashed": lambda *_: HashedPairs(counted=True)}


def counted(entries: Entries) -> Counter:
    pairs = list(zip(entries.groups.tolist(), entries.codes.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    counts = [1] * len(pairs) if entries.counts is None else entries.counts.tolist()
    return Counter(dict(zip(pairs, counts, strict=True)))


def columns(rows, codes_dtype=np.uint16):
    groups, codes = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    return groups.astype(np.int32), codes.astype(codes_dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int32])
@settings(deadline=None, max_examples=40)
@given(batches=st.lists(ROWS, max_size=4), others=ROWS)
def test_pairs_of_codes(kind, dtype, batches, others):
    """Rows are added directly, or to a separate set that is merged; batches bring new groups."""
    num_codes, num_groups, expected = 301, 1, Counter()
    one = KINDS[kind](num_groups, num_codes)
    for rows in batches:
        num_groups = max(num_groups, *(group + 1 for group, _ in rows)) if rows else num_groups
        assert one.has_room(num_groups, num_codes)
        one.add(*columns(rows, dtype))
        expected.update(rows)
    other = KINDS[kind](num_groups, num_codes)
    rows = [(group % num_groups, code) for group, code in others]
    other.add(*columns(rows, dtype))
    if one.unite(other):
        expected.update(rows)
    else:
        assert kind == "bits"  # sets that grew have spare room
    found = counted(one.entries())
    assert found == (Counter(set(expected.elements())) if kind == "bits" else expected)
    assert one.count >= len(found)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
@pytest.mark.parametrize("num_groups", [0, 1, 5])
def test_few_pairs_of_many_rows(dtype, num_groups):
    """More rows than there are bits come between fewer, with groups and without (0)."""
    rng = np.random.default_rng(num_groups)
    bits, expected = PairBits(max(1, num_groups), 40), set()
    for num_rows, most in ((3, 9), (5000, 20), (2, 40), (700, 40)):
        codes, groups = rng.integers(0, most, num_rows), rng.integers(0, max(1, num_groups), num_rows)
        bits.add(groups.astype(np.int32) if num_groups else None, codes.astype(dtype))
        expected.update(zip(groups.tolist(), codes.tolist(), strict=True))
        entries = bits.entries()
        assert set(zip(entries.groups.tolist(), entries.codes.tolist(), strict=True)) == expected
        assert bits.count == len(expected)


@pytest.mark.parametrize("least", [1, 50, 1 << 20])
@settings(deadline=None, max_examples=30)
@given(batches=st.lists(ROWS, max_size=5), others=st.lists(ROWS, max_size=3))
def test_pairs_in_order(least, batches, others):
    """Some batches are pending while others are sorted into the previous pairs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pair_sets, "SORTED_PAIRS_MIN", least)
        one, other = SortedPairs(), SortedPairs()
        for pairs, sets in ((one, batches), (other, others)):
            for rows in sets:
                assert pairs.has_room(1 << 20, 1 << 20)
                pairs.add(*columns(rows))
        assert one.unite(other)
        expected = {pair for rows in (*batches, *others) for pair in rows}
        assert one.count >= len(expected)
        assert counted(one.entries()) == Counter(expected)
        assert one.count == len(expected)


@settings(deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=80), st.integers(1, 7))
def test_bits_make_room_for_codes(codes, step):
    bits = PairBits(1, 1)
    for first in range(0, len(codes), step):
        part = np.array(codes[first : first + step], np.int32)
        assert bits.has_room(1, int(part.max()) + 1)
        bits.add(None, part)
    assert counted(bits.entries()) == Counter({(0, code): 1 for code in set(codes)})


def test_where_there_is_no_room(monkeypatch):
    monkeypatch.setattr(pair_sets, "PAIR_BITS_MAX", 1000)
    assert PairBits.pays(10, 100, 1)
    assert not PairBits.pays(10, 101, 1000)
    bits = PairBits(10, 50)
    assert bits.has_room(10, 100)
    assert not bits.has_room(11, 100)
    assert not PairTally(2, 5).has_room(2, 6)


# by value, through all that an aggregate does with them

WORDS = [None, "", "a", "b", "ab", "ü", "x" * 40]
BATCH = st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), max_size=30))


def operand(values, *, encoded: bool):
    if not encoded:
        return Vector(DataType.STRING, pa.array(values, pa.string()))
    entries = sorted(set(values))
    ids = np.array([entries.index(value) for value in values], np.uint8)
    return EncodedVector(ids, Vector(DataType.STRING, pa.array(entries, pa.string())))


def of_partial(partial: PairsPartial) -> Counter:
    values = partial.values.decode() if isinstance(partial.values, EncodedVector) else partial.values
    pairs = zip(partial.groups.tolist(), values.values.to_pylist(), strict=True)
    counts = [1] * len(partial.groups) if partial.counts is None else partial.counts.tolist()
    return Counter(dict(zip(pairs, counts, strict=True)))


@pytest.mark.parametrize("few_bits", [False, True])
@pytest.mark.parametrize("is_counted", [False, True])
@settings(deadline=None, max_examples=60)
@given(
    threads=st.lists(st.lists(BATCH, max_size=3), min_size=1, max_size=3),
    order=st.permutations(range(10)),
    num_kept=st.integers(1, 10),
)
def test_pairs_by_value(is_counted, few_bits, threads, order, num_kept):
    """Batches have separate dictionaries, or none; threads are combined, or merged like segments."""
    with pytest.MonkeyPatch.context() as patch:
        if few_bits:
            patch.setattr(pair_sets, "PAIR_BITS_PER_PAIR", 0)
            patch.setattr(pair_sets, "TALLY_CELLS_MAX", 20)
            patch.setattr(pair_sets, "SORTED_PAIRS_MIN", 4)
        expected, states = Counter(), []
        for batches in threads:
            state = Pairs(DataType.STRING, 3, is_counted)
            for encoded, rows in batches:
                values = [WORDS[word] for _, word in rows]
                state.grow(max(state.num_groups, *(group + 1 for group, _ in rows)) if rows else state.num_groups)
                state.update(np.array([group for group, _ in rows], np.int32), operand(values, encoded=encoded), len(rows))
                expected.update(zip([group for group, _ in rows], values, strict=True))
            state.grow(10)
            states.append(state)
        if not is_counted:
            expected = Counter(set(expected.elements()))
        maps = [np.arange(10, dtype=np.int32)] * len(states)
        merged = merge_pairs([state.partial() for state in states], maps, 10)
        assert of_partial(merged) == expected
        first, *others = states
        for other in others:
            first.combine(other)
        partial = first.partial()
        assert of_partial(partial) == expected
        for groups in (order[:num_kept], sorted(order)):
            chosen = {(groups.index(g), value): count for (g, value), count in expected.items() if g in groups}
            assert of_partial(select_pairs(partial, np.array(groups))) == Counter(chosen)
