"""The shortest way from a socket to an answer.

Half of the time of a small query went into handing its request through a web server: an object for the request, a task, and
messages between them. A query that comes alone, whole and without unusual headers is answered here, from the bytes that were
read to the bytes that are sent, by a task where that takes longer. Everything else goes the usual way, on the same
connection.
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

# Names and values have the characters that RFC 9110 allows, so that nothing is taken for a header here that is none there.
_HEAD = re.compile(rb"POST /query/sql HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)+)\r\n")
_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([0-9]{1,9})[ \t]*\r$")
# What changes how a request is framed, answered or allowed is read by those who know all of it.
_UNUSUAL = re.compile(
    rb"(?im)^(?:authorization|connection:[ \t]*(?!keep-alive[ \t]*\r)|database|expect|origin|pinot-use-http-status"
    rb"|te|trailer|transfer-encoding|upgrade)"
)
_LOGIN = re.compile(rb"(?i)\r\nauthorization:[ \t]*([!-~](?:[ -~]*[!-~])?)[ \t]*(?=\r\n)")
_HEAD_END = b"\r\n\r\n"
# Longer heads go the usual way; what the others mean is remembered, for a client says the same with each query.
_HEAD_BYTES_MAX = 1 << 12
_HEADS_MAX = 512
_AFTER_STATUS = f"content-type: application/json\r\n{ERROR_CODE_HEADER.lower()}: "
_STARTS = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n{_AFTER_STATUS}".encode()
    for status in (HTTPStatus.OK, HTTPStatus.FORBIDDEN)
}


@lru_cache(_HEADS_MAX)
def _content_length(head: bytes) -> int | None:
    """Return how many bytes of body follow a head with its empty line; None when there is more to know of the request."""
    found = _HEAD.fullmatch(head)
    if found is None or _UNUSUAL.search(found[1]) is not None:
        return None
    lengths = _LENGTH.findall(found[1])
    return int(lengths[0]) if len(lengths) == 1 else None


def _without_login(head: bytes) -> tuple[bytes, str | None]:
    """Return a head without its log-in, which is not to be remembered, and the log-in; a second one stays: it is unusual."""
    found = _LOGIN.search(head)
    if found is None:
        return head, None
    return head[: found.start()] + head[found.end() :], found[1].decode("ascii")


class QueryProtocol(BoundedHeads):
    """One connection."""

    def __init__(self, answers: QueryAnswers, access: AccessControl, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answers = answers
        self._access = access
        self._asked: PendingQuery | None = None  # and not answered yet
        self._later = b""  # what came meanwhile
        self._is_ending = False
        self._is_between_requests = True
        self._headers_of: list[tuple[bytes, bytes]] | None = None
        self._headers = b""
        self._answered_s = 0.0

    def data_received(self, data: bytes) -> None:
        """Answer a request, or hand what was read to the usual way."""
        if self._asked is not None:
            self._later += data
            self.flow.pause_reading()
        elif not (self._is_between_requests and data.startswith(b"POST /query/sql") and self._answered(data)):
            super().data_received(data)

    def on_message_begin(self) -> None:
        """Note that a request is being read."""
        super().on_message_begin()
        self._is_between_requests = False

    def connection_lost(self, exc: Exception | None) -> None:
        """End the query that is still to be answered: its client is gone."""
        if self._asked is not None:
            self._answers.hang_up(self._asked)
        super().connection_lost(exc)

    def on_message_complete(self) -> None:
        """Note that a request has been read to its end."""
        super().on_message_complete()
        self._is_between_requests = True

    def _answered(self, data: bytes) -> bool:
        """Tell whether these bytes were a request, and have been answered, or will be."""
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
            self.tasks.add(task)  # which are waited for when the process ends
            task.add_done_callback(self.tasks.discard)
        return True

    def _sender(self, login: str | None) -> Principal | None:
        """Return who asks; None where the usual way has to find out who that is, or to refuse it."""
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
        """Answer a query when its turn comes, then what was asked meanwhile."""
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
        """End the connection, after the answer to what was asked."""
        if self._asked is None:
            super().shutdown()
        else:
            self._is_ending = True

    def _send(self, code: int, status: int, content: bytes) -> None:
        start = _STARTS[shown_status(code, status, is_wanted=False)]
        if self._headers_of is not self.server_state.default_headers:
            self._headers_of = self.server_state.default_headers  # others every second, for they say what time it is
            self._headers = b"".join([b"%b: %b\r\n" % header for header in self._headers_of])
        self.transport.write(b"%b%d\r\ncontent-length: %d\r\n%b\r\n%b" % (start, code, len(content), self._headers, content))
        self.server_state.total_requests += 1
        self._answered_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection where it has been idle, else look again; a timer for each query would cost too much."""
        since_s = self._answered_s if self._asked is None else self.loop.time()
        left_s = since_s + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left_s, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()
