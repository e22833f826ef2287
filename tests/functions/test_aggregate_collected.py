"""ARRAYAGG, LISTAGG, STUNION, SUMARRAYLONG and SUMARRAYDOUBLE against Python's lists and Shapely."""

from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.geometry import Geometry, deserialize, serialize
from gamay.functions.vector import EncodedVector, Vector, numpy_dtype
from gamay.model.types import DataType

INT, LONG, DOUBLE, STRING, BYTES = DataType.INT, DataType.LONG, DataType.DOUBLE, DataType.STRING, DataType.BYTES


def as_rows(vector: Vector) -> list[Any]:
    listed = vector.values.tolist()
    if vector.offsets is None:
        return list(listed)
    return [listed[a:b] for a, b in zip(vector.offsets[:-1], vector.offsets[1:], strict=True)]


_rows = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", "ü", ""])), min_size=1, max_size=25)


@settings(max_examples=40, deadline=None)
@given(_rows, st.booleans(), st.integers(0, 9))
def test_text_of_groups(
    bind_call: Any, whole: Any, divided: Any, rows: list[tuple[int, str]], has_dictionary: bool, seed: int
) -> None:
    groups = np.array([group for group, _ in rows], np.int32)
    texts = [text for _, text in rows]
    entries = sorted(set(texts))
    operand: Any = Vector(STRING, pa.array(texts))
    if has_dictionary:
        operand = EncodedVector(np.array([entries.index(t) for t in texts], np.uint8), Vector(STRING, pa.array(entries)))
    expected = [[text for group, text in rows if group == wanted] for wanted in range(3)]
    first_seen = [list(dict.fromkeys(values)) for values in expected]
    array, once = bind_call("arrayagg", [STRING], "STRING"), bind_call("arrayagg", [STRING], "STRING", "DISTINCT")
    assert as_rows(whole(bind_call("listagg", [STRING]), [operand], groups, 3)) == [",".join(values) for values in expected]
    text, text_once = bind_call("listagg", [STRING], ", "), bind_call("listagg", [STRING], ", ", True)
    assert as_rows(whole(array, [operand], groups, 3)) == expected
    assert as_rows(whole(once, [operand], groups, 3)) == first_seen
    assert as_rows(whole(text, [operand], groups, 3)) == [", ".join(values) for values in expected]
    assert as_rows(whole(text_once, [operand], groups, 3)) == [", ".join(values) for values in first_seen]
    # divided among segments the order is another one
    assert list(map(Counter, as_rows(divided(array, [operand], groups, 3, seed)))) == list(map(Counter, expected))
    assert list(map(sorted, as_rows(divided(once, [operand], groups, 3, seed)))) == list(map(sorted, map(set, expected)))


@pytest.mark.parametrize(
    ("source", "values", "target", "expected"),
    [
        (INT, [3, -1, 3], "LONG", [3, -1, 3]),
        (INT, [3, -1], "STRING", ["3", "-1"]),
        (DOUBLE, [1.5, float("inf")], "DOUBLE", [1.5, float("inf")]),
        (DOUBLE, [1.5], "BIG_DECIMAL", [Decimal("1.5")]),
        (DataType.BOOLEAN, [True, False], "boolean", [True, False]),
        (DataType.TIMESTAMP, [5], "TIMESTAMP", [5]),
        (STRING, ["{}"], "JSON", ["{}"]),
        (BYTES, [b"ab"], "BYTES", [b"ab"]),
    ],
)
def test_arrays_of_every_type(
    bind_call: Any, whole: Any, divided: Any, source: DataType, values: list[Any], target: str, expected: list[Any]
) -> None:
    in_arrow = source.is_text or source.is_binary
    storage = pa.array(values) if in_arrow else np.array(values, numpy_dtype(source))
    aggregate = bind_call("arrayagg", [source], target)
    operand = Vector(source, storage)
    assert aggregate.traits.result_is_multi_value
    assert as_rows(whole(aggregate, [operand], None, 1)) == [expected]
    groups = np.zeros(len(values), np.int32)
    assert Counter(as_rows(divided(aggregate, [operand], groups, 2, 1))[0]) == Counter(expected)


