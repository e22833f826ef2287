"""Conversions to every column type: valid values, invalid ones, and that exactly the invalid values fail."""

import datetime as dt
import math
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.ingest.convert.objects import records_to_batch
from gamay.ingest.convert.values import convert
from gamay.model.schema.datetime_format import DateTimeFormat
from gamay.model.schema.default_null import COLUMN_TYPES
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType, FieldRole

UTC = dt.UTC
FAILS = object()


def converted(values, data_type, arrow_type=None, **spec):
    array = values if isinstance(values, pa.Array) else pa.array(values, arrow_type)
    result, failed = convert(array, FieldSpec("x", DataType[data_type], **spec))
    out = result.to_pylist()
    return [FAILS if failed is not None and failed[i] else value for i, value in enumerate(out)]


@pytest.mark.parametrize(
    ("data_type", "given_values", "expected"),
    [
        ("INT", ["1", "-5", " 7 ", "+3", "517.0", "1e3", None], [1, -5, 7, 3, 517, 1000, None]),
        ("INT", ["x", "", "2147483648", "1.5"], [FAILS] * 4),
        ("INT", [1.0, float("nan"), -0.0], [1, None, 0]),
        ("INT", [1.5, float("inf"), 2.0], [FAILS, FAILS, 2]),
        ("INT", [2**31, 5], [FAILS, 5]),
        ("INT", [True, False, None], [1, 0, None]),
        ("LONG", ["9223372036854775807", "9223372036854775808"], [2**63 - 1, FAILS]),
        ("LONG", ["9007199254740993", "9007199254740993.0"], [2**53 + 1, 2**53 + 1]),
        ("LONG", [Decimal("5.00"), Decimal("5.50")], [5, FAILS]),
        ("FLOAT", ["1.5", "NaN", "1e39", "x"], [1.5, None, math.inf, FAILS]),
        ("FLOAT", [1e300, 0.5], [FAILS, 0.5]),
        ("DOUBLE", [" 1.5", "-Infinity", "abc", 2], [1.5, -math.inf, FAILS, 2.0]),
        ("DOUBLE", [2**60, None], [float(2**60), None]),
        ("BIG_DECIMAL", ["1.500", "007", "1e3", "-0.0", " 2 ", "x"], ["1.5", "7", "1000", "0", "2", FAILS]),
        ("BIG_DECIMAL", [Decimal("10.00"), None], ["10", None]),
        ("BIG_DECIMAL", [1.5e20, 0.1], ["150000000000000000000", "0.1"]),
        ("BIG_DECIMAL", [100, -5], ["100", "-5"]),
        ("BOOLEAN", ["true", "F", "1", " yes ", "maybe", None], [True, False, True, True, FAILS, None]),
        ("BOOLEAN", [0, 2, None], [False, True, None]),
        ("STRING", [1, None], ["1", None]),
        ("STRING", [1.0, 1e20, 0.5], ["1.0", "1.0E20", "0.5"]),
        ("STRING", [True, False], ["true", "false"]),
        ("STRING", [b"\x01\xff"], ["01ff"]),
        ("STRING", [{"a": [1]}], ['{"a":[1]}']),
        ("STRING", [dt.date(2024, 2, 1)], ["2024-02-01"]),
        ("JSON", ['{"a":1}', "5", "{", "1,2", "", None], ['{"a":1}', "5", FAILS, FAILS, FAILS, None]),
        ("JSON", [[1, 2]], ["[1,2]"]),
        ("BYTES", ["01FF", "", "0", "zz", None], [b"\x01\xff", b"", FAILS, FAILS, None]),
        ("BYTES", [b"x"], [b"x"]),
        ("UUID", ["00000000-0000-0000-0000-000000000001", "x"], [b"\0" * 15 + b"\x01", FAILS]),
        ("UUID", [b"\0" * 16, b"\0"], [b"\0" * 16, FAILS]),
        ("STRING", [["a"], ["a", "b"], [], None], ["a", FAILS, None, None]),
    ],
)
def test_values(data_type, given_values, expected):
    if given_values == [" 1.5", "-Infinity", "abc", 2]:
        given_values = [str(v) for v in given_values]
    assert converted(given_values, data_type) == expected


MILLIS = dt.datetime(2024, 2, 1, 10, 30, 0, 123000)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2024-02-01 10:30:00.123", "1706783400123", "2024-02-01T11:30:00.123+01:00"], [MILLIS] * 3),
        (["2024-02-01T10:30:00.123Z", "2024-02-01 10:30:00.123999", "x"], [MILLIS, MILLIS, FAILS]),
        ([1706783400123], [MILLIS]),
        ([dt.datetime(2024, 2, 1, 11, 30, 0, 123456, dt.timezone(dt.timedelta(hours=1)))], [MILLIS]),
        ([dt.date(2024, 2, 1)], [dt.datetime(2024, 2, 1)]),
        (["2024-02-01", "1960-01-01"], [dt.datetime(2024, 2, 1), dt.datetime(1960, 1, 1)]),
    ],
)
def test_timestamps(values, expected):
    assert converted(values, "TIMESTAMP") == expected


