"""Values of maps by key, of every type, against dictionaries; stored by `gamay.ingest.convert.maps`."""

import json
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.expression import ITEM, Call, Column, Literal
from gamay.functions.items import or_null, typed_item
from gamay.functions.text import to_text
from gamay.functions.vector import EncodedVector, Scalar, Vector
from gamay.ingest.convert.values import convert
from gamay.kernels.json.paths import close_nested
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType, FieldRole

D = DataType
JSON = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PRINTABLE = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
# type -> values, and the value that comes back
KINDS: dict[DataType, tuple[st.SearchStrategy[Any], Any]] = {
    D.INT: (st.integers(-(2**31), 2**31 - 1), lambda v: v),
    D.LONG: (st.integers(-(2**63), 2**63 - 1), lambda v: v),
    D.FLOAT: (st.floats(width=32, allow_nan=False), lambda v: v + 0.0),
    D.DOUBLE: (st.floats(allow_nan=False), lambda v: v + 0.0),
    D.BIG_DECIMAL: (
        st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20).map(str),
        Decimal,
    ),
    D.BOOLEAN: (st.booleans(), lambda v: v),
    D.TIMESTAMP: (st.integers(-(2**50), 2**50), lambda v: v),
    D.STRING: (PRINTABLE, lambda v: v),
    D.BYTES: (st.binary(max_size=4).map(bytes.hex), bytes.fromhex),
    D.UUID: (st.uuids().map(str), lambda v: uuid.UUID(v).bytes),
    D.JSON: (JSON, lambda v: v),
}
KEYS = ["a", "b", "ab", "", "é", 'q"\\', "\n", "a b", "0", "😀"]


def field(kind: DataType, **more: Any) -> FieldSpec:
    children = {"key": FieldSpec("key", D.STRING), "value": FieldSpec("value", kind, **more)}
    return FieldSpec("m", D.MAP, FieldRole.COMPLEX, child_fields=children)


def item(spec: FieldSpec, key: str) -> Call:
    return typed_item((Column("m"), Literal(key, D.STRING)), lambda _: spec)


def stored(maps: list[dict[str, Any]], spec: FieldSpec) -> pa.StringArray:
    """The text of maps; in front of it others, so that the bytes do not begin with the first."""
    if spec.child_fields["value"].data_type in (D.FLOAT, D.DOUBLE, D.BIG_DECIMAL):  # infinities are no JSON
        kind = pa.string() if spec.child_fields["value"].data_type is D.BIG_DECIMAL else pa.float64()
        array = pa.array([list(one.items()) for one in maps], pa.map_(pa.string(), kind))
    else:
        array = pa.array([json.dumps(one) for one in maps], pa.string())
    texts, failed = convert(array, spec)
    assert failed is None
    return pa.concat_arrays([pa.array(['{"a":"in front"}']), texts]).slice(1)


def python(vector: Any) -> list[Any]:
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    nulls = np.zeros(len(values), bool) if vector.nulls is None else vector.nulls
    return [None if null else value for value, null in zip(values, nulls, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(st.data())
def test_a_key_gives_what_the_dictionary_has(kind: DataType, data: st.DataObject) -> None:
    values, form = KINDS[kind]
    maps = data.draw(st.lists(st.dictionaries(st.sampled_from(KEYS), values, max_size=4), min_size=1, max_size=8))
    key = data.draw(st.sampled_from(KEYS))
    spec = field(kind)
    column = Vector(D.MAP, stored(maps, spec))
    known = [form(one[key]) if key in one else None for one in maps]
    default = spec.child_fields["value"].default_null_value
    call = item(spec, key)
    assert result_type(call, lambda _: (D.MAP, False)) == (kind, False)
    results = {
        "default": (python(evaluate(call, lambda _: column, len(maps))), default),
        "null": (python(evaluate(or_null(call), lambda _: column, len(maps))), None),
    }
    for found, missing in results.values():
        if kind is D.JSON:
            assert [None if text == missing else json.loads(text) for text in found] == known
        else:
            assert found == [missing if one is None else one for one in known]
            assert [type(one) for one in found] == [type(missing if one is None else one) for one in known]
    nulls = np.arange(len(maps)) % 2 == 1
    some = Vector(D.MAP, column.values, None, nulls)
    found, _ = python(evaluate(or_null(call), lambda _: some, len(maps))), None
    whole = results["null"][0]
    assert found == [None if null else one for one, null in zip(whole, nulls, strict=True)]
    one = evaluate(or_null(call), lambda _: Scalar(column.values[0].as_py(), D.MAP), 3)
    assert isinstance(one, Scalar)
    assert (one.value, one.type) == (whole[0], kind)
    twice = EncodedVector(np.zeros(50, np.uint8), Vector(D.MAP, column.values[:1]))
    repeated = evaluate(or_null(call), lambda _: twice, 50)
    assert python(repeated.decode() if isinstance(repeated, EncodedVector) else repeated) == [whole[0]] * 50


def test_defaults_are_those_of_the_values() -> None:
    maps = Vector(D.MAP, pa.array(["{}", '{"a":5}']))
    assert python(evaluate(item(field(D.INT, default_null_value=7), "a"), lambda _: maps, 2)) == [7, 5]
    metric = field(D.LONG, role=FieldRole.METRIC)
    assert python(evaluate(item(metric, "a"), lambda _: maps, 2)) == [0, 5]
    none = Vector(D.MAP, pa.array([], pa.string()))
    for kind in KINDS:
        assert len(evaluate(item(field(kind), "a"), lambda _: none, 0)) == 0


def test_it_is_shown_as_written() -> None:
    assert to_text(item(field(D.INT), "k")) == "item(m,'k')"
    assert item(field(D.INT), "k").name == ITEM


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((Column("m"),), "1 argument"),
        ((Column("i"), Literal("a", D.STRING)), "'i' is not a MAP"),
        ((Literal("{}", D.STRING), Literal("a", D.STRING)), "argument 1 is not a column"),
        ((Column("m"), Column("i")), "the key is not a constant text"),
        ((Column("m"), Literal(1, D.INT)), "the key is not a constant text"),
        ((Column("m"), Literal(None, D.UNKNOWN)), "the key is not a constant text"),
    ],
)
def test_what_is_no_item_of_a_map(args: tuple[Any, ...], told: str) -> None:
    specs = {"m": field(D.INT), "i": FieldSpec("i", D.INT)}
    with pytest.raises(QueryError, match=told):
        typed_item(args, specs.get)


@settings(max_examples=100)
@given(st.lists(JSON.filter(lambda value: isinstance(value, list | dict)), min_size=1, max_size=5), st.booleans())
def test_the_end_of_an_object_is_found(values: list[Any], spaced: bool) -> None:
    texts = [json.dumps(value, separators=None if spaced else (",", ":"), ensure_ascii=spaced).encode() for value in values]
    rest = [b'{"n":', b"  ]}", b',"x":[1,"]"]}']
    data = bytearray()
    begins, stops = [], []
    for i, text in enumerate(texts):
        data += rest[0]
        begins.append(len(data))
        data += text + rest[1 + i % 2]
        stops.append(len(data))
    ends = np.empty(len(texts), np.int64)
    close_nested(np.frombuffer(bytes(data), np.uint8), np.array(begins), np.array(stops), ends)
    assert [bytes(data[b:e]) for b, e in zip(begins, ends.tolist(), strict=True)] == texts
