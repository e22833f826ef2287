"""HTTP connections with bounded request heads: overlong URLs, headers and trailers are rejected while they arrive."""

import logging
from collections.abc import MutableMapping
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gamay.web.read_answers import ReadAnswers

URL_BYTES_MAX = 1 << 16
HEAD_BYTES_MAX = 1 << 17
"""Limit on the request line and all headers together."""


class BoundedHeads(ReadAnswers):
    """One connection. Responds to an overlong URL with 414, to overlong headers with 431."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger: Any = _WithPeer(self)
        self._is_in_message = self._is_in_head = False
        self._has_moved = False  # whether the latest data completed a head or was part of a body
        self._waiting_bytes = 0  # bytes received since then, of a head, of trailers, or of chunk metadata
        self._refusal: tuple[int, str] | None = None
        self._unanswered: list[RequestResponseCycle] = []  # requests before the last one whose responses are not sent yet

    def data_received(self, data: bytes) -> None:
        """Parse the received data."""
        was_in_message, self._has_moved = self._is_in_message, False
        super().data_received(data)
        if was_in_message and self._is_in_message and not self._has_moved and not self.transport.is_closing():
            self._waiting_bytes += len(data)
            if self._waiting_bytes > HEAD_BYTES_MAX:
                self._refusal = _TOO_LONG_URL if self._is_in_head and not self.headers else _TOO_LONG_HEAD
                self.send_400_response("")

    def on_message_begin(self) -> None:
        """Record that a head is being read."""
        super().on_message_begin()
        self._is_in_message = self._is_in_head = True
        self._waiting_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Pass on a part of a body."""
        self._has_moved, self._waiting_bytes = True, 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that a request was read completely."""
        super().on_message_complete()
        self._is_in_message = False

    def on_headers_complete(self) -> None:
        """Pass on the request; raises ValueError, which closes the connection, if its head is too long."""
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
        """Report why the connection is closed: the data is not a request, or its head is too long."""
        self._abandon_answers()
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
        """Close the connection, as the client did."""
        self._abandon_answers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the client disconnected."""
        self._abandon_answers()
        super().connection_lost(exc)

    def _abandon_answers(self) -> None:
        """Discard the output of running handlers, since writing to a closing transport raises RuntimeError."""
        for cycle in (*self._unanswered, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()


class _WithPeer(logging.LoggerAdapter[logging.Logger]):
    """The logger of a connection, which adds the client's address to messages about malformed requests."""

    def __init__(self, connection: BoundedHeads) -> None:
        super().__init__(connection.logger)
        self._connection = connection

    @property
    def level(self) -> int:
        """Level of the underlying logger."""
        return self.logger.level

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the client's address to a message."""
        client = self._connection.client
        address = client[0].partition("%")[0] if client else "unknown"  # a zone's % would be a format specifier
        return f"{msg} (from {address})", kwargs


_TOO_LONG_URL = (414, f"the URL has more than {URL_BYTES_MAX:,} bytes; send a query by POST /query/sql")
_TOO_LONG_HEAD = (431, f"the headers have more than {HEAD_BYTES_MAX:,} bytes")
_REASONS = {414: b"URI Too Long", 431: b"Request Header Fields Too Large"}
