"""A client that disconnects ends its query, over every protocol; waiting PQL queries are listed."""

import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest
from tests.waiting import PATIENCE_S, eventually

import gamay
from gamay.embedded import EmbeddedCluster

SLOW = "SELECT count(*) FROM trips WHERE sleep(60000) > 0"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("gone") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table({"n": [0, 1, 2]}))
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as cluster:
        yield cluster.broker_url


def hung_up(url: str) -> float:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if "HungUp" in line and not line.startswith("#"))


def post(path: str, body: dict[str, Any], header: str = "") -> bytes:
    content = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nhost: x\r\n{header}content-length: {len(content)}\r\n\r\n".encode() + content


OPTIONS = {"queryOptions": "timeoutMs=60000"}


@pytest.mark.parametrize(
    "request_bytes",
    [
        post("/query/sql", {"sql": SLOW, **OPTIONS}),
        post("/query/sql", {"sql": SLOW, **OPTIONS}, "database: default\r\n"),
        post("/query/sql", {"sql": SLOW, **OPTIONS}, "origin: http://x\r\n"),
        f"GET /query/sql?sql={quote('SET timeoutMs = 60000; ' + SLOW)} HTTP/1.1\r\nhost: x\r\n\r\n".encode(),
    ],
    ids=["short way", "unusual header", "browser", "get"],
)
def test_a_client_that_is_gone_ends_its_query(url: str, request_bytes: bytes) -> None:
    before = hung_up(url)
    connection = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=PATIENCE_S)
    connection.sendall(request_bytes)
    eventually(lambda: list(httpx.get(f"{url}/queries").json().values()) != [])
    connection.close()
    eventually(lambda: httpx.get(f"{url}/queries").json() == {})  # not at its end, which is after a minute
    eventually(lambda: hung_up(url) == before + 1)


def test_pql_that_waits_is_listed_and_ends_with_its_client(url: str) -> None:
    before, port = hung_up(url), int(url.rpartition(":")[2])
    threads = 2 * (os.cpu_count() or 1) + 2
    slow = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(threads)]
    for connection in slow:  # no thread is free
        connection.sendall(post("/query/sql", {"sql": SLOW, **OPTIONS}))
    eventually(lambda: len(httpx.get(f"{url}/queries").json()) == threads)
    pql = "SELECT max(n) FROM trips"
    waiting = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    waiting.sendall(post("/query", {"pql": pql, **OPTIONS}))
    eventually(lambda: pql in httpx.get(f"{url}/queries").json().values())
    waiting.close()
    eventually(lambda: pql not in httpx.get(f"{url}/queries").json().values())
    for connection in slow:
        connection.close()
    eventually(lambda: httpx.get(f"{url}/queries").json() == {})
    eventually(lambda: hung_up(url) == before + threads + 1)


def test_a_client_that_waits_is_answered_and_not_counted(url: str) -> None:
    before = hung_up(url)
    for sql in ("SELECT count(*) FROM trips WHERE sleep(50) > 0", "SELECT count(*) FROM trips"):
        assert httpx.post(f"{url}/query/sql", json={"sql": sql}, headers={"database": "default"}).json()["exceptions"] == []
        assert httpx.post(f"{url}/query/sql", json={"sql": sql}).json()["exceptions"] == []
    assert hung_up(url) == before


@pytest.mark.parametrize(
    "data",
    [
        b"POST /query/sql HTTP/1.1\r\nhost: x\r\ncontent-length: 90\r\n\r\n{",
        b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\n\r\nnonsense\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n" * 3,
    ],
)
def test_a_connection_that_ends_early_is_no_defect(url: str, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=PATIENCE_S) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while connection.recv(1 << 16):
                    pass
    assert httpx.get(f"{url}/health").status_code == 200
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
