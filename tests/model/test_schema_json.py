"""Schemas: reading, writing, defaults, the older time column, evolution."""

import json
import math
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.model.schema.datetime_format import DateTimeFormat, DateTimeKind, Granularity, joda_pattern, time_zone
from gamay.model.schema.default_null import default_null_value, null_value_from_json, null_value_to_json
from gamay.model.schema.field_spec import MaxLengthExceedStrategy
from gamay.model.schema.schema import BUILT_IN_COLUMNS, FieldSpec, Schema, check_backward_compatible
from gamay.model.types import DataType, FieldRole
from gamay.model.units import TimeUnit

NULL_VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    DataType.INT: st.integers(-(2**31), 2**31 - 1),
    DataType.LONG: st.integers(-(2**63), 2**63 - 1),
    DataType.FLOAT: st.floats(allow_nan=False),
    DataType.DOUBLE: st.floats(allow_nan=False),
    DataType.BIG_DECIMAL: st.decimals(allow_nan=False, allow_infinity=False).filter(lambda d: abs(d.adjusted()) < 100),
    DataType.BOOLEAN: st.booleans(),
    DataType.TIMESTAMP: st.integers(-62_135_596_800_000, 253_402_300_799_999),
    DataType.STRING: st.text(),
    DataType.JSON: st.text(),
    DataType.BYTES: st.binary(),
    DataType.UUID: st.binary(min_size=16, max_size=16),
}
TYPES = st.sampled_from(list(NULL_VALUES))
NAMES = st.from_regex(r"[a-zA-Z_é][a-zA-Z0-9_]{0,10}", fullmatch=True)


@st.composite
def dimension(draw: st.DrawFn, name: str) -> FieldSpec:
    data_type = draw(TYPES)
    return FieldSpec(
        name,
        data_type,
        single_value=draw(st.booleans()),
        default_null_value=draw(NULL_VALUES[data_type]),
        not_null=draw(st.booleans()),
        max_length=draw(st.integers(1, 5000)),
        max_length_exceed_strategy=draw(st.sampled_from(MaxLengthExceedStrategy)),
        description=draw(st.none() | st.just("text")),
        tags=tuple(draw(st.lists(NAMES, max_size=2))),
        metadata=draw(st.dictionaries(NAMES, st.text(), max_size=2)),
    )


@given(
    st.lists(NAMES, unique=True, max_size=6).flatmap(lambda names: st.tuples(*(dimension(n) for n in names))), st.booleans()
)
def test_a_schema_reads_back(fields: tuple[FieldSpec, ...], column_nulls: bool) -> None:
    schema = Schema("t", fields, tuple(f.name for f in fields[:1]), column_nulls)
    parsed = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert parsed.value == schema
    assert not parsed.unrecognized


@given(TYPES.flatmap(lambda t: st.tuples(st.just(t), NULL_VALUES[t])))
def test_a_default_null_value_reads_back(case: tuple[DataType, Any]) -> None:
    data_type, value = case
    again = null_value_from_json(json.loads(json.dumps(null_value_to_json(value, data_type))), data_type)
    assert again == value
    assert type(again) is type(value)


def test_every_key_is_kept(every_schema_key: dict[str, Any]) -> None:
    parsed = Schema.from_json(every_schema_key)
    assert not parsed.unrecognized
    assert parsed.value.to_json() == every_schema_key


def test_defaults_by_role_and_type() -> None:
    dimensions = {t: default_null_value(t, FieldRole.DIMENSION) for t in NULL_VALUES}
    assert dimensions == {
        DataType.INT: -2147483648, DataType.LONG: -9223372036854775808,
        DataType.FLOAT: -math.inf, DataType.DOUBLE: -math.inf,
        DataType.BIG_DECIMAL: Decimal(0), DataType.BOOLEAN: False, DataType.TIMESTAMP: 0, DataType.STRING: "null",
        DataType.JSON: "null", DataType.BYTES: b"", DataType.UUID: bytes(16),
    }  # fmt: skip
    for data_type in (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL):
        assert default_null_value(data_type, FieldRole.METRIC) == 0
    assert default_null_value(DataType.LONG, FieldRole.DATE_TIME) == -(2**63)


