"""Runs the query of a call: queues it, and cancels it when the call is cancelled or times out."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, TimeoutError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyarrow import flight
from sqlglot import exp

from gamay.base.errors import ErrorCode, QueryError
from gamay.broker.answer.pending import PendingQuery
from gamay.broker.answer.runner import Parse, QueryRunner
from gamay.broker.flight.failures import first_failure, flight_error
from gamay.cluster.access.principals import Principal
from gamay.functions.expression import Call, Literal
from gamay.model.types import DataType
from gamay.query.answer.response import BrokerResponse
from gamay.query.limits.queue import QueryQueue
from gamay.sql.options.row_limits import RowLimits
from gamay.sql.parser import parse_query
from gamay.sql.query import Query

_LOOK_S = 0.05
_CANCELLED_MAX = 10_000
_NO_ROW = Literal(False, DataType.BOOLEAN)


@dataclass(frozen=True, slots=True)
class FlightCall:
    """The attributes of a query's call other than its text.

    principal: the sender. is_over: whether the client has stopped waiting. database, options: from its headers.
    """

    principal: Principal
    is_over: Callable[[], bool]
    database: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class Asking:
    """Runner of the queries of calls; a call's thread waits while the query runs on a thread of `queue`."""

    def __init__(self, runner: QueryRunner, queue: QueryQueue) -> None:
        self._runner = runner
        self._queue = queue
        self._lock = threading.Lock()
        self._has_ended = threading.Condition(self._lock)
        self._num_asked = 0
        self._is_leaving = False
        self._running: dict[str, list[PendingQuery]] = {}  # by handle: a ticket can be redeemed several times
        self._cancelled: OrderedDict[str, None] = OrderedDict()

    def ask(self, sql: str, call: FlightCall, handle: str = "") -> pa.Table:
        """Return the answer. handle: by which it may be cancelled. Raises Flight errors."""
        return _table(self._answer(sql, call, parse_query, handle))

    def describe(self, sql: str, call: FlightCall) -> pa.Schema:
        """Return the schema of the answer without computing it. Raises Flight errors."""
        return _table(self._answer(sql, call, _without_rows, "")).schema

    def cancel(self, handle: str, principal: Principal) -> bool:
        """Cancel a query, even one that arrives later; return whether the caller may cancel it."""
        with self._lock:
            found = list(self._running.get(handle, ()))
            if not found:
                self._cancelled[handle] = None
                while len(self._cancelled) > _CANCELLED_MAX:
                    self._cancelled.popitem(last=False)
                return True
        may_end = [one for one in found if principal.sees_all_tables or one.principal.name == principal.name]
        for pending in may_end:
            self._runner.hang_up(pending)
        return bool(may_end)

    def stop(self, within_s: float) -> None:
        """Accept no more queries; wait for the running ones up to the timeout, then cancel them."""
        with self._lock:
            self._is_leaving = True
            self._has_ended.wait_for(lambda: not self._num_asked, within_s)
            running = [pending for found in self._running.values() for pending in found]
        for pending in running:
            self._runner.hang_up(pending)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a query until it ends. Raises QueryError once the broker is shutting down."""
        with self._lock:
            if self._is_leaving:
                raise QueryError(ErrorCode.BROKER_INSTANCE_MISSING, "The broker is shutting down; ask another, or try again")
            self._num_asked += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_asked -= 1
                self._has_ended.notify_all()

    def _answer(self, sql: str, call: FlightCall, parse: Parse, handle: str) -> BrokerResponse:
        try:
            with self._counted():
                return self._begun(sql, call, parse, handle)
        except QueryError as error:
            return self._runner.refused(error)

    def _begun(self, sql: str, call: FlightCall, parse: Parse, handle: str) -> BrokerResponse:
        pending = self._runner.begin(sql, call.options, call.database, parse, call.principal)
        if pending.failure is not None or (pending.is_light and not self._runner.is_remote):
            return self._runner.finish(pending)
        with self._listed(handle, pending), self._runner.running.listed(pending):
            finish = self._queue.submit(lambda: self._runner.finish(pending), len(sql))
            return self._waited(finish, pending, call)

    def _waited(self, ending: "Future[BrokerResponse]", pending: PendingQuery, call: FlightCall) -> BrokerResponse:
        """Wait for the answer. Raises QueryError if the query was not started in time."""
        is_over = False
        while True:
            try:
                return ending.result(_LOOK_S)
            except TimeoutError:
                if not is_over and call.is_over():
                    is_over = True
                    self._runner.hang_up(pending)
                late = pending.routed is None and pending.deadline.remaining_ms <= 0
                if (is_over or late) and ending.cancel():
                    code = ErrorCode.QUERY_CANCELLATION if is_over else ErrorCode.QUERY_SCHEDULING_TIMEOUT
                    why = "was cancelled" if is_over else f"was not started within {pending.deadline.timeout_ms:.0f} ms"
                    raise QueryError(code, f"The query {why} while it was queued") from None

    @contextmanager
    def _listed(self, handle: str, pending: PendingQuery) -> Iterator[None]:
        if not handle:
            yield
            return
        with self._lock:
            if handle in self._cancelled:
                raise QueryError(ErrorCode.QUERY_CANCELLATION, "The query was cancelled before it began")
            self._running.setdefault(handle, []).append(pending)
        try:
            yield
        finally:
            with self._lock:
                self._running[handle] = [one for one in self._running[handle] if one is not pending]
                if not self._running[handle]:
                    del self._running[handle]


def _table(response: BrokerResponse) -> pa.Table:
    """Return the rows of a complete answer. Raises Flight errors for a partial one or an error."""
    if response.exceptions:
        raise first_failure(response.exceptions)
    stats = response.stats
    if stats.num_servers_responded < stats.num_servers_queried:
        missing = stats.num_servers_queried - stats.num_servers_responded
        text = f"{missing} of {stats.num_servers_queried} servers did not answer, so rows may be missing; repeat the query"
        raise flight_error(ErrorCode.SERVER_NOT_RESPONDING, f"ServerNotResponding: {text}")
    if response.table is None:
        raise flight.FlightInternalError("InternalError: the query returned neither rows nor an error")
    return response.table.to_arrow()


def _without_rows(text: str, options: Mapping[str, str], limits: RowLimits) -> Query:
    """Compile a query that has the columns of another one, but no rows (one row where DISTINCT needs a LIMIT)."""
    query = parse_query(text, options, limits)
    if query.explain:
        return query
    statement = query.relational
    if statement is None:
        limit = 1 if query.distinct else 0
        if query.table is None or query.gapfill is not None:
            return replace(query, limit=limit, offset=0, shape=None)
        where = _NO_ROW if query.where is None else Call("and", (query.where, _NO_ROW))
        return replace(query, where=where, limit=limit, offset=0, shape=None)
    tree = statement.tree.copy().limit(exp.Literal.number(len(statement.literals)))
    literals = (*statement.literals, Literal(0, DataType.INT))
    return replace(query, relational=replace(statement, tree=tree, literals=literals))
