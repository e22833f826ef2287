"""Aggregates one by one: binding, results for no rows, sketches against their definition, wire forms."""

import importlib.util
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate_spi import Aggregate
from gamay.functions.expression import Call, Column, Expression, Literal, Star
from gamay.functions.registry import aggregate_arguments, bind_aggregate, is_aggregate
from gamay.functions.sketch.hll import HllKind
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.types import DataType

_spec = importlib.util.spec_from_file_location("naive_aggregates", Path(__file__).parents[1] / "naive" / "aggregates.py")
assert _spec is not None
assert _spec.loader is not None
naive = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(naive)

X, Y = Column("x"), Column("y")


def literal(value: Any) -> Literal:
    return Literal(
        value, DataType.STRING if isinstance(value, str) else DataType.DOUBLE if isinstance(value, float) else DataType.INT
    )


def make(name: str, *more: Any, data_type: DataType = DataType.DOUBLE, argument: Expression = X) -> Aggregate:
    call = Call(name, (argument, *(literal(value) for value in more)))
    return bind_aggregate(call, [(data_type, False) for _ in aggregate_arguments(call)])


def doubles(*values: float) -> Vector:
    return Vector(DataType.DOUBLE, np.array(values, np.float64))


def over(aggregate: Aggregate, operand: Operand) -> Any:
    state = aggregate.allocate(1)
    aggregate.update(state, None, [operand], len(operand) if not hasattr(operand, "value") else 1)
    partial = aggregate.decode(aggregate.encode(aggregate.seal(state)))
    return aggregate.finish(partial).values[0]


# -- no rows

EMPTY = {
    "count": 0, "countmv": 0, "sum": 0.0, "min": math.inf, "max": -math.inf, "avg": -math.inf, "minmaxrange": -math.inf,
    "distinctcount": 0, "distinctcounthll": 0, "distinctsum": 0.0, "distinctavg": math.nan, "mode": -math.inf,
    "percentile95": -math.inf, "percentileest95": -(2**63), "percentiletdigest95": math.nan,
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), EMPTY.items())
def test_no_rows(name: str, expected: float) -> None:
    aggregate = make(name)
    state = aggregate.allocate(3)
    for partial in (aggregate.seal(state), aggregate.merge([], [], 3) if name in ("count", "sum", "min") else None):
        if partial is not None:
            result = aggregate.finish(aggregate.decode(aggregate.encode(partial)))
            np.testing.assert_array_equal(result.values, [expected] * 3)
            assert result.type is aggregate.traits.result_type


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_batch_changes_nothing(name: str) -> None:
    aggregate = make(name)
    state = aggregate.allocate(2)
    nothing = Vector(DataType.DOUBLE, np.empty(0))
    encoded = EncodedVector(np.empty(0, np.uint8), doubles(1.0, 2.0))
    for operand in (nothing, encoded, nothing):
        aggregate.update(state, np.empty(0, np.int32), [operand], 0)
    result = aggregate.finish(aggregate.seal(state)).values
    np.testing.assert_array_equal(result, [EMPTY[name]] * 2)


@pytest.mark.parametrize("name", [name for name in EMPTY if name not in ("count", "countmv")])
def test_combine_is_update_in_another_thread(name: str) -> None:
    aggregate = make(name)
    rng = np.random.default_rng(4)
    groups, values = rng.integers(0, 5, 400).astype(np.uint8), rng.integers(0, 30, 400).astype(np.float64)
    dictionary, ids = np.unique(values, return_inverse=True)
    entries = doubles(*dictionary)
    for operand in (Vector(DataType.DOUBLE, values), EncodedVector(ids.astype(np.uint8), entries)):
        whole, left, right = aggregate.allocate(5), aggregate.allocate(2), aggregate.allocate(5)
        aggregate.update(whole, groups, [operand], 400)
        left = aggregate.grow(left, 5)
        halves = (slice(0, 123), slice(123, 400))
        for state, part in zip((left, right), halves, strict=True):
            piece = (
                EncodedVector(operand.ids[part], entries) if isinstance(operand, EncodedVector) else doubles(*values[part])
            )
            aggregate.update(state, groups[part], [piece], part.stop - part.start)
        combined = aggregate.finish(aggregate.seal(aggregate.combine(left, right))).values
        expected = aggregate.finish(aggregate.seal(whole)).values
        np.testing.assert_allclose(combined, expected, rtol=0.02 if "digest" in name or "est" in name else 1e-12)


