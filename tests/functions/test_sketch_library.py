"""Gamay's theta, tuple, CPC and frequent-items sketches against those of the datasketches library, byte by byte."""

import base64
import math
import struct
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.registry import bind_aggregate
from gamay.functions.sketch.compact import theta_bytes, theta_entries, tuple_bytes, tuple_entries
from gamay.functions.sketch.cpc import coupons, hashable
from gamay.functions.sketch.deferred import datasketches
from gamay.functions.sketch.entries import (
    THETA_MAX,
    Entries,
    Mode,
    difference,
    estimates,
    hashes_of,
    intersection,
    limited,
    union,
)
from gamay.functions.sketch.frequent import parse
from gamay.functions.vector import Vector
from gamay.model.types import DataType

ds = datasketches()

LG_K = 5
K = 1 << LG_K


def vector(data_type: DataType, values: list[Any]) -> Vector:
    if data_type.is_text:
        return Vector(data_type, pa.array(values, pa.string()))
    return Vector(data_type, np.array(values, np.float64 if data_type is DataType.DOUBLE else np.int64))


def ours(values: Vector, numbers: Any = None) -> Entries:
    hashes = hashes_of(values)
    groups, seen = np.zeros(len(hashes), np.int32), np.array([(hashes != 0).any()])
    return limited(groups, hashes, numbers, np.full(1, THETA_MAX, np.uint64), seen, K)


def trimmed(sketch: Any) -> Any:
    merged = ds.theta_union(LG_K)
    merged.update(sketch)
    return merged.get_result()


def theirs(values: list[Any]) -> Any:
    sketch = ds.update_theta_sketch(LG_K)
    for value in values:
        sketch.update(value)
    return trimmed(sketch)


VALUES: dict[DataType, Any] = {
    DataType.LONG: st.integers(-(2**63), 2**63 - 1),
    DataType.DOUBLE: st.floats(),
    DataType.STRING: st.text(st.characters(exclude_categories=["Cs"])),
}


@pytest.mark.parametrize("data_type", VALUES)
def test_theta_sketches_have_the_bytes_of_the_library(data_type: DataType) -> None:
    @settings(deadline=None)
    @given(st.lists(VALUES[data_type], max_size=80))
    def check(values: list[Any]) -> None:
        sketch = ours(vector(data_type, values))
        assert theta_bytes(sketch) == [theirs(values).serialize()]
        assert estimates(sketch)[0] == pytest.approx(theirs(values).get_estimate(), rel=1e-12)

    check()


RANGES = st.tuples(st.integers(0, 300), st.integers(0, 200)).map(lambda pair: list(range(pair[0], pair[0] + pair[1])))


@settings(deadline=None)
@given(RANGES, RANGES)
def test_set_operations_are_those_of_the_library(left: list[int], right: list[int]) -> None:
    a, b = theirs(left), theirs(right)
    x, y = theta_entries([a.serialize(), b""]), theta_entries([b.serialize(), b""])
    merged, common = ds.theta_union(LG_K), ds.theta_intersection()
    for sketch in (a, b):
        merged.update(sketch)
        common.update(sketch)
    nothing = theta_bytes(ours(vector(DataType.LONG, [])))[0]
    assert theta_bytes(union([x, y], K)) == [merged.get_result().serialize(), nothing]
    assert theta_bytes(intersection([x, y])) == [common.get_result().serialize(), nothing]
    assert theta_bytes(difference(x, y)) == [ds.theta_a_not_b().compute(a, b).serialize(), nothing]


def test_compressed_and_unordered_theta_sketches_are_read() -> None:
    sketch = ds.update_theta_sketch(LG_K)
    for value in range(500):
        sketch.update(value)
    expected = sketch.compact().serialize()
    forms = [expected, sketch.compact().serialize(compress=True), sketch.compact(ordered=False).serialize()]
    assert theta_bytes(theta_entries(forms)) == [expected] * 3


class IntegerSummary(ds.PyObjectSerDe):  # type: ignore[name-defined, misc]
    """The number and the mode of an entry, as Java's IntegerSummary writes them."""

    def get_size(self, item: int) -> int:
        return 5

    def to_bytes(self, item: int) -> bytes:
        return struct.pack("<iB", item, 0)

    def from_bytes(self, data: bytes, offset: int) -> tuple[int, int]:
        return struct.unpack_from("<i", data, offset)[0], 5


