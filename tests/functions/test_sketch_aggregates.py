"""Properties of every sketch: parts merge to the whole, estimates have the promised accuracy, serialised sketches merge."""

import base64
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate_spi import Aggregate
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.registry import aggregate_arguments, bind_aggregate
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.types import DataType

X = Column("x")


def literal(value: Any) -> Literal:
    return Literal(value, DataType.STRING if isinstance(value, str) else DataType.INT)


def make(name: str, *more: Any, data_type: DataType = DataType.LONG) -> Aggregate:
    call = Call(name, (X, *(literal(value) for value in more)))
    return bind_aggregate(call, [(data_type, False) for _ in aggregate_arguments(call)])


def longs(values: Any) -> Vector:
    return Vector(DataType.LONG, np.asarray(values, np.int64))


def binary(values: list[bytes]) -> Vector:
    return Vector(DataType.BYTES, pa.array(values, pa.binary()))


def encoded(vector: Vector) -> EncodedVector:
    if isinstance(vector.values, np.ndarray):
        values, ids = np.unique(vector.values, return_inverse=True)
        return EncodedVector(ids.astype(np.uint32), Vector(vector.type, values))
    values = pa.array(sorted(set(vector.values.to_pylist())), vector.values.type)
    places = {value: i for i, value in enumerate(values.to_pylist())}
    ids = np.array([places[value] for value in vector.values.to_pylist()], np.uint32)
    return EncodedVector(ids, Vector(vector.type, values))


def partial(aggregate: Aggregate, operand: Operand, groups: Any = None, num_groups: int = 1) -> Any:
    state = aggregate.allocate(num_groups)
    aggregate.update(state, None if groups is None else np.asarray(groups, np.int32), [operand], len(operand))  # type: ignore[arg-type]
    return aggregate.decode(aggregate.encode(aggregate.seal(state)))


def result(aggregate: Aggregate, operand: Operand) -> Any:
    return listed(aggregate.finish(partial(aggregate, operand)))[0]


def listed(vector: Vector) -> list[Any]:
    values: list[Any] = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    return values


# name, parameters, relative standard error, what makes a sketch of one value for the merging form
ESTIMATES: list[tuple[str, tuple[Any, ...], float]] = [
    ("distinctcounthll", (12,), 1.04 / 64),
    ("distinctcounthllplus", (), 1.04 / 128),
    ("distinctcountull", (), 0.8 / 64),
    ("distinctcountsmarthll", ("threshold=100",), 1.04 / 64),
    ("distinctcountsmarthllplus", ("threshold=100;p=12",), 1.04 / 64),
    ("distinctcountsmartull", ("threshold=100",), 0.8 / 64),
    ("distinctcountthetasketch", (), 1 / 64),
    ("distinctcountcpcsketch", (), 0.6 / 64),
    ("distinctcountbitmap", (), 0),
    ("distinctcountoffheap", (), 0),
]

RAW = ["distinctcountrawhll", "distinctcountrawhllplus", "distinctcountrawull", "distinctcountrawthetasketch",
       "distinctcountrawcpcsketch", "frequentlongssketch"]  # fmt: skip
COUNTS = [
    "distinctcounthll",
    "distinctcounthllplus",
    "distinctcountull",
    "distinctcountthetasketch",
    "distinctcountcpcsketch",
]


@pytest.mark.parametrize(("name", "parameters", "error"), ESTIMATES)
@pytest.mark.parametrize("distinct", [0, 1, 30, 3000, 100_000])
def test_estimates_are_as_good_as_promised(name: str, parameters: tuple[Any, ...], error: float, distinct: int) -> None:
    values = longs(np.random.default_rng(distinct).permutation(np.arange(distinct) * 7919 - 5))
    found = result(make(name, *parameters), values)
    assert abs(found - distinct) <= 4 * error * distinct + (0.5 if distinct < 100 else 0)


