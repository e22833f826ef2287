"""The query port of a server: receives queries as frames, and executes them like those of a broker in the same process."""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import uvloop

from gamay.base import guard, spans
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, GamayError, InUseError, QueryError, forget_traceback
from gamay.base.logs import about
from gamay.query.bind.binder import BoundQuery
from gamay.query.execute.server_result import ServerResult
from gamay.query.few.rows import SEGMENTS_MAX
from gamay.query.limits.budget import ProcessBudget
from gamay.query.limits.deadline import CancellableDeadline
from gamay.query.limits.queue import QueryQueue
from gamay.query.prepared.statements import PreparedStatement
from gamay.query.reduce.merge import Answer, reduce
from gamay.query.wire.request import ReceivedStatements, RequestHeader, decode_request_header
from gamay.query.wire.result import encode_answer, encode_done, encode_result
from gamay.rpc.handshake import NO_SECRET, ClusterSecret
from gamay.rpc.peer import BUSY_POLL_US, ConnectionLimits
from gamay.rpc.server import Call, Server
from gamay.server.answering.executor import QueryExecutor
from gamay.server.answering.running import RunningQueries

_log = logging.getLogger(__name__)

# requests contain a query and names of segments
REQUEST_BYTES_MAX = 64 << 20

_Query: TypeAlias = tuple[PreparedStatement, BoundQuery]
_BACKLOG = 1024


