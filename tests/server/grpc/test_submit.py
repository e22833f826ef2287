"""The gRPC port of a server: its responses, access control, and refusals."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pyarrow as pa
import pytest
from tests.embedded.test_tls import Certificates
from tests.server.grpc.reading import Table, read
from tests.waiting import PATIENCE_S

import gamay
from gamay.base.errors import InUseError, InvalidConfigError
from gamay.base.tls import TlsSettings
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access
from gamay.server.grpc import submit
from gamay.server.grpc.messages import METHOD, SERVICE, ServerRequest, ServerResponse
from gamay.server.grpc.port import GrpcPort

ROWS = 50_000
CITIES = ["Oslo", "Bern", "Lima"]
ACCESS = """
pinot.server.admin.access.control.factory.class=BasicAuthAccessControlFactory
pinot.server.admin.access.control.principals=admin,guest
pinot.server.admin.access.control.principals.admin.password=verysecret
pinot.server.admin.access.control.principals.guest.password=secret
pinot.server.admin.access.control.principals.guest.tables=pay
"""
GUEST = "Basic Z3Vlc3Q6c2VjcmV0"
ADMIN = "Basic YWRtaW46dmVyeXNlY3JldA=="


def fill(folder: Path) -> None:
    with gamay.connect(folder) as db:
        for part in range(2):
            numbers = range(part * ROWS, (part + 1) * ROWS)
            rows = {"n": numbers, "city": [CITIES[n % 3] for n in numbers], "text": [f"{n:08}" * 10 for n in numbers]}
            if part:
                db.append("trips", pa.table(rows))
            else:
                db.create_table("trips", pa.table(rows))
        db.create_table("pay", pa.table({"n": [4, 5]}))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("grpc") / "data"
    fill(folder)
    with EmbeddedCluster(folder, 0, 0, 0, grpc_port=0, threads=1, warm_up=False) as found:
        yield found


def segments(cluster: EmbeddedCluster, table: str = "trips") -> list[str]:
    (routes,) = httpx.get(f"{cluster.broker_url}/debug/routingTable/{table}").json().values()
    return [name for names in routes.values() for name in names]


def call(
    port: int | None, sql: str, names: list[str], channel: grpc.Channel | None = None, timeout: float = 60, **metadata: str
) -> Any:
    """Return the responses as they arrive. This client accepts messages of 4 MB by default, like others."""
    opened = channel or grpc.insecure_channel(f"localhost:{port}")
    ask = opened.unary_stream(f"/{SERVICE}/{METHOD}", ServerRequest.SerializeToString, ServerResponse.FromString)
    given = {"enableStreaming": "true", "payloadType": "sql", **metadata}
    return ask(ServerRequest(metadata=given, sql=sql, segments=names), timeout=timeout)


def tables(cluster: EmbeddedCluster, sql: str, names: list[str] | None = None, **metadata: str) -> list[tuple[str, Table]]:
    found = call(cluster.grpc_port, sql, segments(cluster) if names is None else names, **metadata)
    return [(response.metadata["responseType"], read(response.payload)) for response in found]


def rows(found: list[tuple[str, Table]]) -> list[tuple[Any, ...]]:
    return [row for kind, table in found if kind == "data" for row in table.rows]


def test_all_rows_in_messages_that_clients_take(cluster: EmbeddedCluster) -> None:
    found = tables(cluster, "SELECT n, text FROM trips_OFFLINE LIMIT 2147483647")
    assert sorted(rows(found)) == [(n, f"{n:08}" * 10) for n in range(2 * ROWS)]
    assert [kind for kind, _ in found[-2:]] == ["data", "metadata"]
    assert len(found) > 3
    assert found[-1][1].metadata == {
        "numDocsScanned": 2 * ROWS, "numSegmentsQueried": 2, "numSegmentsProcessed": 2, "numSegmentsMatched": 2,
        "totalDocs": 2 * ROWS,
    }  # fmt: skip


def test_conditions_as_trino_writes_them(cluster: EmbeddedCluster) -> None:
    where = """(("n" > '49997' AND "n" < '50003')) AND ("city" IN ('Oslo', 'Lima'))"""
    sql = f'SELECT "n", "city" FROM trips_OFFLINE  WHERE {where} LIMIT 99'
    assert sorted(rows(tables(cluster, sql))) == [(49998, "Oslo"), (50000, "Lima"), (50001, "Oslo")]
    one = segments(cluster)[:1]
    assert {n // ROWS for n, _ in rows(tables(cluster, sql, one))} in ({0}, {1})
    assert rows(tables(cluster, sql, [])) == []


def test_limit_and_offset_are_of_all_segments(cluster: EmbeddedCluster) -> None:
    every = rows(tables(cluster, f"SELECT n FROM trips_OFFLINE LIMIT {2 * ROWS}"))
    window = rows(tables(cluster, f"SELECT n FROM trips_OFFLINE LIMIT {ROWS - 5}, 10"))
    assert window == every[ROWS - 5 : ROWS + 5]
    assert len(rows(tables(cluster, "SELECT * FROM trips_OFFLINE"))) == 10


def test_in_one_message(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT n FROM trips_OFFLINE WHERE n < 3 LIMIT 10"
    ((kind, table),) = tables(cluster, sql, enableStreaming="false")
    assert (kind, sorted(table.rows), table.metadata["numDocsScanned"]) == ("nonStreaming", [(0,), (1,), (2,)], 3)
    ((kind, table),) = tables(cluster, sql.replace("<", "> 999999 AND n <"), enableStreaming="false")
    assert (kind, table.names, table.rows) == ("nonStreaming", ["n"], [])
    monkeypatch.setattr(submit, "WHOLE_BYTES_MAX", 1000)
    ((_, table),) = tables(cluster, "SELECT n FROM trips_OFFLINE LIMIT 9999", enableStreaming="false")
    assert "ask with enableStreaming=true" in table.exceptions[245]


@pytest.mark.parametrize(
    ("sql", "code", "text"),
    [
        ("SELECT nope FROM trips_OFFLINE", 710, "Unknown columnName 'nope'"),
        ("SELECT FROM", 150, "SQLParsingError"),
        ("SELECT COUNT(*) FROM trips_OFFLINE", 700, "not a query of the kind aggregation"),
        ("SELECT n FROM trips_OFFLINE ORDER BY n", 700, "selections of one table without ORDER BY"),
        ("SELECT a.n FROM trips_OFFLINE a JOIN pay_OFFLINE b ON a.n = b.n", 700, "selections of one table"),
        ("EXPLAIN PLAN FOR SELECT n FROM trips_OFFLINE", 700, "selections of one table"),
        ("SELECT 1", 700, "selections of one table"),
    ],
)
def test_queries_that_are_not_answered(cluster: EmbeddedCluster, sql: str, code: int, text: str) -> None:
    ((kind, table),) = tables(cluster, sql)
    assert kind == "data"  # Trino looks for exceptions nowhere else
    assert text in table.exceptions[code]


def test_segments_that_are_elsewhere_are_not_passed_over(cluster: EmbeddedCluster) -> None:
    ((kind, table),) = tables(cluster, "SELECT n FROM trips_OFFLINE", [*segments(cluster), "gone_1", "gone_2"])
    assert kind == "data"
    assert "2 segments of trips_OFFLINE are not on this server: gone_1, gone_2" in table.exceptions[235]


def refusal(found: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as refused:
        list(found)
    error: Any = refused.value
    return error.code(), error.details()


@pytest.mark.parametrize(
    ("sql", "metadata", "status", "text"),
    [
        ("SELECT n FROM trips", {}, "NOT_FOUND", "Table not found: trips; its name must end in _OFFLINE or _REALTIME"),
        ("SELECT n FROM nope_OFFLINE", {}, "NOT_FOUND", "Table not found: nope_OFFLINE is not on this server"),
        ("", {"payloadType": "brokerRequest"}, "INVALID_ARGUMENT", "must be 'sql', not 'brokerRequest'"),
    ],
)
def test_calls_that_are_refused(
    cluster: EmbeddedCluster, sql: str, metadata: dict[str, str], status: str, text: str
) -> None:
    code, details = refusal(call(cluster.grpc_port, sql, [], **metadata))
    assert (code.name, text in details) == (status, True), details


def test_a_defect_ends_the_call_alone(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(submit, "encode_rows", broken)
    code, details = refusal(call(cluster.grpc_port, "SELECT n FROM trips_OFFLINE", segments(cluster)))
    assert (code, "defect of Gamay" in details) == (grpc.StatusCode.INTERNAL, True)
    monkeypatch.undo()
    assert len(rows(tables(cluster, "SELECT n FROM trips_OFFLINE"))) == 10


def test_cancelled_and_late_calls_end(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended, original = threading.Event(), threading.Event(), submit.matching_vectors

    def slow(*given: Any) -> Iterator[Any]:
        for columns in original(*given):
            begun.set()
            try:
                while True:
                    submit.guard.check()
                    threading.Event().wait(0.01)
            finally:
                ended.set()
            yield columns

    monkeypatch.setattr(submit, "matching_vectors", slow)
    sql = "SELECT n FROM trips_OFFLINE LIMIT 999999"
    found = call(cluster.grpc_port, sql, segments(cluster))
    assert begun.wait(PATIENCE_S)
    found.cancel()
    assert ended.wait(PATIENCE_S)
    ended.clear()
    assert refusal(call(cluster.grpc_port, sql, segments(cluster), timeout=0.3))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    assert ended.wait(PATIENCE_S)
    ((_, table),) = tables(cluster, f"SET timeoutMs=50; {sql}")
    assert "longer than its 50 ms" in table.exceptions[250]
    begun.clear()
    found = call(cluster.grpc_port, sql, segments(cluster), requestId="77")
    assert begun.wait(PATIENCE_S)
    assert httpx.get(f"{cluster.server_url}/queries/id").json() == ["77"]
    assert httpx.delete(f"{cluster.server_url}/query/77").status_code == 200
    (response,) = found
    assert read(response.payload).exceptions == {503: "QueryCancellationError: The query was cancelled"}
    assert httpx.get(f"{cluster.server_url}/queries/id").json() == []


def test_who_may_read_what(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    (tmp_path / "access.properties").write_text(ACCESS)
    access = read_access(tmp_path / "access.properties")
    with EmbeddedCluster(tmp_path / "data", 0, 0, 0, grpc_port=0, threads=1, warm_up=False, access=access) as cluster:
        names = segments(cluster, "pay")
        trips, pay = "SELECT n FROM trips_OFFLINE", "SELECT n FROM pay_OFFLINE"
        assert refusal(call(cluster.grpc_port, pay, names))[0] is grpc.StatusCode.UNAUTHENTICATED
        wrong = refusal(call(cluster.grpc_port, pay, names, Authorization=f"{GUEST[:-4]}AAAA"))
        assert wrong[0] is grpc.StatusCode.UNAUTHENTICATED
        assert rows(tables(cluster, pay, names, Authorization=GUEST)) == [(4,), (5,)]
        code, details = refusal(call(cluster.grpc_port, trips, segments(cluster), authorization=GUEST))
        assert (code, "guest may not use table trips" in details) == (grpc.StatusCode.PERMISSION_DENIED, True)
        assert refusal(call(cluster.grpc_port, trips.replace("trips", "nope"), [], authorization=GUEST))[0] is code
        channel = grpc.insecure_channel(f"localhost:{cluster.grpc_port}")
        ask = channel.unary_stream(f"/{SERVICE}/{METHOD}", ServerRequest.SerializeToString, ServerResponse.FromString)
        request = ServerRequest(sql=pay, segments=names)  # neither streaming nor who: by gRPC's own headers
        (response,) = ask(request, metadata=(("authorization", ADMIN),), timeout=PATIENCE_S)
        assert read(response.payload).rows == [(4,), (5,)]


def test_encrypted(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    pem = Certificates(tmp_path)
    tls = TlsSettings(certificate=pem.cert, key=pem.key, authorities=pem.ca)
    with EmbeddedCluster(tmp_path / "data", 0, 0, 0, grpc_port=0, threads=1, warm_up=False, tls=tls) as cluster:
        names = list(cluster.core.server.table("pay_OFFLINE").snapshot())
        trusted = grpc.secure_channel(f"localhost:{cluster.grpc_port}", grpc.ssl_channel_credentials(pem.ca.read_bytes()))
        (response, _) = call(None, "SELECT n FROM pay_OFFLINE", names, trusted)
        assert read(response.payload).rows == [(4,), (5,)]
        plain = call(cluster.grpc_port, "SELECT n FROM pay_OFFLINE", names, timeout=5)
        assert refusal(plain)[0] in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def test_ports_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InUseError, match="choose another port"):
        GrpcPort(taken.getsockname()[1], "127.0.0.1")
    with pytest.raises(InvalidConfigError, match="65536 is no port"):
        GrpcPort(65_536, "127.0.0.1")
    with pytest.raises(InvalidConfigError, match="beside HTTP"):
        GrpcPort(8098, "127.0.0.1", others=[8098])
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InvalidConfigError, match=r"pip install 'gamay\[grpc\]'"):
        GrpcPort(0, "127.0.0.1")