@pytest.mark.parametrize(("name", "parameters"), [(name, parameters) for name, parameters, _ in ESTIMATES])
def test_text_and_doubles_are_counted_too(name: str, parameters: tuple[Any, ...]) -> None:
    texts = Vector(DataType.STRING, pa.array([f"é{i % 50}" for i in range(200)], pa.string()))
    assert abs(result(make(name, *parameters, data_type=DataType.STRING), texts) - 50) <= 2
    assert result(make(name, *parameters, data_type=DataType.STRING), encoded(texts)) == result(
        make(name, *parameters, data_type=DataType.STRING), texts
    )
    doubles = Vector(DataType.DOUBLE, np.array([1.5, 2.5, 1.5, math.nan, math.nan]))
    assert result(make(name, *parameters, data_type=DataType.DOUBLE), doubles) == 3


SMALL: list[tuple[str, tuple[Any, ...]]] = [
    ("distinctcountrawhll", (4,)),
    ("distinctcountrawhllplus", (4,)),
    ("distinctcountrawull", (3,)),
    ("distinctcountsmarthll", ("threshold=5;log2m=4",)),
    ("distinctcountsmartull", ("threshold=5;p=4",)),
    ("distinctcountrawthetasketch", ("nominalEntries=16",)),
    ("distinctcountrawthetasketch", ("nominalEntries=16;samplingProbability=0.3",)),
    ("distinctcountrawcpcsketch", (4,)),
    ("distinctcountbitmap", ()),
    ("frequentlongssketch", (64,)),
]


@pytest.mark.parametrize(("name", "parameters"), SMALL)
def test_parts_merge_to_the_whole(name: str, parameters: tuple[Any, ...]) -> None:
    aggregate = make(name, *parameters)

    @settings(deadline=None, max_examples=30)
    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(-20, 25)), max_size=60), st.data())
    def check(rows: list[tuple[int, int]], data: st.DataObject) -> None:
        groups, values = [group for group, _ in rows], [value for _, value in rows]
        cut = data.draw(st.integers(0, len(rows)))
        whole = partial(aggregate, longs(values), groups, 3)
        expected = listed(aggregate.finish(whole))
        parts = [
            partial(aggregate, encoded(longs(values[:cut])), groups[:cut], 3),
            partial(aggregate, longs(values[cut:]), groups[cut:], 3),
        ]
        same = np.arange(3, dtype=np.int32)
        assert listed(aggregate.finish(aggregate.merge(parts, [same, same], 3))) == expected
        grown = aggregate.grow(aggregate.allocate(1), 3)
        for start, stop in ((0, cut), (cut, len(rows))):
            part = np.array(groups[start:stop], np.int32)
            aggregate.update(grown, part, [longs(values[start:stop])], stop - start)
        assert listed(aggregate.finish(aggregate.seal(grown))) == expected
        one, other = aggregate.allocate(3), aggregate.allocate(3)
        aggregate.update(one, np.array(groups[:cut], np.int32), [longs(values[:cut])], cut)
        aggregate.update(other, np.array(groups[cut:], np.int32), [longs(values[cut:])], len(rows) - cut)
        assert listed(aggregate.finish(aggregate.seal(aggregate.combine(one, other)))) == expected
        order = data.draw(st.permutations([0, 1, 2]))
        assert listed(aggregate.finish(aggregate.select(whole, np.array(order)))) == [expected[i] for i in order]
        together = aggregate.merge([whole], [np.array([1, 1, 1], np.int32)], 2)
        of_all = aggregate.finish(partial(aggregate, longs(values)))
        assert listed(aggregate.finish(together))[1] == listed(of_all)[0]

    check()


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return base64.b64decode(text, validate=True)