# -- exact results


@pytest.mark.parametrize("p", [0, 1, 49.9, 50, 90, 99.99, 100])
def test_percentile_does_not_interpolate(p: float) -> None:
    values = [5.0, 1.0, 4.0, 4.0, 2.0, 3.0, 10.0]
    assert over(make("percentile", p), doubles(*values)) == naive.percentile(values, p)


def test_percentile_of_four() -> None:
    assert over(make("percentile50"), doubles(1, 2, 3, 4)) == 3
    assert over(make("PERCENTILE_50"), doubles(1, 2, 3, 4)) == 3


@pytest.mark.parametrize(("reducer", "expected"), [((), 2.0), (("MIN",), 2.0), (("max",), 7.0), (("AVG",), 4.5)])
def test_mode_settles_ties(reducer: tuple[str, ...], expected: float) -> None:
    assert over(make("mode", *reducer), doubles(7, 2, 2, 7, 1)) == expected


def test_distinct_sum_and_average() -> None:
    assert over(make("distinctsum"), doubles(1, 1, 2, -4, 2)) == -1
    assert over(make("distinctavg"), doubles(1, 1, 2, -4, 2)) == pytest.approx(-1 / 3)


def test_decimals_are_numbers() -> None:
    values = np.array([Decimal("1.5"), Decimal("2.50"), Decimal("2.5")], object)
    vector = Vector(DataType.BIG_DECIMAL, values)
    expected = {"sum": 6.5, "min": 1.5, "max": 2.5, "avg": 6.5 / 3, "percentile50": 2.5, "distinctcount": 3}
    for name, result in expected.items():
        assert over(make(name, data_type=DataType.BIG_DECIMAL), vector) == result


def test_booleans_and_timestamps_are_numbers() -> None:
    assert over(make("sum", data_type=DataType.BOOLEAN), Vector(DataType.BOOLEAN, np.array([True, False, True]))) == 2
    assert over(make("max", data_type=DataType.TIMESTAMP), Vector(DataType.TIMESTAMP, np.array([5, 9]))) == 9


def test_lists_count_by_value() -> None:
    lists = Vector(DataType.INT, np.array([0, 1, 1, 2, 5], np.int32), np.array([1, 3, 3, 5], np.int32))
    expected = {"countmv": 4, "summv": 9.0, "sum": 9.0, "avgmv": 2.25, "distinctcountmv": 3, "percentile50mv": 2.0}
    for name, result in expected.items():
        call = Call(name, (X,))
        aggregate = bind_aggregate(call, [(DataType.INT, True)])
        assert over(aggregate, lists) == result
    groups = np.array([1, 0, 1], np.uint8)
    aggregate = bind_aggregate(Call("summv", (X,)), [(DataType.INT, True)])
    state = aggregate.allocate(2)
    aggregate.update(state, groups, [lists], 3)
    assert aggregate.finish(aggregate.seal(state)).values.tolist() == [0.0, 9.0]


# -- sketches


@pytest.mark.parametrize("log2m", [4, 8, 12])
def test_hll_registers_are_those_of_the_definition(log2m: int) -> None:
    values = np.arange(-500, 2500) * 7_000_000_001
    aggregate = make("distinctcounthll", log2m, data_type=DataType.LONG)
    state = aggregate.allocate(1)
    aggregate.update(state, None, [Vector(DataType.LONG, values)], len(values))
    expected = naive.hll_registers([naive.hll_hash_long(v & (2**64 - 1)) for v in values.tolist()], log2m)
    assert aggregate.seal(state)[0].tolist() == expected
    assert aggregate.finish(aggregate.seal(state)).values[0] == pytest.approx(3000, rel=4 * 1.04 / math.sqrt(1 << log2m))


