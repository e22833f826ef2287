"""Schemas from Arrow data and from files."""

import json
import re

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


def test_names_that_no_column_can_have_are_made_others():
    names = ["dep  time ", "$docId", "plain", 'a "b"']
    schema = infer_schema("t", pa.schema([(name, pa.int8()) for name in names]))
    sources = {spec.name: spec.transform_function for spec in schema.fields}
    assert sources == {"dep_time": '"dep  time "', "docId": '"$docId"', "plain": None, 'a_"b"': '"a ""b"""'}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["", "a"], "'' cannot be a column's name; rename it in the data"),
        (["a b", "a_b"], "'a b' and 'a_b' are both column 'a_b'; rename one in the data"),
    ],
)
def test_names_of_which_no_column_can_be_made(names, said):
    with pytest.raises(InvalidConfigError, match=re.escape(said)):
        infer_schema("t", pa.schema([(name, pa.int8()) for name in names]))


def test_a_time_column_is_named_as_in_the_table(tmp_path):
    (tmp_path / "x.csv").write_text("the day,n\n19000,1\n19001,2\n")
    schema = infer_file_schema("t", str(tmp_path / "x.csv"), "csv", time_column="the_day")
    spec = schema.field("the_day")
    assert (spec.role.value, spec.format.text, spec.transform_function) == ("DATE_TIME", "1:DAYS:EPOCH", '"the day"')
    with pytest.raises(InvalidConfigError, match=r"'the day' is not a column of the data\. It is the column 'the_day'\."):
        infer_file_schema("t", str(tmp_path / "x.csv"), "csv", time_column="the day")


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
