"""A query from its text to its response."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from gamay.base import guard, spans
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError, forget_traceback
from gamay.base.machine import usable_processors
from gamay.base.metrics import Measured
from gamay.broker.admit.quota import APPLICATION_NAME, Quotas
from gamay.broker.admit.text_limit import TextLimit
from gamay.broker.answer.answer_store import AnswerStore
from gamay.broker.answer.execution import QueryExecution
from gamay.broker.answer.fast_path import FastPath
from gamay.broker.answer.hybrid import halves
from gamay.broker.answer.options import DEFAULT_TIMEOUT_MS, option_warnings, timeout_ms
from gamay.broker.answer.outcome import add_done, end_span, of_failure, processor_ns
from gamay.broker.answer.pending import PendingQuery
from gamay.broker.answer.planning import QueryPlanner, check_may_use, part_of
from gamay.broker.answer.query_log import QueryLog
from gamay.broker.answer.recent_queries import RecentQueries
from gamay.broker.answer.row_filters import without_values
from gamay.broker.answer.running import RunningQueries
from gamay.broker.metrics import QueryCounters
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.routes.selection import FIRST_TURN
from gamay.broker.scatter.connection import Connections
from gamay.broker.scatter.gather import Gatherer
from gamay.broker.scatter.routed_query import RoutedQuery
from gamay.broker.scatter.server_stats import ServerStats
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.model.schema.schema import Schema
from gamay.query.answer.response import BrokerResponse
from gamay.query.bind.binder import bind
from gamay.query.limits.budget import ProcessBudget
from gamay.query.limits.deadline import CancellableDeadline
from gamay.query.limits.memory_size import held_bytes
from gamay.relational.engine import Engine
from gamay.relational.names import Frame
from gamay.sql.options.option_values import MULTI_STAGE, NULLS_ON
from gamay.sql.options.row_limits import RowLimits, looking_ahead
from gamay.sql.options.sketch_defaults import with_log2m
from gamay.sql.parser import parse_query
from gamay.sql.query import Query
from gamay.sql.text.reading_time import LONG_TEXT, reading

ToBytes: TypeAlias = Callable[[BrokerResponse], bytes]
"""Encodes a response; calls the guard of its thread at intervals."""

Parse: TypeAlias = Callable[[str, Mapping[str, str], RowLimits], Query]
"""Compiles the text of a query with the options of its request and the row limits; raises QueryError."""

_REQUEST_IDS = 1_000_000_000


class QueryRunner:
    """Answers queries; thread-safe.

    connections: by instance id of the server. request_base: makes request ids unique among brokers. memory: budgets of all
    queries and of one. slow_ms: threshold of the query log; None disables it.
    """

    def __init__(
        self,
        broker_id: str,
        routing: RoutingTables,
        connections: Connections,
        clock: Clock,
        request_base: int = 0,
        memory: ProcessBudget | None = None,
        slow_ms: int | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.looks_ahead = False
        """Whether queries without LIMIT read one extra row, to determine `has_more`."""
        self.routing = routing
        self.running = RunningQueries()
        self.recent = RecentQueries()
        self.counters = QueryCounters(clock.now_ms)
        self.memory = memory or ProcessBudget.of_machine()
        self.quotas = Quotas(broker_id)
        self._query_log = QueryLog(slow_ms)
        self.server_stats = ServerStats()
        self.answers = AnswerStore(clock, lambda: routing.address_of(broker_id))
        self._text_limit = TextLimit()
        for follower in (self.memory, self.quotas, self._query_log, self.server_stats, self.answers, self._text_limit):
            routing.follow_settings(follower.apply)
        self._gatherer = Gatherer(connections, clock, self.server_stats)
        self._clock = clock
        self._planner = QueryPlanner(routing, self.memory, self.quotas, self.server_stats, self._gatherer, clock)
        self._engine = Engine(usable_processors(), self.memory.space)
        self._execution = QueryExecution(
            broker_id, routing, self._planner, self._gatherer, self.running, clock, self.quotas, self._engine
        )
        self._request_ids = itertools.count(request_base * _REQUEST_IDS)
        self._fast_path = FastPath(
            routing,
            connections,
            clock,
            self.running,
            self.quotas,
            self.server_stats,
            self._request_ids.__next__,
            is_remote=self.is_remote,
        )

    @property
    def is_remote(self) -> bool:
        """Whether servers are in other processes; `fetch` asks them without blocking a thread."""
        return self._gatherer.remote is not None

    def now_ms(self) -> int:
        """Return the time of this broker's clock."""
        return self._clock.now_ms()

    def measure(self) -> Iterator[Measured]:
        """Yield the metrics of queries and the utilization of quotas."""
        self.counters.keep({route.table for route in self.routing.routes()})
        yield from self.counters.measure()
        yield from self.quotas.measure(self._clock.monotonic_s())

    def usable_schemas(self, principal: Principal, database: str | None = None) -> dict[str, Schema]:
        """Return the schemas of the tables that a principal may use, by raw name; only of the given database, if any."""
        return self._planner.usable_schemas(principal, database)

    def close(self) -> None:
        """Stop the threads and close the connections to servers."""
        self._gatherer.close()
        self._engine.close()

    def run(
        self,
        sql: str,
        options: Mapping[str, str] | None = None,
        database: str | None = None,
        parse: Parse = parse_query,
    ) -> BrokerResponse:
        """Answer a query; errors are reported in the response's exceptions, never raised."""
        is_plain = database is None and parse is parse_query and (not options or options == NULLS_ON)
        if is_plain and (response := self.fast_answer(sql, null_handling=bool(options))) is not None:
            return response
        return self.finish(self.begin(sql, options or {}, database, parse))

    def run_with_frames(self, sql: str, options: Mapping[str, str], frames: Mapping[str, Frame]) -> BrokerResponse:
        """Answer a query that refers to data frames passed with it; like `run`."""
        pending = self.begin(sql, {**options, MULTI_STAGE: "true"}, frames=frames)
        return self.finish(pending)

    def fast_answer(self, sql: str, principal: Principal = ANYONE, *, null_handling: bool = False) -> BrokerResponse | None:
        """Answer a query on the fast path; None if it does not qualify. Never raises.

        null_handling: whether the request has that option, the only one allowed.
        """
        found = None if self.is_remote else self._fast_path.answer(sql, principal, null_handling)
        if found is None:
            return None
        response, table, took_s, ended_s = found
        response.broker_id = self.broker_id
        self.counters.count(table, response, took_s)
        self.recent.note(sql, (table,), principal, response, self._clock.now_ms())
        if response.time_used_ms >= self._query_log.from_ms:
            self._query_log.write(sql, table, response, ended_s)
        return response

    def refused(self, error: QueryError) -> BrokerResponse:
        """Return the response to a request that is rejected unread: for invalid options, or because the broker is at
        capacity."""
        response = BrokerResponse.of_error(error)
        self.number(response)
        self.counters.count(None, response, 0.0)
        return response

    def number(self, response: BrokerResponse) -> None:
        """Assign a request id to the response to a request without a query."""
        response.request_id, response.broker_id = str(next(self._request_ids)), self.broker_id

    def begin(
        self,
        sql: str,
        options: Mapping[str, str],
        database: str | None = None,
        parse: Parse = parse_query,
        principal: Principal = ANYONE,
        frames: Mapping[str, Frame] | None = None,
    ) -> PendingQuery:
        """Compile a query and choose the segments to ask, in time proportional to the text's length; never raises."""
        pending = PendingQuery(sql, next(self._request_ids), self._clock.monotonic_s(), principal=principal, frames=frames)
        pending.application = options.get(APPLICATION_NAME, "")
        if self.is_remote and not options and database is None and parse is parse_query:
            pending.routed = self._fast_path.find(sql, principal)
        if pending.routed is None:
            self._compile(pending, options, database, parse)
        else:
            self._expect(pending, pending.routed)
        return pending

    def check_length(self, sql: str) -> None:
        """Raise QueryError for a text that is too long to parse."""
        self._text_limit.check(sql)

    def _expect(self, pending: PendingQuery, routed: RoutedQuery) -> None:
        """Prepare a query on the fast path for `fetch`."""
        limit_ms = timeout_ms({}, routed.route.config.query.timeout_ms)
        pending.query, pending.routes = routed.statement.bound.query, (routed.route,)
        pending.deadline = CancellableDeadline(self._clock, pending.started_s + limit_ms / 1000, limit_ms)

    def _compile(self, pending: PendingQuery, options: Mapping[str, str], database: str | None, parse: Parse) -> None:
        """Compile and bind a query; on failure set `pending.failure`."""
        if spans.is_on():
            pending.span = spans.begin("gamay.query")
        begun_s = self._clock.monotonic_s()
        try:
            self._text_limit.check(pending.sql)
            defaults = self.routing.default_options
            given = {**defaults, **options} if defaults else options
            if len(pending.sql) < LONG_TEXT:
                query = parse(pending.sql, given, self.routing.row_limits)
            else:
                with reading(self._clock.monotonic_s, pending.started_s, DEFAULT_TIMEOUT_MS):
                    query = parse(pending.sql, given, self.routing.row_limits)
            if query.options:
                pending.application = query.options.get(APPLICATION_NAME, "")
                pending.warnings = option_warnings(self.routing.option_validation, query.options, options)
            if (log2m := self.routing.log2m) is not None:
                query = with_log2m(query, log2m)
            if self.looks_ahead:
                query = looking_ahead(query, self.routing.row_limits)
            compiled_s = self._clock.monotonic_s()
            pending.phases.compilation_s = compiled_s - begun_s
            self._planner.plan(pending, query, database)
            pending.phases.routing_s = self._clock.monotonic_s() - compiled_s - pending.phases.authorization_s
        except Exception as error:  # noqa: BLE001 - `of_failure` tells a user's mistakes from defects, and logs the latter
            pending.failure = of_failure(pending, error)

    def _compile_after_all(self, pending: PendingQuery) -> None:
        """Continue with a query on the fast path as with any other."""
        expected, pending.routed = pending.deadline, None
        self._compile(pending, {}, None, parse_query)
        if expected.is_cancelled and pending.failure is None:
            pending.deadline.cancel()

    async def fetch(self, pending: PendingQuery) -> None:
        """Send a query to remote servers, so that `finish` only has to merge; never raises.

        Queries that need the broker's own functions first are left to `finish`.
        """
        if pending.routed is not None:
            await self._fetch_answer(pending, pending.routed)
        if pending.failure is not None or pending.answered is not None or pending.query.asks_broker or not pending.parts:
            return
        begun_s = self._clock.monotonic_s()
        try:
            with self.running.listed(pending), spans.within(pending.span):
                pending.gathered = await self._gatherer.gather_remote(
                    pending.parts, pending.turn, pending.deadline, str(pending.number)
                )
            pending.phases.scatter_gather_s = self._clock.monotonic_s() - begun_s
        except Exception as error:  # noqa: BLE001 - as in `begin`
            pending.failure = of_failure(pending, error)

    async def _fetch_answer(self, pending: PendingQuery, routed: RoutedQuery) -> None:
        """Let the only server that has its segments answer a query on the fast path; otherwise compile it."""
        begun_s = self._clock.monotonic_s()
        try:
            turn, number = self._planner.turn(pending), str(pending.number)
            with self.running.listed(pending):
                answer = await self._gatherer.answer_remote(routed, turn, pending.deadline, number)
        except Exception as error:  # noqa: BLE001 - as in `begin`
            pending.failure = of_failure(pending, error)
            return
        if answer is None:
            self._compile_after_all(pending)
        else:
            pending.answered = routed.complete(answer, pending.number)
            pending.phases.scatter_gather_s = self._clock.monotonic_s() - begun_s

    def finish(self, pending: PendingQuery) -> BrokerResponse:
        """Answer a query that was begun; never raises."""
        if pending.routed is not None and pending.answered is None and pending.failure is None:
            self._compile_after_all(pending)  # `fetch` was not called
        response = pending.failure or pending.answered
        begun_s, begun_ns = self._clock.monotonic_s(), self._clock.thread_cpu_ns()
        if response is None:
            try:
                with spans.within(pending.span):
                    response = self._execution.answer(pending)
            except Exception as error:  # noqa: BLE001 - as above
                response = of_failure(pending, error)
        if response.exceptions and (query := getattr(pending, "query", None)) is not None:
            response.client_request_id = query.options.get("clientQueryId")
            if response.table is None and (budget := pending.deadline.budget) is not None and budget.parts:
                add_done(response, budget.stats())
        if pending.has_row_filters:
            response.rls_filters_applied = True
            response.exceptions = without_values(response.exceptions)
        response.request_id = str(pending.number)
        response.broker_id = self.broker_id
        response.warnings = pending.warnings
        ended_s = self._clock.monotonic_s()
        if pending.statement is not None and pending.failure is None:
            pending.statement.took_ns = processor_ns(response, ended_s - begun_s)
        if pending.failure is None and pending.query.relational is not None:
            pending.query.relational.cost.took_ns = self._clock.thread_cpu_ns() - begun_ns
        if self.looks_ahead and (query := getattr(pending, "query", None)) is not None and query.looks_ahead:
            response.cut(query.limit - 1)
        took_s = ended_s - pending.started_s
        response.time_used_ms = round(took_s * 1000)
        self.counters.count(pending.routes[0].table if pending.routes else None, response, took_s, pending.phases)
        if pending.span is not None:
            end_span(pending, response)
        # of a client that did not wait for the end, the failure was logged already
        was_reported = pending.failure is not None and response is not pending.failure
        if not was_reported:
            tables = response.tables_queried or [route.table for route in pending.routes]
            now_ms = self._clock.now_ms()
            self.recent.note(pending.sql, tables, pending.principal, response, now_ms, pending.application)
        if response.time_used_ms >= self._query_log.from_ms and not was_reported:
            table = pending.routes[0].table if pending.routes else None
            self._query_log.write(pending.sql, table, response, ended_s)
        return response

    def hang_up(self, pending: PendingQuery) -> None:
        """End a query whose client is gone."""
        if pending.failure is None:
            pending.deadline.cancel()
            self.counters.count_hung_up(pending.routes[0].table if pending.routes else None)

    def render(self, pending: PendingQuery, response: BrokerResponse, to_bytes: ToBytes) -> tuple[BrokerResponse, bytes]:
        """Encode a long answer; return an error instead if it is cancelled, late, or needs too much memory."""
        if pending.failure is not None or response.exceptions:
            return response, to_bytes(response)
        deadline = pending.deadline
        before = guard.enter(deadline)
        try:
            with self.running.listed(pending):
                deadline.holder("rows").hold(held_bytes(response.table))
                return response, to_bytes(response)
        except QueryError as error:
            forget_traceback(error)
            failed = BrokerResponse.of_error(error)
            failed.request_id, failed.broker_id = response.request_id, self.broker_id
            failed.client_request_id, failed.time_used_ms = response.client_request_id, response.time_used_ms
            failed.warnings = response.warnings
            return failed, to_bytes(failed)
        finally:
            guard.enter(before)
            if deadline.budget is not None:
                deadline.budget.close()

    def segments_of(self, sql: str, principal: Principal = ANYONE) -> dict[str, list[str]]:
        """Return server -> segments that a principal's query would be sent to. Raises QueryError."""
        query = parse_query(sql)
        if query.table is None:
            raise QueryError(ErrorCode.TABLE_DOES_NOT_EXIST, "The query names no table")
        routes = self._planner.routes(query.table, None)
        check_may_use(principal, routes)
        found: dict[str, list[str]] = {}
        for route, half in halves(routes, query):
            for server, segments in part_of(route, bind(half, route.schema), FIRST_TURN).asked.items():
                found.setdefault(server, []).extend(segments)
        return found

    def optional_segments(self, sql: str) -> frozenset[str]:
        """Return the new segments of a query's table that some servers do not have yet. Raises QueryError."""
        return frozenset().union(*(route.optional for route in self._planner.routes(parse_query(sql).table or "", None)))

    @property
    def servers_down(self) -> frozenset[str]:
        """The servers that do not respond."""
        return self._gatherer.down

    def server_routing_stats(self) -> dict[str, dict[str, Any]] | None:
        """Return the load and latency of each server; None if they are not measured."""
        return self.server_stats.snapshot(self._clock.monotonic_s() * 1000) if self.server_stats.collects else None
