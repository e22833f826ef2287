"""Endpoint of nearly all requests, POST /query/sql with a JSON body, outside the web framework.

Everything else (another route or method, parameters, a body that is not a query, an INSERT, a browser that needs CORS
headers) is passed, body included, to the application behind.
"""

import asyncio
from collections.abc import Coroutine, Mapping, MutableMapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

import orjson

from gamay.base.errors import ErrorCode, GamayError, QueryError
from gamay.broker.answer.options import request_options
from gamay.broker.answer.pending import PendingQuery
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.http.rights import QUERY_RIGHT
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.query.answer.response import BrokerResponse, encode, encode_short
from gamay.query.limits.queue import QueryQueue
from gamay.sql.insert import is_insert
from gamay.sql.options.option_values import flag, number
from gamay.web.guarded import AsgiApp, Message, Receive, Send, refusal, sender_of

T = TypeVar("T")
# first error code or -1, HTTP status for it, response JSON
Answered: TypeAlias = tuple[int, int, bytes]

ERROR_CODE_HEADER = "X-Pinot-Error-Code"
HTTP_STATUS_HEADER = "Pinot-Use-Http-Status-For-Errors"

_PATH = "/query/sql"
_ERROR_CODE = ERROR_CODE_HEADER.lower().encode()
_HTTP_STATUS = HTTP_STATUS_HEADER.lower().encode()
# longer texts are compiled on another thread
SHORT_TEXT_MAX = 20_000
_HTTP_STATUSES = {code.code: code.http_status for code in ErrorCode}


