"""Every index gives exactly the docs of a scan."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from gamay.base.errors import InvalidConfigError
from gamay.model.types import DataType
from gamay.segment.index import range as range_index
from gamay.segment.index.bloom import bloom_size
from gamay.segment.spi import BLOOM, INVERTED, RANGE, SORTED

relaxed = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def rows_of(size, cardinality, seed, multi):
    rng = np.random.default_rng(seed)
    skewed = (rng.random(size) ** 3 * cardinality).astype(int)
    if not multi:
        return skewed.tolist()
    return [rng.choice(skewed, rng.integers(1, 4)).tolist() for _ in range(size)]


def docs_where(rows, test):
    return [doc for doc, row in enumerate(rows) if any(map(test, row if isinstance(row, list) else [row]))]


@pytest.mark.parametrize("multi", [False, True], ids=["single", "multi"])
@relaxed
@given(size=st.integers(0, 3000), cardinality=st.sampled_from([1, 3, 40, 5000]), seed=st.integers(0, 99))
def test_inverted_is_a_scan(kit, multi, size, cardinality, seed):
    rows = rows_of(size, cardinality, seed, multi)
    schema = kit.schema(kit.field("x", DataType.INT, not multi))
    column = kit.open(schema, kit.config(invertedIndexColumns=["x"]), {"x": rows}).column("x")
    if column.stats.is_sorted:
        assert column.index(INVERTED) is None
        return
    distinct = kit.plain(column.dictionary.values)
    for dict_id in range(0, len(distinct), 1 + len(distinct) // 20):
        found = column.index(INVERTED).docs(dict_id)
        assert isinstance(found, BitMap)
        assert list(found) == docs_where(rows, lambda v, wanted=distinct[dict_id]: v == wanted)
    several = np.arange(0, len(distinct), 3, dtype=np.int32)
    wanted = {distinct[i] for i in several}
    assert list(column.index(INVERTED).docs_of_any(several)) == docs_where(rows, lambda v: v in wanted)
    assert column.index(INVERTED).docs_of_any(several[:0]) == BitMap()


@pytest.mark.parametrize("cardinality", [2, 50, 5000])
def test_sets_take_the_smaller_of_list_and_bitmap(kit, cardinality):
    n = 100_000
    rows = np.random.default_rng(cardinality).integers(0, cardinality, n)
    schema, config = kit.schema(kit.field("x", DataType.INT)), kit.config(invertedIndexColumns=["x"])
    column = kit.open(schema, config, {"x": rows.tolist()}).column("x")
    bitmaps_bytes = sum(len(BitMap(np.flatnonzero(rows == v).astype(np.uint32)).serialize()) for v in range(cardinality))
    assert column.meta.buffers["inverted.sets"].size <= min(4 * n, bitmaps_bytes + 4 * cardinality)
    for value in (0, cardinality - 1):
        assert column.index(INVERTED).docs(value) == BitMap(np.flatnonzero(rows == value).astype(np.uint32))


def in_range(lower, upper, lower_inclusive, upper_inclusive):
    def test(value):
        if lower is not None and (value < lower or (value == lower and not lower_inclusive)):
            return False
        return upper is None or value < upper or (value == upper and upper_inclusive)

    return test


@pytest.mark.parametrize("multi", [False, True], ids=["single", "multi"])
@pytest.mark.parametrize("data_type", [DataType.INT, DataType.DOUBLE, DataType.FLOAT, DataType.TIMESTAMP])
@pytest.mark.parametrize("raw", [False, True], ids=["dictionary", "raw"])
@settings(relaxed, max_examples=12)
@given(
    size=st.integers(0, 3000),
    cardinality=st.sampled_from([1, 3, 40, 5000]),
    seed=st.integers(0, 99),
    bounds=st.lists(st.none() | st.integers(-1, 5001), min_size=2, max_size=2),
    inclusive=st.tuples(st.booleans(), st.booleans()),
)
def test_range_is_a_scan(kit, monkeypatch, multi, data_type, raw, size, cardinality, seed, bounds, inclusive):
    monkeypatch.setattr(range_index, "_DOCS_PER_BUCKET_MIN", 16)
    rows = rows_of(size, cardinality, seed, multi)
    schema = kit.schema(kit.field("x", data_type, not multi))
    config = kit.config(rangeIndexColumns=["x"], noDictionaryColumns=["x"] if raw else [])
    column = kit.open(schema, config, {"x": rows}).column("x")
    assert (column.dictionary is None) == raw
    if column.index(RANGE) is None:
        assert column.index(SORTED) is not None
        return
    inner = sorted({v for row in rows for v in (row if multi else [row])})
    low, middle, high = (inner[0], inner[len(inner) // 2], inner[-1]) if inner else (0, 1, 2)
    for lower, upper in [bounds, (None, None), (low, high), (middle, None)]:
        wanted = docs_where(rows, in_range(lower, upper, *inclusive))
        assert list(column.index(RANGE).docs_between(lower, upper, *inclusive)) == wanted


def test_range_of_text_goes_by_the_dictionary(kit):
    rows = ["b", "a", "c", "b"]
    column = kit.open(kit.schema(kit.field("x", DataType.STRING)), kit.config(rangeIndexColumns=["x"]), {"x": rows}).column(
        "x"
    )
    assert list(column.index(RANGE).docs_between("a", "b", False, True)) == [0, 3]


def test_range_of_raw_text_is_refused_with_the_way_out(kit):
    config = kit.config(rangeIndexColumns=["x"], noDictionaryColumns=["x"])
    with pytest.raises(InvalidConfigError, match="give it a dictionary"):
        kit.build(kit.schema(kit.field("x", DataType.STRING)), config, {"x": ["a"]})


def test_infinities_lie_within_open_bounds(kit):
    rows = [math.inf, -math.inf, 0.5, None]
    for config in (kit.config(rangeIndexColumns=["x"]), kit.config(rangeIndexColumns=["x"], noDictionaryColumns=["x"])):
        index = kit.open(kit.schema(kit.field("x", DataType.DOUBLE)), config, {"x": rows}).column("x").index(RANGE)
        assert list(index.docs_between(None, None, True, True)) == [0, 1, 2, 3]
        assert list(index.docs_between(0.5, None, False, True)) == [0]
        assert list(index.docs_between(None, math.inf, True, False)) == [1, 2, 3]


@pytest.mark.parametrize("raw", [False, True], ids=["dictionary", "raw"])
@pytest.mark.parametrize("multi", [False, True], ids=["single", "multi"])
@pytest.mark.parametrize(
    ("data_type", "present", "absent"),
    [
        (DataType.INT, list(range(-500, 500)), range(1000, 3000)),
        (DataType.LONG, [i * 10**15 for i in range(1000)], range(1, 2000)),
        (DataType.FLOAT, [i / 10 for i in range(1000)], [i / 10 + 1000 for i in range(2000)]),
        (DataType.DOUBLE, [i / 10 for i in range(1000)], [i / 10 + 0.01 for i in range(2000)]),
        (DataType.STRING, [f"user {i}" for i in range(1000)], [f"guest {i}" for i in range(2000)]),
        (
            DataType.BYTES,
            [bytes([i % 256, i // 256]) for i in range(1000)],
            [bytes([i % 256, 9, 9, i // 256]) for i in range(2000)],
        ),
    ],
    ids=lambda p: p.value if isinstance(p, DataType) else "",
)
def test_bloom_has_no_false_negatives_and_few_false_positives(kit, raw, multi, data_type, present, absent):
    config = kit.config(noDictionaryColumns=["x"] if raw else [], bloomFilterConfigs={"x": {"fpp": 0.02}})
    rows = [[value] for value in present] if multi else present
    bloom = kit.open(kit.schema(kit.field("x", data_type, not multi)), config, {"x": rows}).column("x").index(BLOOM)
    assert all(map(bloom.might_contain, present))
    assert sum(map(bloom.might_contain, absent)) <= 0.04 * len(absent)


def test_bloom_of_decimals_goes_by_value(kit):
    from decimal import Decimal

    schema = kit.schema(kit.field("x", DataType.BIG_DECIMAL))
    bloom = kit.open(schema, kit.config(bloomFilterColumns=["x"]), {"x": ["1.50", "0.00", "-7"]}).column("x").index(BLOOM)
    assert all(bloom.might_contain(Decimal(text)) for text in ("1.5", "1.500", "0", "-0.0", "-7.0"))
    assert not bloom.might_contain(Decimal("1.51"))


def test_bloom_size_is_bounded_by_the_maximum():
    bits, probes = bloom_size(100_000, 0.05, 0)
    assert 6.2 * 100_000 < bits < 6.3 * 100_000
    assert probes == 4
    assert bloom_size(100_000, 0.05, 1000) == (8000, 1)


def test_columns_without_indexes_have_none(kit):
    column = kit.open(kit.schema(kit.field("x", DataType.INT)), kit.config(), {"x": [2, 1]}).column("x")
    assert column.index(INVERTED) is column.index(RANGE) is column.index(BLOOM) is column.index(SORTED) is None


def test_partitions_are_recorded(kit):
    partition = {"columnPartitionMap": {"x": {"functionName": "Modulo", "numPartitions": 4}}}
    schema = kit.schema(kit.field("x", DataType.INT))
    for raw in ([], ["x"]):
        config = kit.config(segmentPartitionConfig=partition, noDictionaryColumns=raw)
        info = kit.open(schema, config, {"x": [4, 8, 7, 3]}).column("x").stats.partition
        assert (info.function_name, info.num_partitions, info.partitions) == ("Modulo", 4, (0, 3))


def test_values_that_cannot_be_partitioned_name_the_column(kit):
    partition = {"columnPartitionMap": {"x": {"functionName": "Modulo", "numPartitions": 4}}}
    with pytest.raises(InvalidConfigError, match=r"column 'x': .*64-bit integers"):
        kit.build(kit.schema(kit.field("x", DataType.STRING)), kit.config(segmentPartitionConfig=partition), {"x": ["a"]})
