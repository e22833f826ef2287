"""Bytes that are almost HTTP."""

import contextlib
import errno
import json
import random
import socket
import time
from typing import Self
from urllib.parse import urlsplit

from benchmarks.attack.findings import Findings
from benchmarks.attack.judged import FORGIVEN, LATE_S
from benchmarks.attack.mutations import mutated
from benchmarks.attack.target import Doors, token


class WireBytes:
    """Malformed HTTP, each input on a separate connection."""

    def __init__(self, doors: Doors, seed: int) -> None:
        self._ports = [urlsplit(url).port for url in doors.urls.values()]
        authorized = f"host: x\r\nauthorization: {token('guest')}\r\n".encode()
        query = json.dumps({"sql": "SELECT COUNT(*) FROM t"}).encode()
        length = f"content-length: {len(query)}\r\n".encode()
        self._corpus = [
            b"GET /health HTTP/1.1\r\n" + authorized + b"\r\n",
            b"GET /tables HTTP/1.0\r\n" + authorized + b"connection: keep-alive\r\n\r\n",
            b"POST /query/sql HTTP/1.1\r\n" + authorized + b"content-type: application/json\r\n" + length + b"\r\n" + query,
            b"POST /query/sql HTTP/1.1\r\n" + authorized + b"transfer-encoding: chunked\r\n\r\n"
            + f"{len(query):x}\r\n".encode() + query + b"\r\n0\r\n\r\n",
            b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n" * 3,
            b"GET /x HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            b"sec-websocket-key: eA==\r\nsec-websocket-version: 13\r\n\r\n",
            b"POST /v2/segments?tableName=trips HTTP/1.1\r\n" + authorized + b"expect: 100-continue\r\n"
            b"content-type: multipart/form-data; boundary=b\r\ncontent-length: 88\r\n\r\n"
            b'--b\r\ncontent-disposition: form-data; name="f"; filename="s.tar.gz"\r\n\r\nxxxxxxxxxx\r\n--b--\r\n',
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(40),
        ]  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def send(self, number: int, rng: random.Random, findings: Findings) -> None:
        """Send bytes, close the sending side, and read to the end."""
        data = mutated(rng.choice(self._corpus), rng, self._corpus)
        judge_bytes(rng.choice(self._ports), data, number, findings, b"HTTP/1.1 5")


def judge_bytes(port: int | None, data: bytes, number: int, findings: Findings, failure: bytes) -> None:
    """Send bytes to a port, and read until it closes the connection; what begins like `failure` is a defect."""
    began_s = time.monotonic()
    answer = bytearray()
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=LATE_S) as connection,
            contextlib.suppress(BrokenPipeError, ConnectionResetError),
        ):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                answer += piece
    except OSError as error:
        if error.errno != errno.ENOTCONN:  # closed before the client has said that there is no more
            findings.wrongly(number, data, repr(error))
            return
    findings.took(time.monotonic() - began_s, data)
    if failure in answer and not any(b"HTTP/1.1 %d" % code in answer for code in FORGIVEN):
        findings.wrongly(number, data, bytes(answer[:300]).decode(errors="replace"))
    elif b" 200 " in answer[:20]:
        findings.answered()
    else:
        findings.refused()
