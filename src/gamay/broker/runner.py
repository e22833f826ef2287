"""A query from its text to its response."""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gamay.base import guard
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, GamayError, QueryError, nearest
from gamay.broker.connection import ServerConnection
from gamay.broker.diagnostics import QueryFacts
from gamay.broker.limits import NO_LIMITS, QueryLimits, check_sizes, sizes_of
from gamay.broker.literals import literal_row
from gamay.broker.options import DEFAULT_TIMEOUT_MS, is_on, timeout_ms
from gamay.broker.query_log import QueryLog
from gamay.broker.quota import Quotas
from gamay.broker.routing import RoutingTables, TableRoute
from gamay.broker.running import RunningQueries, RunningQuery
from gamay.functions.expression import Call, Expression
from gamay.model.schema import Schema
from gamay.model.table_name import raw_table_name
from gamay.query.bind import BoundQuery, bind
from gamay.query.budget import ProcessBudget
from gamay.query.deadline import CancellableDeadline
from gamay.query.execute import ServerResult
from gamay.query.held import held_bytes
from gamay.query.plans import Plan
from gamay.query.reduce import reduce
from gamay.query.response import BrokerResponse, ResultTable
from gamay.query.trace import Trace
from gamay.sql.answers import SUBQUERIES, with_answers
from gamay.sql.parser import parse_query
from gamay.sql.query import Query
from gamay.sql.row_limits import RowLimits
from gamay.sql.subquery import answered, check_is_id_set

__all__ = ["BrokerResponse", "QueryRunner", "ResultTable"]

_log = logging.getLogger(__name__)

ToBytes: TypeAlias = Callable[[BrokerResponse], bytes]
"""Encodes a response; it asks the guard of its thread as it goes."""

Parse: TypeAlias = Callable[[str, Mapping[str, str], RowLimits], Query]
"""Compiles the text of a query with the options of its request and the limits of its LIMIT; raises QueryError."""

_NO_TABLE = Schema("", ())
_REQUEST_IDS = 1_000_000_000
_UNAVAILABLE_SHOWN = 5
_ROUTE_ATTEMPTS = 5
_SUBQUERY_DEPTH_MAX = 3
# what ends a subquery ends the query around it, too
_ENDINGS = (ErrorCode.EXECUTION_TIMEOUT, ErrorCode.QUERY_CANCELLATION)

LIGHT_ROWS_MAX = 1 << 18
LIGHT_NS_MAX = 2_000_000


@dataclass(slots=True)
class _Routed:
    """What one scatter brought back. missing: segments that a server no longer had; problems: (code, message)."""

    results: list[ServerResult]
    num_queried: int
    num_pruned: int
    docs_pruned: int
    missing: list[str]
    problems: list[tuple[int, str]]


class _Choice(NamedTuple):
    """Server -> the segments to ask it for, how many rows these have, and how many segments and rows were pruned."""

    asked: Mapping[str, list[str]]
    num_docs: int
    num_pruned: int
    docs_pruned: int


_NOTHING_CHOSEN = _Choice({}, 0, 0, 0)


@dataclass(slots=True)
class PendingQuery:
    """A query that has been compiled and routed, but not executed.

    failure: the response when that was not possible; query, deadline and bound are set otherwise.
    route, plan, choice: of a query with a table. database: of the request.
    depth: how many queries this one stands in, as a subquery.
    """

    sql: str
    number: int
    started_s: float
    failure: BrokerResponse | None = None
    query: Query = field(init=False)
    deadline: CancellableDeadline = field(init=False)
    bound: BoundQuery = field(init=False)
    route: TableRoute | None = None
    database: str | None = None
    depth: int = 0
    plan: Plan | None = None
    choice: _Choice = _NOTHING_CHOSEN

    @property
    def running(self) -> RunningQuery:
        """How the query is listed while it runs; of one that was compiled."""
        return RunningQuery(str(self.number), self.query.options.get("clientQueryId"), self.sql, self.deadline)

    @property
    def is_light(self) -> bool:
        """Whether executing it takes about as long as handing it to another thread.

        So it is when few rows can match at most, and the last query of the same shape needed little time of the processor:
        on the clock even the smallest takes long while others keep the processor busy.
        """
        if self.failure is not None or self.plan is None:
            return self.failure is not None
        return self.choice.num_docs <= LIGHT_ROWS_MAX and self.plan.took_ns <= LIGHT_NS_MAX