class QueryAnswers:
    """Answers queries from a coroutine: small ones inline, since a thread switch costs more; others through `queue`."""

    def __init__(self, runner: QueryRunner, queue: QueryQueue) -> None:
        self._runner = runner
        self._queue = queue

    def begin(
        self, body: Mapping[str, Any], database: str | None, principal: Principal = ANYONE
    ) -> Answered | PendingQuery | None:
        """Answer the query of a request's body if that takes hardly longer than reading it.

        Otherwise return the compiled query for `finish`; None if even compiling it would block the event loop too long.
        """
        sql = body["sql"]
        if len(sql) > SHORT_TEXT_MAX:
            return None
        try:
            options = request_options(body) if len(body) > 1 else {}
        except QueryError as error:
            return self._failed(error)
        if not options and database is None and (response := self._runner.fast_answer(sql, principal)) is not None:
            return answered(response)
        pending = self._runner.begin(sql, options, database, principal=principal)
        is_inline = pending.is_light and (not self._runner.is_remote or pending.failure is not None)
        return self._finish(pending) if is_inline else pending

    def hang_up(self, pending: PendingQuery) -> None:
        """Cancel a query whose client disconnected."""
        self._runner.hang_up(pending)

    async def watched(self, pending: PendingQuery, answering: Coroutine[Any, Any, T], receive: Receive) -> T:
        """Wait for an answer; cancel the query if its client disconnects meanwhile."""
        answered, gone = asyncio.ensure_future(answering), asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((answered, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                self.hang_up(pending)
            return await answered
        finally:
            gone.cancel()

    async def answer(
        self, body: Mapping[str, Any], database: str | None, principal: Principal, receive: Receive
    ) -> Answered:
        """Answer the query `sql` of a request's body. principal: the sender. receive: reports when the client
        disconnects."""
        begun = self.begin(body, database, principal)
        if isinstance(begun, tuple):
            return begun
        if begun is None:
            sql = body["sql"]
            try:
                options = request_options(body)
                compiling = partial(self._runner.begin, sql, options, database, principal=principal)
                begun = await self._queue.turn(compiling, len(sql))
            except QueryError as error:
                return self._failed(error)
        return await self.watched(begun, self.finish(begun), receive)

    async def finish(self, pending: PendingQuery) -> Answered:
        """Answer a query through the queue; it is listed, and can be cancelled, from now on.

        Remote servers are asked first, which takes no thread: only merging their results is queued.
        """
        if self._runner.is_remote:
            await self._runner.fetch(pending)
            if pending.is_light_to_merge:
                return self._finish(pending)
        if pending.failure is None:
            try:
                with self._runner.running.listed(pending):
                    finish, is_short = partial(self._finish, pending), pending.is_short
                    return await self._queue.turn(
                        finish, len(pending.sql), pending.deadline, is_short=is_short, takes_turns=pending.takes_turns
                    )
            except QueryError as error:
                pending.failure = BrokerResponse.of_error(error)
        return self._finish(pending)

    def _failed(self, error: QueryError) -> Answered:
        return answered(self._runner.refused(error))

    def _finish(self, pending: PendingQuery) -> Answered:
        response = self._runner.finish(pending)
        if response.table is not None and not response.exceptions and flag(pending.query.options, "getCursor"):
            return _told(*self._runner.render(pending, response, partial(self._first_page, pending)))
        if not response.is_long:
            return answered(response)
        return _told(*self._runner.render(pending, response, encode))

    def _first_page(self, pending: PendingQuery, response: BrokerResponse) -> bytes:
        """Store an answer for a cursor and return its first page; an error is returned unchanged."""
        if response.table is None:
            return encode(response)
        num_rows = number(pending.query.options, "cursorNumRows", 0)
        return self._runner.answers.keep(response, response.table, num_rows, pending.principal)


def answered(response: BrokerResponse) -> Answered:
    """Encode a short response."""
    return _told(response, encode_short(response))


def _told(response: BrokerResponse, content: bytes) -> Answered:
    if not response.exceptions:
        return -1, 200, content
    code, message = response.exceptions[0]
    if code == ErrorCode.ACCESS_DENIED.code:
        content = orjson.dumps({"code": 403, "error": f"Permission denied.Reason: {message.partition(': ')[2]}"})
    return code, _HTTP_STATUSES.get(code, 500), content


def shown_status(code: int, status: int, *, is_wanted: bool) -> int:
    """Return the HTTP status of an answer: 200 even for errors, unless the client asks for the status or access is
    denied."""
    return status if is_wanted or code == ErrorCode.ACCESS_DENIED.code else 200


class QueryEndpoint:
    """An ASGI application in front of another one."""

    def __init__(self, answers: QueryAnswers, behind: AsgiApp) -> None:
        self._answers = answers
        self._behind = behind

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != _PATH:
            await self._behind(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        sender = sender_of(scope)
        if sender is not ANYONE:
            try:
                QUERY_RIGHT.check_kind(sender, "POST")
            except GamayError as error:
                await refusal(error)(scope, receive, send)
                return
        messages: list[Message] = []
        more = True
        while more:
            message = await receive()
            messages.append(message)
            more = message.get("more_body", False)
        raw = messages[0].get("body", b"") if len(messages) == 1 else b"".join(m.get("body", b"") for m in messages)
        body = query_of(raw)
        if body is None or b"origin" in headers or scope["query_string"]:
            await self._behind(scope, _replay(messages, receive), send)
            return
        database = headers.get(b"database")
        code, status, content = await self._answers.answer(
            body, None if database is None else database.decode("latin-1"), sender, receive
        )
        status = shown_status(code, status, is_wanted=headers.get(_HTTP_STATUS, b"").lower() == b"true")
        head = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            (_ERROR_CODE, b"%d" % code),
        ]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": content})


def query_of(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a body with an SQL query, else None."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None  # the application behind reports the error
    if not isinstance(body, dict) or not isinstance(body.get("sql"), str) or "pql" in body or is_insert(body["sql"]):
        return None
    return body


async def _disconnected(receive: Receive) -> None:
    """Wait until the client of a fully read request disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _replay(messages: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that replays the messages before it waits for more."""
    given = iter(messages)

    async def replayed() -> Message:
        for message in given:
            return message
        return await receive()

    return replayed
