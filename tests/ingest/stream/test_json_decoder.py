"""JSON messages to rows: nothing lost or mixed up, and the same values for any division of a stream into batches."""

import json
import math
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.fields import input_fields
from gamay.ingest.stream.decode.metadata import add_metadata
from gamay.ingest.stream.offsets import IntegerOffset
from gamay.ingest.stream.plugins import open_decoder
from gamay.ingest.stream.spi import ALL_FIELDS, DecodedBatch, InputFields, MessageBatch, MessageDecoder
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "s", "dataType": "STRING"},
            {"name": "i", "dataType": "INT"},
            {"name": "l", "dataType": "LONG"},
            {"name": "b", "dataType": "BOOLEAN"},
            {"name": "j", "dataType": "JSON"},
            {"name": "x", "dataType": "BYTES"},
            {"name": "t", "dataType": "TIMESTAMP"},
            {"name": "big", "dataType": "BIG_DECIMAL"},
            {"name": "ss", "dataType": "STRING", "singleValueField": False},
            {"name": "ll", "dataType": "LONG", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "f", "dataType": "FLOAT"}, {"name": "d", "dataType": "DOUBLE"}],
    }
).value
TABLE = TableConfig.from_json(
    {
        "tableName": "t", "tableType": "REALTIME", "segmentsConfig": {"replication": "1"}, "tenants": {},
        "tableIndexConfig": {}, "ingestionConfig": {"continueOnError": True},
    }
).value  # fmt: skip
FIELDS = input_fields(SCHEMA, TABLE)
PIPELINE = Pipeline(SCHEMA, TABLE)


def decoder(fields: InputFields = FIELDS, **properties: str) -> MessageDecoder:
    return open_decoder(StreamConfig("log", "t", decoder_name="json", decoder_properties=properties), fields)


def batch(messages: list[bytes | None]) -> MessageBatch:
    offsets = pa.array(np.arange(len(messages), dtype=np.int64))
    return MessageBatch(pa.array(messages, pa.binary()), offsets, np.full(len(messages), 5), IntegerOffset(len(messages)))


def lines(*objects: Any) -> MessageBatch:
    return batch([orjson.dumps(o) for o in objects])


def bad(decoded: DecodedBatch) -> list[int]:
    return [u.message for u in decoded.undecodable]


def test_flat_objects_become_columns() -> None:
    decoded = decoder().decode(lines({"s": "a", "l": 1, "d": 1.5, "other": 7}, {"s": "b", "l": None}))
    assert decoded.rows.select(["s", "l", "d"]).to_pylist() == [
        {"s": "a", "l": 1, "d": 1.5}, {"s": "b", "l": None, "d": None},
    ]  # fmt: skip
    assert "other" not in decoded.rows.schema.names
    assert decoded.message_of_row.tolist() == [0, 1]


@pytest.mark.parametrize(
    "message",
    [
        b"", b" ", b"{", b"nothing", b"[1]", b"5", b"null", b'"{}"', b'{"s": "a}', b'{"s": "\xff"}', b'{"s": 1}{"s": 2}',
        b'{"s": 1}\n{"s": 2}', b'{"s": 1},{"s": 2}', b'{"s": 1} x', b'{"other": "\xff"}', b'{"s": 01}', b"{'s': 1}",
    ],
)  # fmt: skip
def test_a_bad_message_is_listed_and_harms_no_other(message: bytes) -> None:
    good = [orjson.dumps({"s": str(i), "l": i}) for i in range(300)]
    decoded = decoder().decode(batch([*good[:150], message, *good[150:]]))
    assert bad(decoded) == [150]
    assert decoded.undecodable[0].reason.startswith("not a JSON object: ")
    assert decoded.rows.column("s").to_pylist() == [str(i) for i in range(300)]
    assert decoded.rows.column("l").to_pylist() == list(range(300))
    assert decoded.message_of_row.tolist() == [i for i in range(301) if i != 150]


def test_two_halves_of_an_object_are_not_one() -> None:
    for left, right in (('{"s": "a}', '{b"}'), ('{"l": 1', '"s": "x"}'), ('{"j": [{}', '{"s": 1}]}')):
        decoded = decoder().decode(batch([left.encode(), right.encode(), b'{"s": "1"}{"s": "2"}', b'{"s": "3"}']))
        assert bad(decoded) == [0, 1, 2]
        assert decoded.rows.column("s").to_pylist() == ["3"]


