"""Percentiles of t-digests and KLL sketches: ranks, serialised forms, thresholds, arguments."""

import base64
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.percentile.digest import Digests
from gamay.functions.sketch.deferred import datasketches
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.types import DataType


def doubles(values: Any) -> Vector:
    return Vector(DataType.DOUBLE, np.array(values, np.float64))


def encoded(values: Any) -> EncodedVector:
    entries, ids = np.unique(np.array(values, np.float64), return_inverse=True)
    return EncodedVector(ids.astype(np.uint32), doubles(entries))


def exact(values: Any, p: float) -> float:
    ordered = np.sort(values)
    return float(ordered[-1] if p == 100 else ordered[math.floor(len(ordered) * p / 100)])


NAMES = ["percentiletdigest", "percentilesmarttdigest", "percentilekll", "percentileest", "percentile"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_groups", [1, 3, 4000])
@pytest.mark.parametrize("coded", [False, True])
def test_ranks_however_rows_are_divided(
    name: str, num_groups: int, coded: bool, bind_call: Any, whole: Any, divided: Any
) -> None:
    rng = np.random.default_rng(3)
    values = np.round(rng.gamma(2, 1000, 20_000))
    groups = None if num_groups == 1 else rng.integers(0, num_groups, 20_000).astype(np.uint16)
    operand: Operand = encoded(values) if coded else doubles(values)
    for p in (0, 10, 50, 99, 100):
        aggregate = bind_call(name, [DataType.DOUBLE], p)
        for result in (
            whole(aggregate, [operand], groups, num_groups),
            divided(aggregate, [operand], groups, num_groups, 4),
        ):
            for group in range(0, num_groups, 101):
                own = values if groups is None else values[groups == group]
                estimate = result.values[group]
                if num_groups == 4000 and name != "percentiletdigest":
                    assert estimate == exact(own, p) or name == "percentilekll"
                off = 0.05 if name == "percentileest" else 0.03
                slack = off + (1 / len(own) if name in ("percentiletdigest", "percentilekll") else 0)
                assert np.mean(own < estimate) - slack <= p / 100 <= np.mean(own <= estimate) + slack


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-100, 100), max_size=60), st.integers(0, 99), st.sampled_from([0, 12.5, 29, 50, 100]))
def test_smart_digests_are_exact_up_to_the_threshold(
    bind_call: Any, whole: Any, divided: Any, values: list[float], seed: int, p: float
) -> None:
    groups = np.random.default_rng(seed).integers(0, 2, len(values)).astype(np.uint8)
    own = [np.array(values)[groups == group] for group in range(2)]
    wanted = [exact(part, p) if len(part) else -math.inf for part in own]
    for more in ((), ("threshold=60;compression=20",), ("THRESHOLD = -1",), ("",)):
        aggregate = bind_call("percentilesmarttdigest", [DataType.DOUBLE], p, *more)
        assert whole(aggregate, [doubles(values)], groups, 2).values.tolist() == wanted
        assert divided(aggregate, [doubles(values)], groups, 2, seed).values.tolist() == wanted


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=60), st.sampled_from([0, 7.5, 10, 25, 50, 75, 90, 99, 100]))
def test_digests_of_few_values_are_exact(bind_call: Any, whole: Any, values: list[int], p: float) -> None:
    """A centroid of one value is that value, as in t-digest's MergingDigest, without interpolation."""
    aggregate = bind_call("percentiletdigest", [DataType.DOUBLE], p)
    for operand in (doubles(values), encoded(values)):
        assert whole(aggregate, [operand], None, 1).values.tolist() == [exact(values, p)]


_TWO = ((2.0, 6.0), (10.0, 4.0))  # mean and weight; all between 0 and 20
_THREE = ((2.0, 1.0), (10.0, 4.0), (20.0, 1.0))