def test_lists_are_taken_apart_and_nothing_is_empty(bind_call: Any, whole: Any) -> None:
    lists = Vector(INT, np.array([1, 2, 2], np.int32), np.array([0, 2, 2, 3], np.int32))
    aggregate = bind_call("arrayagg", [INT], "INT", "true", multi_value=True)
    assert as_rows(whole(aggregate, [lists], np.array([0, 0, 0], np.uint8), 2)) == [[1, 2], []]
    text = bind_call("listagg", [INT], "+")
    assert as_rows(text.finish(text.seal(text.allocate(2)))) == ["", ""]


_arrays = st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(-(2**40), 2**40), max_size=4)), min_size=1, max_size=20)


@settings(max_examples=40, deadline=None)
@given(_arrays, st.integers(0, 9))
def test_sums_of_arrays(bind_call: Any, whole: Any, rows: list[tuple[int, list[int]]], seed: int) -> None:
    groups = np.array([group for group, _ in rows], np.int32)
    expected = []
    for wanted in range(4):
        arrays = [array for group, array in rows if group == wanted]
        width = max(map(len, arrays), default=0)
        expected.append([sum(array[i] for array in arrays if i < len(array)) for i in range(width)])
    flat = np.array([value for _, array in rows for value in array], np.int64)
    offsets = np.cumsum([0, *(len(array) for _, array in rows)]).astype(np.int32)
    operand = Vector(LONG, flat, offsets)
    for name in ("sumarraylong", "sumarraydouble"):
        aggregate = bind_call(name, [LONG], multi_value=True)
        assert as_rows(whole(aggregate, [operand], groups, 4)) == expected
        split = seed % len(rows)
        partials = []
        for first, last in ((0, split), (split, len(rows))):
            state = aggregate.grow(aggregate.allocate(1), 4)
            aggregate.update(state, groups[first:last], [Vector(LONG, flat, offsets[first : last + 1])], last - first)
            partials.append(aggregate.decode(aggregate.encode(aggregate.seal(state))))
        order = np.array([3, 1, 0, 2])
        chosen = [aggregate.select(partials[0], order), partials[1]]
        merged = aggregate.merge(chosen, [order.astype(np.int32), np.arange(4, dtype=np.int32)], 4)
        assert as_rows(aggregate.finish(merged)) == expected


def test_a_sum_that_does_not_fit_is_an_error(bind_call: Any, whole: Any) -> None:
    operand = Vector(LONG, np.array([2**62, 2**62], np.int64), np.array([0, 1, 2], np.int32))
    with pytest.raises(QueryError, match="does not fit a LONG"):
        whole(bind_call("sumarraylong", [LONG], multi_value=True), [operand], None, 1)
    assert as_rows(whole(bind_call("sumarraydouble", [LONG], multi_value=True), [operand], None, 1)) == [[2.0**63]]


def test_unions_of_geometries(bind_call: Any, whole: Any, divided: Any) -> None:
    shapes = [shapely.box(x, 0, x + 2, 2) for x in range(6)]
    operand = Vector(BYTES, pa.array([serialize(Geometry(shape, True)) for shape in shapes]))
    groups = np.array([0, 1, 0, 1, 0, 0], np.int32)
    aggregate = bind_call("stunion", [BYTES])
    for result in (whole(aggregate, [operand], groups, 3), divided(aggregate, [operand], groups, 3, 2)):
        found = [deserialize(data) for data in result.values.to_pylist()]
        for group in (0, 1):
            expected = shapely.union_all([s for s, g in zip(shapes, groups, strict=True) if g == group])
            assert found[group].is_geography
            assert shapely.equals(found[group].shape, expected)
        assert found[2].shape.is_empty


@pytest.mark.parametrize(
    ("name", "types", "constants", "multi_value"),
    [
        ("arrayagg", [INT], (), False),
        ("arrayagg", [INT], ("NOPE",), False),
        ("arrayagg", [INT], ("BYTES",), False),
        ("arrayagg", [INT], ("INT", "maybe"), False),
        ("arrayagg", [INT, INT], (), False),
        ("listagg", [INT], (5,), False),
        ("stunion", [INT], (), False),
        ("stunion", [BYTES], ("x",), False),
        ("sumarraylong", [INT], (), False),
        ("sumarraylong", [DOUBLE], (), True),
        ("sumarraydouble", [STRING], (), True),
        ("sumarraydouble", [INT], (1,), True),
    ],
)
def test_wrong_arguments_are_refused(bind_call: Any, name: str, types: Any, constants: Any, multi_value: bool) -> None:
    with pytest.raises(QueryError) as caught:
        bind_call(name, types, *constants, multi_value=multi_value)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION
