"""Parameters as SQL literals: each value comes back unchanged, and is never interpreted as SQL."""

import math
import struct
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.client import Connection, DataError, ProgrammingError
from gamay.client.literals import filled, literal, placeholders, pyformat_template

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text("'\"\\%?-/*\n;`() a")
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def connection(broker_url):
    with Connection.from_host_list(broker_url) as made:
        yield made


@MANY
@given(text=TEXTS)
def test_any_text_comes_back_as_itself(connection, text):
    assert connection.execute("SELECT ? FROM every LIMIT 1", [text])[0].rows() == [(text,)]
    assert connection.execute("SELECT %(a)s FROM every WHERE c_int = %(b)s", {"a": text, "b": 8})[0].rows() == [(text,)]


@MANY
@given(text=TEXTS, other=TEXTS)
def test_text_compares_as_itself(connection, text, other):
    """No value ends its literal early: the condition compares exactly these two texts."""
    found = connection.execute("SELECT COUNT(*) FROM every WHERE ? = ? AND c_int = 8", [text, other])[0].get_int(0)
    assert found == (text == other)


@MANY
@given(text=TEXTS | st.just("x"))
def test_text_compares_as_itself_in_pql(connection, text):
    found = connection.execute("SELECT COUNT(*) FROM every WHERE c_string = ?", [text], language="pql")[0].get_int(0)
    assert found == (text == "x")


@MANY
@given(number=st.integers(-(2**63), 2**63 - 1) | st.floats() | st.booleans())
def test_numbers_come_back_as_themselves(connection, number):
    [(got,)] = connection.execute("SELECT ? FROM every LIMIT 1", [number])[0].rows()
    if isinstance(number, float) and math.isnan(number):
        assert math.isnan(got)
    else:
        assert got == number
        assert isinstance(got, type(number))


@MANY
@given(number=st.decimals(allow_nan=False, allow_infinity=False, places=8) | st.integers(2**63, 2**200).map(Decimal))
def test_decimals_keep_all_their_digits(connection, number):
    [(got,)] = connection.execute("SELECT CAST(? AS BIG_DECIMAL) FROM every LIMIT 1", [number])[0].rows()
    assert got == number


def test_parameters_find_rows_by_every_type(connection):
    moment = datetime(2023, 11, 14, 22, 13, 20, 123000)
    for column, value in {
        "c_int": -7,
        "c_long": 2**62 + 1,
        "c_float": 1.5,
        "c_big_decimal": Decimal("12345678901234567890.5"),
        "c_boolean": True,
        "c_timestamp": moment,
        "c_string": 'Zürich\'s "best" 100% \\ \n?',
        "c_bytes": b"\x01\xff",
        "c_uuid": uuid.UUID("123e4567-e89b-12d3-a456-426614174000"),
        "mv_int": np.int64(2),
    }.items():
        found = connection.execute(f"SELECT c_int FROM every WHERE {column} = ?", [value])[0].rows()
        assert found == [(-7,)], column
    zone = timezone(timedelta(hours=5, minutes=30))
    east = moment.replace(tzinfo=UTC).astimezone(zone)
    assert len(connection.execute("SELECT 1 FROM every WHERE c_timestamp = ?", [east])[0]) == 1
    assert len(connection.execute("SELECT 1 FROM every WHERE c_timestamp < ?", [date(2023, 11, 15)])[0]) == 1
    assert len(connection.execute("SELECT 1 FROM every WHERE c_int IN (?) AND c_int <> ?", [[-7, 8, 9], 8])[0]) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (np.bool_(False), "FALSE"),
        (np.float32(0.5), "0.5"),
        (float("-inf"), "CAST('-Infinity' AS DOUBLE)"),
        (2**63, "CAST('9223372036854775808' AS BIG_DECIMAL)"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("0.1234567890123456789"), "CAST('0.1234567890123456789' AS BIG_DECIMAL)"),
        (datetime(2024, 5, 1, 10), "'2024-05-01 10:00:00'"),
        (np.datetime64("2024-05-01T10:00:00.000000001"), "'2024-05-01 10:00:00'"),
        (np.datetime64("NaT"), "NULL"),
        (date(2024, 5, 1), "'2024-05-01'"),
        (time(10, 30), "'10:30:00'"),
        (memoryview(b"\x00\x0a"), "'000a'"),
        (["a'", None, 2], "'a''', NULL, 2"),
        (np.array([1, 2]), "1, 2"),
        (("x",), "'x'"),
    ],
)
def test_literals(value, text):
    assert literal(value) == text