@pytest.mark.parametrize("raw", RAW)
def test_serialised_sketches_merge_to_the_sketch_of_all(raw: str) -> None:
    values = np.random.default_rng(3).integers(0, 5000, 8000) if raw != "frequentlongssketch" else np.arange(500) % 100
    aggregate = make(raw)
    sketches = [_bytes_of(result(aggregate, longs(part))) for part in np.array_split(values, 5)]
    merging = make(raw, data_type=DataType.BYTES)
    for operand in (binary([*sketches, b""]), encoded(binary([*sketches, b""]))):
        assert result(merging, operand) == result(aggregate, longs(values))
    groups = [0, 0, 1, 1, 1, 2]
    grouped = listed(merging.finish(partial(merging, binary([*sketches, b""]), groups, 3)))
    assert grouped[1] == result(merging, binary(sketches[2:]))
    assert grouped[2] == result(aggregate, longs([]))


@pytest.mark.parametrize("name", [*COUNTS, "distinctcountbitmap", "distinctcounttuplesketch", "frequentlongssketch",
                                  "frequentstringssketch", "sumvaluesintegersumtuplesketch"])  # fmt: skip
def test_other_bytes_are_refused(name: str) -> None:
    aggregate = make(name, data_type=DataType.BYTES)
    # any 2**p zero bytes are an UltraLogLog sketch, which has no header
    zeros = (bytes(9), bytes(40)) if name == "distinctcountull" else (bytes(8), bytes(64))
    for garbage in (b"x", b"garbage", *zeros, b"\xff" * 40):
        with pytest.raises(QueryError, match="not a serialised") as caught:
            result(aggregate, binary([garbage]))
        assert caught.value.code is ErrorCode.QUERY_EXECUTION