@pytest.mark.parametrize(
    ("centroids", "p", "wanted"),
    [
        (((4.0, 6.0),), 50, 4.0),
        (_TWO, 0, 0.0),
        (_TWO, 5, 0.0),  # the smallest is the first of all values
        (_TWO, 20, 1.0),  # 2 of 6 are below: one at 0, half of the other two before the middle
        (_TWO, 30, 2.0),
        (_TWO, 50, 5.2),
        (_TWO, 80, 10.0),
        (_TWO, 85, 15.0),
        (_TWO, 90, 20.0),
        (_TWO, 100, 20.0),
        (_THREE, 25, 4.0),  # the value 2 ends at 1, the middle of the next is at 3
    ],
)
def test_heavier_centroids_are_interpolated(
    bind_call: Any, centroids: tuple[tuple[float, float], ...], p: float, wanted: float
) -> None:
    means, weights = np.array(centroids).T
    digests = Digests(np.zeros(len(means), np.int32), means.copy(), weights.copy(), np.array([[0.0, 20.0]]))
    assert bind_call("percentiletdigest", [DataType.DOUBLE], p).finish(digests).values.tolist() == [pytest.approx(wanted)]


def test_a_small_compression_is_raised_to_ten(bind_call: Any, whole: Any) -> None:
    values = doubles(np.arange(1000.0))
    few, ten = (whole(bind_call("percentilerawtdigest", [DataType.DOUBLE], 50, c), [values], None, 1) for c in (3, 10))
    assert few.values == ten.values
    name, more = "percentilesmarttdigest", "threshold=1;compression="
    few, ten = (whole(bind_call(name, [DataType.DOUBLE], 33, f"{more}{c}"), [values], None, 1) for c in (3, 10))
    assert few.values == ten.values


def test_smart_digests_beyond_the_threshold(bind_call: Any, whole: Any, divided: Any) -> None:
    values = doubles(np.random.default_rng(2).normal(size=5000))
    smart = bind_call("percentilesmarttdigest", [DataType.DOUBLE], 37, "threshold=4999;compression=50")
    plain = bind_call("percentiletdigest", [DataType.DOUBLE], 37, 50)
    assert whole(smart, [values], None, 1).values.tolist() == whole(plain, [values], None, 1).values.tolist()
    assert len(smart.seal(_filled(smart, values)).means) < 60
    assert divided(smart, [values], None, 1, 1).values[0] == pytest.approx(np.percentile(values.values, 37), abs=0.05)


def _filled(aggregate: Any, values: Vector) -> Any:
    state = aggregate.allocate(1)
    aggregate.update(state, None, [values], len(values))
    return state


def test_raw_digest_is_as_java_writes_it(bind_call: Any, whole: Any) -> None:
    result = whole(bind_call("percentilerawtdigest", [DataType.DOUBLE], 50, 200), [doubles([2, 1, 2, math.nan])], None, 1)
    data = bytes.fromhex(result.values[0].as_py())
    assert struct.unpack_from(">idddi", data) == (1, 1.0, 2.0, 200.0, 3)
    assert struct.unpack_from(">6d", data, 32) == (1.0, 1.0, 1.0, 2.0, 1.0, 2.0)
    assert len(data) == 32 + 3 * 16
    empty = whole(bind_call("percentilerawtdigest95", [DataType.DOUBLE]), [doubles([])], np.empty(0, np.uint8), 2)
    assert struct.unpack(">idddi", bytes.fromhex(empty.values[1].as_py())) == (1, math.inf, -math.inf, 100.0, 0)


def test_raw_sketches_can_be_read_and_merged(bind_call: Any, whole: Any, divided: Any) -> None:
    values = np.arange(150.0)
    for run in (whole, lambda *args: divided(*args, 5)):
        raw = run(bind_call("percentilerawkll", [DataType.DOUBLE], 50, 400), [doubles(values)], None, 1)
        data = base64.b64decode(raw.values[0].as_py())
        sketch = datasketches().kll_doubles_sketch.deserialize(data)
        assert (sketch.n, sketch.k, sketch.get_quantile(0.5, True)) == (150, 400, 74.0)
    other = datasketches().kll_doubles_sketch(200)
    other.update(np.arange(150.0, 180.0))
    operand = Vector(DataType.BYTES, pa.array([data, other.serialize()], pa.binary()))
    result = whole(bind_call("percentilekll", [DataType.BYTES], 100), [operand], None, 1)
    assert result.values.tolist() == [179.0]
    empty = whole(bind_call("percentilerawkll50", [DataType.INT]), [doubles([])], np.empty(0, np.uint8), 1)
    assert datasketches().kll_doubles_sketch.deserialize(base64.b64decode(empty.values[0].as_py())).is_empty()
    broken = Vector(DataType.BYTES, pa.array([b"\x01\x02"], pa.binary()))
    with pytest.raises(QueryError, match="not a serialised KLL sketch") as caught:
        whole(bind_call("percentilekll", [DataType.BYTES], 50), [broken], None, 1)
    assert caught.value.code is ErrorCode.QUERY_EXECUTION


