"""Connections over HTTP whose requests have short heads: endless URLs, headers and trailers are refused while they come."""

import logging
from collections.abc import MutableMapping
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gamay.web.read_answers import ReadAnswers

URL_BYTES_MAX = 1 << 16
HEAD_BYTES_MAX = 1 << 17
"""What the line of the request and all headers may have together."""


class BoundedHeads(ReadAnswers):
    """One connection. A request with a longer URL is answered with 414, one with longer headers with 431."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger: Any = _WithPeer(self)
        self._is_in_message = self._is_in_head = False
        self._has_moved = False  # whether what came last ended a head or was a part of a body
        self._waiting_bytes = 0  # so many have come since, of a head, of trailers, or of what describes a chunk
        self._refusal: tuple[int, str] | None = None
        self._unanswered: list[RequestResponseCycle] = []  # requests before the last one, whose answers are not sent yet

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        was_in_message, self._has_moved = self._is_in_message, False
        super().data_received(data)
        if was_in_message and self._is_in_message and not self._has_moved and not self.transport.is_closing():
            self._waiting_bytes += len(data)
            if self._waiting_bytes > HEAD_BYTES_MAX:
                self._refusal = _TOO_LONG_URL if self._is_in_head and not self.headers else _TOO_LONG_HEAD
                self.send_400_response("")

    def on_message_begin(self) -> None:
        """Note that a head is being read."""
        super().on_message_begin()
        self._is_in_message = self._is_in_head = True
        self._waiting_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Hand a part of a body on."""
        self._has_moved, self._waiting_bytes = True, 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has been read to its end."""
        super().on_message_complete()
        self._is_in_message = False

    def on_headers_complete(self) -> None:
        """Hand the request on; raises ValueError, which ends the connection, where its head is too long."""
        self._is_in_head = False
        self._has_moved, self._waiting_bytes = True, 0
        if len(self.url) > URL_BYTES_MAX:
            self._refusal = _TOO_LONG_URL
        elif sum([len(name) + len(value) for name, value in self.headers]) > HEAD_BYTES_MAX:
            self._refusal = _TOO_LONG_HEAD
        if self._refusal is not None:
            raise ValueError(self._refusal[1])
        before = self.cycle
        super().on_headers_complete()
        if before is not None and not before.response_complete:
            self._unanswered = [*(cycle for cycle in self._unanswered if not cycle.response_complete), before]

    def send_400_response(self, msg: str) -> None:
        """Say why the connection ends: what was read is no request, or its head is too long."""
        self._give_up_answers()
        if self._refusal is None:
            super().send_400_response(msg)
            return
        status, text = self._refusal
        content = orjson.dumps({"code": status, "error": text})
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, _REASONS[status], len(content), content)
        )
        self.transport.close()

    def eof_received(self) -> None:
        """End the connection, as its other side has."""
        self._give_up_answers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that there is nobody any more."""
        self._give_up_answers()
        super().connection_lost(exc)

    def _give_up_answers(self) -> None:
        """Drop what handlers still write: a transport that closes raises RuntimeError then."""
        for cycle in (*self._unanswered, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()


class _WithPeer(logging.LoggerAdapter[logging.Logger]):
    """The logger of a connection: what it says of a request that is none, it says with where that came from."""

    def __init__(self, connection: BoundedHeads) -> None:
        super().__init__(connection.logger)
        self._connection = connection

    @property
    def level(self) -> int:
        """Of the logger itself."""
        return self.logger.level

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the address to a message."""
        client = self._connection.client
        address = client[0].partition("%")[0] if client else "unknown"  # without what a percent sign means to a log
        return f"{msg} (from {address})", kwargs


_TOO_LONG_URL = (414, f"the URL has more than {URL_BYTES_MAX:,} bytes; send a query by POST /query/sql")
_TOO_LONG_HEAD = (431, f"the headers have more than {HEAD_BYTES_MAX:,} bytes")
_REASONS = {414: b"URI Too Long", 431: b"Request Header Fields Too Large"}
