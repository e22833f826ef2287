"""Columns of type MAP: objects, maps and texts of every source become the same text."""

import dataclasses
import datetime as dt
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import RecordError
from gamay.ingest.convert.values import convert
from gamay.ingest.stream.decode.fields import input_fields
from gamay.ingest.stream.decode.records import records_to_rows
from gamay.ingest.stream.spi import InputFields
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole

FAILS = object()
KEYS = st.sampled_from(["a", "b", "z", "", "é", 'q"\\', "\n", "€/😀", "a b"]) | st.text(max_size=3)
LONGS = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(allow_nan=False)
# type -> (values as they come in, how the stored text has them)
KINDS: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "LONG": (LONGS, lambda value: value),
    "DOUBLE": (DOUBLES, lambda v: v + 0.0 if math.isfinite(v) else "Infinity" if v > 0 else "-Infinity"),
    "STRING": (st.text(max_size=5), lambda value: value),
    "BOOLEAN": (st.booleans(), lambda value: value),
}


def spec(kind: str, **more: Any) -> FieldSpec:
    children = {"key": FieldSpec("key", DataType.STRING), "value": FieldSpec("value", DataType[kind], **more)}
    return FieldSpec("m", DataType.MAP, FieldRole.COMPLEX, child_fields=children)


def texts(array: pa.Array, kind: str) -> list[Any]:
    converted, failed = convert(array, spec(kind))
    return [FAILS if failed is not None and failed[i] else text for i, text in enumerate(converted.to_pylist())]


def written(values: dict[str, Any], form: Any) -> str:
    """The text that is stored, by definition: the keys in order, those without a value left out."""
    known = {key: form(value) for key, value in sorted(values.items()) if value is not None}
    return json.dumps(known, ensure_ascii=False, separators=(",", ":"))