def serialised(sketches: list[bytes]) -> list[Operand]:
    """Return sketches as a column, plain and with a dictionary."""
    entries = sorted(set(sketches))
    plain, dictionary = (Vector(DataType.BYTES, pa.array(values, pa.binary())) for values in (sketches, entries))
    return [plain, EncodedVector(np.array([entries.index(one) for one in sketches], np.uint8), dictionary)]


@pytest.mark.parametrize(("name", "spread"), [("tdigest", 30), ("tdigest", 100_000), ("est", 30), ("est", 100_000)])
def test_serialised_digests_are_merged(name: str, spread: int, bind_call: Any, whole: Any, divided: Any) -> None:
    rng = np.random.default_rng(spread)
    values, parts = rng.integers(-spread, spread, 4000).astype(np.float64), rng.integers(0, 7, 4000).astype(np.uint8)
    raw = whole(bind_call(f"percentileraw{name}", [DataType.DOUBLE], 50), [doubles(values)], parts, 7).values.to_pylist()
    twice = [bytes.fromhex(text) for text in (*raw, raw[0], "")]
    everything = np.concatenate([values, values[parts == 0]])
    for p in (0, 20, 50, 97, 100):
        aggregate = bind_call(f"percentile{name}", [DataType.BYTES], p)
        for operand in serialised(twice):
            for result in (whole(aggregate, [operand], None, 1), divided(aggregate, [operand], None, 1, 3)):
                found = result.values[0]
                off = 0.06 if name == "est" else 0.02
                assert np.mean(everything < found) - off <= p / 100 <= np.mean(everything <= found) + off
    groups = np.array([*range(7), 0, 7], np.uint8)
    grouped = whole(bind_call(f"percentile{name}", [DataType.BYTES], 100), [serialised(twice)[0]], groups, 9)
    largest = [values[parts == part].max() for part in range(7)]
    assert grouped.values[:7].tolist() == largest
    nothing = -(2**63) if name == "est" else math.nan
    np.testing.assert_array_equal(grouped.values[7:], [nothing] * 2)


def test_digests_in_the_short_form_of_java(bind_call: Any, whole: Any) -> None:
    data = struct.pack(">iddfhhh6f", 2, -1.0, 9.0, 50.0, 110, 250, 3, 1.0, -1.0, 2.0, 0.5, 1.0, 9.0)
    for p, wanted in ((0, -1.0), (50, 0.5), (100, 9.0)):
        aggregate = bind_call("percentiletdigest", [DataType.BYTES], p)
        assert whole(aggregate, [serialised([data])[0]], None, 1).values.tolist() == [wanted]


_T_DIGEST = struct.pack(">idddi2d", 1, 0.0, 1.0, 100.0, 1, 1.0, 0.5)
_EST = struct.pack(">ddqqqiBBqd", 0.05, 0.0, 0, 3, 3, 1, 0, 0, 3 - 2**63, 1.0)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("tdigest", b"\x00", "1 or 2"),
        ("tdigest", _T_DIGEST[:20], "too short"),
        ("tdigest", _T_DIGEST[:-1], "does not match its header"),
        ("tdigest", _T_DIGEST[:32] + struct.pack(">2d", -1.0, 0.5), "no weight"),
        ("tdigest", _T_DIGEST[:32] + struct.pack(">2d", 1.0, math.nan), "no mean"),
        ("est", b"\x00", "too short"),
        ("est", _EST + b"\x00", "does not match its header"),
        ("est", _EST[:8] + struct.pack(">d", 0.5) + _EST[16:], "decay"),
        ("est", _EST[:45] + b"\x41" + _EST[46:], "level"),
        ("est", _EST[:-8] + struct.pack(">d", math.inf), "weight"),
    ],
)
def test_bytes_that_are_no_digest_are_told(name: str, data: bytes, words: str, bind_call: Any, whole: Any) -> None:
    aggregate = bind_call(f"percentile{name}", [DataType.BYTES], 50)
    whole(aggregate, [serialised([_EST if name == "est" else _T_DIGEST])[0]], None, 1)
    with pytest.raises(QueryError, match=words) as caught:
        whole(aggregate, [serialised([data])[0]], None, 1)
    assert caught.value.code is ErrorCode.QUERY_EXECUTION