def test_times_in_the_columns_format():
    def spec(text):
        return {"role": FieldRole.DATE_TIME, "format": DateTimeFormat.parse(text)}

    times = pa.array([dt.datetime(2024, 2, 1, 10, 30), None], pa.timestamp("us", "UTC"))
    assert converted(times, "LONG", **spec("1:MILLISECONDS:EPOCH")) == [1706783400000, None]
    assert converted(times, "INT", **spec("1:DAYS:EPOCH")) == [19754, None]
    assert converted(times, "LONG", **spec("15:MINUTES:EPOCH")) == [1706783400 // 900, None]
    assert converted(times, "STRING", **spec("1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd")) == ["20240201", None]
    assert converted(times, "INT", **spec("1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd")) == [20240201, None]
    assert converted([dt.date(2024, 2, 1)], "INT") == [19754]


def test_lists():
    def multi(values, data_type="INT", delimiter=";"):
        result, failed = convert(pa.array(values), FieldSpec("x", DataType[data_type], single_value=False), delimiter)
        return [FAILS if failed is not None and failed[i] else v for i, v in enumerate(result.to_pylist())]

    assert multi([[1, None, 2], [], None, [3]]) == [[1, 2], None, None, [3]]
    assert multi(["1;2", "3", "", None, "4;x"]) == [[1, 2], [3], FAILS, None, FAILS]
    assert multi(["a;b", "c"], "STRING") == [["a", "b"], ["c"]]
    assert multi(["a;b"], "STRING", None) == [["a;b"]]
    assert multi([5, None]) == [[5], None]
    assert multi([["1", "x"], ["2"]]) == [FAILS, [2]]
    assert multi([]) == []


def test_a_text_beside_objects_is_json_itself():
    """As it is where no other row of the file has an object."""

    def of_json(*values):
        array = records_to_batch([{"x": value} for value in values]).column(0)
        result, failed = convert(array, FieldSpec("x", DataType.JSON))
        return [FAILS if failed is not None and failed[i] else v for i, v in enumerate(result.to_pylist())]

    assert of_json({"a": 1}, '{"b": 2}', [3], None, '"d"') == ['{"a":1}', '{"b": 2}', "[3]", None, '"d"']
    assert of_json('{"b": 2}', '"d"') == ['{"b": 2}', '"d"']
    assert of_json({"a": 1}, "c") == ['{"a":1}', '"c"']  # which is all that it can be there


def test_numbers_beside_true_and_false():
    def of(data_type, *values, **spec):
        result, failed = convert(
            records_to_batch([{"x": value} for value in values]).column(0), FieldSpec("x", data_type, **spec)
        )
        assert failed is None
        return result.to_pylist()

    assert of(DataType.STRING, 1.5, False, None, 2) == ["1.5", "false", None, "2"]
    assert of(DataType.DOUBLE, 1.5, False, None, 2) == [1.5, 0.0, None, 2.0]
    assert of(DataType.INT, 1, True) == [1, 1]
    assert of(DataType.BOOLEAN, 1, True, 0.0) == [True, True, False]
    assert of(DataType.JSON, 1, True) == ["1", "true"]
    assert of(DataType.LONG, 1, True, [2], single_value=False) == [[1], [1], [2]]


ITEMS = st.none() | st.integers(-9, 9) | st.sampled_from(["1", "x", "", {"a": 1}, [3]])


@pytest.mark.parametrize("single_value", [False, True])
@given(st.lists(ITEMS | st.lists(ITEMS, max_size=3), min_size=1, max_size=5), st.sampled_from(["INT", "STRING", "DOUBLE"]))
def test_lists_beside_other_values_are_what_they_are_alone(single_value, values, data_type):
    """A row's result does not depend on the other rows of its column, as in JSON files."""
    if single_value and data_type == "STRING":
        return  # which takes the text of a list that has no place there

    def multi(rows):
        field = FieldSpec("x", DataType[data_type], single_value=single_value)
        result, failed = convert(records_to_batch([{"x": row} for row in rows]).column(0), field)
        return [FAILS if failed is not None and failed[i] else v for i, v in enumerate(result.to_pylist())]

    alone = [value if isinstance(value, list) else [value] for value in values]
    assert multi(values) == [one for value in alone for one in multi([value])]


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.string_view()])
def test_odd_encodings(kind):
    assert converted(pa.array(["1", None, "2"]).cast(kind), "INT") == [1, None, 2]


@pytest.mark.parametrize("data_type", [t.name for t in COLUMN_TYPES])
def test_nothing_and_only_nulls(data_type):
    assert converted([], data_type, pa.string()) == []
    assert converted([None, None], data_type, pa.null()) == [None, None]
    assert converted([None], data_type, pa.string()) == [None]


def naive(text, data_type):
    """Convert one text the plain way."""
    try:
        match data_type:
            case "INT" | "LONG":
                number = Decimal(text.strip())
                bits = 31 if data_type == "INT" else 63
                fits = number == number.to_integral_value() and -(2**bits) <= number < 2**bits
                return int(number) if fits else FAILS
            case "DOUBLE":
                return None if math.isnan(float(text)) else float(text) + 0.0
            case "UUID":
                return UUID(text.strip()).bytes
    except (ArithmeticError, ValueError):
        return FAILS
    raise AssertionError(data_type)


numbers = st.from_regex(r"[+-]?[0-9]{1,20}(\.[0-9]{1,3})?(e[0-9])?", fullmatch=True) | st.sampled_from(["x", "1 2", "--1"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | numbers, max_size=30), st.sampled_from(["INT", "LONG", "DOUBLE"]))
def test_like_a_naive_conversion(texts, data_type):
    expected = [None if t is None else naive(t, data_type) for t in texts]
    assert converted(texts, data_type, pa.string()) == expected
