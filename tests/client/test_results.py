"""Result sets: accessors, the three shapes of PQL's answers, frames, and invalid answers."""

import contextlib
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gamay
from gamay.client import Connection, DataError, Error, InterfaceError
from gamay.client.errors import error_of
from gamay.client.frames import arrow_table, decimal_array, map_array
from gamay.client.results import ResultSet, ResultSetGroup
from gamay.client.values import milliseconds_of, python_rows, timestamp_of

NULLS = {"enableNullHandling": True}


@pytest.fixture(scope="module")
def connection(broker_url):
    with Connection.from_host_list(broker_url) as made:
        yield made


def group(**response):
    return ResultSetGroup({"exceptions": [], **response})


def table(types, rows):
    names = [f"c{i}" for i in range(len(types))]
    return group(resultTable={"dataSchema": {"columnNames": names, "columnDataTypes": types}, "rows": rows})[0]


# -- values


def test_values_of_every_type(connection):
    answer = connection.execute("SELECT * FROM every ORDER BY c_int", options=NULLS)[0]
    row = dict(zip(answer.columns, answer.rows()[0], strict=True))
    assert row == {
        "c_double": 2.25,
        "c_int": -7,
        "c_long": 2**62 + 1,
        "c_float": 1.5,
        "c_big_decimal": Decimal("12345678901234567890.5"),
        "c_boolean": True,
        "c_timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
        "c_string": 'Zürich\'s "best" 100% \\ \n?',
        "c_json": '{"a":1}',
        "c_bytes": b"\x01\xff",
        "c_uuid": UUID("123e4567-e89b-12d3-a456-426614174000"),
        "mv_int": [1, 2],
        "mv_string": ["a", "b"],
        "mv_timestamp": [datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)],
    }
    assert isinstance(row["c_double"], float)
    second = dict(zip(answer.columns, answer.rows()[1], strict=True))
    assert second["c_timestamp"] == 253_402_300_800_000  # in the year 10000
    assert {name for name, value in second.items() if value is not None} == {"c_int", "c_string", "c_timestamp"}


def test_frames_of_every_type(connection):
    answer = connection.execute("SELECT * FROM every ORDER BY c_int", options=NULLS)[0]
    arrow = answer.to_arrow()
    assert {field.name: str(field.type) for field in arrow.schema} == {
        "c_int": "int32",
        "c_long": "int64",
        "c_float": "float",
        "c_double": "double",
        "c_big_decimal": "decimal128(38, 1)",
        "c_boolean": "bool",
        "c_timestamp": "timestamp[ms]",
        "c_string": "string",
        "c_json": "string",
        "c_bytes": "binary",
        "c_uuid": "binary",
        "mv_int": "list<item: int32>",
        "mv_string": "list<item: string>",
        "mv_timestamp": "list<item: timestamp[ms]>",
    }
    assert arrow["c_long"].to_pylist() == [2**62 + 1, None]
    assert arrow["mv_int"].to_pylist() == [[1, 2], None]
    assert arrow["c_timestamp"].cast(pa.int64()).to_pylist() == [1_700_000_000_123, 253_402_300_800_000]
    frame = answer.to_pandas()
    assert str(frame["c_long"].dtype) == "Int64"  # not a float, which would have lost the last digit
    assert frame["c_long"][0] == 2**62 + 1
    assert frame["c_long"].isna().tolist() == [False, True]
    assert str(frame["c_int"].dtype) == "int32"
    polars = answer.to_polars()
    assert polars["c_long"].to_list() == [2**62 + 1, None]
    assert polars["mv_string"].to_list() == [["a", "b"], None]
    assert polars["c_big_decimal"].to_list() == [Decimal("12345678901234567890.5"), None]


def test_frames_agree_with_those_in_process(connection, tmp_path):
    answer = connection.execute("SELECT * FROM every", options=NULLS)[0]
    with gamay.connect(tmp_path, threads=1) as database:
        database.create_table("again", answer.to_arrow().slice(0, 1))
        again = database.sql("SELECT * FROM again")
        assert dict(zip(again.columns, again.types, strict=True))["c_long"] == "LONG"
        assert again.to_arrow()["mv_int"].to_pylist() == [[1, 2]]