@pytest.mark.parametrize("raw", [*RAW, "frequentstringssketch"])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_cut_and_lengthened_sketches_are_refused(raw: str, data: st.DataObject) -> None:
    sketch = _bytes_of(result(make(raw), longs(np.arange(100) % 37)))
    merging = make(raw, data_type=DataType.BYTES)
    # an UltraLogLog sketch is 2**p bytes and nothing else
    lengths = st.integers(1, len(sketch) - 1).filter(lambda n: raw != "distinctcountrawull" or n < 8 or n & (n - 1) != 0)
    for changed in (sketch[: data.draw(lengths)], sketch + bytes(data.draw(st.integers(1, 3)))):
        with pytest.raises(QueryError, match="not a serialised"):
            result(merging, binary([changed]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Call("distinctcountull", (X, literal(2))), "p must be a whole number from 3 to 18"),
        (Call("distinctcounthllplus", (X, literal(14), literal(3))), "sp must be 0 or at least p"),
        (Call("distinctcountsmarthll", (X, literal("size=3"))), "unknown parameter 'size=3'"),
        (Call("distinctcountsmarthll", (X, literal("hllLog2=3"))), "'hllLog2=3'.*Did you mean 'hllLog2m'"),
        (Call("distinctcountsmarthll", (X, literal("hllLog2m=99"))), "log2m must be a whole number"),
        (Call("distinctcountsmarthllplus", (X, literal("treshold=3"))), "Did you mean 'threshold'"),
        (Call("distinctcountsmartull", (X, literal("hllLog2m=12"))), "unknown parameter 'hllLog2m=12'"),
        (Call("distinctcountthetasketch", (X, literal("nominalEntry=64"))), "Did you mean 'nominalEntries'"),
        (Call("distinctcountthetasketch", (X, literal("nominalEntries=1.5"))), "nominalEntries must be a whole number"),
        (Call("distinctcountthetasketch", (X, literal(""), literal("a = 1"))), "the arguments are x"),
        (Call("distinctcountcpcsketch", (X, literal(3))), "lgK must be a whole number from 4 to 26"),
        (Call("frequentlongssketch", (X, literal(100))), "a power of 2"),
        (Call("distinctcountbitmap", (X, literal(1))), "1 argument"),
        (Call("distinctcounthll", (X, literal(8), literal(1))), "takes 1 to 2 arguments, not 3"),
        (Call("distinctcounttuplesketch", (X,)), "merges integer tuple sketches in BYTES"),
        (Call("fasthll", (X,)), "merges serialised sketches in STRING or BYTES"),
    ],
)
def test_wrong_arguments_are_refused_when_bound(call: Call, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        bind_aggregate(call, [(DataType.LONG, False)])
    assert caught.value.code is ErrorCode.QUERY_VALIDATION


def test_older_names_of_parameters_mean_the_same() -> None:
    older = make("distinctcountsmarthll", "HLLLOG2M=5; hllConversionThreshold = 50")
    assert older == make("distinctcountsmarthll", "log2m=5;threshold=50")
    assert result(older, longs(range(50))) == 50
    assert result(older, longs(range(2000))) not in (50, 2000)


def test_sketches_of_several_precisions_do_not_merge() -> None:
    sketches = [_bytes_of(result(make("distinctcountrawhll", log2m), longs([1, 2]))) for log2m in (4, 5)]
    with pytest.raises(QueryError, match="different precisions cannot be merged: 4 and 5"):
        result(make("distinctcounthll", data_type=DataType.BYTES), binary(sketches))


def test_fast_hll_reads_text() -> None:
    text = result(make("distinctcountrawhll"), longs(np.arange(300)))
    old = "".join(chr((byte - 256 if byte > 127 else byte) + 129) for byte in bytes.fromhex(text))
    aggregate = make("fasthll", data_type=DataType.STRING)
    expected = result(make("distinctcounthll"), longs(np.arange(300)))
    for form in (text, old):
        assert result(aggregate, Vector(DataType.STRING, pa.array([form, ""], pa.string()))) == expected
    with pytest.raises(QueryError, match="not a serialised"):
        result(aggregate, Vector(DataType.STRING, pa.array(["no sketch"], pa.string())))


def test_counts_of_segments_are_added() -> None:
    aggregate = make("segmentpartitioneddistinctcount")
    parts = [partial(aggregate, longs(values)) for values in ([1, 1, 2], [2, 3])]
    zero = np.zeros(1, np.int32)
    assert listed(aggregate.finish(aggregate.merge(parts, [zero, zero], 1))) == [4]


CREATORS: list[tuple[str, str, Callable[[int], Expression]]] = [
    ("distinctcountthetasketch", "tothetasketch", lambda n: X),
    ("distinctcountcpcsketch", "tocpcsketch", lambda n: X),
    ("distinctcounthll", "tohll", lambda n: X),
    ("distinctcountull", "toull", lambda n: X),
]


@pytest.mark.parametrize(("aggregate", "creator"), [(aggregate, creator) for aggregate, creator, _ in CREATORS])
def test_created_sketches_merge_to_what_the_aggregate_counts(aggregate: str, creator: str) -> None:
    values = longs(np.arange(500) % 123)
    sketches = evaluate(Call(creator, (X,)), lambda name: values, len(values))
    assert isinstance(sketches, Vector)
    assert result(make(aggregate, data_type=DataType.BYTES), sketches) == result(make(aggregate), values)


def test_nominal_entries_are_rounded_up() -> None:
    values = longs(np.arange(300))
    for name in ("distinctcountrawthetasketch", "distinctcountrawcpcsketch"):
        assert result(make(name, "nominalEntries=10"), values) == result(make(name, "nominalEntries=16"), values)
        with pytest.raises(QueryError, match="nominalEntries"):
            make(name, "nominalEntries=8")


@pytest.mark.parametrize("name", ["distinctcountsmarthll", "distinctcountsmarthllplus", "distinctcountsmartull"])
def test_without_a_threshold_smart_counts_stay_exact(name: str) -> None:
    values = longs(np.arange(150_000))
    assert result(make(name, "threshold=-1"), values) == result(make(name, "threshold=0"), values) == 150_000
    assert result(make(name), values) != 150_000
    assert result(make("distinctcountsmarthll", "dictThreshold=-1"), values) == result(make("distinctcountsmarthll"), values)
