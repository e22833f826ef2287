"""PERCENTILEEST and PERCENTILERAWEST against a digest made of Python objects, and against exact ranks."""

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.types import DataType

_path = Path(__file__).parents[1] / "naive" / "quantile_digest.py"
_spec = importlib.util.spec_from_file_location("naive_quantile_digest", _path)
assert _spec is not None
assert _spec.loader is not None
naive = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(naive)

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


def longs(values: Any) -> Vector:
    return Vector(DataType.LONG, np.array(values, np.int64))


def encoded(values: Any) -> EncodedVector:
    entries, ids = np.unique(np.array(values, np.int64), return_inverse=True)
    return EncodedVector(ids.astype(np.uint32), longs(entries))


def shape(root: Any) -> Any:
    return [(node.upper, node.level, node.weight) for node in naive.in_order(root)]


def raw(result: Vector, group: int = 0) -> Any:
    return naive.parse(bytes.fromhex(result.values[group].as_py()))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([10, 1000, 8000]), st.sampled_from([3, 100, 10**6, 2**62]), st.booleans())
def test_digest_of_one_batch(bind_call: Any, whole: Any, seed: int, rows: int, spread: int, coded: bool) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=rows) * spread / 4).astype(np.int64) + int(rng.integers(0, 2)) * spread
    operand: Operand = encoded(values) if coded else longs(values)
    error, low, high, root = raw(whole(bind_call("percentilerawest", [DataType.LONG], 50), [operand], None, 1))
    wanted = naive.compress(naive.build(values.tolist()), 0.05)
    assert (error, low, high) == (0.05, values.min(), values.max())
    assert shape(root) == shape(wanted)
    for p in (0, 10, 50, 99.5, 100):
        result = whole(bind_call("percentileest", [DataType.LONG], p), [operand], None, 1).values[0]
        assert result == naive.percentile(wanted, p, int(values.max()))


@pytest.mark.parametrize("rows", [300, 60_000])
@pytest.mark.parametrize("data_type", [DataType.LONG, DataType.DOUBLE])
def test_ranks_are_close_however_rows_are_divided(
    rows: int, data_type: DataType, bind_call: Any, whole: Any, divided: Any
) -> None:
    rng = np.random.default_rng(6)
    values = np.trunc(rng.lognormal(10, 3, rows)) * rng.choice([-1, 1], rows)
    groups = rng.integers(0, 3, rows).astype(np.uint8)
    operand = Vector(data_type, values.astype(np.int64 if data_type is DataType.LONG else np.float64))
    for p in (0, 5, 50, 90, 100):
        aggregate = bind_call("percentileest", [data_type], p)
        for result in (whole(aggregate, [operand], groups, 3), divided(aggregate, [operand], groups, 3, 1)):
            for group, estimate in enumerate(result.values.tolist()):
                own = values[groups == group]
                assert np.mean(own < estimate) - 0.05 <= p / 100 <= np.mean(own <= estimate) + 0.05


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(LONG_MIN, LONG_MAX), max_size=60), st.integers(0, 99), st.sampled_from([0, 29, 33.3, 50, 100]))
def test_few_values_are_exact(bind_call: Any, whole: Any, divided: Any, values: list[int], seed: int, p: float) -> None:
    groups = np.random.default_rng(seed).integers(0, 2, len(values)).astype(np.uint8)
    wanted = []
    for group in range(3):
        own = sorted(value for value, g in zip(values, groups, strict=True) if g == group)
        index = len(own) - 1 if p == 100 else math.floor(len(own) * p / 100)
        wanted.append(own[index] if own else LONG_MIN)
    aggregate = bind_call("percentileest", [DataType.LONG], p)
    assert whole(aggregate, [longs(values)], groups, 3).values.tolist() == wanted
    assert divided(aggregate, [longs(values)], groups, 3, seed).values.tolist() == wanted
    tree = divided(bind_call("percentilerawest", [DataType.LONG], p), [longs(values)], groups, 3, seed)
    for group in range(3):
        own = [value for value, g in zip(values, groups, strict=True) if g == group]
        _, low, high, root = raw(tree, group)
        assert (low, high) == (min(own, default=LONG_MAX), max(own, default=LONG_MIN))
        assert shape(root) == shape(naive.build(own))


def test_merged_digests_are_whole_trees(bind_call: Any, divided: Any) -> None:
    rng = np.random.default_rng(8)
    values = rng.integers(-(2**40), 2**40, 50_000)
    _, low, high, root = raw(divided(bind_call("percentilerawest", [DataType.LONG], 1), [longs(values)], None, 1, 3))
    assert (low, high) == (values.min(), values.max())
    nodes = naive.in_order(root)
    assert sum(node.weight for node in nodes) == 50_000
    assert len(nodes) < 3 * 65 / 0.05  # values of both signs: the root is at level 64


def test_what_numbers_become(bind_call: Any, whole: Any) -> None:
    highest = bind_call("percentileest", [DataType.DOUBLE], 100)
    lowest = bind_call("percentileest", [DataType.DOUBLE], 0)
    for values, low, high in (
        ([1.9, -1.9, math.nan], -1, 1),
        ([math.inf, -math.inf], LONG_MIN, LONG_MAX),
        ([9.3e18, -9.3e18], LONG_MIN, LONG_MAX),
        ([9223372036854774784.0], 9223372036854774784, 9223372036854774784),
        ([math.nan], LONG_MIN, LONG_MIN),
    ):
        operand = Vector(DataType.DOUBLE, np.array(values))
        assert whole(lowest, [operand], None, 1).values.tolist() == [low]
        assert whole(highest, [operand], None, 1).values.tolist() == [high]
    lists = Vector(DataType.INT, np.array([4, 2, 9], np.int32), np.array([0, 2, 2, 3], np.int32))
    assert whole(bind_call("percentileest50mv", [DataType.INT], multi_value=True), [lists], None, 1).values.tolist() == [4]


def test_many_groups(bind_call: Any, whole: Any) -> None:
    rng = np.random.default_rng(9)
    groups, values = rng.integers(0, 5000, 40_000).astype(np.int32), rng.integers(0, 1000, 40_000)
    result = whole(bind_call("percentileest", [DataType.LONG], 50), [longs(values)], groups, 5000).values
    for group in range(0, 5000, 97):
        own = np.sort(values[groups == group])
        assert result[group] == (own[len(own) // 2] if len(own) else LONG_MIN)


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("percentileest", (), "0 to 100"),
        ("percentileest", (50, 100), "takes 2 arguments"),
        ("percentilerawest", (-1,), "0 to 100"),
        ("percentileest50", (1,), "takes 1 argument"),
    ],
)
def test_refused(name: str, more: Any, words: str, bind_call: Any) -> None:
    with pytest.raises(QueryError, match=words):
        bind_call(name, [DataType.INT], *more)
    with pytest.raises(QueryError, match="needs numbers"):
        bind_call("percentileest", [DataType.STRING], 50)