def test_frames_without_rows_have_their_types():
    empty = table(["LONG", "BIG_DECIMAL", "STRING_ARRAY", "TIMESTAMP"], [])
    assert [str(t) for t in empty.to_arrow().schema.types] == [
        "int64",
        "decimal128(38, 0)",
        "list<item: string>",
        "timestamp[ms]",
    ]
    assert len(empty.to_pandas()) == len(empty.to_polars()) == 0
    assert empty.rows() == []


def test_columns_of_the_same_name_and_of_rare_types():
    rows = [[1, 2, {"a": 1}, None], [None, 3, {}, None]]
    odd = arrow_table(["n", "n", "m", "u"], ["INT", "INT", "MAP", "UNKNOWN"], rows)
    assert odd.column_names == ["n", "n", "m", "u"]
    result = ResultSet(["n", "n", "m", "u"], ["INT", "INT", "MAP", "UNKNOWN"], rows)
    assert list(result.to_pandas().columns) == ["n", "n", "m", "u"]
    assert result.to_polars().columns == ["n", "n_1", "m", "u"]
    assert result.rows()[0] == (1, 2, {"a": 1}, None)


@pytest.mark.parametrize(
    ("maps", "kind", "values"),
    [
        ([{"a": 1, "b": None}, None, {}], "int64", [1, None]),
        ([{"a": 1}, {"a": 0.5}], "double", [1.0, 0.5]),
        ([{"a": "Infinity"}, {"a": 0.5}], "double", [math.inf, 0.5]),
        ([{"a": "Infinity"}], "string", ["Infinity"]),
        ([{"a": 2**70}], "double", [float(2**70)]),
        ([{"a": True}], "bool", [True]),
        ([{"a": True, "b": 1}], "string", ["true", "1"]),
        ([{"a": "x", "b": {"c": [1]}, "d": 1.5}], "string", ["x", '{"c":[1]}', "1.5"]),
        ([], "string", []),
    ],
)
def test_maps_have_values_of_one_type(maps, kind, values):
    made = map_array(maps)
    assert str(made.type) == f"map<string, {kind}>"
    assert [v for one in made.to_pylist() if one for _, v in one] == values
    assert [one is None for one in made.to_pylist()] == [one is None for one in maps]
    frame = ResultSet(["m"], ["MAP"], [[one] for one in maps]).to_pandas()
    assert [v for one in frame["m"] if one for v in one.values()] == values


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1.5", "0.001"], "decimal128(38, 3)"),
        (["1" * 38], "decimal128(38, 0)"),
        (["1" * 38, "0.1"], "decimal256(76, 1)"),
        (["1" * 76, "0.1"], "string"),
        (["1E+5"], "decimal128(38, 0)"),
    ],
)
def test_decimals_are_as_wide_as_they_must_be(texts, kind):
    made = decimal_array(pa.array(texts))
    assert str(made.type) == kind
    assert [Decimal(value) for value in made.to_pylist()] == [Decimal(text) for text in texts]
    assert ResultSet(["d"], ["BIG_DECIMAL"], [[text] for text in texts]).to_polars().height == len(texts)


def test_timestamps_far_from_now():
    assert timestamp_of("0001-01-01 00:00:00.0") == datetime(1, 1, 1, tzinfo=UTC)
    assert milliseconds_of("9999-12-31 23:59:59.999") == 253_402_300_799_999
    assert milliseconds_of("10000-01-01 00:00:00.0") == 253_402_300_800_000
    assert milliseconds_of("-0001-12-31 00:00:00.5") == -62_167_219_200_000 - 86_400_000 + 500
    with pytest.raises(ValueError, match="not a timestamp"):
        timestamp_of("yesterday")


def test_numbers_that_are_text():
    assert python_rows(["DOUBLE", "FLOAT_ARRAY"], [["Infinity", ["-Infinity", None]], [1, []]]) == [
        (math.inf, [-math.inf, None]),
        (1.0, []),
    ]


# -- accessors


