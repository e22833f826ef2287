"""The time that requests in flight get during a shutdown."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from gamay.cluster.records.records import Role
from gamay.roles.settings import load_settings
from gamay.web.serving import HttpServer


class Slow:
    """An application that answers on demand."""

    def __init__(self) -> None:
        self.asked, self.goes_on = threading.Event(), threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        import asyncio

        self.asked.set()
        while not self.goes_on.is_set():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def app() -> Slow:
    return Slow()


@pytest.fixture
def asking(app: Slow) -> Iterator[tuple[HttpServer, socket.socket]]:
    """A server with one request in flight."""
    server = HttpServer("test", 0, "127.0.0.1")
    server.start(app)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert app.asked.wait(PATIENCE_S)
        yield server, client
    app.goes_on.set()
    server.stop()


def test_a_request_under_way_is_answered(app: Slow, asking: tuple[HttpServer, socket.socket]) -> None:
    server, client = asking
    server.begin_stop(600)
    app.goes_on.set()
    server.stop(600)
    assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_request_that_does_not_end_is_ended_in_time(asking: tuple[HttpServer, socket.socket]) -> None:
    server, client = asking
    server.stop(1)
    assert b" 200 " not in client.recv(1 << 16)  # else this waits for the answer for ever
    assert not [thread for thread in threading.enumerate() if thread.name == "http-test"]


@pytest.mark.parametrize("role", list(Role))
def test_every_role_has_a_key_for_it(role: Role, tmp_path: Path) -> None:
    file = tmp_path / "role.conf"
    given = {"zk": "localhost:1", "data_dir": tmp_path}
    file.write_text("gamay.shutdown.timeout.ms=4500\n")
    assert load_settings(role, file, given).drain_s == 4.5
    assert load_settings(role, None, given).drain_s == 30