def test_tombstones_have_no_row_and_are_not_errors() -> None:
    decoded = decoder().decode(batch([None, b'{"l": 1}', None]))
    assert decoded.rows.column("l").to_pylist() == [1]
    assert decoded.message_of_row.tolist() == [1]
    assert not decoded.undecodable
    for messages in ([], [None]):
        assert decoder().decode(batch(messages)).rows.num_rows == 0


def test_a_whole_batch_of_rubbish() -> None:
    decoded = decoder().decode(batch([b"x"] * 3_000))
    assert bad(decoded) == list(range(3_000))
    assert decoded.rows.num_rows == 0


def test_numbers_in_quotes_and_times_as_text_are_learned() -> None:
    made = decoder()
    for _ in range(3):
        decoded = made.decode(lines({"l": "12", "t": "2020-01-02 03:04:05", "b": "true"}, {"l": "13", "b": "false"}))
        assert decoded.rows.column("l").to_pylist() == ["12", "13"]
        assert decoded.rows.column("t").to_pylist() == ["2020-01-02 03:04:05", None]
        assert decoded.rows.column("b").to_pylist() == ["true", "false"]
    assert made.decode(lines({"l": 14, "t": 5, "b": True})).rows.to_pylist()[0]["l"] == 14


def test_nested_values_are_kept_where_they_are_flattened_later() -> None:
    decoded = decoder(ALL_FIELDS).decode(lines({"a": {"b": [1, {"c": 2}]}, "n": 1}))
    assert json.loads(decoded.rows.column("a")[0].as_py()) == {"b": [1, {"c": 2}]}
    assert decoded.rows.column("n").to_pylist() == [1]


def test_not_a_number_is_null_and_no_error() -> None:
    for messages in ([b'{"d": NaN}'], [b'{"d": NaN}', b'{"d": 1e400, "l": 1.5}'], [b'{"d": -Infinity, "s": 5}']):
        decoded = decoder().decode(batch(messages))
        assert not decoded.undecodable
        first = decoded.rows.column("d")[0].as_py()
        assert not math.isfinite(float(first))


# -- the same values however the batches are cut

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.5, 1e22]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=6), st.sampled_from(["12", "1.5", "true", "ab12"]))
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2))
OBJECTS = st.dictionaries(st.sampled_from([f.name for f in SCHEMA.fields]), VALUES, max_size=6)
USUAL = {
    "s": st.text(max_size=5), "i": st.integers(-9, 9), "l": st.integers(-(2**62), 2**62), "b": st.booleans(),
    "d": st.one_of(st.integers(-(2**60), 2**60), FLOATS),
    "f": st.one_of(st.integers(-(2**60), 2**60), FLOATS),
    "t": st.integers(0, 2**41), "ss": st.lists(st.text(max_size=3), max_size=3),
    "ll": st.lists(st.none() | st.integers(-9, 9), max_size=3),
}  # fmt: skip


def conformed(decoded: DecodedBatch) -> list[dict[str, Any]]:
    table = pa.Table.from_batches([PIPELINE.apply(decoded.rows)])
    at = table.schema.get_field_index("t")
    rows = table.set_column(at, "t", table.column(at).cast(pa.int64())).to_pylist()  # some are beyond what datetime holds
    return [{k: v.hex() if isinstance(v, float) else v for k, v in row.items()} for row in rows]


def assert_same_alone_and_together(objects: list[dict[str, Any]]) -> None:
    messages = [json.dumps(o).encode() for o in objects]
    together = decoder().decode(batch(messages))
    assert not together.undecodable
    alone = [row for message in messages for row in conformed(decoder().decode(batch([message])))]
    assert conformed(together) == alone


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OBJECTS, min_size=1, max_size=6))
def test_a_message_has_the_same_values_alone_and_among_others(objects: list[dict[str, Any]]) -> None:
    assert_same_alone_and_together(objects)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.fixed_dictionaries({}, optional=USUAL), min_size=70, max_size=80), st.data())
def test_so_do_usual_messages_among_odd_ones(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(objects) - 1))
    assert_same_alone_and_together([*objects[:at], data.draw(OBJECTS), *objects[at:]])


