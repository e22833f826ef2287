"""Requests answered directly from the bytes read get the same answers as on the usual path."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pyarrow as pa
import pytest
from tests.embedded.test_access import ADMIN, FILE, GUEST
from tests.waiting import PATIENCE_S, eventually
from uvicorn.server import ServerState

import gamay
from gamay.broker.answer.pending import PendingQuery
from gamay.broker.http.query_endpoint import QueryAnswers
from gamay.broker.http.query_protocol import QueryProtocol
from gamay.cluster.access.passwords import basic_token
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access

QUERY = "SELECT count(*) FROM trips WHERE n < 2"
COUNT = "SELECT count(*) FROM nowhere"
BODY = json.dumps({"sql": QUERY}).encode()
VARYING = ("requestId", "timeUsedMs", "brokerReduceTimeMs")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("protocol") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table({"n": [0, 1, 2]}))
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as cluster:
        port = int(cluster.broker_url.rpartition(":")[2])
        for _ in range(3):  # how long a query takes is known only from the second time on
            httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": QUERY})
        yield port


@pytest.fixture
def short_way(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The responses sent on the fast path."""
    answered: list[bytes] = []
    send = QueryProtocol._send

    def noted(self: QueryProtocol, code: int, status: int, content: bytes) -> None:
        answered.append(content)
        send(self, code, status, content)

    monkeypatch.setattr(QueryProtocol, "_send", noted)
    return answered


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self._socket.sendall(part)

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and the JSON (or text) of the next answer; status 0 when the connection was closed."""
        line = self._file.readline()
        if not line:
            return 0, {}, None
        headers = {}
        while (header := self._file.readline().strip()) != b"":
            name, _, value = header.decode().partition(":")
            headers[name.lower()] = value.strip()
        content = self._file.read(int(headers.get("content-length", "0")))
        return int(line.split()[1]), headers, content


def request(
    body: bytes = BODY, *more: str, path: str = "/query/sql", length: int | None = None, version: str = "1.1"
) -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: here", "Content-Type: application/json", *more]
    if length != -1:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def steady(content: bytes) -> Any:
    found = json.loads(content)
    return {name: value for name, value in found.items() if name not in VARYING and not name.endswith("CpuTimeNs")}


def test_a_whole_query_takes_the_short_way(port: int, short_way: list[bytes]) -> None:
    with Connection(port) as connection:
        for _ in range(2):
            connection.send(request())
            status, headers, content = connection.answer()
            assert (status, headers["content-type"], headers["x-pinot-error-code"]) == (200, "application/json", "-1")
            assert "date" in headers
            assert steady(content)["resultTable"]["rows"] == [[2]]
    assert len(short_way) == 2, "the query should be light"


@pytest.mark.parametrize("sql", [QUERY, COUNT, "SELECT nothing FROM", "SELECT sleep(5)"])
def test_cut_anywhere_the_answer_is_the_same(port: int, short_way: list[bytes], sql: str) -> None:
    whole = request(json.dumps({"sql": sql}).encode())
    with Connection(port) as connection:
        connection.send(whole)
        expected = connection.answer()
        for cut in range(1, len(whole), 7):
            connection.send(whole[:cut], whole[cut:])
            status, headers, content = connection.answer()
            assert (status, headers["x-pinot-error-code"]) == (expected[0], expected[1]["x-pinot-error-code"])
            assert steady(content) == steady(expected[2])


def test_requests_in_one_packet_are_answered_in_order(port: int) -> None:
    texts = [f"SELECT count(*) + {n} AS n FROM trips" if n % 3 else f"SELECT sleep({n})" for n in range(12)]
    with Connection(port) as connection:
        connection.send(b"".join(request(json.dumps({"sql": text}).encode()) for text in texts))
        rows = [json.loads(connection.answer()[2])["resultTable"]["rows"][0][0] for _ in texts]
        connection.send(request())
        rows.append(json.loads(connection.answer()[2])["resultTable"]["rows"][0][0])
    assert rows == [n + 3 if n % 3 else n for n in range(12)] + [2]


@pytest.mark.parametrize(
    "header",
    [
        "Database: default",
        "Origin: http://else.where",
        "Pinot-Use-Http-Status-For-Errors: true",
        "TE: x",
    ],
)
def test_what_headers_ask_for_is_left_to_the_usual_way(port: int, short_way: list[bytes], header: str) -> None:
    with Connection(port) as connection:
        connection.send(request(BODY, header))
        assert steady(connection.answer()[2])["resultTable"]["rows"] == [[2]]
        connection.send(request(BODY, header.lower()))
        assert steady(connection.answer()[2])["resultTable"]["rows"] == [[2]]
    assert not short_way


def test_a_log_in_that_nobody_asks_for_is_passed_over(port: int, short_way: list[bytes]) -> None:
    with Connection(port) as connection:
        connection.send(request(BODY, "Authorization: Basic eDp5"))
        assert connection.answer()[0] == 200
    assert len(short_way) == 1


@pytest.fixture(scope="module")
def guarded_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("guarded")
    with gamay.connect(folder / "data") as db:
        for table in ("trips", "pay"):
            db.create_table(table, pa.table({"n": [0, 1, 2]}))
    named = "pinot.broker.access.control.principals"
    writer = f"{named}.writer.password=pen\n{named}.writer.permissions=UPDATE\n"
    (folder / "access.properties").write_text(FILE.replace(f"{named}=admin", f"{named}=writer,admin") + writer)
    access = read_access(folder / "access.properties")
    with EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False, access=access) as cluster:
        for _ in range(3):
            httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": QUERY}, headers=ADMIN)
        yield int(cluster.broker_url.rpartition(":")[2])


@pytest.mark.parametrize(
    ("logins", "sql", "status", "is_short"),
    [
        ([ADMIN], QUERY, 200, True),
        ([GUEST], QUERY, 200, True),
        ([GUEST], QUERY.replace("trips", "pay"), 403, True),
        ([], QUERY, 401, False),
        ([{"Authorization": basic_token("guest", "guessed")}], QUERY, 401, False),
        ([{"Authorization": basic_token("writer", "pen")}], QUERY, 403, False),
        ([{"Authorization": "Basic é"}], QUERY, 401, False),
        ([GUEST, ADMIN], QUERY.replace("trips", "pay"), 200, False),  # as the usual way takes them
    ],
)
def test_who_is_known_takes_the_short_way(
    guarded_port: int, short_way: list[bytes], logins: list[dict[str, str]], sql: str, status: int, is_short: bool
) -> None:
    headers = [f"Authorization: {login['Authorization']}" for login in logins]
    asked = request(json.dumps({"sql": sql}).encode(), *headers)
    answers = []
    with Connection(guarded_port) as connection:
        for parts in ((asked[:-9], asked[-9:]), (asked,), (asked.replace(b"Authorization: ", b"authorization:\t"),)):
            short_way.clear()
            connection.send(*parts)
            found = connection.answer()
            answers.append((found[0], found[1].get("x-pinot-error-code"), steady(found[2])))
    assert answers[0][0] == status
    assert answers[1:] == answers[:1] * 2
    assert len(short_way) == is_short


def test_an_error_has_the_status_that_was_asked_for(port: int) -> None:
    wrong = json.dumps({"sql": COUNT}).encode()
    with Connection(port) as connection:
        connection.send(request(wrong))
        assert (found := connection.answer())[0] == 200
        connection.send(request(wrong, "Pinot-Use-Http-Status-For-Errors: true"))
        assert connection.answer()[0] == 404
    assert found[1]["x-pinot-error-code"] == "190"


def test_a_client_that_closes_is_answered_first(port: int) -> None:
    for ends in (request(BODY, "Connection: close"), request(version="1.0")):
        with Connection(port) as connection:
            connection.send(ends)
            assert connection.answer()[0] == 200
            assert connection.answer()[0] == 0


def test_requests_that_are_framed_in_two_ways_are_refused(port: int, short_way: list[bytes]) -> None:
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    with Connection(port) as connection:
        connection.send(request(chunked, "Transfer-Encoding: chunked", length=-1))
        assert connection.answer()[0] == 200
    for twice in (
        request(BODY, "Content-Length: 3"),
        request(BODY, "Transfer-Encoding: chunked"),
        request(BODY, "X: y\nContent-Length: 3"),
        request(BODY, "a b: c"),
    ):
        with Connection(port) as connection:
            connection.send(twice)
            assert connection.answer()[0] == 400
    assert not short_way


def test_a_body_that_looks_like_a_request_is_none(port: int, short_way: list[bytes]) -> None:
    inner = request()
    with Connection(port) as connection:
        connection.send(request(b"", length=len(inner), path="/nothing"))
        assert connection.answer()[0] == 404
        connection.send(inner)
        connection.send(request(json.dumps({"sql": "SELECT 7 AS n"}).encode()))
        status, _, content = connection.answer()
    assert (status, json.loads(content)["resultTable"]["rows"]) == (200, [[7]])
    assert len(short_way) <= 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"sql": 5}', b'{"pql": "select 1"}', b"\xff\xfe"])
def test_a_body_that_is_no_query_is_told(port: int, short_way: list[bytes], body: bytes) -> None:
    with Connection(port) as connection:
        connection.send(request(body))
        assert connection.answer()[0] == 400
    assert not short_way


class Held:
    """Answers that are sent when released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[PendingQuery] = []
        self.gone: list[PendingQuery] = []
        self._let_go = threading.Event()
        begin, finish = QueryAnswers.begin, QueryAnswers.finish

        def begun(answers: QueryAnswers, body: Any, *more: Any) -> Any:
            if "trips" not in body["sql"]:
                return begin(answers, body, *more)
            return answers._runner.begin(body["sql"], {})

        async def finished(answers: QueryAnswers, pending: PendingQuery) -> Any:
            self.asked.append(pending)
            while not self._let_go.is_set():
                await asyncio.sleep(0.005)
            return await finish(answers, pending)

        monkeypatch.setattr(QueryAnswers, "begin", begun)
        monkeypatch.setattr(QueryAnswers, "finish", finished)
        monkeypatch.setattr(QueryAnswers, "hang_up", lambda _, pending: self.gone.append(pending))

    def wait_for(self, condition: Callable[[], Any]) -> None:
        eventually(condition)

    def let_go(self) -> None:
        self._let_go.set()


