"""Requests with a URL, headers or query that are too long or never end."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from tests.waiting import PATIENCE_S, eventually

import gamay
from gamay.broker.admit.text_limit import TextLimit
from gamay.embedded import EmbeddedCluster
from gamay.web import read_answers
from gamay.web.bounded_heads import HEAD_BYTES_MAX, URL_BYTES_MAX

ENDLESS = 4 * HEAD_BYTES_MAX
CHUNKED = b"POST /health HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder: Path = tmp_path_factory.mktemp("long") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table({"n": [1, 2, 3]}))
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as made:
        yield made


@pytest.fixture(params=["controller", "broker", "server", "minion"])
def url(request: pytest.FixtureRequest, cluster: EmbeddedCluster) -> str:
    return str(getattr(cluster, f"{request.param}_url"))


def said(url: str, data: bytes) -> bytes:
    """Send bytes, and return the response until the connection ends."""
    found = bytearray()
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=PATIENCE_S) as connection:
        try:
            for start in range(0, len(data), 4096):
                connection.sendall(data[start : start + 4096])
            while part := connection.recv(1 << 16):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            pass  # it was closed while there was more to come
    return bytes(found)


def test_what_never_ends_is_refused_while_it_comes(url: str) -> None:
    """The connection is closed, whether or not the client hears why before it notices."""
    for data, status in (
        (b"GET /" + b"x" * ENDLESS, b"414"),
        (b"GET /health HTTP/1.1\r\nhost: x\r\na: " + b"x" * ENDLESS, b"431"),
        (b"GET /health HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * (ENDLESS // 6), b"431"),
        (CHUNKED + b"1\r\n \r\n0\r\n" + b"a: b\r\n" * (ENDLESS // 6), b"431"),
        (CHUNKED + b"1\r\n \r\n0\r\na: " + b"x" * ENDLESS, b"431"),
        (CHUNKED + b"1;" + b"x" * ENDLESS, b"431"),
    ):
        answer = said(url, data)
        # a handler that does not read its body may have answered before
        assert not answer or b"HTTP/1.1 " + status in answer, answer[:200]


def test_a_head_that_is_too_long_is_refused_with_a_sentence(url: str) -> None:
    answer = said(url, b"GET /health?a=" + b"x" * URL_BYTES_MAX + b" HTTP/1.1\r\nhost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 414 URI Too Long\r\n")
    assert b"the URL has more than 65,536 bytes; send a query by POST /query/sql" in answer
    headers = b"".join(b"h%d: %b\r\n" % (i, b"x" * 1000) for i in range(HEAD_BYTES_MAX // 1000 + 1))
    answer = said(url, b"GET /health HTTP/1.1\r\nhost: x\r\n" + headers + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b"the headers have more than 131,072 bytes" in answer


def test_others_are_answered_on_one_connection(url: str) -> None:
    """Bodies do not count as heads, nor do several requests together."""
    with httpx.Client(base_url=url) as client:
        for _ in range(3):
            assert client.get("/health", headers={"a": "x" * 60_000}).status_code == 200
            assert client.request("GET", "/health", content=b"x" * ENDLESS).status_code == 200
            assert client.get("/health", params={"a": "x" * 60_000}).status_code == 200
            chunked = client.request("GET", "/health", content=iter([b"x" * 50_000] * 10))
            assert chunked.status_code == 200


def test_a_query_may_be_as_long_as_the_setting_says(cluster: EmbeddedCluster) -> None:
    def asked(length: int) -> tuple[object, str]:
        sql = "SELECT count(*) FROM trips WHERE n IN (1, 2)".ljust(length)
        answer = httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": sql}, timeout=PATIENCE_S).json()
        return answer.get("resultTable", {}).get("rows"), str(answer["exceptions"])

    assert asked(100_000) == ([[2]], "[]")
    settings = {"gamay.broker.query.maxLength": "50000"}
    assert httpx.post(f"{cluster.controller_url}/cluster/configs", json=settings).status_code == 200
    eventually(lambda: asked(50_001)[0] is None)
    _, why = asked(50_001)
    assert "The query has 50,001 characters, more than the 50,000 allowed (gamay.broker.query.maxLength)" in why
    assert "150" in why
    assert asked(50_000) == ([[2]], "[]")


@pytest.mark.parametrize("text", ["", "0", "-5", "many", " "])
def test_a_setting_that_is_no_length_leaves_the_default(text: str) -> None:
    limit = TextLimit()
    limit.apply({"gamay.broker.query.maxLength": "10"})
    limit.apply({"gamay.broker.query.maxLength": text})
    limit.check("x" * 1_000_000)


def test_what_is_no_request_is_logged_with_where_it_came_from(url: str, caplog: pytest.LogCaptureFixture) -> None:
    said(url, b"\x16\x03\x01 this is no HTTP\r\n\r\n")
    eventually(lambda: "Invalid HTTP request received. (from 127.0.0.1)" in caplog.text, lambda: caplog.text)


def test_an_answer_that_nobody_reads_counts_until_its_connection_is_ended(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both paths: the fast one, and that of requests with an unknown header."""
    monkeypatch.setattr(read_answers, "STALLED_S", 0.5)
    memory = cluster.core.runner.memory
    sql = "SELECT REPEAT('x', 60000), n FROM trips CROSS JOIN UNNEST(ARRAY[" + "1," * 299 + "1]) LIMIT 1000"
    body = json.dumps({"sql": sql}).encode()
    for more in (b"", b"Database: default\r\n"):
        head = b"POST /query/sql HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n" % (more, len(body))
        with socket.create_connection(
            ("127.0.0.1", int(cluster.broker_url.rpartition(":")[2])), timeout=PATIENCE_S
        ) as connection:
            connection.sendall(head + body)
            eventually(lambda: memory.held > 10 << 20)
            eventually(lambda: memory.held == 0)
            found = b"".join(iter(lambda: connection.recv(1 << 20), b""))  # what the system had taken
            (length,) = re.findall(rb"(?i)content-length: (\d+)", found)
            assert len(found) < int(length)