NESTED_SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "a", "dataType": "JSON"},
            {"name": "s", "dataType": "STRING"},
            {"name": "i", "dataType": "INT"},
            {"name": "o.s", "dataType": "STRING"},
            {"name": "o.l", "dataType": "LONG"},
            {"name": "o.d", "dataType": "DOUBLE"},
            {"name": "o.big", "dataType": "BIG_DECIMAL"},
            {"name": "o.ss", "dataType": "STRING", "singleValueField": False},
            {"name": "o.o.s", "dataType": "STRING"},
            {"name": "n.s", "dataType": "STRING"},
            {"name": "n.j", "dataType": "STRING"},
            {"name": "renamed", "dataType": "STRING"},
        ],
    }
).value
NESTED_TABLE = TableConfig.from_json(
    TABLE.to_json()
    | {
        "ingestionConfig": {
            "complexTypeConfig": {"fieldsToUnnest": ["n", "n.m"], "prefixesToRename": {"o.re": "re"}},
            "continueOnError": True,
        }
    }
).value
PARTS = st.dictionaries(st.sampled_from(["s", "l", "d", "big", "ss", "o", "renamed"]), VALUES, max_size=4)
ELEMENTS = st.one_of(SCALARS, st.dictionaries(st.sampled_from(["s", "j", "m"]), VALUES, max_size=3))
NESTED = st.fixed_dictionaries(
    {}, optional={"a": VALUES, "s": VALUES, "i": SCALARS, "o": st.one_of(VALUES, PARTS), "n": st.lists(ELEMENTS, max_size=3)}
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(NESTED, min_size=2, max_size=5))
def test_nested_messages_have_the_same_values_alone_and_among_others(objects: list[dict[str, Any]]) -> None:
    def rows(messages: list[bytes | None]) -> list[dict[str, Any]]:
        decoded = decoder(input_fields(NESTED_SCHEMA, NESTED_TABLE)).decode(batch(messages))
        assert not decoded.undecodable
        return Pipeline(NESTED_SCHEMA, NESTED_TABLE).apply(decoded.rows).to_pylist()

    messages: list[bytes | None] = [json.dumps(o).encode() for o in objects]
    assert rows(messages) == [row for message in messages for row in rows([message])]


def test_long_fractions_stay_numbers_where_doubles_hold_them() -> None:
    (row,) = decoder().decode(lines({"j": {"x": 0.30000000000000004}})).rows.to_pylist()
    assert row["j"] == '{"x":0.30000000000000004}'
    message = b'{"j": {"x": 0.1234567890123456789012}, "big": 0.1234567890123456789012}'
    (row,) = conformed(decoder().decode(batch([message])))
    assert (row["j"], row["big"]) == ('{"x":"0.1234567890123456789012"}', "0.1234567890123456789012")


# -- what goes beside


def test_fields_that_a_table_reads() -> None:
    table = TableConfig.from_json(
        TABLE.to_json()
        | {
            "ingestionConfig": {
                "transformConfigs": [{"columnName": "s", "transformFunction": "concat(first, last, ' ')"}],
                "filterConfig": {"filterFunction": "gone = 1"},
                "sourceFieldConfigs": [{"name": "d", "dataType": "STRING"}, {"name": "raw", "dataType": "LONG"}],
            }
        }
    ).value
    fields = input_fields(SCHEMA, table)
    assert fields.names is not None
    assert {"first", "last", "gone", "raw", "s"} <= fields.names
    assert (fields.types["d"], fields.types["raw"], fields.types["i"]) == (DataType.STRING, DataType.LONG, DataType.INT)
    assert fields.multi_value == {"ss", "ll"}
    nested = TableConfig.from_json(TABLE.to_json() | {"ingestionConfig": {"complexTypeConfig": {}}}).value
    assert input_fields(SCHEMA, nested).names is None


def test_metadata_columns() -> None:
    messages = MessageBatch(
        pa.array([b'{"l": 1}', None, b'{"l": 2}'], pa.binary()),
        pa.array([7, 8, 10], pa.int64()),
        np.array([100, 200, -1]),
        IntegerOffset(11),
        keys=pa.array([b"k", b"gone", None], pa.binary()),
        headers=pa.array([[("h", b"1"), ("h", b"2")], [], [("g", b"\xff")]], pa.map_(pa.string(), pa.binary())),
    )
    rows = add_metadata(messages, decoder().decode(messages), 3).rows
    assert rows.select([n for n in rows.schema.names if n == "l" or n.startswith("__")]).to_pylist() == [
        {
            "l": 1, "__metadata$offset": "7", "__metadata$recordTimestamp": "100", "__metadata$partition": "3",
            "__metadata$recordSerializedValueSize": "8", "__key": "k", "__header$h": "2", "__header$g": None,
        },
        {
            "l": 2, "__metadata$offset": "10", "__metadata$recordTimestamp": None, "__metadata$partition": "3",
            "__metadata$recordSerializedValueSize": "8", "__key": None, "__header$h": None, "__header$g": b"\xff",
        },
    ]  # fmt: skip
