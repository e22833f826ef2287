"""pinotdb, unmodified: every type, parameters, errors, the SQLAlchemy dialect and pandas."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pinotdb
import pyarrow as pa
import pytest
from sqlalchemy import Engine, create_engine, inspect, text

import gamay
from gamay.embedded import EmbeddedCluster

TYPES = ["INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "BOOLEAN", "TIMESTAMP", "STRING", "JSON", "BYTES", "UUID"]
ROW = {
    "c_int": -7,
    "c_long": 2**40,
    "c_float": 1.5,
    "c_double": 2.25,
    "c_big_decimal": "12345678901234567890.5",
    "c_boolean": True,
    "c_timestamp": 1_700_000_000_123,
    "c_string": "Zürich's 'best' 100%",
    "c_json": '{"a":1}',
    "c_bytes": b"\x01\xff",
    "c_uuid": "123e4567-e89b-12d3-a456-426614174000",
    "mv_int": [1, 2],
    "mv_string": ["a", "b"],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder: Path = tmp_path_factory.mktemp("types")
    dimensions: list[dict[str, Any]] = [{"name": f"c_{t.lower()}", "dataType": t} for t in TYPES]
    dimensions += [{"name": f"mv_{t.lower()}", "dataType": t, "singleValueField": False} for t in ("INT", "STRING")]
    with gamay.connect(folder, threads=1) as database:
        database.create_table("every", pa.Table.from_pylist([ROW]), schema={"dimensionFieldSpecs": dimensions})
        # the dialect's reflection knows no UUID
        known = [spec for spec in dimensions if spec["dataType"] != "UUID"]
        database.create_table("known", pa.Table.from_pylist([ROW]), schema={"dimensionFieldSpecs": known})
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as running:
        yield running


@pytest.fixture
def connection(cluster: EmbeddedCluster) -> Any:
    port = int(cluster.broker_url.rpartition(":")[2])
    return pinotdb.connect(host="localhost", port=port, path="/query/sql", scheme="http")


@pytest.fixture
def engine(cluster: EmbeddedCluster) -> Engine:
    port = int(cluster.broker_url.rpartition(":")[2])
    return create_engine(f"pinot://localhost:{port}/query/sql?controller={cluster.controller_url}/")


def test_values_of_every_type(connection: Any) -> None:
    cursor = connection.cursor()
    names = [f"c_{t.lower()}" for t in TYPES] + ["mv_int", "mv_string"]
    cursor.execute(f"SELECT {', '.join(names)} FROM every")
    assert [column[0] for column in cursor.description] == names
    row = dict(zip(names, cursor.fetchone(), strict=True))
    assert row["c_timestamp"].isoformat(timespec="milliseconds") == "2023-11-14T22:13:20.123"
    # the client shows a type that it does not know as JSON
    assert json.loads(row["c_uuid"]) == ROW["c_uuid"]
    assert Decimal(json.loads(row["c_big_decimal"])) == Decimal("12345678901234567890.5")
    assert row["c_bytes"] == "01ff"
    for name in ("c_int", "c_long", "c_float", "c_double", "c_boolean", "c_string", "mv_int", "mv_string"):
        assert row[name] == ROW[name], name
    assert cursor.fetchone() is None


def test_parameters_are_quoted_and_answers_fetched_in_parts(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(
        "SELECT c_int FROM every WHERE c_string = %(text)s AND c_int < %(top)s", {"text": ROW["c_string"], "top": 0}
    )
    assert cursor.fetchall() == [[-7]]
    cursor.execute("SELECT c_int FROM every WHERE c_boolean = %(flag)s", {"flag": True})
    assert cursor.fetchmany(5) == [[-7]]
    cursor.execute("SELECT count(*), max(c_double) FROM every WHERE c_int IN (%(list)s)", {"list": [1, -7]})
    assert cursor.fetchall() == [[1, 2.25]]


@pytest.mark.parametrize(
    ("sql", "code"),
    [("SELECT FROM every", "150"), ("SELECT nope FROM every", "710"), ("SELECT 1 FROM evry", "190")],
)
def test_errors_are_raised_with_code_and_text(connection: Any, sql: str, code: str) -> None:
    with pytest.raises(pinotdb.exceptions.DatabaseError, match=code):
        connection.cursor().execute(sql)


def test_sqlalchemy_looks_into_the_cluster(engine: Engine) -> None:
    inspector = inspect(engine)
    assert inspector.has_table("known")
    assert not inspector.has_table("nowhere")
    columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("known")}
    assert set(columns) == set(ROW) - {"c_uuid"}
    with engine.connect() as open_connection:
        result = open_connection.execute(text("SELECT c_string, c_long FROM known WHERE c_int = :wanted"), {"wanted": -7})
        assert [tuple(row) for row in result] == [(ROW["c_string"], 2**40)]


def test_pandas_reads_through_sqlalchemy(engine: Engine) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_sql("SELECT c_int, c_double, c_string FROM every", engine)
    assert frame.to_dict("records") == [{"c_int": -7, "c_double": 2.25, "c_string": ROW["c_string"]}]


@pytest.mark.parametrize(
    "condition", ["c_int > 5", "c_int = -8", "c_int > 5 AND c_long = 3", "c_string = 'a'", "c_int = -7"]
)
def test_native_answers_are_complete(connection: Any, condition: str) -> None:
    for select in ("count(*)", "c_int", "DISTINCT c_string"):
        result = connection.cursor().execute_native(f"SELECT {select} FROM every WHERE {condition} LIMIT 5")
        assert (result.metadata.completeness, result.metadata.unknown_reasons) == ("complete", [])