class Adding(ds.TuplePolicy):  # type: ignore[name-defined, misc]
    def create_summary(self) -> int:
        return 0

    def update_summary(self, summary: int, update: int) -> int:
        return summary + update

    def __call__(self, left: int, right: int) -> int:
        return left + right


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(-5, 100)), max_size=120))
def test_tuple_sketches_have_the_bytes_of_the_library(rows: list[tuple[int, int]]) -> None:
    sketch = ds.update_tuple_sketch(Adding(), LG_K)
    for key, number in rows:
        sketch.update(key, number)
    merged = ds.tuple_union(Adding(), LG_K)
    merged.update(sketch)
    expected = merged.get_result().serialize(IntegerSummary())
    built = ours(vector(DataType.LONG, [key for key, _ in rows]), np.array([number for _, number in rows], np.int64))
    assert tuple_bytes(built, Mode.SUM) == [expected]
    assert tuple_bytes(tuple_entries([expected]), Mode.SUM) == [expected]


def test_numbers_of_tuple_sketches_merge_by_mode() -> None:
    left = ours(vector(DataType.LONG, [1, 2]), np.array([10, 20]))
    right = ours(vector(DataType.LONG, [2, 3]), np.array([5, 50]))
    for mode, expected in ((Mode.SUM, 25), (Mode.MIN, 5), (Mode.MAX, 20)):
        merged = union([left, right], K, mode)
        assert merged.numbers is not None
        assert sorted(merged.numbers.tolist()) == sorted([10, expected, 50])
        common = intersection([left, right], mode)
        assert common.numbers is not None
        assert common.numbers.tolist() == [expected]
        assert tuple_bytes(common, mode)[0][-1] == mode.value
    kept = difference(left, right)
    assert kept.numbers is not None
    assert kept.numbers.tolist() == [10]


@pytest.mark.parametrize("data_type", VALUES)
def test_coupons_are_those_of_the_library(data_type: DataType) -> None:
    @settings(deadline=None)
    @given(st.lists(VALUES[data_type], max_size=60))
    def check(values: list[Any]) -> None:
        found = coupons(hashable(vector(data_type, values)), 4)
        sketch = ds.cpc_sketch(4)
        for value in values:
            sketch.update(value % 2**64 if isinstance(value, int) else value)
        data = sketch.serialize()
        assert len(set(found[found >= 0].tolist())) == (int.from_bytes(data[8:12], "little") if len(data) > 8 else 0)

    check()


@pytest.mark.parametrize("data_type", [DataType.LONG, DataType.STRING])
def test_frequent_items_are_read_by_the_library(data_type: DataType) -> None:
    drawn = (np.random.default_rng(2).zipf(1.4, 20_000) % 5000 - 7).tolist()
    values = drawn if data_type is DataType.LONG else [f"é{value}" for value in drawn]
    name = "frequentlongssketch" if data_type is DataType.LONG else "frequentstringssketch"
    call = Call(name, (Column("x"), Literal(64, DataType.INT)))
    aggregate = bind_aggregate(call, [(data_type, False)])
    state = aggregate.allocate(1)
    for part in (values[:5000], values[5000:]):
        aggregate.update(state, None, [vector(data_type, part)], len(part))
    data = base64.b64decode(aggregate.finish(aggregate.seal(state)).values[0].as_py())
    if data_type is DataType.LONG:
        sketch = ds.frequent_items_sketch.deserialize(data, ds.PyLongsSerDe())
    else:
        sketch = ds.frequent_strings_sketch.deserialize(data)
    counts = Counter(values)
    assert sketch.total_weight == len(values)
    for value, count in counts.most_common(20):
        assert sketch.get_lower_bound(value) <= count <= sketch.get_upper_bound(value)
    frequent = [item for item, *_ in sketch.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_POSITIVES)]
    assert frequent[:3] == [value for value, _ in counts.most_common(3)]
    assert parse(data, data_type).offsets[0] <= len(values) / 49
    lib = ds.frequent_items_sketch(6) if data_type is DataType.LONG else ds.frequent_strings_sketch(6)
    for value in values:
        lib.update(value)
    theirs_read = parse(lib.serialize(ds.PyLongsSerDe()) if data_type is DataType.LONG else lib.serialize(), data_type)
    assert theirs_read.totals[0] == len(values)