class QueryRunner:
    """Answers queries; its methods may be called from any thread.

    connections: by instance id of the server. request_base: makes request ids unique among brokers.
    memory: what queries may hold together, and one of them. slow_ms: from when on a query is logged; None is never.
    """

    def __init__(
        self,
        broker_id: str,
        routing: RoutingTables,
        connections: Mapping[str, ServerConnection],
        clock: Clock,
        request_base: int = 0,
        memory: ProcessBudget | None = None,
        slow_ms: int | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.routing = routing
        self.running = RunningQueries()
        self.limits = QueryLimits(memory or ProcessBudget.of_machine())
        self.quotas = Quotas()
        self._query_log = QueryLog(slow_ms)
        for follower in (self.limits, self.quotas, self._query_log):
            routing.follow_settings(follower.apply)
        self._connections = connections
        self._clock = clock
        self._request_ids = itertools.count(request_base * _REQUEST_IDS)
        self._scatter = ThreadPoolExecutor(16, thread_name_prefix="broker-scatter")

    def close(self) -> None:
        """End the threads that ask servers."""
        self._scatter.shutdown(wait=False, cancel_futures=True)

    def run(
        self,
        sql: str,
        options: Mapping[str, str] | None = None,
        database: str | None = None,
        parse: Parse = parse_query,
    ) -> BrokerResponse:
        """Answer a query; whatever goes wrong is told in the response's exceptions, never raised."""
        return self.finish(self.begin(sql, options or {}, database, parse))

    def begin(
        self, sql: str, options: Mapping[str, str], database: str | None = None, parse: Parse = parse_query
    ) -> "PendingQuery":
        """Compile a query and choose the segments to ask, which takes no longer than the text is long; never raises."""
        pending = PendingQuery(sql, next(self._request_ids), self._clock.monotonic_s())
        try:
            defaults = self.routing.default_options
            query = parse(sql, {**defaults, **options} if defaults else options, self.routing.row_limits)
            self._plan(pending, query, database)
        except Exception as error:  # noqa: BLE001 - `_failed` tells a user's mistakes from defects, and logs the latter
            pending.failure = self._failed(pending, error)
        return pending

    def finish(self, pending: "PendingQuery") -> BrokerResponse:
        """Answer a query that was begun; never raises."""
        response = pending.failure
        begun_ns = self._clock.thread_cpu_ns()
        if response is None:
            try:
                response = self._answer(pending)
            except Exception as error:  # noqa: BLE001 - as above
                response = self._failed(pending, error)
        if response.exceptions and (query := getattr(pending, "query", None)) is not None:
            response.client_request_id = query.options.get("clientQueryId")
        response.request_id = str(pending.number)
        response.broker_id = self.broker_id
        if pending.plan is not None and pending.failure is None:
            pending.plan.took_ns = self._clock.thread_cpu_ns() - begun_ns
        ended_s = self._clock.monotonic_s()
        response.time_used_ms = round((ended_s - pending.started_s) * 1000)
        # a client that did not wait for the query to end has been told already
        was_told = pending.failure is not None and response is not pending.failure
        if response.time_used_ms >= self._query_log.from_ms and not was_told:
            table = None if pending.route is None else pending.route.table
            self._query_log.write(pending.sql, table, response, ended_s)
        return response

    def render(self, pending: "PendingQuery", response: BrokerResponse, to_bytes: ToBytes) -> tuple[BrokerResponse, bytes]:
        """Return a long answer as bytes; an error in its place when it was cancelled, is late, or needs too much memory."""
        if pending.failure is not None or response.exceptions:
            return response, to_bytes(response)
        deadline = pending.deadline
        before = guard.enter(deadline)
        try:
            with self.running.listed(pending.running):
                deadline.holder("rows").hold(held_bytes(response.table))
                return response, to_bytes(response)
        except QueryError as error:
            failed = BrokerResponse.of_error(error)
            failed.request_id, failed.broker_id = response.request_id, self.broker_id
            failed.client_request_id, failed.time_used_ms = response.client_request_id, response.time_used_ms
            return failed, to_bytes(failed)
        finally:
            guard.enter(before)
            if deadline.budget is not None:
                deadline.budget.close()

    def _failed(self, pending: "PendingQuery", error: Exception) -> BrokerResponse:
        if isinstance(error, QueryError):
            return BrokerResponse.of_error(error)
        if isinstance(error, GamayError):
            return BrokerResponse.of_error(QueryError(ErrorCode.QUERY_EXECUTION, str(error)))
        if isinstance(error, MemoryError):
            _log.warning("query %d needs more memory than there is: %s", pending.number, pending.sql)
            return BrokerResponse.of_error(
                QueryError(
                    ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
                    "The query needs more memory than the process can get; filter more, or group by less",
                )
            )
        _log.error("query %d failed: %s", pending.number, pending.sql, exc_info=error)
        return BrokerResponse.of_error(
            QueryError(ErrorCode.INTERNAL, f"The query failed for a reason that is a defect of Gamay: {error!r}")
        )

    def segments_of(self, sql: str) -> dict[str, list[str]]:
        """Return server -> segments that a query would be sent to. Raises QueryError."""
        query = parse_query(sql)
        if query.table is None:
            raise QueryError(ErrorCode.TABLE_DOES_NOT_EXIST, "The query names no table")
        route = self._route(query.table, None)
        return dict(_choose(route, bind(query, route.schema), 0).asked)

    def _plan(self, pending: "PendingQuery", query: Query, database: str | None) -> None:
        route = None if query.table is None else self._route(query.table, database or query.options.get("database"))
        limit_ms = timeout_ms(query.options, DEFAULT_TIMEOUT_MS if route is None else route.config.query.timeout_ms)
        budget = self.limits.budget(query.options, NO_LIMITS if route is None else route.limits)
        pending.deadline = CancellableDeadline(self._clock, pending.started_s + limit_ms / 1000, limit_ms, budget)
        if route is not None:
            self.quotas.admit(route, query.options, pending.started_s)
        pending.query, pending.route, pending.database = query, route, database
        if not query.asks_broker:  # these are completed first, in `_answer`, which may take its time
            self._bind(pending)

    def _bind(self, pending: "PendingQuery") -> None:
        query, route = pending.query, pending.route
        if route is None:
            pending.bound = bind(query, _NO_TABLE)
        else:
            pending.plan = route.plans.plan(query)
            pending.bound = pending.plan.bound
            pending.choice = _choose(route, pending.bound, pending.number)

    def _answer(self, pending: "PendingQuery") -> BrokerResponse:
        options = pending.query.options
        before = guard.enter(pending.deadline)
        try:
            with self.running.listed(pending.running):
                if pending.query.asks_broker:
                    self._complete(pending)
                response = self._execute(pending)
        finally:
            guard.enter(before)
            if pending.deadline.budget is not None:
                pending.deadline.budget.close()
        response.client_request_id = options.get("clientQueryId")
        if is_on(options, "dropResults"):
            response.table = None
        return response

    def _complete(self, pending: "PendingQuery") -> None:
        """Put into the query what only the broker knows, and bind it."""

        def id_set(text: str) -> str:
            try:
                return self._id_set(pending, text)
            except QueryError as error:
                if error.code in _ENDINGS:
                    raise
                raise QueryError(
                    ErrorCode.QUERY_EXECUTION, f"The subquery ({text}) failed: {error.client_message()}"
                ) from error

        elapsed_ms = (self._clock.monotonic_s() - pending.started_s) * 1000
        facts = QueryFacts(
            request_id=str(pending.number),
            client_id=pending.query.options.get("clientQueryId", ""),
            broker_id=self.broker_id,
            started_ms=round(self._clock.now_ms() - elapsed_ms),
            deadline=pending.deadline,
        )

        def answer(call: Call) -> Expression:
            return answered(call, id_set) if call.name in SUBQUERIES else facts.answer(call)

        pending.query = with_answers(pending.query, answer)
        self._bind(pending)

    def _id_set(self, outer: "PendingQuery", text: str) -> str:
        """Return the id set that a subquery selects; raises QueryError when it is none or the answer is not whole."""
        options = {name: value for name, value in outer.query.options.items() if name != "dropResults"}
        query = parse_query(text, options, self.routing.row_limits)
        check_is_id_set(query)
        if outer.depth == _SUBQUERY_DEPTH_MAX:
            raise QueryError(ErrorCode.QUERY_VALIDATION, f"Subqueries nest at most {_SUBQUERY_DEPTH_MAX} deep")
        inner = PendingQuery(text, outer.number, outer.started_s, depth=outer.depth + 1, database=outer.database)
        inner.query, inner.deadline = query, outer.deadline
        inner.route = self._route(query.table or "", outer.database or query.options.get("database"))
        if query.asks_broker:
            self._complete(inner)
        else:
            self._bind(inner)
        response = self._execute(inner)
        if response.exceptions:
            raise QueryError(ErrorCode.QUERY_EXECUTION, "; ".join(message for _, message in response.exceptions))
        if response.table is None:
            raise QueryError(ErrorCode.QUERY_VALIDATION, "dropResults leaves nothing to look values up in")
        return str(response.table.rows()[0][0])

    def _execute(self, pending: "PendingQuery") -> BrokerResponse:
        bound, route, deadline = pending.bound, pending.route, pending.deadline
        routed = _Routed([], 0, 0, 0, [], []) if route is None else self._ask(route, pending.choice, bound, deadline)
        attempts, missed = 1, list[str]()
        while route is not None and routed.missing not in ([], missed) and attempts < _ROUTE_ATTEMPTS:
            # A server was quicker than this broker to learn that segments were dropped or moved. While segments come and go
            # that may happen again; the same ones missing twice are missing.
            attempts, missed = attempts + 1, routed.missing
            self.routing.refresh(route.table)
            route = self._route(route.table, None)
            routed = self._ask(route, _choose(route, bound, pending.number), bound, deadline)
        results = routed.results if route is not None else [literal_row(bound, deadline)]
        if route is not None and (sizes := sizes_of(pending.query.options, route.limits)) is not None:
            check_sizes(results, sizes)
        deadline.check()
        traces = [result.trace for result in results if result.trace is not None]
        reduce_started_s = self._clock.monotonic_s()
        answer = reduce(bound, results)
        # Millions of groups take their time to reduce, so a cancellation may have come meanwhile.
        deadline.check()
        response = BrokerResponse(table=answer.table, stats=answer.stats, exceptions=list(routed.problems))
        response.reduce_time_ms = round((self._clock.monotonic_s() - reduce_started_s) * 1000)
        if traces:
            own = Trace(self._clock, self.broker_id)
            own.span("BROKER_REDUCE", reduce_started_s, 0 if answer.table is None else answer.table.num_rows)
            own.span("BROKER", pending.started_s)
            response.trace_info = {trace.name: trace.to_json() for trace in (own, *traces)}
        response.stats.num_servers_queried = routed.num_queried
        response.stats.num_servers_responded = len(routed.results)
        if route is not None:
            response.tables_queried = [raw_table_name(route.table)]
            response.stats.num_segments_pruned_by_broker = routed.num_pruned
            response.stats.total_docs += routed.docs_pruned
            unavailable = routed.missing
            if route.unavailable:
                now_ms = self._clock.now_ms()
                unavailable = [segment for segment, since_ms in route.unavailable if since_ms <= now_ms] + routed.missing
            if unavailable and not is_on(pending.query.options, "ignoreMissingSegments"):
                response.exceptions.append(_unavailable(unavailable))
        return response

    def _route(self, name: str, database: str | None) -> TableRoute:
        wanted = name if database in (None, "", "default") or "." in name else f"{database}.{name}"
        routes = self.routing.find(wanted)
        if not routes:
            hint = nearest(wanted, self.routing.table_names())
            raise QueryError(ErrorCode.TABLE_DOES_NOT_EXIST, f"Table '{wanted}' does not exist.{hint}")
        enabled = [route for route in routes if route.enabled]
        if not enabled:
            raise QueryError(ErrorCode.TABLE_IS_DISABLED, f"Table '{wanted}' is disabled")
        return enabled[0]

    def _ask(self, route: TableRoute, choice: "_Choice", bound: BoundQuery, deadline: CancellableDeadline) -> _Routed:
        tasks = list(choice.asked.items())
        if len(tasks) == 1:
            answers = [self._ask_one(*tasks[0], route.table, bound, deadline)]
        else:
            futures = [
                self._scatter.submit(self._ask_one, s, segments, route.table, bound, deadline) for s, segments in tasks
            ]
            answers = [future.result() for future in futures]
        results: list[ServerResult] = []
        missing: list[str] = []
        problems: list[tuple[int, str]] = []
        for answer in answers:
            if isinstance(answer, QueryError):
                problems.append((answer.code.code, answer.client_message()))
            else:
                results.append(answer[0])
                missing.extend(answer[1])
        if problems and not results:
            raise next(answer for answer in answers if isinstance(answer, QueryError))
        return _Routed(results, len(tasks), choice.num_pruned, choice.docs_pruned, missing, problems)

    def _ask_one(
        self, server: str, segments: Sequence[str], table: str, bound: BoundQuery, deadline: CancellableDeadline
    ) -> tuple[ServerResult, Sequence[str]] | QueryError:
        connection = self._connections.get(server)
        if connection is None:
            return QueryError(ErrorCode.BROKER_REQUEST_SEND, f"There is no connection to server '{server}'")
        try:
            result, missing = connection.execute(table, bound, segments, deadline)
        except QueryError as error:
            return error
        if result.trace is not None:
            result.trace.name = server
        return result, missing


def _choose(route: TableRoute, bound: BoundQuery, number: int) -> _Choice:
    """Divide the segments that may match among servers, replicas taken in turn by the number of the request."""
    pruning = route.pruning
    kept = pruning.prune(bound).nonzero()[0] if is_on(bound.query.options, "brokerPruning", True) else pruning.every
    num_docs = int(pruning.num_docs[kept].sum())
    asked: dict[str, list[str]] = {}
    for index in kept.tolist():
        candidates = route.servers[index]
        asked.setdefault(candidates[number % len(candidates)], []).append(route.segments[index])
    return _Choice(asked, num_docs, len(route.segments) - len(kept), pruning.total_docs - num_docs)


def _unavailable(segments: Sequence[str]) -> tuple[int, str]:
    shown = ", ".join(segments[:_UNAVAILABLE_SHOWN])
    more = f", … ({len(segments)} in total)" if len(segments) > _UNAVAILABLE_SHOWN else ""
    error = QueryError(ErrorCode.SEGMENTS_UNAVAILABLE, f"{len(segments)} segments unavailable: [{shown}{more}]")
    return error.code.code, error.client_message()