def test_what_is_asked_while_a_query_is_answered_comes_after_it(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    with Connection(port) as connection:
        connection.send(request())
        held.wait_for(lambda: held.asked)
        rest = request(json.dumps({"sql": "SELECT 7 AS n"}).encode()) + request(b"{", path="/query/sql") + request()
        connection.send(rest[:50])
        connection.send(rest[50:])
        held.let_go()
        assert steady(connection.answer()[2])["resultTable"]["rows"] == [[2]]
        assert steady(connection.answer()[2])["resultTable"]["rows"] == [[7]]
        assert connection.answer()[0] == 400
        assert steady(connection.answer()[2])["resultTable"]["rows"] == [[2]]
    assert not held.gone


def test_a_query_whose_client_goes_is_ended(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    with Connection(port) as connection:
        connection.send(request())
        held.wait_for(lambda: held.asked)
    held.wait_for(lambda: held.gone)
    held.let_go()
    assert held.gone == held.asked
    with Connection(port) as connection:
        connection.send(request())
        assert connection.answer()[0] == 200


def test_a_defect_ends_the_connection_not_the_process(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    with Connection(port) as connection:
        connection.send(request())
        held.wait_for(lambda: held.asked)
        monkeypatch.undo()
        monkeypatch.setattr("gamay.broker.http.query_endpoint._told", lambda *_: 1 / 0)
        held.let_go()
        assert connection.answer()[0] == 0
    monkeypatch.undo()
    with Connection(port) as connection:
        connection.send(request())
        assert connection.answer()[0] == 200


def test_a_process_that_ends_answers_what_it_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gamay.connect(tmp_path / "data") as db:
        db.create_table("trips", pa.table({"n": [0, 1, 2]}))
    with EmbeddedCluster(tmp_path / "data", 0, 0, 0, threads=1, warm_up=False) as cluster:
        held, told, shutdown = Held(monkeypatch), list[bool](), QueryProtocol.shutdown
        monkeypatch.setattr(QueryProtocol, "shutdown", lambda self: (shutdown(self), told.append(True)))
        with Connection(int(cluster.broker_url.rpartition(":")[2])) as connection:
            connection.send(request())
            held.wait_for(lambda: held.asked)
            ending = threading.Thread(target=cluster.stop)
            ending.start()
            held.wait_for(lambda: told)
            held.let_go()
            assert connection.answer()[0] == 200
            assert connection.answer()[0] == 0
            ending.join()


class StandingLoop:
    """An event loop whose clock moves only on demand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> object:
        self.timers.append((self.now_s + delay_s, callback))
        return callback


class ClosableTransport:
    closed = False

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def test_a_connection_is_closed_once_it_was_idle_and_one_timer_is_enough() -> None:
    loop, transport = StandingLoop(), ClosableTransport()
    protocol = QueryProtocol.__new__(QueryProtocol)
    protocol.loop, protocol.transport = cast(Any, loop), cast(Any, transport)
    protocol.server_state = ServerState()
    protocol.timeout_keep_alive, protocol.timeout_keep_alive_task = 5, None
    protocol._headers_of, protocol._headers, protocol._asked = None, b"", None
    for _ in range(4):
        protocol._send(-1, 200, b"{}")
        loop.now_s += 1
    ((at_s, look),) = loop.timers
    assert at_s == 105
    loop.now_s = at_s
    look()
    assert not transport.closed, "the last answer is two seconds old"
    loop.now_s, look = loop.timers[1]
    assert loop.now_s == 108
    look()
    assert transport.closed


@pytest.mark.parametrize("path", ["/query/sql/", "/query/"])
def test_a_slash_at_the_end_changes_nothing(port: int, path: str) -> None:
    posted = httpx.post(f"http://127.0.0.1:{port}{path}", json={"sql": QUERY})
    fetched = httpx.get(f"http://127.0.0.1:{port}{path}", params={"sql": QUERY})
    assert [answer.json()["resultTable"]["rows"] for answer in (posted, fetched)] == [[[2]], [[2]]]
    assert httpx.get(f"http://127.0.0.1:{port}/health/").text == "OK"