def test_hll_of_text_is_the_same_with_and_without_dictionary() -> None:
    texts = pa.array([f"user {i % 700} ü" for i in range(5000)])
    coded = texts.dictionary_encode()
    dictionary = Vector(DataType.STRING, coded.dictionary)
    encoded = EncodedVector(coded.indices.to_numpy().astype(np.uint16), dictionary)
    aggregate = make("distinctcounthll", 12, data_type=DataType.STRING)
    results = {over(aggregate, operand) for operand in (Vector(DataType.STRING, texts), encoded)}
    assert len(results) == 1
    assert results.pop() == pytest.approx(700, rel=0.07)
    sliced = Vector(DataType.STRING, texts.slice(100, 700))
    assert over(aggregate, sliced) == pytest.approx(700, rel=0.07)


def test_raw_hll_is_the_serialised_sketch() -> None:
    raw = make("distinctcountrawhll", data_type=DataType.INT)
    text = over(raw, Vector(DataType.INT, np.array([1], np.int32)))
    data = bytes.fromhex(str(text))
    h = naive.hll_hash_long(1)
    register, rank = h >> 24, naive.hll_registers([h], 8)[h >> 24]
    assert data[:8] == (8).to_bytes(4, "big") + (4 * 43).to_bytes(4, "big")
    assert len(data) == 8 + 4 * 43
    word = int.from_bytes(data[8 + 4 * (register // 6) :][:4], "big")
    assert word == rank << 5 * (register % 6)
    assert HllKind(2).serialize(np.zeros(4, np.uint8)) == (2).to_bytes(4, "big") + (4).to_bytes(4, "big") + bytes(4)


@pytest.mark.parametrize("q", [0, 1, 25, 50, 75, 99, 99.9, 100])
@pytest.mark.parametrize("coded", [True, False])
def test_digest_is_close(q: float, coded: bool) -> None:
    rng = np.random.default_rng(7)
    values = np.round(rng.lognormal(sigma=2, size=30_000), 2)
    dictionary, ids = np.unique(values, return_inverse=True)
    operand: Operand = EncodedVector(ids.astype(np.uint32), doubles(*dictionary)) if coded else doubles(*values)
    result = over(make("percentiletdigest", q), operand)
    ranks = np.searchsorted(np.sort(values), [result - 0.005, result + 0.005]) / len(values)
    assert ranks[0] - 0.01 <= q / 100 <= ranks[1] + 0.01
    whole = over(make("percentileest", q), operand)
    assert isinstance(int(whole), int)
    assert abs(np.mean(np.trunc(values) <= whole) - q / 100) < 0.05 or np.mean(np.trunc(values) < whole) <= q / 100


def test_digest_takes_infinities_and_leaves_nan() -> None:
    values = doubles(-math.inf, math.nan, 1.0, math.inf, -math.inf, 2.0)
    assert over(make("percentiletdigest", 0), values) == -math.inf
    assert over(make("percentiletdigest", 100), values) == math.inf
    assert over(make("percentiletdigest", 50), values) == 1.0
    assert over(make("percentiletdigest50"), doubles(math.nan)) is not None
    assert math.isnan(over(make("percentiletdigest50"), doubles(math.nan)))
    assert over(make("percentiletdigest", 50), doubles(*[-math.inf] * 50)) == -math.inf
    assert over(make("percentileest", 100), doubles(math.inf)) == 2**63 - 1


def test_digests_merge() -> None:
    aggregate = make("percentiletdigest", 90)
    rng = np.random.default_rng(9)
    values = rng.normal(size=(20, 2000))
    partials = []
    for part in values:
        state = aggregate.allocate(1)
        aggregate.update(state, None, [doubles(*part)], 2000)
        partials.append(aggregate.seal(state))
    merged = aggregate.merge(partials, [np.zeros(1, np.int32)] * 20, 1)
    assert aggregate.finish(merged).values[0] == pytest.approx(np.percentile(values, 90), abs=0.02)
    assert len(merged.means) < 120


# -- binding


@pytest.mark.parametrize(
    ("call", "types", "words"),
    [
        (Call("sum", (X,)), [(DataType.STRING, False)], "CAST"),
        (Call("sum", (X, X)), [(DataType.INT, False)] * 2, "takes 1 argument, not 2"),
        (Call("sum", (X,)), [(DataType.BYTES, False)], "its argument is BYTES$"),
        (Call("sum", (X,)), [(DataType.MAP, False)], r"is MAP; name one of its values, x\['key'\]"),
        (Call("covarpop", (X, Y)), [(DataType.INT, False), (DataType.STRING, False)], r"y is STRING; write CAST\(y AS"),
        (
            Call("firstwithtime", (X, Y, literal("INT"))),
            [(DataType.INT, False), (DataType.STRING, False)],
            r"y is STRING; write CAST\(y AS DOUBLE\)",
        ),
        (Call("histogram", (X, literal(0), literal(9), literal(3))), [(DataType.STRING, False)], "x is STRING; write CAST"),
        (Call("mode", (X, Y)), [(DataType.INT, False)] * 2, "after the first must be constants, y is not"),
        (Call("percentile", (X, Y)), [(DataType.INT, False)] * 2, "0 to 100"),
        (Call("arrayagg", (X, literal("INTS"))), [(DataType.INT, False)], "'BOOLEAN', .* not 'INTS'"),
        (Call("distinctcount", (Star(),)), [], "an expression, not \\*"),
        (Call("count", (X, X)), [], "one expression"),
        (Call("percentile", (X,)), [(DataType.INT, False)], "0 to 100"),
        (Call("percentile", (X, literal(101))), [(DataType.INT, False)], "0 to 100"),
        (Call("percentile101", (X,)), [(DataType.INT, False)], "0 to 100"),
        (Call("percentiletdigest", (X, literal(5), literal(0))), [(DataType.INT, False)], "compression"),
        (Call("distinctcounthll", (X, literal(40))), [(DataType.INT, False)], "log2m"),
        (Call("mode", (X, literal("MEDIAN"))), [(DataType.INT, False)], "'AVG'"),
    ],
)
def test_what_does_not_fit_is_refused(call: Call, types: Any, words: str) -> None:
    with pytest.raises(QueryError, match=words) as caught:
        bind_aggregate(call, types)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION


ONE_ARGUMENT = (
    "sum", "$sum0", "min", "max", "avg", "minmaxrange", "summv", "countmv", "booland", "boolor", "anyvalue", "varpop",
    "minlong", "sumint", "distinctcount", "distinctcountmv", "distinctsum", "distinctavg", "distinctcountbitmap",
    "segmentpartitioneddistinctcount",
)  # fmt: skip


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_constants_behind_the_only_argument_are_refused(name: str) -> None:
    bind_aggregate(Call(name, (X,)), [(DataType.BOOLEAN, False)])
    with pytest.raises(QueryError, match="takes 1 argument, not 2"):
        bind_aggregate(Call(name, (X, literal(5))), [(DataType.BOOLEAN, False)])


def test_counting_reads_nothing() -> None:
    assert aggregate_arguments(Call("count", (X,))) == ()
    assert aggregate_arguments(Call("count", (Star(),))) == ()
    assert aggregate_arguments(Call("percentile", (X, literal(5)))) == (X,)
    assert is_aggregate("DISTINCT_COUNT_HLL_MV")
    assert not is_aggregate("plus")