def same(text: Any, expected: str) -> bool:
    """Compare two documents exactly, except for the notation of numbers (1.0E20)."""
    return text == expected or (
        json.loads(text) == json.loads(expected) and list(json.loads(text)) == list(json.loads(expected))
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(st.data())
def test_every_form_of_a_map_is_stored_as_one_text(kind: str, data: st.DataObject) -> None:
    values, form = KINDS[kind]
    maps = data.draw(st.lists(st.none() | st.dictionaries(KEYS, st.none() | values, max_size=4), max_size=6))
    arrow = {"LONG": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BOOLEAN": pa.bool_()}[kind]
    expected = [None if one is None else written(one, form) for one in maps]
    pairs = [None if one is None else list(one.items()) for one in maps]
    entries = [None if one is None else [{"key": k, "value": v} for k, v in one.items()] for one in maps]
    as_maps = pa.array(pairs, pa.map_(pa.string(), arrow))
    forms = [
        as_maps,
        pa.concat_arrays([as_maps, as_maps]).slice(len(maps)),
        pa.array(entries, pa.list_(pa.struct([("key", pa.string()), ("value", arrow)]))),
    ]
    names = sorted({key for one in maps if one for key in one})
    forms.append(pa.array(maps, pa.struct([(name, arrow) for name in names])))
    if kind != "DOUBLE" or all(math.isfinite(v) for one in maps if one for v in one.values() if v is not None):
        forms.append(pa.array([None if one is None else json.dumps(one) for one in maps], pa.string()))
        forms.append(pa.ExtensionArray.from_storage(pa.json_(), forms[-1]))
    for array in forms:
        found = texts(array, kind)
        assert len(found) == len(expected)
        for text, wanted in zip(found, expected, strict=True):
            assert text is wanted is None or same(text, wanted), (array.type, text, wanted)
    rows = records_to_rows([{"m": one} for one in maps], InputFields(frozenset({"m"}), {"m": DataType.MAP}, frozenset()))
    if maps and kind != "DOUBLE":
        assert texts(rows.column("m"), kind) == texts(as_maps, kind)


@pytest.mark.parametrize(
    ("kind", "given_texts", "expected"),
    [
        ("INT", ['{"b": 2, "a": "1"}', "{}", "null", None], ['{"a":1,"b":2}', "{}", None, None]),
        ("INT", ['{"a": 1.0, "b": "1e3"}', '{"a": 1.5}', '{"a": "x"}'], ['{"a":1,"b":1000}', FAILS, FAILS]),
        ("INT", ['{"a": 2147483648}', '{"a": [1]}', '{"a": {}}'], [FAILS, '{"a":1}', FAILS]),
        ("INT", ["[]", "5", '"text"', "{", '{"a":1} x', ""], [FAILS] * 6),
        ("LONG", ['{"a": 9223372036854775807, "a": 5}'], ['{"a":5}']),
        ("LONG", ['{"a": 1, "a": null}'], ["{}"]),
        ("FLOAT", ['{"a": 0.1, "b": "Infinity", "c": "NaN"}'], ['{"a":0.1,"b":"Infinity"}']),
        ("BOOLEAN", ['{"a": 1, "b": "false", "c": "maybe"}'], [FAILS]),
        ("BOOLEAN", ['{"a": 1, "b": "false"}'], ['{"a":true,"b":false}']),
        ("BIG_DECIMAL", ['{"a": 1.50, "b": 123456789012345678901}'], ['{"a":"1.5","b":"123456789012345678901"}']),
        ("TIMESTAMP", ['{"a": "1970-01-01 00:00:01.5", "b": 7}'], ['{"a":1500,"b":7}']),
        ("STRING", ['{"a": 1, "b": true, "c": "\\u0000\\""}'], ['{"a":"1","b":"true","c":"\\u0000\\""}']),
        ("STRING", ['{"a": {"x": [1]}}'], ['{"a":"{\\"x\\":[1]}"}']),
        ("BYTES", ['{"a": "FF00", "b": "zz"}'], [FAILS]),
        ("BYTES", ['{"a": "FF00"}'], ['{"a":"ff00"}']),
        ("UUID", ['{"a": "123E4567-e89b-12d3-a456-426614174000"}'], ['{"a":"123e4567-e89b-12d3-a456-426614174000"}']),
        ("JSON", ['{"a": { "x" : [1, 2] }, "b": "s", "c": 1.0, "d": null}'], ['{"a":{"x":[1,2]},"b":"s","c":1.0}']),
    ],
)  # fmt: skip
def test_values_are_those_of_a_column_of_their_type(kind: str, given_texts: list[Any], expected: list[Any]) -> None:
    assert texts(pa.array(given_texts, pa.string()), kind) == expected


def test_values_of_arrow_maps_are_converted_too() -> None:
    when = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    assert texts(pa.array([[("b", when), ("a", None)]], pa.map_(pa.string(), pa.timestamp("us", "UTC"))), "TIMESTAMP") == [
        '{"b":1704067200000}'
    ]
    assert texts(pa.array([[(2, 5), (10, 6)]], pa.map_(pa.int32(), pa.int8())), "STRING") == ['{"10":"6","2":"5"}']
    assert texts(pa.array([[("a", b"\x01"), ("a", b"\x02")]], pa.map_(pa.string(), pa.binary())), "BYTES") == ['{"a":"02"}']
    assert texts(pa.array([[("a", uuid.UUID(int=5).bytes)]], pa.map_(pa.string(), pa.binary(16))), "UUID") == [
        '{"a":"00000000-0000-0000-0000-000000000005"}'
    ]
    assert texts(pa.array([[("a", Decimal("1.50"))]], pa.map_(pa.string(), pa.decimal128(5, 2))), "BIG_DECIMAL") == [
        '{"a":"1.5"}'
    ]
    nested = pa.array([[("a", [("b", 1)])]], pa.map_(pa.string(), pa.map_(pa.string(), pa.int64())))
    assert texts(nested, "JSON") == ['{"a":{"b":1}}']
    assert texts(pa.array([5, None]), "INT") == [FAILS, None]
    assert texts(pa.nulls(2), "INT") == [None, None]


def test_only_rows_with_a_value_that_cannot_be_fail() -> None:
    maps = pa.array([[("a", "1")], [("a", "x"), ("b", "2")], [("b", "3")]], pa.map_(pa.string(), pa.string()))
    assert texts(maps, "INT") == ['{"a":1}', FAILS, '{"b":3}']


def test_transforms_read_maps_and_write_them() -> None:
    fields = (
        FieldSpec("id", DataType.INT),
        spec("LONG"),
        FieldSpec("a", DataType.LONG, transform_function="m['a']"),
        FieldSpec(
            "n", DataType.MAP, FieldRole.COMPLEX, child_fields=spec("STRING").child_fields,
            transform_function="jsonFormat(source)",
        ),
    )  # fmt: skip
    pipeline = Pipeline(Schema("t", fields), TableConfig.offline("t"))
    batch = pa.record_batch({"id": [1, 2], "m": ['{"a":"7"}', "{}"], "source": ['{"x": 1}', '{ "y" : "é" }']})
    rows = pipeline.apply(batch).to_pylist()
    assert [(row["m"], row["a"], row["n"]) for row in rows] == [
        ('{"a":7}', 7, '{"x":"1"}'),
        ("{}", None, '{"y":"é"}'),
    ]


PAIRS: list[Any] = [{"b": 2, "a": 1, "c": None}, {}, None, {"é": "5"}]


@pytest.mark.parametrize("form", ["map", "struct", "text", "decoded"])
def test_two_lists_of_a_map(form: str) -> None:
    """The older form of maps: keys in order in `X__KEYS`, their values beside them in `X__VALUES`."""
    fields = (
        FieldSpec("X__KEYS", DataType.STRING, single_value=False),
        FieldSpec("X__VALUES", DataType.LONG, single_value=False),
    )
    table, schema = TableConfig.offline("t"), Schema("t", fields)
    wanted = input_fields(schema, table)
    assert wanted.names == {"X", "X__KEYS", "X__VALUES"}
    pairs = [None if one is None else [(k, None if v is None else int(v)) for k, v in one.items()] for one in PAIRS]
    columns = {
        "map": pa.array(pairs, pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([None if one is None else dict(one) for one in pairs]),
        "text": pa.ExtensionArray.from_storage(pa.json_(), pa.array([json.dumps(one) for one in PAIRS])),
    }
    batch = (
        pa.record_batch({"X": columns[form]}) if form in columns else records_to_rows([{"X": one} for one in PAIRS], wanted)
    )
    pipeline = Pipeline(schema, table)
    pipeline.check_columns(["X"])
    rows = pipeline.apply(batch).to_pylist()
    expected = [(["a", "b"], [1, 2]), (None, None), (None, None), (["é"], [5])]
    assert [(row["X__KEYS"], row["X__VALUES"]) for row in rows] == expected


def test_lists_that_are_there_already_and_what_is_no_map() -> None:
    keys = FieldSpec("X__KEYS", DataType.STRING, single_value=False)
    schema = Schema("t", (keys, FieldSpec("id", DataType.INT)))
    given_keys = pa.record_batch({"X": ['{"a": 1}'], "X__KEYS": [["z"]], "id": [1]})
    assert Pipeline(schema, TableConfig.offline("t")).apply(given_keys).to_pylist() == [{"X__KEYS": ["z"], "id": 1}]
    assert Pipeline(schema, TableConfig.offline("t")).apply(pa.record_batch({"id": [1]})).to_pylist()[0]["X__KEYS"] is None
    with pytest.raises(RecordError, match="column 'X__KEYS': 'no map' of 'X' is no map"):
        Pipeline(schema, TableConfig.offline("t")).apply(pa.record_batch({"X": ["{}", "no map"]}))
    computed = Schema("t", (dataclasses.replace(keys, transform_function="split(id, ',')"),))
    rows = Pipeline(computed, TableConfig.offline("t")).apply(pa.record_batch({"X": ['{"a":1}'], "id": ["p,q"]})).to_pylist()
    assert rows == [{"X__KEYS": ["p", "q"]}]