def test_times_and_nulls_of_pandas():
    pandas = pytest.importorskip("pandas")
    assert literal(pandas.Timestamp("2024-05-01 10:00", tz="Europe/Oslo")) == "'2024-05-01 08:00:00'"
    assert literal(pandas.NaT) == literal(pandas.NA) == "NULL"
    assert literal(pandas.Series([1, None], dtype="Int64").tolist()) == "1, NULL"


@pytest.mark.parametrize("value", [[], object(), {"a": 1}, [[1]], Decimal("NaN"), "\ud800", 1j])
def test_what_has_no_literal(value):
    with pytest.raises(DataError):
        literal(value)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT '?' FROM t",
        "SELECT 'it''s ?' FROM t",
        'SELECT "a?" FROM t',
        "SELECT 1 -- why?\nFROM t",
        "SELECT /* ? '?' */ 1 FROM t",
        "SELECT `a?` FROM t",
        "SELECT 'not closed ?",
    ],
)
def test_what_is_no_placeholder(query):
    assert placeholders(query).keys == ()
    assert pyformat_template(query.replace("?", "%(a)s")).keys == ()
    assert filled(query, []) == query


def test_literals_never_grow_together_with_what_stands_beside_them():
    assert filled("a-?", [-5]) == "a- -5"
    assert filled("'a'?'b'", ["x"]) == "'a' 'x' 'b'"
    assert filled("x = ?OR ??", [1, 2, 3]) == "x = 1 OR 2 3"
    assert filled("(?),?=?", [1, 2, 3]) == "(1),2=3"
    assert filled("?--c?", [1]) == "1 --c?"


def test_percent_signs():
    query = "SELECT a % 2, a %size, '50%%', '5%' FROM t WHERE a LIKE %(p)s AND b = %(p)s"
    assert filled(query, {"p": "x%"}) == "SELECT a % 2, a %size, '50%', '5%' FROM t WHERE a LIKE 'x%' AND b = 'x%'"
    assert filled(query, None) == query
    assert filled("a = %s AND b LIKE 'c%%'", [1]) == "a = 1 AND b LIKE 'c%'"
    assert filled("a = ? AND b LIKE 'c%%'", [1]) == "a = 1 AND b LIKE 'c%%'"


@pytest.mark.parametrize(
    ("query", "parameters", "message"),
    [
        ("a = ?", [], "1 placeholders, but 0"),
        ("a = 1", [1], "0 placeholders, but 1"),
        ("a = %(x)s", {}, "not given"),
        ("a = %(name)s", {"nam": 1}, "Did you mean 'nam'"),
        ("a = %(x)d", {"x": 1}, r"must be written %\(x\)s"),
        ("a = %(x)s", [1], "give a mapping"),
        ("a = %s", {"x": 1}, "give a list"),
        ("a = ?", "x", "a mapping or a list, not str"),
        (5, None, "a query is text, not int"),
        ("a = '\ud800'", None, "half of a surrogate pair"),
    ],
)
def test_parameters_that_do_not_fit(query, parameters, message):
    with pytest.raises(ProgrammingError, match=message):
        filled(query, parameters)


def test_floats_are_written_with_all_their_digits():
    for bits in (0x3FB999999999999A, 0x0000000000000001, 0x7FEFFFFFFFFFFFFF, 0x8000000000000000):
        value = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
        assert struct.pack(">d", float(literal(value))) == bits.to_bytes(8, "big")
