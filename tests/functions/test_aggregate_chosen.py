"""MINLONG, MINSTRING, ANYVALUE, FIRSTWITHTIME, EXPRMIN etc. against Python, for any division of the rows."""

import math
import uuid
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType

TEXTS = ["", "a", "Z", "é", "\U0001f600", "\ufffd", "null", "a\x00b"]
POOLS: dict[DataType, list[Any]] = {
    DataType.INT: [-(2**31), -1, 0, 7, 2**31 - 1],
    DataType.LONG: [-(2**63), 2**53, 2**53 + 1, 0, 2**63 - 1],
    DataType.FLOAT: [-math.inf, -0.5, 0.0, 1.5, math.inf],
    DataType.DOUBLE: [-math.inf, -1e300, 0.0, 5e-324, math.inf, math.nan],
    DataType.BOOLEAN: [False, True],
    DataType.TIMESTAMP: [-5, 0, 1_700_000_000_000],
    DataType.STRING: TEXTS,
    DataType.JSON: ['{"a":1}', "[]"],
    DataType.BYTES: [b"", b"\x00", b"\xff", b"\x7f\x00"],
    DataType.UUID: [uuid.UUID(int=0).bytes, uuid.UUID(int=2**127).bytes],
    DataType.BIG_DECIMAL: [Decimal("-1E+3"), Decimal("1.0"), Decimal("1.00"), Decimal("2")],
}


def rank(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Decimal):
        return value, str(value)
    return (math.isnan(value), value) if isinstance(value, float) else value


def vector(data_type: DataType, values: list[Any]) -> Vector:
    if data_type.is_text or data_type.is_binary:
        return Vector(data_type, pa.array(values, pa.string() if data_type.is_text else pa.binary()))
    if data_type is DataType.BIG_DECIMAL:
        array = np.empty(len(values), object)
        array[:] = values
        return Vector(data_type, array)
    dtypes = {DataType.INT: np.int32, DataType.FLOAT: np.float32, DataType.DOUBLE: np.float64, DataType.BOOLEAN: np.bool_}
    return Vector(data_type, np.array(values, dtypes.get(data_type, np.int64)))


def encoded(data_type: DataType, values: list[Any]) -> EncodedVector:
    entries = sorted(set(values), key=rank)
    return EncodedVector(np.array([entries.index(value) for value in values], np.uint16), vector(data_type, entries))


def listed(result: Vector) -> list[Any]:
    values = result.values.tolist() if isinstance(result.values, np.ndarray) else result.values.to_pylist()
    if result.nulls is not None:
        values = [None if null else value for value, null in zip(values, result.nulls, strict=True)]
    return ["NaN" if isinstance(value, float) and math.isnan(value) else value for value in values]


def draw(rng: np.random.Generator, data_type: DataType, rows: int) -> list[Any]:
    pool = POOLS[data_type]
    return [pool[i] for i in rng.integers(0, len(pool), rows)]


def expected(rows: list[tuple[Any, ...]], groups: Any, num_groups: int, pick: Any, empty: Any) -> list[Any]:
    found = []
    for group in range(num_groups):
        own = [row for row, g in zip(rows, groups, strict=True) if g == group]
        best = pick(own, key=lambda row: [rank(value) for value in row])[-1] if own else empty
        found.append("NaN" if isinstance(best, float) and math.isnan(best) else best)
    return found


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(list(POOLS)), st.integers(0, 60), st.integers(0, 10_000), st.booleans())
def test_by_time_and_by_measures(
    bind_call: Any, whole: Any, divided: Any, data_type: DataType, rows: int, seed: int, coded: bool
) -> None:
    rng = np.random.default_rng(seed)
    values, times = draw(rng, data_type, rows), rng.integers(0, 4, rows).tolist()
    texts = draw(rng, DataType.STRING, rows)
    groups = rng.integers(0, 3, rows).astype(np.uint8)
    operand: Operand = encoded(data_type, values) if coded and rows else vector(data_type, values)
    time, text = vector(DataType.LONG, times), vector(DataType.STRING, texts)
    cases: list[tuple[Any, list[Operand], list[Any], Any, Any]] = [
        (bind_call("exprmin", [data_type, DataType.LONG]), [operand, time], [times], min, None),
        (
            bind_call("exprmax", [data_type, DataType.STRING, DataType.LONG]),
            [operand, text, time],
            [texts, times],
            max,
            None,
        ),
        (bind_call("anyvalue", [data_type]), [operand], [], min, None),
    ]
    if data_type in (DataType.INT, DataType.LONG, DataType.DOUBLE, DataType.STRING, DataType.BOOLEAN):
        empty = {"INT": -(2**31), "LONG": -(2**63), "DOUBLE": math.nan, "STRING": "", "BOOLEAN": False}[data_type.value]
        for name, pick in (("firstwithtime", min), ("lastwithtime", max)):
            aggregate = bind_call(name, [data_type, DataType.LONG], data_type.value)
            cases.append((aggregate, [operand, time], [times], pick, empty))
    for aggregate, operands, keys, pick, empty in cases:
        wanted = expected(list(zip(*keys, values, strict=True)), groups, 4, pick, empty)
        result = whole(aggregate, operands, groups, 4)
        assert result.type is aggregate.traits.result_type
        assert listed(result) == wanted
        assert listed(divided(aggregate, operands, groups, 4, seed)) == wanted


