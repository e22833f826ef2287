"""Ranges of rows: sizes, limits, and assignment of each row, against a plain search."""

from bisect import bisect_right
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.spark.building import shuffle, travel
from gamay.spark.building.ranges import Ranges, Sample, Sampler, samples_of_task


def taken(partitions, keys, size, batch=1000):
    sampler = Sampler(size)
    for start in range(0, len(partitions), batch):
        rows = slice(start, start + batch)
        sampler.add(np.asarray(partitions[rows], np.int32), None if keys is None else pa.array(keys[rows]))
    return Sample.from_json(sampler.sample().to_json())


def places(ranges, partitions, keys):
    """Return the range of each row, by search."""
    starts = [(p, k is not None, k) for p, k in ranges.starts]
    return [bisect_right(starts, (p, True, k)) - 1 for p, k in zip(partitions, keys, strict=True)]


@settings(deadline=None)  # the first array takes its time
@given(st.integers(1, 5000), st.integers(1, 300), st.integers(1, 700))
def test_a_sample_holds_every_nth_row(num_rows, size, batch):
    sample = taken([i % 3 for i in range(num_rows)], list(range(num_rows)), size, batch)
    assert sample.counts == Counter(i % 3 for i in range(num_rows))
    assert sample.rows == [(i % 3, i) for i in range(0, num_rows, sample.stride)]
    assert min(num_rows, (size + 1) // 2) <= len(sample.rows) <= size


def test_ranges_have_about_the_size_that_was_asked_for_and_none_is_small():
    rng = np.random.default_rng(5)
    tasks = [(rng.choice(4, n, p=[0.55, 0.3, 0.1, 0.05]), rng.normal(0, 1, n).round(3)) for n in (60_000, 25_000, 15_000)]
    ranges = Ranges.of([taken(p.tolist(), k.tolist(), 2000) for p, k in tasks], 8_000)
    partitions, keys = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    found = places(ranges, partitions.tolist(), keys.tolist())
    sizes = Counter(found)
    assert sorted(sizes) == list(range(len(ranges)))
    assert all(len(set(partitions[np.array(found) == number])) == 1 for number in sizes)
    by_partition = {p: [sizes[i] for i, (q, _) in enumerate(ranges.starts) if q == p] for p in range(4)}
    assert [len(by_partition[p]) for p in range(4)] == [7, 4, 1, 1]
    assert all(0.85 * np.mean(part) < size < 1.15 * np.mean(part) for part in by_partition.values() for size in part)


def test_rows_of_one_key_stay_together():
    sample = taken([0] * 1000, [7] * 900 + [9] * 100, 5000)
    assert Ranges.of([sample], 100).starts == ((0, None), (0, 9))
    assert Ranges.of([taken([0] * 1000, [7] * 1000, 5000)], 100).starts == ((0, None),)


def test_without_keys_the_hashes_are_parted_evenly():
    ranges = Ranges.of([taken([0] * 400 + [1] * 100, None, 10)], 100)
    assert ranges.starts == ((0, None), (0, -(2**62) * 1), (0, 0), (0, 2**62), (1, None))
    assert Ranges.of([], 100).starts == ((0, None),)


def test_keys_travel_as_they_are_without_nan():
    rows = [(0, b"\x00\xff"), (0, "é"), (1, float("-inf")), (1, 2**62), (1, True)]
    sample = Sample({0: 2, 1: 3}, 4, rows)
    assert Sample.from_json(sample.to_json()) == sample
    assert taken([0, 0], [float("nan"), 1.5], 10).rows == [(0, 1.5)]


def test_many_tasks_keep_few_keys_each():
    assert [samples_of_task(n) for n in (1, 100, 1_000_000)] == [20_000, 10_000, 200]


@pytest.mark.parametrize("kind", ["int64", "string", "float64", "float32", "binary", "bool"])
def test_rows_find_their_ranges(kind):
    make = {
        "int64": lambda i: (i * 7919) % 500 - 250,
        "string": lambda i: f"k{(i * 7919) % 500}é",
        "float64": lambda i: ((i * 7919) % 500) / 7,
        "float32": lambda i: float(np.float32(((i * 7919) % 500) / 7)),
        "binary": lambda i: bytes([(i * 7919) % 251, i % 3]),
        "bool": lambda i: i % 5 == 0,
    }[kind]
    partitions, keys = [i % 3 for i in range(3000)], [make(i) for i in range(3000)]
    ranges = Ranges.of([taken(partitions, keys, 5000)], 90)
    column = pa.array(keys, {"bool": pa.bool_()}.get(kind) or getattr(pa, kind)())
    found = ranges.numbers(np.array(partitions, np.int32), column)
    assert found.tolist() == places(ranges, partitions, keys)
    assert len(ranges) == (6 if kind == "bool" else 33)
    if kind.startswith("float"):
        assert ranges.numbers(np.array([1], np.int32), pa.array([float("nan")], column.type)).tolist() == [21]


def test_blobs_are_cut_many_at_a_time_and_in_their_order(monkeypatch):
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(100_000)), "text": [f"text {n}" for n in range(100_000)]})
    blobs = [scalar for batch in travel.packed(rows) for scalar in batch.column("rows")]
    (whole,) = shuffle._gathered(iter(blobs))
    assert whole.equals(rows)
    monkeypatch.setattr(shuffle, "_GATHERED_BYTES", 2 * travel.BLOB_BYTES)
    several = list(shuffle._gathered(iter(blobs)))
    assert 1 < len(several) < len(blobs)
    assert pa.concat_batches(several).equals(rows)
    assert list(shuffle._gathered(iter([]))) == []
