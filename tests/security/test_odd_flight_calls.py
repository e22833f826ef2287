"""Odd commands, tickets, actions, headers and parameters over Flight SQL: refused with a sentence, never a defect."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import gamay
from gamay.embedded import EmbeddedCluster

flight = pytest.importorskip("pyarrow.flight")
messages = pytest.importorskip("gamay.broker.flight.messages")

ROUNDS = 100
SQL = "SELECT n FROM trips WHERE n > ?"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder: Path = tmp_path_factory.mktemp("odd-flight") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]}))
    with EmbeddedCluster(folder, 0, 0, 0, flight_port=0, threads=1, warm_up=False) as made:
        yield made


def whole_messages() -> list[bytes]:
    """Commands, tickets and bodies as clients send them."""
    made = [
        ("CommandStatementQuery", {"query": "SELECT n FROM trips"}),
        ("CommandStatementQuery", {"query": "SELECT * FROM '/etc/passwd'"}),
        ("CommandPreparedStatementQuery", {"prepared_statement_handle": b"none"}),
        ("TicketStatementQuery", {"statement_handle": b'{"sql": "SELECT 1 FROM trips", "id": "x"}'}),
        ("TicketStatementQuery", {"statement_handle": b'{"sql": 7}'}),
        ("CommandGetTables", {"table_name_filter_pattern": "%_[a(", "include_schema": True}),
        ("CommandGetDbSchemas", {"db_schema_filter_pattern": "\\"}),
        ("CommandGetPrimaryKeys", {"table": "\0"}),
        ("CommandGetSqlInfo", {"info": [0, 1, 4_294_967_295]}),
        ("CommandGetXdbcTypeInfo", {"data_type": -7}),
        ("ActionCreatePreparedStatementRequest", {"query": SQL}),
        ("ActionCreatePreparedStatementRequest", {"query": "?" * 300}),
        ("ActionClosePreparedStatementRequest", {"prepared_statement_handle": b"\xff"}),
        ("ActionCancelQueryRequest", {"info": b"\x00" * 20}),
    ]
    return [messages.wrapped(messages.new(name, **fields)) for name, fields in made]


def damaged(data: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(5)
    if kind == 0:
        return data
    if kind == 1:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 2:
        place = rng.randrange(len(data))
        return data[:place] + rng.randbytes(rng.randrange(1, 9)) + data[place + 1 :]
    return data + rng.randbytes(rng.randrange(1, 40)) if kind == 3 else rng.randbytes(rng.randrange(200))


def calls(client: Any, data: bytes, rng: random.Random) -> dict[str, Callable[[], object]]:
    """Everything that can be called with some bytes."""
    headers = [(b"query-options", rng.choice([b"timeoutMs=x", b"=;=", b"a" * 3000])), (b"database", b"~'")]
    options = flight.FlightCallOptions(timeout=30, headers=headers if rng.random() < 0.3 else [])
    action = rng.choice(
        ["CreatePreparedStatement", "ClosePreparedStatement", "CancelFlightInfo", "CancelQuery", "BeginTransaction", ""]
    )

    def put() -> None:
        table = pa.table({"a": [rng.choice([1, None, "x" * 100])]})
        writer, _ = client.do_put(flight.FlightDescriptor.for_command(data), table.schema, options)
        writer.write_table(table)
        writer.close()

    return {
        "info": lambda: client.get_flight_info(flight.FlightDescriptor.for_command(data), options),
        "schema": lambda: client.get_schema(flight.FlightDescriptor.for_command(data), options),
        "get": lambda: client.do_get(flight.Ticket(data), options).read_all(),
        "action": lambda: list(client.do_action(flight.Action(action, data), options)),
        "path": lambda: client.get_flight_info(flight.FlightDescriptor.for_path(data.hex()[:40]), options),
        "put": put,
    }


def test_odd_calls_are_refused_with_a_sentence(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    rng, whole = random.Random(19), whole_messages()
    answered, refused, defects = 0, set(), []
    with flight.connect(cluster.flight_url) as client:
        for _ in range(ROUNDS):
            data = damaged(rng.choice(whole), rng)
            for name, call in calls(client, data, rng).items():
                try:
                    call()
                    answered += 1
                except (flight.FlightError, pa.ArrowException, KeyError) as error:
                    refused.add(type(error).__name__)
                    if "defect of Gamay" in str(error) or isinstance(error, flight.FlightInternalError):
                        defects.append((name, data, error))
    assert not defects
    assert answered > 10
    assert len(refused) > 2
    assert not [record.getMessage() for record in caplog.records if record.exc_info]
    found = httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": "SELECT sum(n) FROM trips"}).json()
    assert found["resultTable"]["rows"] == [[6.0]]


def test_statements_and_parameters_that_are_kept_are_bounded(cluster: EmbeddedCluster) -> None:
    text = f"SELECT n FROM trips WHERE s <> '{'x' * 4_000_000}'"
    with flight.connect(cluster.flight_url) as client:
        body = messages.wrapped(messages.new("ActionCreatePreparedStatementRequest", query=text))
        with pytest.raises(pa.ArrowInvalid, match="more than the 4,000,000 allowed"):
            list(client.do_action(flight.Action("CreatePreparedStatement", body)))
        body = messages.wrapped(messages.new("ActionCreatePreparedStatementRequest", query=SQL))
        (made,) = client.do_action(flight.Action("CreatePreparedStatement", body))
        _, result = messages.unwrapped(made.body.to_pybytes())
        handle = result.prepared_statement_handle
        command = messages.wrapped(messages.new("CommandPreparedStatementQuery", prepared_statement_handle=handle))
        values = pa.table({"1": ["x" * (17 << 20)]})
        writer, _ = client.do_put(flight.FlightDescriptor.for_command(command), values.schema)
        with pytest.raises(pa.ArrowInvalid, match="bytes are bound"):  # noqa: PT012 - the server says so when it has them
            writer.write_table(values)
            writer.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM '/etc/passwd' a JOIN trips b ON a.n = b.n",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT read_text('/etc/passwd') FROM trips",
        "SELECT a.n, read_text('/etc/passwd') FROM trips a JOIN trips b ON a.n = b.n",
        "SELECT getenv('HOME') FROM trips a JOIN trips b ON a.n = b.n",
        "SELECT a.n FROM trips a JOIN glob('/etc/*') b ON a.n = b.n",
        "WITH x AS (SELECT * FROM '/etc/passwd') SELECT * FROM x",
        "SELECT a.n FROM trips a JOIN trips b ON a.n = b.n; COPY (SELECT 1) TO '/tmp/x'",
        'SELECT a.n FROM trips a JOIN "/etc/passwd" b ON a.n = b.n',
        "SELECT a.n FROM trips a JOIN duckdb_settings() b ON a.n = b.n",
        "SELECT current_setting('temp_directory') FROM trips a JOIN trips b ON a.n = b.n",
        "INSTALL httpfs",
        "ATTACH '/tmp/x' AS x",
        "SET enable_external_access = true; SELECT a.n FROM trips a JOIN read_text('/etc/passwd') b ON a.n = b.n",
    ],
)
def test_queries_reach_no_files_and_no_settings_of_the_engine(cluster: EmbeddedCluster, sql: str) -> None:
    for option in ("", "useMultistageEngine=true"):
        found = httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": sql, "queryOptions": option}).json()
        (error,) = found["exceptions"]
        assert error["errorCode"] != 450, error
        assert "defect of Gamay" not in error["message"]
        assert "resultTable" not in found


def test_names_and_texts_do_not_leave_their_quotes_in_joins(cluster: EmbeddedCluster) -> None:
    odd = ["a'b", 'a"b', "a\\", "'; COPY (SELECT 1) TO '/tmp/x'; --", "\"; ATTACH '/tmp/x'; --", "é\n\t"]
    for text in odd:
        literal, name = text.replace("'", "''"), text.replace('"', '""')
        items = f"a.n AS \"{name}\", '{literal}' AS t"
        sql = f"SELECT {items} FROM trips a JOIN trips b ON a.n = b.n WHERE a.s <> '{literal}' ORDER BY 1"
        found = httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": sql}).json()
        assert not found["exceptions"], (text, found)
        assert found["resultTable"]["rows"] == [[1, text], [2, text], [3, text]]
        assert found["resultTable"]["dataSchema"]["columnNames"] == [text, "t"]