def test_values_one_by_one():
    result = table(["LONG", "STRING", "DOUBLE", "BOOLEAN", "INT_ARRAY"], [[5, "7", 2.5, True, [1]], [None] * 5])
    assert (result.row_count, result.column_count, len(result)) == (2, 5, 2)
    assert [result.get_column_name(i) for i in range(5)] == ["c0", "c1", "c2", "c3", "c4"]
    assert result.get_column_type(4) == "INT_ARRAY"
    assert (result.get_int(0), result.get_long(0, 1), result.get_double(0, 2)) == (5, 7, 2.5)
    assert (result.get_float(0, 1), result.get_boolean(0, 3)) == (7.0, True)
    assert [result.get_string(0, i) for i in range(5)] == ["5", "7", "2.5", "true", "[1]"]
    assert [get(1, 0) for get in (result.get, result.get_int, result.get_string, result.get_double)] == [None] * 4
    assert list(result) == result.rows() == [(5, "7", 2.5, True, [1]), (None,) * 5]
    for get, column in ((result.get_int, 2), (result.get_int, 3), (result.get_double, 4), (result.get_boolean, 0)):
        with pytest.raises(DataError, match="row 0 of column 'c"):
            get(0, column)
    with pytest.raises(InterfaceError, match="no number 5 among 5 columns, numbered from 0"):
        result.get(0, 5)
    with pytest.raises(InterfaceError, match="no number -1 among 2 rows"):
        result.get(-1)
    with pytest.raises(InterfaceError, match="0 group keys"):
        result.get_group_key_string(0, 0)


def test_pql_selection(connection):
    answer = connection.execute("SELECT c_int, mv_string FROM every WHERE c_int = -7", language="pql")
    assert answer.result_set_count == 1
    result = answer.get_result_set(0)
    assert (result.columns, result.types) == (("c_int", "mv_string"), ("STRING", "STRING_ARRAY"))
    assert (result.get_int(0, 0), result.get_string(0, 1)) == (-7, '["a", "b"]')


def test_pql_aggregation(connection):
    answer = connection.execute("SELECT COUNT(*), SUM(c_int) FROM every", language="pql")
    assert [result.get_column_name(0) for result in answer] == ["count_star", "sum_c_int"]
    assert [result.get_int(0) for result in answer] == [2, 1]
    assert answer[1].get_string(0) == "1.00000"


def test_pql_groups(connection):
    answer = connection.execute("SELECT MIN(c_int), MAX(c_int) FROM every GROUP BY c_string, c_boolean", language="pql")
    assert len(answer) == 2
    least = answer.get_result_set(0)
    assert (least.row_count, least.column_count, least.group_key_length) == (2, 1, 2)
    assert [least.get_group_key_column_name(i) for i in range(2)] == ["c_string", "c_boolean"]
    assert least.get_column_name(0) == "min_c_int"
    assert {least.get_group_key_string(i, 0): least.get_int(i) for i in range(2)}["x"] == 8
    assert least.to_arrow().column_names == ["c_string", "c_boolean", "min_c_int"]


def test_the_only_result_set(connection):
    answer = connection.execute("SELECT c_int FROM every ORDER BY c_int")
    assert answer.rows() == [(-7,), (8,)]
    assert answer.to_arrow().to_pydict() == {"c_int": [-7, 8]}
    assert answer.to_pandas()["c_int"].tolist() == answer.to_polars()["c_int"].to_list() == [-7, 8]
    for other in (group(), connection.execute("SELECT MIN(c_int), MAX(c_int) FROM every", language="pql")):
        with pytest.raises(InterfaceError, match="result sets, not one"):
            other.rows()


def test_statistics(connection):
    answer = connection.execute("SELECT COUNT(*) FROM every WHERE c_int = 8")
    assert answer.stats.total_docs == 2
    assert answer.stats["num_docs_scanned"] == 1
    assert {"num_segments_processed", "time_used_ms"} <= set(answer.stats)
    assert "total_docs" in dir(answer.stats)
    assert answer.response["totalDocs"] == 2
    with pytest.raises(AttributeError, match="no statistic 'nope'"):
        _ = answer.stats.nope


def test_what_prompts_and_notebooks_show(connection):
    answer = connection.execute("SELECT c_string, c_int FROM every WHERE c_int = 8")
    assert repr(answer).splitlines()[:3] == ["c_string  c_int", "--------  -----", "x             8"]
    assert "<th>c_string<br>" in answer._repr_html_()
    assert "1 of 2 rows scanned" in answer._repr_html_()
    assert repr(group(partialResult=True)).endswith("The answer is partial: the broker does not say why.")
    lacking = group(exceptions=[{"errorCode": 427, "message": "<server> is away"}])
    assert lacking._repr_html_().endswith("<p>The answer is partial: &lt;server&gt; is away.</p>")


