"""Round trips of random rows, by a decoder that shares no code with the encoder."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.grpc.reading import read

from gamay.base.errors import QueryError
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.server.grpc.data_table import encode_counters, encode_failure, encode_rows

_INT, _LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
_ELEMENTS: dict[DataType, tuple[st.SearchStrategy[Any], Any]] = {
    DataType.INT: (_INT, np.int32),
    DataType.LONG: (_LONG, np.int64),
    DataType.TIMESTAMP: (_LONG, np.int64),
    DataType.BOOLEAN: (st.booleans(), np.bool_),
    DataType.FLOAT: (st.floats(width=32, allow_nan=False), np.float32),
    DataType.DOUBLE: (st.floats(allow_nan=False), np.float64),
    DataType.STRING: (_TEXT, pa.string()),
    DataType.JSON: (_TEXT, pa.string()),
    DataType.BYTES: (st.binary(max_size=5), pa.binary()),
    DataType.BIG_DECIMAL: (st.decimals(allow_nan=False, allow_infinity=False, places=3), object),
}
_LISTED = [kind for kind in _ELEMENTS if kind not in (DataType.BYTES, DataType.BIG_DECIMAL)]


def _array(values: list[Any], kind: Any) -> Any:
    return pa.array(values, kind) if isinstance(kind, pa.DataType) else np.array(values, kind)


@st.composite
def _columns(draw: st.DrawFn, num_rows: int) -> tuple[Vector, list[Any]]:
    kind, listed = draw(st.one_of(st.tuples(st.sampled_from(list(_ELEMENTS)), st.just(False)),
                                  st.tuples(st.sampled_from(_LISTED), st.just(True))))  # fmt: skip
    element, stored = _ELEMENTS[kind]
    nulls = np.array(draw(st.lists(st.booleans(), min_size=num_rows, max_size=num_rows)), bool)
    if listed:
        lists = draw(st.lists(st.lists(element, max_size=3), min_size=num_rows, max_size=num_rows))
        before = draw(st.lists(element, max_size=2))  # a vector may be a part of another
        offsets = np.cumsum([len(before), *map(len, lists)]).astype(np.int32)
        vector = Vector(kind, _array([*before, *(e for one in lists for e in one)], stored), offsets, nulls)
        return vector, [None if null else one for one, null in zip(lists, nulls, strict=True)]
    values = draw(st.lists(element, min_size=num_rows, max_size=num_rows))
    return Vector(kind, _array(values, stored), None, nulls), [
        None if null else value for value, null in zip(values, nulls, strict=True)
    ]


@given(st.integers(0, 4).flatmap(lambda n: st.lists(_columns(n), min_size=1, max_size=5)))
def test_rows_read_back(found: list[tuple[Vector, list[Any]]]) -> None:
    names = [f"c{i}é" for i in range(len(found))]
    table = read(encode_rows(names, [vector for vector, _ in found], {"totalDocs": 2**40}, null_handling=True))
    assert table.names == names
    assert table.types == [f"{v.type.value}{'_ARRAY' if v.offsets is not None else ''}" for v, _ in found]
    assert table.rows == list(zip(*(values for _, values in found), strict=True))
    assert (table.metadata, table.exceptions) == ({"totalDocs": 2**40}, {})


def test_nulls_are_what_stands_in_their_place_where_nulls_are_not_asked_for() -> None:
    column = Vector(DataType.INT, np.array([7, 8], np.int32), None, np.array([True, False]))
    assert read(encode_rows(["n"], [column], null_handling=False)).rows == [(7,), (8,)]


def test_maps_are_json_and_uuids_bytes() -> None:
    map_ = Vector(DataType.MAP, pa.array(['{"a": 1}']))
    table = read(encode_rows(["m", "u"], [map_, Vector(DataType.UUID, pa.array([b"0" * 16]))], null_handling=False))
    assert (table.types, table.rows) == (["JSON", "BYTES"], [('{"a": 1}', b"0" * 16)])


@pytest.mark.parametrize("value", ["0", "-1", "127", "128", "-128", "-129", "255.50", "1E+3", "-12345678901234567890.123"])
def test_decimals(value: str) -> None:
    column = Vector(DataType.BIG_DECIMAL, np.array([Decimal(value)], object))
    data = encode_rows(["d"], [column], null_handling=False)
    ((found,),) = read(data).rows
    assert found == Decimal(value)
    number = Decimal(value)
    scale, unscaled = -int(number.as_tuple().exponent), int(number.scaleb(-int(number.as_tuple().exponent)))
    least = next(n for n in range(1, 30) if -(1 << (8 * n - 1)) <= unscaled < 1 << (8 * n - 1))  # as Java's toByteArray
    expected = scale.to_bytes(2, "big", signed=True) + unscaled.to_bytes(least, "big", signed=True)
    assert (2 + least).to_bytes(4, "big") in data
    assert expected in data


def test_what_such_tables_cannot_have() -> None:
    lists = Vector(DataType.BYTES, pa.array([b"a"]), np.array([0, 1], np.int32))
    with pytest.raises(QueryError, match="Column 'raw' has lists of BYTES"):
        encode_rows(["raw"], [lists], null_handling=False)
    with pytest.raises(QueryError, match="more decimal places"):
        encode_rows(["d"], [Vector(DataType.BIG_DECIMAL, np.array([Decimal("1E-40000")], object))], null_handling=False)


def test_tables_without_rows() -> None:
    counters = {"numDocsScanned": 2**33, "numSegmentsQueried": 3, "numSegmentsProcessed": 2, "numSegmentsMatched": 1}
    assert read(encode_counters(counters)).metadata == counters
    assert read(encode_failure(710, "no column 'é'")).exceptions == {710: "no column 'é'"}
