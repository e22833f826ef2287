"""Odd commands, tickets, actions, headers and parameters over Flight SQL: refused with a message, never a defect."""

import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

import gamay
from gamay.embedded import EmbeddedCluster

flight = pytest.importorskip("pyarrow.flight")
messages = pytest.importorskip("gamay.broker.flight.messages")
flight_calls = pytest.importorskip("benchmarks.attack.flight_calls")

ROUNDS = 100
SQL = "SELECT n FROM trips WHERE n > ?"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder: Path = tmp_path_factory.mktemp("odd-flight") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]}))
    with EmbeddedCluster(folder, 0, 0, 0, flight_port=0, threads=1, warm_up=False) as made:
        yield made


def test_odd_calls_are_refused_with_a_sentence(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    rng, whole = random.Random(19), flight_calls.whole_messages("SELECT n FROM trips")
    answered, refused, defects = 0, set(), []
    with flight.connect(cluster.flight_url) as client:
        for _ in range(ROUNDS):
            data = flight_calls.damaged(whole, rng)
            headers = [(b"query-options", b"timeoutMs=x"), (b"database", b"~'")] if rng.random() < 0.3 else []
            for name, call in flight_calls.calls_with(client, data, rng, headers).items():
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
        with pytest.raises(pa.ArrowInvalid, match="the parameters exceed"):  # noqa: PT012 - the server says so when it has them
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