@pytest.mark.parametrize(
    ("response", "reasons"),
    [
        ({}, ()),
        ({"partialResult": True}, ("the broker does not say why",)),
        ({"partialResult": True, "numGroupsLimitReached": True}, ("groups beyond numGroupsLimit are left out",)),
        ({"maxRowsInDistinctReached": True}, ("DISTINCT stopped at maxRowsInDistinct",)),
        ({"numServersQueried": 2, "numServersResponded": 1}, ("1 of 2 servers did not answer",)),
        ({"numServersQueried": 2, "numServersResponded": 2}, ()),
        ({"partialResult": True, "exceptions": [{"errorCode": 427, "message": "x"}]}, ("x",)),
    ],
)
def test_partial(response, reasons):
    found = group(**response)
    assert (found.partial, found.reasons) == (bool(reasons), reasons)


# -- answers that are none

SCHEMA = {"columnNames": ["a"], "columnDataTypes": ["LONG"]}


@pytest.mark.parametrize(
    "response",
    [
        {"resultTable": []},
        {"resultTable": {"rows": [[1]]}},
        {"resultTable": {"dataSchema": SCHEMA, "rows": [[1, 2]]}},
        {"resultTable": {"dataSchema": SCHEMA, "rows": [1]}},
        {"resultTable": {"dataSchema": {"columnNames": ["a"], "columnDataTypes": []}, "rows": []}},
        {"selectionResults": {"columns": ["a"]}},
        {"selectionResults": {"columns": ["a"], "results": [["1", "2"]]}},
        {"aggregationResults": [{"value": "1"}]},
        {"aggregationResults": [{"function": "f", "groupByResult": [{"value": "1"}]}]},
        {"exceptions": ["no"]},
        {"exceptions": 5},
    ],
)
def test_malformed_results(response):
    with pytest.raises(InterfaceError):
        group(**response)


@pytest.mark.parametrize(
    ("kind", "value"), [("TIMESTAMP", "soon"), ("BIG_DECIMAL", "1,5"), ("BYTES", "xyz"), ("UUID", "1"), ("DOUBLE", [1])]
)
def test_values_that_are_not_of_their_type(kind, value):
    result = table([kind], [[value]])
    for read in (result.rows, result.to_arrow):
        with pytest.raises(InterfaceError, match="not of its column's type"):
            read()
    assert json.loads(json.dumps(result.wire_rows)) == [[value]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WIRE_TYPES = "INT LONG DOUBLE BOOLEAN TIMESTAMP BIG_DECIMAL BYTES UUID STRING JSON MAP INT_ARRAY UUID_ARRAY X"
TYPED = st.sampled_from(WIRE_TYPES.split())
VALID = {
    "resultTable": {"dataSchema": {"columnNames": ["a", "b"], "columnDataTypes": ["LONG", "STRING"]}, "rows": [[1, "x"]]},
    "selectionResults": {"columns": ["a"], "results": [["1"]]},
    "aggregationResults": [{"groupByResult": [{"value": "1", "group": ["x"]}], "function": "f", "groupByColumns": ["k"]}],
    "exceptions": [{"errorCode": 200, "message": "m"}],
    "numServersQueried": 1,
    "numServersResponded": 1,
    "timeUsedMs": 1,
    "partialResult": False,
}


def places(value, path=()):
    """Yield the paths of everything within a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_an_answer_holds_only_errors_of_this_module_are_raised(data):
    response = {"exceptions": [], **{k: v for k, v in VALID.items() if data.draw(st.booleans())}}
    response = json.loads(json.dumps(response))
    for _ in range(data.draw(st.integers(0, 2))):
        path = data.draw(st.sampled_from([p for p in places(response) if p]))
        parent = response
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = data.draw(JSON | st.lists(TYPED, max_size=2))
    read_all(response)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kind=TYPED, values=st.lists(JSON, max_size=3))
def test_whatever_a_column_holds_only_errors_of_this_module_are_raised(kind, values):
    schema = {"columnNames": ["a"], "columnDataTypes": [kind]}
    read_all({"exceptions": [], "resultTable": {"dataSchema": schema, "rows": [[value] for value in values]}})


def read_all(response):
    try:
        found = ResultSetGroup(response)
        assert found.partial in (True, False)
        if found.exceptions:
            assert str(error_of(found.exceptions, response))
    except Error:
        return
    for result in found:
        readers = [result.rows, result.to_arrow, lambda result=result: repr(result)]
        readers += [
            lambda get=get: get(0) for get in (result.get_string, result.get_int, result.get_double, result.get_boolean)
        ]
        for read in readers:
            with contextlib.suppress(Error):
                read()