def test_the_estimate_of_a_sampled_sketch() -> None:
    call = Call("distinctcountthetasketch", (Column("x"), Literal("samplingProbability=0.25", DataType.STRING)))
    aggregate = bind_aggregate(call, [(DataType.LONG, False)])
    state = aggregate.allocate(1)
    aggregate.update(state, None, [vector(DataType.LONG, list(range(4000)))], 4000)
    found = aggregate.finish(aggregate.seal(state)).values[0]
    assert abs(found - 4000) < 4 * math.sqrt(4000 * 3)


def kll(k: int, count: int) -> bytes:
    sketch = ds.kll_doubles_sketch(k)
    sketch.update(np.random.default_rng(count).random(count))
    return bytes(sketch.serialize())


def cpc(lg_k: int, count: int) -> bytes:
    sketch = ds.cpc_sketch(lg_k)
    for value in range(count):
        sketch.update(value)
    return bytes(sketch.serialize())


def over_bytes(name: str, *sketches: bytes) -> bytes:
    """Return the raw sketch into which an aggregate merges serialised ones."""
    more = (Literal(50, DataType.INT),) if "kll" in name else ()
    aggregate = bind_aggregate(Call(name, (Column("x"), *more)), [(DataType.BYTES, False)])
    state = aggregate.allocate(1)
    aggregate.update(state, None, [Vector(DataType.BYTES, pa.array(sketches, pa.binary()))], len(sketches))
    partial = aggregate.decode(aggregate.encode(aggregate.seal(state)))
    return base64.b64decode(aggregate.finish(partial).values[0].as_py())


@pytest.mark.parametrize("k", [8, 9, 33, 200, 5000])
def test_kll_sketches_of_all_sizes_are_read(k: int) -> None:
    for count in (0, 1, 2, k, k + 1, 3 * k, 40_000):
        merged = ds.kll_doubles_sketch.deserialize(over_bytes("percentilerawkll", b"", kll(k, count), kll(200, 70)))
        assert merged.n == count + 70
        assert merged.get_max_value() == max(np.random.default_rng(n).random(n).max(initial=0) for n in (count, 70))


@pytest.mark.parametrize("lg_k", [4, 7, 11])
def test_cpc_sketches_of_all_sizes_are_read(lg_k: int) -> None:
    k = 1 << lg_k
    for count in (0, 1, 2, k // 11, k // 10, k // 3, k // 2, k, 3 * k, 4 * k, 9 * k, 60 * k):
        union = ds.cpc_union(12)
        union.update(ds.cpc_sketch.deserialize(cpc(lg_k, count)))
        assert over_bytes("distinctcountrawcpcsketch", b"", cpc(lg_k, count)) == union.get_result().serialize()


# the library's own reader does not survive it: it announces 872415233 pairs
BEYOND = bytes.fromhex(
    "0a011004011ecc934900000001000034000000000050f43fe2da3c0ee0dd71400100000003000000a0fb8ed0000eac1b0000000055000000"
)


def test_a_cpc_sketch_of_more_pairs_than_bits_is_refused() -> None:
    with pytest.raises(QueryError, match="not a serialised CPC sketch: 872415233 pairs do not fit into its table"):
        over_bytes("distinctcountrawcpcsketch", BEYOND)


@pytest.mark.parametrize(
    ("name", "sketches"),
    [
        ("percentilerawkll", [kll(k, count) for k in (8, 200) for count in (0, 1, 2, 50, 300, 3000)]),
        ("distinctcountrawcpcsketch", [cpc(lg_k, count) for lg_k in (4, 6, 11) for count in (0, 1, 2, 50, 300, 3000)]),
    ],
)
def test_damaged_sketches_are_refused_or_mean_something_else(name: str, sketches: list[bytes]) -> None:
    """The library trusts the lengths in the bytes, and would access any memory."""
    rng = np.random.default_rng(11)
    refused = 0
    for turn in range(1500):
        damaged = bytearray(sketches[turn % len(sketches)])
        for _ in range(rng.choice([1, 2, 5])):
            reach = min(len(damaged), 40) if rng.random() < 0.6 else len(damaged)
            damaged[rng.integers(reach)] = rng.integers(256)
        try:
            over_bytes(name, bytes(damaged), sketches[5])
        except QueryError:
            refused += 1
    assert 100 < refused < 1500