@pytest.mark.parametrize(
    ("data_type", "given_value", "expected"),
    [
        (DataType.INT, "-5", -5),
        (DataType.DOUBLE, "-Infinity", -math.inf),
        (DataType.DOUBLE, 3, 3.0),
        (DataType.BIG_DECIMAL, "1E+2", Decimal("1E+2")),
        (DataType.BOOLEAN, "1", True),
        (DataType.BOOLEAN, "TRUE", True),
        (DataType.BOOLEAN, 0, False),
        (DataType.TIMESTAMP, "1970-01-01 00:00:01.5", 1500),
        (DataType.TIMESTAMP, 1500, 1500),
        (DataType.STRING, 5, "5"),
        (DataType.STRING, True, "true"),
        (DataType.STRING, {"a": [1]}, '{"a":[1]}'),
        (DataType.BYTES, "0aFF", b"\x0a\xff"),
        (DataType.UUID, "123e4567-e89b-12d3-a456-426614174000", bytes.fromhex("123e4567e89b12d3a456426614174000")),
    ],
)
def test_default_null_values_are_read_by_type(data_type: DataType, given_value: Any, expected: Any) -> None:
    assert null_value_from_json(given_value, data_type) == expected


@pytest.mark.parametrize(
    ("data_type", "value", "reason"),
    [
        ("INT", 2147483648, "outside -2147483648"),
        ("INT", "5.0", "not a whole number"),
        ("LONG", "1_000", "not a number"),
        ("DOUBLE", "NaN", "NaN"),
        ("DOUBLE", "x", "not a number"),
        ("BIG_DECIMAL", "Infinity", "finite"),
        ("BOOLEAN", "yes", "true, false"),
        ("TIMESTAMP", "yesterday", "not a timestamp"),
        ("TIMESTAMP", 2**62, "years 1 to 9999"),
        ("BYTES", "0g", "hexadecimal"),
        ("UUID", "12", "UUID"),
        ("INT", [1], "list or object"),
    ],
)
def test_bad_default_null_values(data_type: str, value: Any, reason: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        Schema.from_json(
            {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": data_type, "defaultNullValue": value}]}
        )
    assert reason in str(caught.value)
    assert "/dimensionFieldSpecs/0/defaultNullValue" in str(caught.value)


def test_types_are_judged_with_the_accepted_ones() -> None:
    with pytest.raises(InvalidConfigError, match="a MAP column stands in complexFieldSpecs"):
        Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "MAP"}]})
    with pytest.raises(InvalidConfigError, match=r"LIST columns are not supported.*JSON"):
        Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "LIST"}]})
    with pytest.raises(InvalidConfigError, match="Did you mean 'STRING'"):
        Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "STRIN"}]})
    with pytest.raises(InvalidConfigError, match="is not one of"):
        Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "UNKNOWN"}]})
    with pytest.raises(InvalidConfigError, match="stands in the list of DIMENSION"):
        Schema.from_json(
            {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "INT", "fieldType": "METRIC"}]}
        )


STRING_KEY = {"name": "key", "dataType": "STRING", "fieldType": "DIMENSION"}
MAP = {
    "name": "m",
    "dataType": "MAP",
    "fieldType": "COMPLEX",
    "childFieldSpecs": {"key": STRING_KEY, "value": {"name": "value", "dataType": "DOUBLE", "fieldType": "METRIC"}},
}


def with_map(**changes: Any) -> dict[str, Any]:
    return {"schemaName": "t", "complexFieldSpecs": [{**MAP, **changes}]}


def test_maps_are_read_and_written() -> None:
    schema = Schema.from_json(with_map()).value
    (field,) = schema.fields
    assert (field.data_type, field.role, field.single_value) == (DataType.MAP, FieldRole.COMPLEX, True)
    assert (field.child_fields["value"].data_type, field.child_fields["value"].default_null_value) == (DataType.DOUBLE, 0.0)
    assert field.default_null_value == "{}"
    written = schema.to_json()
    assert written["complexFieldSpecs"] == [MAP]
    assert Schema.from_json(written).value == schema
    assert pickle.loads(pickle.dumps(schema)) == schema  # as Spark sends it to executors
    brief = {"key": {"dataType": "STRING"}, "value": {"dataType": "double", "fieldType": "METRIC"}}
    assert Schema.from_json(with_map(childFieldSpecs=brief, fieldType=None)).value == schema


