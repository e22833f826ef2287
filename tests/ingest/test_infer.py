"""Schemas from Arrow data and from files."""

import json

import pyarrow as pa
import pytest

from gamay.base.errors import InvalidConfigError
from gamay.ingest.infer import infer_file_schema, infer_schema
from gamay.model.schema.schema import Schema


def described(schema):
    return {f.name: f"{f.role.value} {f.data_type.value}{'' if f.single_value else '[]'}" for f in schema.fields}


def test_arrow_types():
    kinds = {
        "i": pa.int16(), "l": pa.uint32(), "u": pa.uint64(), "f": pa.float32(), "d": pa.float64(), "e": pa.decimal128(10, 2),
        "b": pa.bool_(), "s": pa.large_string(), "c": pa.dictionary(pa.int8(), pa.string()), "t": pa.timestamp("ns", "UTC"),
        "y": pa.date32(), "m": pa.list_(pa.int64()), "ms": pa.large_list(pa.string()), "st": pa.struct([("x", pa.int8())]),
        "ls": pa.list_(pa.struct([("x", pa.int8())])), "mp": pa.map_(pa.string(), pa.int8()), "by": pa.binary(),
        "n": pa.null(), "uu": pa.uuid(), "j": pa.json_(),
    }  # fmt: skip
    schema = infer_schema("t", pa.schema(kinds.items()))
    assert described(schema) == {
        "i": "METRIC INT", "l": "METRIC LONG", "u": "METRIC BIG_DECIMAL", "f": "METRIC FLOAT", "d": "METRIC DOUBLE",
        "e": "METRIC BIG_DECIMAL", "b": "DIMENSION BOOLEAN", "s": "DIMENSION STRING", "c": "DIMENSION STRING",
        "t": "DATE_TIME TIMESTAMP", "y": "DATE_TIME TIMESTAMP", "m": "DIMENSION LONG[]", "ms": "DIMENSION STRING[]",
        "st": "DIMENSION JSON", "ls": "DIMENSION JSON", "mp": "DIMENSION JSON", "by": "DIMENSION BYTES",
        "n": "DIMENSION STRING", "uu": "DIMENSION UUID", "j": "DIMENSION JSON",
    }  # fmt: skip
    assert schema.enable_column_based_null_handling
    assert described(Schema.from_json(schema.to_json()).value) == described(schema)


@pytest.mark.parametrize("name", ["dep time", "", "$docId"])
def test_names_that_no_column_can_have(name):
    with pytest.raises(InvalidConfigError, match="cannot be a column's name"):
        infer_schema("t", pa.schema([(name, pa.int8())]))


def test_csv(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(
        'i,f,b,zip,t,d,s,e\n1,1.5,true,00501,2024-01-01 10:00:00,2024-01-01,"x,\ny",\nNA,2,false,10001,,2024-01-02,7,\n'
    )
    assert described(infer_file_schema("t", str(path), "csv", {"nullStringValue": "NA"})) == {
        "i": "METRIC LONG", "f": "METRIC DOUBLE", "b": "DIMENSION BOOLEAN", "zip": "DIMENSION STRING",
        "t": "DATE_TIME TIMESTAMP", "d": "DATE_TIME TIMESTAMP", "s": "DIMENSION STRING", "e": "DIMENSION STRING",
    }  # fmt: skip


def test_json(tmp_path):
    path = tmp_path / "data.json"
    path.write_text("".join(json.dumps(o) + "\n" for o in ({"a": 1, "b": [1]}, {"a": 1.5, "c": {"x": 1}})))
    assert described(infer_file_schema("t", str(path), "json")) == {
        "a": "METRIC DOUBLE", "b": "DIMENSION LONG[]", "c": "DIMENSION JSON",
    }  # fmt: skip
