"""Id sets: every added value is found, the bytes follow the format, garbage is refused."""

import base64
import contextlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.registry import bind_aggregate
from gamay.functions.sketch.idset import EMPTY, IdSet, Settings, build, contains, parse, to_text
from gamay.functions.vector import Vector
from gamay.model.types import DataType

SMALL = Settings(insertions=1000)


def vector(data_type: DataType, values: list[Any]) -> Vector:
    if data_type.is_text:
        return Vector(data_type, pa.array(values, pa.string()))
    if data_type.is_binary:
        return Vector(data_type, pa.array(values, pa.binary()))
    dtypes = {DataType.INT: np.int32, DataType.LONG: np.int64, DataType.FLOAT: np.float32, DataType.DOUBLE: np.float64}
    return Vector(data_type, np.array(values, dtypes[data_type]))


VALUES = {
    DataType.INT: st.integers(-(2**31), 2**31 - 1),
    DataType.LONG: st.integers(-(2**63), 2**63 - 1),
    DataType.FLOAT: st.floats(width=32, allow_nan=False),
    DataType.DOUBLE: st.floats(allow_nan=False),
    DataType.STRING: st.text(st.characters(exclude_categories=["Cs"])),
    DataType.BYTES: st.binary(),
}


@pytest.mark.parametrize("data_type", VALUES)
def test_what_went_in_is_found(data_type: DataType) -> None:
    @settings(deadline=None)
    @given(st.lists(VALUES[data_type], unique=True, max_size=30), st.lists(VALUES[data_type], max_size=30))
    def check(inside: list[Any], others: list[Any]) -> None:
        id_set = parse(to_text(build(vector(data_type, inside), SMALL)))
        assert contains(id_set, vector(data_type, inside)).all()
        if data_type in (DataType.INT, DataType.LONG):
            expected = [value in set(inside) for value in others]
            assert contains(id_set, vector(data_type, others)).tolist() == expected

    check()


def test_following_values_are_written_one_by_one() -> None:
    """As in the example of Pinot's documentation: the years 1901 to 1960 are 120 bytes, not a run."""
    text = to_text(build(vector(DataType.INT, list(range(1901, 1961))), Settings()))
    assert text.startswith("ATowAAABAAAAAAA7ABAAAABtB24HbwdwB3EHcgdzB3QH")
    assert text.endswith("B6EHogejB6QHpQemB6cHqAc=")
    longs = base64.b64decode(to_text(build(vector(DataType.LONG, list(range(100))), Settings())))
    assert bytes.fromhex("3a300000") in longs


def test_bitmaps_have_the_bytes_of_the_format() -> None:
    def roaring(*lows: int) -> bytes:
        header = bytes.fromhex("3a300000 01000000 0000") + (len(lows) - 1).to_bytes(2, "little") + bytes.fromhex("10000000")
        return header + b"".join(low.to_bytes(2, "little") for low in lows)

    assert build(vector(DataType.INT, [7, 3]), SMALL) == b"\1" + roaring(3, 7)
    high = (1).to_bytes(4, "big")
    expected = b"\2\0" + (2).to_bytes(4, "big") + bytes(4) + roaring(5) + high + roaring(6)
    assert build(vector(DataType.LONG, [2**32 + 6, 5]), SMALL) == expected
    assert build(vector(DataType.INT, []), SMALL) == bytes([EMPTY])


def test_a_bloom_filter_keeps_its_promise() -> None:
    sizes = Settings(threshold=0, insertions=2000, fpp=0.03)
    data = build(vector(DataType.INT, list(range(2000))), sizes)
    id_set = parse(to_text(data))
    assert data[:4] == bytes([3, 0, 1, 5])
    assert len(data) == 8 + 8 * -(-int(2000 * 7.2985) // 64)
    others = contains(id_set, vector(DataType.INT, list(range(10_000, 30_000))))
    assert 0.015 < others.mean() < 0.045
    assert contains(id_set, vector(DataType.INT, list(range(2000)))).all()


def test_large_bitmaps_become_filters() -> None:
    spread = vector(DataType.LONG, [i << 32 for i in range(100)])
    assert build(spread, Settings(threshold=100, insertions=100))[0] == 3
    assert build(spread, Settings(threshold=10_000, insertions=100))[0] == 2


def test_values_of_another_type_are_refused() -> None:
    ints = parse(to_text(build(vector(DataType.INT, [1]), SMALL)))
    assert contains(ints, vector(DataType.LONG, [1, 2**40])).tolist() == [True, False]
    with pytest.raises(QueryError, match="CAST the values"):
        contains(ints, vector(DataType.STRING, ["1"]))
    texts = parse(to_text(build(vector(DataType.STRING, ["a"]), SMALL)))
    with pytest.raises(QueryError, match="holds STRING or JSON"):
        contains(texts, vector(DataType.INT, [1]))


@given(st.binary(max_size=60))
def test_garbage_is_refused_or_read(data: bytes) -> None:
    with contextlib.suppress(QueryError):
        assert isinstance(parse(base64.b64encode(data).decode()), IdSet)


@pytest.mark.parametrize("text", ["", "@", "AQ==", "Ag==", "AgAAAAAB", "AwAB", "BAA=", "AwIBBQAAAAEA"])
def test_broken_texts_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="not an id set"):
        parse(text)


@settings(deadline=None)
@given(st.lists(st.integers(-5, 300), min_size=1), st.integers(0, 20))
def test_merged_sets_are_those_of_all_values(values: list[int], cut: int) -> None:
    aggregate = bind_aggregate(Call("idset", (Column("x"),)), [(DataType.INT, False)])

    def partial(part: list[int]) -> Any:
        state = aggregate.allocate(1)
        aggregate.update(state, None, [vector(DataType.INT, part)], len(part))
        return aggregate.decode(aggregate.encode(aggregate.seal(state)))

    nothing = np.zeros(1, np.int32)
    merged = aggregate.merge([partial(values[:cut]), partial(values[cut:])], [nothing, nothing], 1)
    assert aggregate.finish(merged).values.equals(aggregate.finish(partial(values)).values)


def test_as_a_condition() -> None:
    text = Literal(to_text(build(vector(DataType.INT, [1, 3]), SMALL)), DataType.STRING)
    column = vector(DataType.INT, [1, 2, 3])
    result = evaluate(Call("inidset", (Column("x"), text)), lambda name: column, 3)
    assert isinstance(result, Vector)
    assert result.values.tolist() == [True, False, True]
    one = evaluate(Call("equals", (Call("inidset", (Column("x"), text)), Literal(1, DataType.INT))), lambda name: column, 3)
    assert isinstance(one, Vector)
    assert one.values.tolist() == [True, False, True]