@pytest.mark.parametrize(
    ("kind", "given_default", "stored"),
    [
        ("INT", {"b": "2", "a": 1, "c": None}, '{"a":1,"b":2}'),
        ("INT", '{"b": 2}', '{"b":2}'),
        ("TIMESTAMP", {"at": "1970-01-01 00:00:01.0"}, '{"at":1000}'),
        ("BIG_DECIMAL", {"x": "1.50"}, '{"x":"1.50"}'),
        ("DOUBLE", {"x": "Infinity"}, '{"x":"Infinity"}'),
        ("STRING", {"x": "ü"}, '{"x":"ü"}'),
        ("INT", {}, "{}"),
    ],
)
def test_the_default_of_a_map_has_values_of_its_type(kind: str, given_default: Any, stored: str) -> None:
    children = {"key": STRING_KEY, "value": {"dataType": kind}}
    schema = Schema.from_json(with_map(childFieldSpecs=children, defaultNullValue=given_default)).value
    assert schema.fields[0].default_null_value == stored
    written = schema.to_json()["complexFieldSpecs"][0]
    assert written.get("defaultNullValue", "{}") == stored
    assert Schema.from_json(schema.to_json()).value == schema


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dataType": "STRUCT"}, "STRUCT columns are not supported; store the value as JSON"),
        ({"dataType": "OPEN_STRUCT"}, "OPEN_STRUCT columns are not supported; store the value as JSON"),
        ({"dataType": "STRING"}, "STRING is not a type of complex columns"),
        ({"fieldType": "DIMENSION"}, "stands in the list of COMPLEX columns"),
        ({"childFieldSpecs": {"key": STRING_KEY}}, "must have the children key and value, not key"),
        ({"childFieldSpecs": None}, "must have the children key and value, not none"),
        ({"childFieldSpecs": {"key": STRING_KEY, "value": 5}}, "/childFieldSpecs/value: 5 is not an object"),
        ({"childFieldSpecs": {"key": {"dataType": "INT"}, "value": {"dataType": "INT"}}}, "a MAP must be STRING, not INT"),
        ({"childFieldSpecs": {"key": STRING_KEY, "value": {"dataType": "LIST"}}}, "LIST columns are not supported"),
        ({"childFieldSpecs": {"key": STRING_KEY, "value": {"dataType": "INT", "fieldType": "COMPLEX"}}}, "COMPLEX is not"),
        ({"childFieldSpecs": {"key": STRING_KEY, "value": {"dataType": "INT", "singleValueField": False}}}, "one value for"),
        ({"defaultNullValue": [1]}, "is not a JSON object"),
        ({"defaultNullValue": {"a": "x"}}, "a value of the MAP is not DOUBLE: 'x' is not a number"),
    ],
)  # fmt: skip
def test_maps_that_make_no_sense(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        Schema.from_json(with_map(**changes))
    assert reason in str(caught.value)
    assert "/complexFieldSpecs/0" in str(caught.value)


def test_a_map_keeps_the_type_of_its_values() -> None:
    old = Schema.from_json(with_map()).value
    longs = {"key": STRING_KEY, "value": {"dataType": "LONG"}}
    check_backward_compatible(old, old)
    with pytest.raises(InvalidConfigError, match="the value of column 'm' changes its type from DOUBLE to LONG"):
        check_backward_compatible(old, Schema.from_json(with_map(childFieldSpecs=longs)).value)


SAMPLE_OF_THE_SEED: dict[str, Any] = {
    "dimensionFieldSpecs": [
        {"dataType": "STRING", "delimiter": None, "singleValueField": True, "name": "name"},
        {"dataType": "INT", "delimiter": None, "singleValueField": True, "name": "age"},
    ],
    "timeFieldSpec": {
        "incomingGranularitySpec": {"timeType": "DAYS", "dataType": "LONG", "name": "incomingName1"},
        "outgoingGranularitySpec": {"timeType": "DAYS", "dataType": "LONG", "name": "outgoingName1"},
    },
    "metricFieldSpecs": [{"dataType": "FLOAT", "delimiter": None, "singleValueField": True, "name": "percent"}],
    "schemaName": "mySchema",
}


def test_the_sample_schema_of_the_seed() -> None:
    parsed = Schema.from_json(SAMPLE_OF_THE_SEED)
    assert list(parsed.unrecognized) == [
        "/dimensionFieldSpecs/0/delimiter",
        "/dimensionFieldSpecs/1/delimiter",
        "/metricFieldSpecs/0/delimiter",
    ]
    schema = parsed.value
    assert schema.column_names == ("name", "age", "percent", "outgoingName1")
    time = schema.field("outgoingName1")
    assert (time.role, time.transform_function) == (FieldRole.DATE_TIME, '"incomingName1"')
    assert time.format is not None
    assert time.granularity is not None
    assert (time.format.text, time.granularity.text) == ("1:DAYS:EPOCH", "1:DAYS")
    assert Schema.from_json(schema.to_json()).value == schema
    assert "timeFieldSpec" in schema.to_json()


def test_the_first_form_of_time_columns() -> None:
    flat = {"name": "t", "dataType": "LONG", "timeFormat": "EPOCH", "timeUnitSize": 5, "timeType": "MINUTES"}
    parsed = Schema.from_json({"schemaName": "t", "timeFieldSpec": {**flat, "defaultNullValue": 7, "extra": 1}})
    nested = {"incomingGranularitySpec": flat, "defaultNullValue": 7}
    assert parsed.value == Schema.from_json({"schemaName": "t", "timeFieldSpec": nested}).value
    assert list(parsed.unrecognized) == ["/timeFieldSpec/extra"]
    field = parsed.value.field("t")
    assert (field.format and field.format.text, field.default_null_value) == ("5:MINUTES:EPOCH", 7)
    assert Schema.from_json(parsed.value.to_json()).value == parsed.value


def test_the_types_of_date_times_are_kept() -> None:
    dates = [
        {"name": "a", "dataType": "LONG", "format": "1:HOURS:EPOCH", "granularity": "1:HOURS", "dateTimeType": "PRIMARY"},
        {
            "name": "b",
            "dataType": "LONG",
            "format": "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd",
            "granularity": "1:DAYS",
            "dateTimeType": "SECONDARY",
        },
        {"name": "c", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "5:MINUTES"},
    ]
    parsed = Schema.from_json({"schemaName": "t", "dateTimeFieldSpecs": dates})
    assert not parsed.unrecognized
    assert [spec.get("dateTimeType") for spec in parsed.value.to_json()["dateTimeFieldSpecs"]] == [
        "PRIMARY",
        "SECONDARY",
        None,
    ]
    with pytest.raises(InvalidConfigError, match=r"dateTimeType.*one of PRIMARY, SECONDARY, DERIVED"):
        Schema.from_json({"schemaName": "t", "dateTimeFieldSpecs": [{**dates[0], "dateTimeType": "MAIN"}]})


def time_schema(incoming: dict[str, Any], outgoing: dict[str, Any] | None = None) -> FieldSpec:
    spec: dict[str, Any] = {"incomingGranularitySpec": {"name": "i", "dataType": "LONG", **incoming}}
    if outgoing:
        spec["outgoingGranularitySpec"] = {"name": "o", "dataType": "INT", **outgoing}
    return Schema.from_json({"schemaName": "t", "timeFieldSpec": spec}).value.fields[0]


@pytest.mark.parametrize(
    ("incoming", "outgoing", "transform"),
    [
        ({"timeType": "SECONDS"}, None, None),
        ({"timeType": "SECONDS"}, {"timeType": "DAYS"}, 'toEpochDays(fromEpochSeconds("i"))'),
        ({"timeType": "MILLISECONDS"}, {"timeType": "HOURS"}, 'toEpochHours("i")'),
        ({"timeType": "MINUTES", "timeUnitSize": 15}, {"timeType": "MILLISECONDS"}, 'fromEpochMinutesBucket("i", 15)'),
        (
            {"timeType": "SECONDS"},
            {"timeType": "MINUTES", "timeunitSize": 5},
            'toEpochMinutesBucket(fromEpochSeconds("i"), 5)',
        ),
        ({"timeType": "DAYS"}, {"timeType": "DAYS"}, '"i"'),
        ({"timeType": "DAYS", "name": "in"}, {"timeType": "HOURS"}, 'toEpochHours(fromEpochDays("in"))'),
    ],
)
def test_older_time_columns_are_converted(
    incoming: dict[str, Any], outgoing: dict[str, Any] | None, transform: str | None
) -> None:
    assert time_schema(incoming, outgoing).transform_function == transform


def test_older_time_columns_with_a_pattern() -> None:
    spec = time_schema({"timeType": "DAYS", "timeFormat": "SIMPLE_DATE_FORMAT:yyyyMMdd", "dataType": "STRING"})
    assert spec.format is not None
    assert spec.format.to_millis("19700102") == 86_400_000


@pytest.mark.parametrize(
    ("incoming", "outgoing", "reason"),
    [
        ({"timeType": "DAYS"}, {"timeType": "HOURS", "name": "i"}, "different names"),
        ({"timeType": "DAYS", "timeFormat": "SIMPLE_DATE_FORMAT:yyyy"}, {"timeType": "DAYS"}, "not both EPOCH"),
        ({"timeType": "NANOSECONDS"}, {"timeType": "DAYS"}, "cannot be converted"),
        ({"timeType": "DAY"}, None, "Did you mean 'DAYS'"),
        ({}, None, "'timeType' is missing"),
    ],
)
def test_older_time_columns_that_make_no_sense(
    incoming: dict[str, Any], outgoing: dict[str, Any] | None, reason: str
) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        time_schema(incoming, outgoing)
    assert reason in str(caught.value)


def test_a_timestamp_column_has_one_format_only() -> None:
    spec = {"name": "ts", "dataType": "TIMESTAMP", "format": "1:DAYS:EPOCH", "granularity": "1:MILLISECONDS"}
    field = Schema.from_json({"schemaName": "t", "dateTimeFieldSpecs": [spec]}).value.field("ts")
    assert field.format is not None
    assert field.format.kind is DateTimeKind.TIMESTAMP


def test_date_time_columns_need_a_format_and_a_granularity() -> None:
    def read(**spec: str) -> Schema:
        return Schema.from_json({"schemaName": "t", "dateTimeFieldSpecs": [{"name": "d", "dataType": "LONG", **spec}]}).value

    with pytest.raises(InvalidConfigError, match="'format' is missing"):
        read(granularity="1:DAYS")
    with pytest.raises(InvalidConfigError, match="'granularity' is missing"):
        read(format="1:DAYS:EPOCH")
    with pytest.raises(InvalidConfigError, match=r"/dateTimeFieldSpecs/0/format: '1:DAY:EPOCH'|DAYS"):
        read(format="1:DAY:EPOCH", granularity="1:DAYS")


def test_look_ups() -> None:
    schema = Schema("t", (FieldSpec("a", DataType.INT), FieldSpec("v", DataType.INT, virtual_column_provider="x")))
    assert "a" in schema
    assert "b" not in schema
    assert [f.name for f in schema.stored_fields] == ["a"]
    with pytest.raises(KeyError):
        schema.field("A")
    assert BUILT_IN_COLUMNS["$partitionId"].single_value is False


def test_a_schema_can_be_sent_to_other_processes_and_be_a_key(every_schema_key: dict[str, Any]) -> None:
    schema = Schema.from_json(every_schema_key).value
    again = pickle.loads(pickle.dumps(schema))
    assert again == schema
    assert {again: 1}[schema] == 1


def test_parts_made_by_hand_are_written_as_text() -> None:
    made = DateTimeFormat(DateTimeKind.SIMPLE_DATE_FORMAT, pattern=joda_pattern("yyyy"), time_zone=time_zone("+05:30"))
    assert DateTimeFormat.parse(made.text) == made
    assert DateTimeFormat(DateTimeKind.EPOCH, TimeUnit.DAYS).text == "1:DAYS:EPOCH"
    assert Granularity(15, TimeUnit.MINUTES).text == "15:MINUTES"
    assert DateTimeFormat.parse(DateTimeFormat(DateTimeKind.TIMESTAMP).text).kind is DateTimeKind.TIMESTAMP


def test_sample_values_are_text_or_numbers() -> None:
    spec = {"name": "d", "dataType": "LONG", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}
    for sample, ok in ((15000, True), ("15000", True), ([1], False), ({}, False)):
        document = {"schemaName": "t", "dateTimeFieldSpecs": [{**spec, "sampleValue": sample}]}
        if ok:
            assert Schema.from_json(document).value.to_json()["dateTimeFieldSpecs"][0]["sampleValue"] == sample
        else:
            with pytest.raises(InvalidConfigError, match="sampleValue"):
                Schema.from_json(document)


def test_evolution() -> None:
    old = Schema("t", (FieldSpec("a", DataType.INT), FieldSpec("b", DataType.STRING)), ("a",))
    check_backward_compatible(old, old)
    wider = Schema(
        "t",
        (
            FieldSpec("a", DataType.INT, FieldRole.METRIC),
            FieldSpec("b", DataType.STRING, max_length=9),
            FieldSpec("c", DataType.INT),
        ),
        ("a",),
    )
    check_backward_compatible(old, wider)
    check_backward_compatible(Schema("t", old.fields), old)
    broken = Schema("t", (FieldSpec("a", DataType.LONG, single_value=False), FieldSpec("bb", DataType.STRING)), ("bb",))
    with pytest.raises(InvalidConfigError) as caught:
        check_backward_compatible(old, broken)
    for part in ("from INT to LONG", "from single-value to multi-value", "'b' is gone", "primary key changes"):
        assert part in str(caught.value)