def test_no_rows_and_nan(bind_call: Any, whole: Any) -> None:
    for values in ([], [math.nan]):
        groups = np.zeros(len(values), np.uint8)
        for name, wanted in (("percentilekll", math.nan), ("percentiletdigest", math.nan)):
            result = whole(bind_call(name, [DataType.DOUBLE], 50), [doubles(values)], groups, 2).values
            np.testing.assert_array_equal(result, [wanted] * 2)


@pytest.mark.parametrize(
    "name",
    ["percentile", "percentileest", "percentiletdigest", "percentilekll", "percentilesmarttdigest"],
)
def test_twins_and_suffixes(name: str, bind_call: Any, whole: Any) -> None:
    lists = Vector(DataType.LONG, np.array([1, 2, 3, 4, 5]), np.array([1, 3, 3, 5], np.int32))
    for call, more in ((f"{name}mv", (50,)), (f"{name}50mv", ()), (f"{name}50", ()), (name, (50,)), (name, ("50",))):
        aggregate = bind_call(call, [DataType.LONG], *more, multi_value=True)
        assert whole(aggregate, [lists], None, 1).values[0] in (3, 3.5, 4), call


def test_raw_twins_are_raw(bind_call: Any) -> None:
    for name in ("percentilerawest", "percentilerawtdigest", "percentilerawkll"):
        for call, more in ((f"{name}mv", (50,)), (f"{name}50mv", ()), (f"{name}50", ()), (name, (50,))):
            assert bind_call(call, [DataType.LONG], *more, multi_value=True).traits.result_type is DataType.STRING


@pytest.mark.parametrize(
    ("name", "data_type", "more", "words"),
    [
        ("percentiletdigest", DataType.INT, (50, 0.5), "compression must be a number from 1 to 10000"),
        ("percentiletdigest", DataType.INT, (50, 100, 1), "takes 2 to 3 arguments"),
        ("percentilerawtdigest", DataType.INT, (101,), "0 to 100"),
        ("percentilesmarttdigest", DataType.INT, (50, "compression=x"), "compression must be a number"),
        ("percentilesmarttdigest", DataType.INT, (50, "k=3"), "unknown parameter 'k=3'"),
        ("percentilesmarttdigest", DataType.INT, (50, 3), "threshold=100000;compression=100"),
        ("percentilekll", DataType.INT, (50, 4), "from 8 to 65535"),
        ("percentilekll", DataType.INT, (50, 2.5), "from 8 to 65535"),
        ("percentilekll", DataType.STRING, (50,), "needs numbers"),
        ("percentilerawkll", DataType.INT, (), "0 to 100"),
    ],
)
def test_refused(name: str, data_type: DataType, more: Any, words: str, bind_call: Any) -> None:
    with pytest.raises(QueryError, match=words):
        bind_call(name, [data_type], *more)


@pytest.mark.parametrize("coded", [False, True])
def test_few_values_stay_apart(coded: bool, bind_call: Any, whole: Any) -> None:
    """Between two values that half of all rows have each, only the rows beside the border are interpolated."""
    values = np.random.default_rng(1).choice([1, 2, 3], 100_000, p=[0.3, 0.4, 0.3])
    operand: Operand = encoded(values) if coded else doubles(values)
    for p in (1, 25, 35, 50, 65, 75, 99):
        assert whole(bind_call("percentiletdigest", [DataType.DOUBLE], p), [operand], None, 1).values[0] == exact(values, p)
    few = encoded([1, 2, 2, 2, 3, 5]) if coded else doubles([1, 2, 2, 2, 3, 5])
    assert whole(bind_call("percentiletdigest", [DataType.DOUBLE], 50), [few], None, 1).values[0] == 2
