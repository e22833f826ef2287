"""Flight SQL through its clients: ADBC, Arrow's own client, Polars and pandas."""

import threading
import warnings
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import flight
from tests.waiting import PATIENCE_S, eventually

from gamay.broker.flight.messages import new, read, unwrapped, wrapped
from gamay.embedded import EmbeddedCluster

adbc = pytest.importorskip("adbc_driver_flightsql.dbapi")
manager = pytest.importorskip("adbc_driver_manager")

NULLS = "SET enableNullHandling=true; "
# each with LIMIT where it could have more than ten rows
QUERIES = [
    "SELECT * FROM trips ORDER BY small",
    "SELECT city, COUNT(*) AS c, SUM(n), AVG(x), MAX(real) FROM trips GROUP BY city ORDER BY city",
    "SELECT DISTINCT good FROM trips ORDER BY 1",
    "SELECT at, DATETRUNC('DAY', at) FROM trips ORDER BY at",
    "SELECT price, CAST(small AS STRING), n + 1, x * 2 FROM trips ORDER BY small",
    "SELECT tags, counts FROM trips WHERE tags = 'c'",
    "SELECT raw FROM trips ORDER BY small",
    "SELECT a.city, b.small FROM trips a JOIN trips b ON a.small = b.small ORDER BY b.small LIMIT 3",
    "SELECT city, SUM(n) OVER (ORDER BY small) AS s FROM trips ORDER BY small LIMIT 20",
    "SELECT 1, 'x', TRUE, NULL",
    "SELECT city FROM trips WHERE small > 100",
    "SHOW TABLES",
    "DESCRIBE trips",
    "EXPLAIN PLAN FOR SELECT COUNT(*) FROM trips",
    "SELECT table_name FROM information_schema.tables ORDER BY 1",
]


def connect(cluster: EmbeddedCluster, **options: Any) -> Any:
    return adbc.connect(cluster.flight_url, db_kwargs=options, autocommit=True)


@pytest.fixture
def connection(cluster: EmbeddedCluster) -> Iterator[Any]:
    with connect(cluster) as found:
        yield found


def json_value(value: Any) -> Any:
    """Return a value of Arrow as the JSON of an answer over HTTP has it."""
    if isinstance(value, list):
        return [json_value(each) for each in value]
    if isinstance(value, datetime):
        shown = value.isoformat(" ", timespec="milliseconds").rstrip("0")
        return f"{shown}0" if shown.endswith(".") else shown
    return value.hex() if isinstance(value, bytes) else value


@pytest.mark.parametrize("nulls", [False, True])
def test_answers_are_those_of_http(cluster: EmbeddedCluster, connection: Any, nulls: bool) -> None:
    for sql in QUERIES:
        text = f"{NULLS}{sql}" if nulls else sql
        over_http = httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": text}).json()
        assert not over_http["exceptions"], over_http
        wanted = over_http["resultTable"]
        with connection.cursor() as cursor:
            cursor.execute(text)
            found = cursor.fetch_arrow_table()
        assert found.column_names == wanted["dataSchema"]["columnNames"], sql
        rows = [[json_value(value) for value in row.values()] for row in found.rename_columns(
            [str(i) for i in range(found.num_columns)]
        ).to_pylist()]  # fmt: skip
        assert rows == wanted["rows"], sql