class QueryListener:
    """Listener for brokers' queries between `start` and `stop`, with its own event loop.

    Small queries are executed in the loop itself, since a thread switch costs more; others wait in a queue for one of
    `threads`. name: the instance id. port: 0 takes a free one; see the attribute. memory: limits on all queries
    together and on each. busy_poll_us: see `gamay.rpc.peer.ConnectionLimits`; None is the default. secret: shared with the
    brokers. running: the registry of waiting and running queries.
    Raises InUseError if the port is in use.
    """

    def __init__(
        self,
        name: str,
        executor: QueryExecutor,
        clock: Clock,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        threads: int = 4,
        memory: ProcessBudget | None = None,
        tls: ssl.SSLContext | None = None,
        busy_poll_us: int | None = None,
        secret: ClusterSecret = NO_SECRET,
        running: RunningQueries | None = None,
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._memory = memory or ProcessBudget.of_machine()
        self._tls = tls
        self._statements = ReceivedStatements()
        self._queue = QueryQueue(threads, thread_name="server-query")
        limits = ConnectionLimits(
            frame_bytes=REQUEST_BYTES_MAX, busy_poll_us=BUSY_POLL_US if busy_poll_us is None else busy_poll_us
        )
        self._server = Server(name, self._on_call, limits, secret, self._memory.count_unsent)
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = running or RunningQueries()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server-queries", daemon=True)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise InUseError(f"the server cannot listen on port {port}: {error.strerror}; choose another port") from error
        self.port: int = self._socket.getsockname()[1]

    @property
    def in_flight(self) -> int:
        """The number of queries in flight."""
        return self._server.in_flight

    def start(self) -> None:
        """Start answering."""
        self._socket.listen(_BACKLOG)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(self._socket, self._tls), self._loop).result()

    def leave(self) -> None:
        """Ask all brokers to stop sending queries; those that still arrive are answered."""
        self._loop.call_soon_threadsafe(self._server.leave)

    def stop(self) -> None:
        """Close the connections and end the threads; queries in flight are not answered."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._queue.shutdown(wait=False)
        self._socket.close()
        self._loop.close()

    # on the event loop

    def _on_call(self, call: Call) -> None:
        begun_s = self._clock.monotonic_s()
        try:
            header = decode_request_header(call.buffers[0])
            if header.known is None:
                query = self._statements.bind(bytes(call.buffers[1]), bytes(call.buffers[2]))
            else:
                query = self._statements.known(header.known)
        except Exception as error:  # noqa: BLE001 - whatever a broker sends ends its query, not the connection
            _fail(call, error)
            return
        now_s = self._clock.monotonic_s()
        self._executor.counts(header.table).deserialization_s += now_s - begun_s
        deadline = CancellableDeadline(
            self._clock, now_s + call.timeout_ms / 1000, header.timeout_ms, header.budget(self._memory)
        )
        call.on_cancel = deadline.cancel
        if query[0].is_light(self._executor.num_docs(header.table, header.segments)):
            try:
                answer = self._execute(header, query, deadline, call.context)
            except Exception as error:  # noqa: BLE001 - as above
                _fail(call, error, header, deadline)
            else:
                call.reply(answer)
            return
        task = asyncio.ensure_future(self._queued(call, header, query, deadline))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _queued(self, call: Call, header: RequestHeader, query: _Query, deadline: CancellableDeadline) -> None:
        num_bytes = sum(buffer.nbytes for buffer in call.buffers)
        queued_s = self._clock.monotonic_s()

        def execute() -> "Sequence[bytes | memoryview]":
            self._executor.counts(header.table).waiting_s += self._clock.monotonic_s() - queued_s
            return self._execute(header, query, deadline, call.context)

        cancel = partial(self._loop.call_soon_threadsafe, deadline.cancel)
        try:
            with self._running.listed(header.id, cancel, deadline.budget):
                answer = await self._queue.turn(execute, num_bytes, deadline, is_short=query[0].is_short)
        except Exception as error:  # noqa: BLE001 - as above
            if isinstance(error, QueryError) and error.code is ErrorCode.QUERY_SCHEDULING_TIMEOUT:
                self._executor.counts(header.table).scheduling_timeouts += 1
            _fail(call, error, header, deadline)
        else:
            call.reply(answer)

    # on any thread

    def _execute(
        self, header: RequestHeader, query: _Query, deadline: CancellableDeadline, context: str
    ) -> "Sequence[bytes | memoryview]":
        if context and spans.is_on():
            about_it = {"request_id": header.id, "table": header.table, "segments": len(header.segments)}
            with spans.span("gamay.execute", context, **about_it):
                return self._executed(header, query, deadline)
        return self._executed(header, query, deadline)

    def _executed(
        self, header: RequestHeader, query: _Query, deadline: CancellableDeadline
    ) -> "Sequence[bytes | memoryview]":
        statement, bound = query
        begun_ns = self._clock.thread_cpu_ns()
        try:
            deadline.check()
            as_text = header.known is not None and header.known.as_text
            if header.known is not None and (answer := self._looked_up(header, statement, bound)) is not None:
                return encode_answer(answer, as_text=as_text)
            result, missing = self._executor.execute(header.table, bound, header.segments, deadline, header.latest)
            if header.known is None or missing:
                begun_s = self._clock.monotonic_s()
                buffers = self._encoded(header, bound, result, missing, deadline)
            else:
                answer = self._merged(bound, result, deadline)
                begun_s = self._clock.monotonic_s()
                buffers = encode_answer(answer, as_text=as_text)
            self._executor.counts(header.table).serialization_s += self._clock.monotonic_s() - begun_s
            return buffers
        finally:
            statement.took_ns = self._clock.thread_cpu_ns() - begun_ns
            if deadline.budget is not None:
                deadline.budget.close()

    def _encoded(
        self, header: RequestHeader, bound: BoundQuery, result: ServerResult, missing: Sequence[str],
        deadline: CancellableDeadline,
    ) -> "Sequence[bytes | memoryview]":  # fmt: skip
        before = guard.enter(deadline)  # groups that exceeded the memory are merged only now
        try:
            return encode_result(bound, result, missing, header.takes_parts, header.takes_set_parts)
        finally:
            guard.enter(before)

    def _looked_up(self, header: RequestHeader, statement: PreparedStatement, bound: BoundQuery) -> Answer | None:
        """Return the answer if indexes find its few rows, else None."""
        lookup = statement.lookup
        if lookup is None or len(header.segments) > SEGMENTS_MAX or not statement.is_tried():
            return None
        try:
            answer = self._executor.answer_prepared(header.table, lookup, bound.filter, header.segments, self._clock)
        except GamayError:
            return None  # the normal execution meets the same error, and reports it
        if answer is not None:
            statement.succeeded()
        return answer

    def _merged(self, bound: BoundQuery, result: ServerResult, deadline: CancellableDeadline) -> Answer:
        """Return the final answer if no other server contributes to it."""
        before = guard.enter(deadline)
        try:
            return reduce(bound, [result])
        finally:
            guard.enter(before)


def _fail(
    call: Call, error: Exception, header: RequestHeader | None = None, deadline: CancellableDeadline | None = None
) -> None:
    """Answer with an error, and with the statistics so far."""
    if isinstance(error, QueryError | MemoryError):
        forget_traceback(error)
    if isinstance(error, QueryError):
        budget = None if deadline is None else deadline.budget
        done = [encode_done(budget.stats())] if budget is not None and budget.parts else []
        call.fail(error.code.code, str(error), done)
        return
    if isinstance(error, MemoryError):
        text = "The query needs more memory than the process can get; filter more, or group by less"
        call.fail(ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED.code, text)
        return
    of_query = {} if header is None else about(header.id, header.table)
    _log.error("a query failed", exc_info=error, extra=of_query)
    call.fail(ErrorCode.INTERNAL.code, f"The query failed for a reason that is a defect of Gamay: {error!r}")
