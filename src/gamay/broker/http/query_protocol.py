"""The shortest path from a socket to an answer.

Half of the time of a small query is spent on passing its request through a web server: a request object, a task, and
messages between them. A query that arrives alone, complete and without unusual headers is answered here, from the bytes read
to the bytes sent, by a task if it takes longer. Every other request takes the normal path, on the same connection.
"""

import re
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from gamay.broker.answer.pending import PendingQuery
from gamay.broker.http.query_endpoint import ERROR_CODE_HEADER, QueryAnswers, query_of, shown_status
from gamay.broker.http.rights import QUERY_RIGHT
from gamay.cluster.access.principals import ANYONE, AccessControl, ForbiddenError, Principal
from gamay.web.bounded_heads import BoundedHeads

# Names and values have the characters that RFC 9110 allows, so that other lines are not mistaken for headers.
_HEAD = re.compile(rb"POST /query/sql HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)+)\r\n")
_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([0-9]{1,9})[ \t]*\r$")
# Requests with headers that affect framing, the response or access rights take the normal path.
_UNUSUAL = re.compile(
    rb"(?im)^(?:authorization|connection:[ \t]*(?!keep-alive[ \t]*\r)|database|expect|origin|pinot-use-http-status"
    rb"|te|trailer|transfer-encoding|upgrade)"
)
_LOGIN = re.compile(rb"(?i)\r\nauthorization:[ \t]*([!-~](?:[ -~]*[!-~])?)[ \t]*(?=\r\n)")
_HEAD_END = b"\r\n\r\n"
# Longer heads take the normal path; parsed heads are cached, since a client repeats them with each query.
_HEAD_BYTES_MAX = 1 << 12
_HEADS_MAX = 512
_AFTER_STATUS = f"content-type: application/json\r\n{ERROR_CODE_HEADER.lower()}: "
_STARTS = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n{_AFTER_STATUS}".encode()
    for status in (HTTPStatus.OK, HTTPStatus.FORBIDDEN)
}


@lru_cache(_HEADS_MAX)
def _content_length(head: bytes) -> int | None:
    """Return the length of the body after a head with its empty line; None if the request needs the normal path."""
    found = _HEAD.fullmatch(head)
    if found is None or _UNUSUAL.search(found[1]) is not None:
        return None
    lengths = _LENGTH.findall(found[1])
    return int(lengths[0]) if len(lengths) == 1 else None


def _without_login(head: bytes) -> tuple[bytes, str | None]:
    """Remove the credentials, which must not be cached, from a head; return both. A second header remains, and is
    unusual."""
    found = _LOGIN.search(head)
    if found is None:
        return head, None
    return head[: found.start()] + head[found.end() :], found[1].decode("ascii")


class QueryProtocol(BoundedHeads):
    """One HTTP connection."""

    def __init__(self, answers: QueryAnswers, access: AccessControl, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answers = answers
        self._access = access
        self._asked: PendingQuery | None = None  # the query that is not answered yet
        self._later = b""  # data received meanwhile
        self._is_ending = False
        self._is_between_requests = True
        self._headers_of: list[tuple[bytes, bytes]] | None = None
        self._headers = b""
        self._answered_s = 0.0

    def data_received(self, data: bytes) -> None:
        """Answer a request, or pass the data to the normal path."""
        if self._asked is not None:
            self._later += data
            self.flow.pause_reading()
        elif not (self._is_between_requests and data.startswith(b"POST /query/sql") and self._answered(data)):
            super().data_received(data)

    def on_message_begin(self) -> None:
        """Record that a request is being read."""
        super().on_message_begin()
        self._is_between_requests = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the pending query: its client disconnected."""
        if self._asked is not None:
            self._answers.hang_up(self._asked)
        super().connection_lost(exc)

    def on_message_complete(self) -> None:
        """Record that a request was read completely."""
        super().on_message_complete()
        self._is_between_requests = True

    def _answered(self, data: bytes) -> bool:
        """Whether the data is a request that has been answered here, or will be."""
        waits = self.cycle is not None and not self.cycle.response_complete
        if waits or self.flow.write_paused or self.transport.is_closing():
            return False
        end = data.find(_HEAD_END) + len(_HEAD_END)
        if not len(_HEAD_END) <= end <= _HEAD_BYTES_MAX:
            return False
        head, login = _without_login(data[:end])
        sender = self._sender(login) if _content_length(head) == len(data) - end else None
        body = None if sender is None else query_of(data[end:])
        if sender is None or body is None:
            return False
        begun = self._answers.begin(body, None, sender)
        if begun is None:
            return False
        if isinstance(begun, tuple):
            self._send(*begun)
        else:
            self._asked = begun
            task = self.loop.create_task(self._answer(begun))
            self.tasks.add(task)  # the server waits for its tasks when the process ends
            task.add_done_callback(self.tasks.discard)
        return True

    def _sender(self, login: str | None) -> Principal | None:
        """Return the sender; None if the normal path must authenticate or reject it."""
        if self._access.is_open:
            return ANYONE
        sender = None if login is None else self._access.verified(login)
        if sender is None:
            return None
        try:
            QUERY_RIGHT.check_kind(sender, "POST")
        except ForbiddenError:
            return None
        return sender

    async def _answer(self, asked: PendingQuery) -> None:
        """Answer a query, then the requests received meanwhile."""
        try:
            answered = await self._answers.finish(asked)
        except BaseException:
            self.transport.close()
            raise
        finally:
            self._asked = None
        if self.transport.is_closing():
            return
        self._send(*answered)
        if self._is_ending:
            self.transport.close()
            return
        later, self._later = self._later, b""
        if later:
            self.flow.resume_reading()
            self.data_received(later)

    def shutdown(self) -> None:
        """Close the connection, after the answer to the pending query."""
        if self._asked is None:
            super().shutdown()
        else:
            self._is_ending = True

    def _send(self, code: int, status: int, content: bytes) -> None:
        start = _STARTS[shown_status(code, status, is_wanted=False)]
        if self._headers_of is not self.server_state.default_headers:
            self._headers_of = self.server_state.default_headers  # replaced every second, since they contain the time
            self._headers = b"".join([b"%b: %b\r\n" % header for header in self._headers_of])
        self.transport.write(b"%b%d\r\ncontent-length: %d\r\n%b\r\n%b" % (start, code, len(content), self._headers, content))
        self.server_state.total_requests += 1
        self._answered_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, else re-arm the timer; a timer per query would cost too much."""
        since_s = self._answered_s if self._asked is None else self.loop.time()
        left_s = since_s + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left_s, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()