@pytest.mark.parametrize("coded", [False, True])
def test_extremes_of_text_and_whole_numbers(coded: bool, bind_call: Any, whole: Any, divided: Any) -> None:
    rng = np.random.default_rng(2)
    make: Any = encoded if coded else vector
    groups = rng.integers(0, 5, 3000).astype(np.uint16)
    for data_type, low, high in (
        (DataType.STRING, "minstring", "maxstring"),
        (DataType.LONG, "minlong", "maxlong"),
        (DataType.INT, "minlong", "maxlong"),
    ):
        values = draw(rng, data_type, 3000)
        for name, pick in ((low, min), (high, max)):
            aggregate = bind_call(name, [data_type])
            operand = make(data_type, values)
            wanted = expected([(value,) for value in values], groups, 5, pick, None)
            assert listed(whole(aggregate, [operand], groups, 5)) == wanted
            assert listed(divided(aggregate, [operand], groups, 5, 1)) == wanted
            assert listed(whole(aggregate, [operand], None, 1)) == [pick(values, key=rank)]


def test_as_duckdb(bind_call: Any, whole: Any) -> None:
    rng = np.random.default_rng(11)
    x, t, g = rng.normal(size=4000), rng.permutation(4000), rng.integers(0, 30, 4000)
    connection = duckdb.connect()
    connection.register("points", pa.table({"x": x, "t": t, "g": g}))
    rows = connection.execute("SELECT arg_min(x, t), arg_max(x, t) FROM points GROUP BY g ORDER BY g").fetchall()
    for place, name in enumerate(("firstwithtime", "lastwithtime")):
        aggregate = bind_call(name, [DataType.DOUBLE, DataType.LONG], "double")
        result = whole(aggregate, [vector(DataType.DOUBLE, x), vector(DataType.LONG, t)], g.astype(np.int32), 30)  # type: ignore[arg-type]
        assert result.values.tolist() == [row[place] for row in rows]


EMPTY = {
    ("minlong", DataType.LONG): 2**63 - 1,
    ("maxlong", DataType.INT): -(2**63),
    ("minstring", DataType.STRING): None,
    ("maxstring", DataType.JSON): None,
    ("anyvalue", DataType.BIG_DECIMAL): None,
    ("anyvalue", DataType.INT): None,
    ("anyvalue", DataType.UUID): None,
}


@pytest.mark.parametrize(("name", "data_type"), EMPTY)
def test_no_rows(name: str, data_type: DataType, bind_call: Any, whole: Any, divided: Any) -> None:
    aggregate = bind_call(name, [data_type])
    nothing, groups = vector(data_type, []), np.empty(0, np.uint8)
    for run in (whole(aggregate, [nothing], groups, 3), divided(aggregate, [nothing], groups, 3, 1)):
        assert listed(run) == [EMPTY[name, data_type]] * 3
    state = aggregate.allocate(2)
    assert listed(aggregate.finish(aggregate.merge([aggregate.seal(state)], [np.arange(2, dtype=np.int32)], 2))) == (
        [EMPTY[name, data_type]] * 2
    )


def test_other_types(bind_call: Any, whole: Any) -> None:
    times = vector(DataType.LONG, [3, 1, 2])
    assert listed(
        whole(
            bind_call("firstwithtime", [DataType.INT, DataType.LONG], "STRING"),
            [vector(DataType.INT, [7, 8, 9]), times],
            None,
            1,
        )
    ) == ["8"]
    aggregate = bind_call("lastwithtime", [DataType.STRING, DataType.DOUBLE], "INT")
    numbers = vector(DataType.STRING, ["12", "x", "13"])
    assert listed(whole(aggregate, [numbers, vector(DataType.DOUBLE, [5.0, 1.0, 2.0])], None, 1)) == [12]
    no_rows = whole(aggregate, [vector(DataType.STRING, []), vector(DataType.DOUBLE, [])], np.empty(0, np.uint8), 2)
    assert listed(no_rows) == [-(2**31)] * 2
    lists = Vector(DataType.LONG, np.array([4, 2, 9]), np.array([0, 2, 2, 3], np.int32))
    assert listed(whole(bind_call("maxlong", [DataType.LONG], multi_value=True), [lists], None, 1)) == [9]
    constant = bind_call("exprmin", [DataType.INT], 5)
    assert listed(whole(constant, [vector(DataType.INT, [3, 2]), Scalar(5, DataType.INT)], None, 1)) == [2]


@pytest.mark.parametrize(
    ("name", "types", "more", "multi_value", "words"),
    [
        ("minlong", [DataType.DOUBLE], (), False, r"write min\(x\)"),
        ("maxstring", [DataType.LONG], (), False, r"write max\(x\)"),
        ("minstring", [DataType.STRING], (1,), False, "takes 1 argument"),
        ("anyvalue", [DataType.OBJECT], (), False, "does not take OBJECT"),
        ("firstwithtime", [DataType.INT, DataType.LONG], (), False, "takes 3 arguments"),
        ("firstwithtime", [DataType.INT, DataType.LONG], ("DATE",), False, "'BOOLEAN', 'INT'"),
        ("lastwithtime", [DataType.INT, DataType.LONG], (5,), False, "'BOOLEAN', 'INT'"),
        ("lastwithtime", [DataType.INT, DataType.STRING], ("INT",), False, "needs numbers"),
        ("lastwithtime", [DataType.INT, DataType.LONG], ("INT",), True, "not lists"),
        ("firstwithtime", [DataType.BYTES, DataType.LONG], ("BOOLEAN",), False, "BYTES"),
        ("exprmin", [DataType.INT], (), False, "measures"),
        ("exprmax", [DataType.INT, DataType.INT], (), True, "not lists"),
    ],
)
def test_refused(name: str, types: Any, more: Any, multi_value: bool, words: str, bind_call: Any) -> None:
    with pytest.raises(QueryError, match=words):
        bind_call(name, types, *more, multi_value=multi_value)