def test_types_are_exact(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM trips")
        types = {field.name: field.type for field in cursor.fetch_arrow_table().schema}
    assert types == {
        "at": pa.timestamp("ms"), "city": pa.string(), "counts": pa.list_(pa.int64()), "good": pa.bool_(),
        "n": pa.int64(), "price": pa.string(), "raw": pa.binary(), "real": pa.float32(), "small": pa.int32(),
        "tags": pa.list_(pa.string()), "x": pa.float64(),
    }  # fmt: skip


def test_nulls_are_nulls_where_they_are_handled(cluster: EmbeddedCluster, connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"{NULLS}SELECT city, n, x, good FROM trips ORDER BY small")
        rows = cursor.fetchall()
    assert rows == [("Oslo", 1, 1.5, True), ("Bern", 2, None, False), (None, 3, 3.0, True), ("Lima", None, 0.0, None)]
    header = {"adbc.flight.sql.rpc.call_header.query-options": "enableNullHandling=true"}
    with connect(cluster, **header) as other, other.cursor() as cursor:
        cursor.execute("SELECT COUNT(x) FROM trips")
        assert cursor.fetchall() == [(3,)]


def test_the_columns_are_known_before_the_rows(connection: Any) -> None:
    for sql in QUERIES:
        with connection.cursor() as cursor:
            described = cursor.adbc_execute_schema(sql)
            cursor.execute(sql)
            assert cursor.fetch_arrow_table().schema.equals(described), sql


def test_parameters(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT city FROM trips WHERE small >= ? AND city <> ? ORDER BY small", (2, "Li'ma"))
        assert cursor.fetchall() == [("Bern",), ("null",), ("Lima",)]
        cursor.execute("SELECT COUNT(*) FROM trips WHERE at > ?", (datetime(2024, 1, 2),))
        assert cursor.fetchall() == [(2,)]
        cursor.execute("SELECT ? FROM trips LIMIT 1", ("a? --",))
        assert cursor.fetchall() == [("a? --",)]
        cursor.adbc_prepare("SELECT city FROM trips WHERE small = ?")
        bound = pa.record_batch({"1": pa.array([1, 4], pa.int32())})
        cursor.execute("SELECT city FROM trips WHERE small = ?", bound)
        assert cursor.fetchall() == [("Oslo",), ("Lima",)]
        with pytest.raises(manager.ProgrammingError, match="2 parameters, but 1 values are bound"):
            cursor.execute("SELECT ? + ?", (1,))


ERRORS = [
    ("SELECT nope FROM trips", "ProgrammingError", "Unknown columnName 'nope'"),
    ("SELECT FROM", "ProgrammingError", "line 1, column 8"),
    ("SELECT * FROM tripz", "ProgrammingError", "Did you mean 'trips'"),
    ("INSERT INTO trips VALUES (1)", "ProgrammingError", "INSERT"),
    ("SET timeoutMs=0; SELECT 1", "ProgrammingError", "timeoutMs"),
    ("SELECT small / 0 FROM trips WHERE JSON_MATCH(city, 'x", "ProgrammingError", "SQLParsingError"),
]


@pytest.mark.parametrize(("sql", "kind", "text"), ERRORS)
def test_errors_say_what_is_wrong_and_nothing_of_the_code(connection: Any, sql: str, kind: str, text: str) -> None:
    for ask in ("execute", "adbc_execute_schema"):
        with connection.cursor() as cursor, pytest.raises(getattr(manager, kind)) as raised:
            getattr(cursor, ask)(sql)
        assert text in str(raised.value)
        assert "Traceback" not in str(raised.value)
        assert ".py" not in str(raised.value)


def test_nothing_can_be_written(connection: Any) -> None:
    with connection.cursor() as cursor:
        with pytest.raises(manager.ProgrammingError, match="tables cannot be changed by Flight SQL"):
            cursor.executemany("SELECT ?", [(1,)])
        with pytest.raises(manager.Error):
            cursor.adbc_ingest("trips", pa.table({"n": [1]}), mode="append")
        cursor.execute("SELECT COUNT(*) FROM trips")
        assert cursor.fetchall() == [(4,)]


def test_the_catalogue(connection: Any) -> None:
    objects = connection.adbc_get_objects(depth="all", table_name_filter="tr%").read_all().to_pylist()
    assert [each["catalog_name"] for each in objects] == [""]
    (schema,) = objects[0]["catalog_db_schemas"]
    assert schema["db_schema_name"] == "default"
    assert [table["table_name"] for table in schema["db_schema_tables"]] == ["trips"]
    columns = [each["column_name"] for each in schema["db_schema_tables"][0]["table_columns"]]
    assert columns == sorted(columns)
    assert len(columns) == 11
    assert connection.adbc_get_table_types() == ["TABLE"]
    assert connection.adbc_get_table_schema("trips").field("counts").type == pa.list_(pa.int64())
    assert connection.adbc_get_info()["vendor_name"] == "Gamay"


def command(name: str, **fields: Any) -> Any:
    return flight.FlightDescriptor.for_command(wrapped(new(name, **fields)))


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Iterator[Any]:
    with flight.connect(cluster.flight_url) as found:
        yield found


COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("CommandGetCatalogs", {}), ("CommandGetDbSchemas", {}), ("CommandGetTables", {}), ("CommandGetTableTypes", {}),
    ("CommandGetTables", {"include_schema": True}), ("CommandGetPrimaryKeys", {"table": "trips"}),
    ("CommandGetExportedKeys", {"table": "trips"}), ("CommandGetImportedKeys", {"table": "trips"}),
    ("CommandGetCrossReference", {"pk_table": "trips", "fk_table": "pay"}), ("CommandGetSqlInfo", {}),
    ("CommandGetSqlInfo", {"info": [0, 3, 99_999]}), ("CommandGetXdbcTypeInfo", {}),
    ("CommandGetXdbcTypeInfo", {"data_type": 4}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields"), COMMANDS)
def test_catalogue_commands_answer_with_the_columns_they_announce(client: Any, name: str, fields: dict[str, Any]) -> None:
    descriptor = command(name, **fields)
    info = client.get_flight_info(descriptor)
    found = client.do_get(info.endpoints[0].ticket).read_all()
    assert found.schema.equals(info.schema)
    assert found.schema.equals(client.get_schema(descriptor).schema)
    found.validate(full=True)
    rows = {"CommandGetTables": 2, "CommandGetXdbcTypeInfo": 11 if not fields else 1}
    if name in rows:
        assert found.num_rows == rows[name]


def test_what_is_no_command_is_refused(client: Any) -> None:
    for bad in (b"", b"hello", wrapped(new("CommandStatementUpdate", query="DELETE FROM trips"))):
        with pytest.raises((pa.ArrowInvalid, flight.FlightError)) as raised:
            client.get_flight_info(flight.FlightDescriptor.for_command(bad))
        assert "Traceback" not in str(raised.value)
    with pytest.raises((pa.ArrowInvalid, flight.FlightError), match="not a ticket of a Gamay broker"):
        client.do_get(flight.Ticket(wrapped(new("TicketStatementQuery", statement_handle=b"x")))).read_all()
    with pytest.raises(KeyError, match="no such prepared statement"):
        client.do_get(
            flight.Ticket(wrapped(new("CommandPreparedStatementQuery", prepared_statement_handle=b"x")))
        ).read_all()
    with pytest.raises(NotImplementedError, match="no transactions"):
        list(client.do_action(flight.Action("BeginTransaction", b"")))
    assert {each.type for each in client.list_actions()} >= {"CancelFlightInfo", "CreatePreparedStatement"}


def test_all_queries_of_a_flight_info_are_cancelled_by_it(cluster: EmbeddedCluster, client: Any) -> None:
    """Its ticket may be shown several times."""
    sql = f"SELECT COUNT(*) FROM {', '.join(f'trips t{i}' for i in range(15))}"
    info = client.get_flight_info(command("CommandStatementQuery", query=sql))
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(client.do_get(info.endpoints[0].ticket).read_all())
        except flight.FlightError as error:
            outcome.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    running = cluster.core.runner.running
    for thread in threads:
        thread.start()
    eventually(lambda: len(running) == 2 or bool(outcome))
    body = read("CancelFlightInfoRequest", b"")
    body.info = info.serialize()
    (answer,) = client.do_action(flight.Action("CancelFlightInfo", body.SerializeToString()))
    assert read("CancelFlightInfoResult", answer.body.to_pybytes()).status == 1
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [type(one) for one in outcome] == [flight.FlightCancelledError] * 2, outcome
    assert len(running) == 0


def test_a_query_that_is_cancelled_before_it_begins_does_not_run(client: Any) -> None:
    info = client.get_flight_info(command("CommandStatementQuery", query="SELECT a.n FROM trips a JOIN pay b ON a.n = b.n"))
    body = wrapped(new("ActionCancelQueryRequest", info=info.serialize()))
    (answer,) = client.do_action(flight.Action("CancelQuery", body))
    assert unwrapped(answer.body.to_pybytes())[1].result == 1
    with pytest.raises(flight.FlightCancelledError):
        client.do_get(info.endpoints[0].ticket).read_all()


def test_frames(connection: Any) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    sql = "SELECT city, small, at FROM trips ORDER BY small"
    found = polars.read_database(sql, connection)
    assert found.shape == (4, 3)
    assert found["at"].dtype == polars.Datetime("ms")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(pandas.read_sql(sql, connection)["small"]) == [1, 2, 3, 4]
