"""A query from its text to its response."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from gamay.base import guard, spans
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.base.metrics import Measured
from gamay.broker.answer_store import AnswerStore
from gamay.broker.at_once import AtOnce, Here, RoutedQuery
from gamay.broker.connection import Connections
from gamay.broker.database import database_of_request, full_table_name
from gamay.broker.diagnostics import QueryFacts
from gamay.broker.gather import Gatherer, Result
from gamay.broker.hybrid import halves
from gamay.broker.limits import NO_LIMITS, QueryLimits, check_sizes, sizes_of
from gamay.broker.literals import literal_row
from gamay.broker.lookups import looked_up
from gamay.broker.metrics import Phases, QueryCounters
from gamay.broker.options import DEFAULT_TIMEOUT_MS, heed_unknown, is_on, timeout_ms
from gamay.broker.outcome import add_done, end_span, of_failure, processor_ns, tell
from gamay.broker.pending import PendingQuery
from gamay.broker.query_log import QueryLog
from gamay.broker.quota import Quotas
from gamay.broker.route import TableRoute
from gamay.broker.routing import RoutingTables
from gamay.broker.row_filters import check_sees_all_rows, row_filters_of, with_row_filters, without_values
from gamay.broker.running import RunningQueries
from gamay.broker.scatter import Gathered, Part
from gamay.broker.selection import FIRST_TURN, Turn
from gamay.broker.server_stats import ServerStats
from gamay.cluster.access import ANYONE, Principal
from gamay.functions.expression import Call, Expression
from gamay.model.table_name import raw_table_name
from gamay.query.bind import NO_SCHEMA, BoundQuery, bind
from gamay.query.budget import ProcessBudget
from gamay.query.deadline import CancellableDeadline
from gamay.query.execute import ServerResult
from gamay.query.held import held_bytes
from gamay.query.plans import Plan
from gamay.query.reduce import reduce
from gamay.query.response import BrokerResponse
from gamay.query.trace import Trace
from gamay.query.wire.result import Received
from gamay.sql.answers import LOOKUPS, SUBQUERIES, with_answers
from gamay.sql.parser import parse_query
from gamay.sql.query import Query
from gamay.sql.row_limits import RowLimits
from gamay.sql.sketch_defaults import with_log2m
from gamay.sql.subquery import answered, check_is_id_set

ToBytes: TypeAlias = Callable[[BrokerResponse], bytes]
"""Encodes a response; it asks the guard of its thread as it goes."""

Parse: TypeAlias = Callable[[str, Mapping[str, str], RowLimits], Query]
"""Compiles the text of a query with the options of its request and the limits of its LIMIT; raises QueryError."""

_REQUEST_IDS = 1_000_000_000
_ROUTE_ATTEMPTS = 5
_SUBQUERY_DEPTH_MAX = 3
# what ends a subquery ends the query around it, too
_ENDINGS = (ErrorCode.EXECUTION_TIMEOUT, ErrorCode.QUERY_CANCELLATION)


class QueryRunner:
    """Answers queries; its methods may be called from any thread.

    connections: by instance id of the server. request_base: makes request ids unique among brokers.
    memory: what queries may hold together, and one of them. slow_ms: from when on a query is logged; None is never.
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
        self.routing = routing
        self.running = RunningQueries()
        self.counters = QueryCounters(clock.now_ms)
        self.limits = QueryLimits(memory or ProcessBudget.of_machine())
        self.quotas = Quotas(broker_id)
        self._query_log = QueryLog(slow_ms)
        self.server_stats = ServerStats()
        self.answers = AnswerStore(clock, lambda: routing.address_of(broker_id))
        for follower in (self.limits, self.quotas, self._query_log, self.server_stats, self.answers):
            routing.follow_settings(follower.apply)
        self._gatherer = Gatherer(connections, clock, self.server_stats)
        self._clock = clock
        self._request_ids = itertools.count(request_base * _REQUEST_IDS)
        self._at_once = AtOnce(
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
        """Whether servers are in other processes; `fetch` asks them without keeping a thread."""
        return self._gatherer.remote is not None

    def now_ms(self) -> int:
        """Return the time of this broker's clock."""
        return self._clock.now_ms()

    def measure(self) -> Iterator[Measured]:
        """Yield what is counted of queries, and how much of the quotas is used."""
        yield from self.counters.measure()
        yield from self.quotas.measure(self._clock.monotonic_s())

    def close(self) -> None:
        """End the threads and connections by which servers are asked."""
        self._gatherer.close()

    def run(
        self,
        sql: str,
        options: Mapping[str, str] | None = None,
        database: str | None = None,
        parse: Parse = parse_query,
    ) -> BrokerResponse:
        """Answer a query; whatever goes wrong is told in the response's exceptions, never raised."""
        if not options and database is None and parse is parse_query and (response := self.at_once(sql)) is not None:
            return response
        return self.finish(self.begin(sql, options or {}, database, parse))

    def at_once(self, sql: str, principal: Principal = ANYONE) -> BrokerResponse | None:
        """Answer a small query of a known shape, which came without options; None when it is none. Never raises."""
        found = None if self.is_remote else self._at_once.answer(sql, principal)
        if found is None:
            return None
        response, table, took_s, ended_s = found
        response.broker_id = self.broker_id
        self.counters.count(table, response, Phases(execution_s=took_s))
        if response.time_used_ms >= self._query_log.from_ms:
            self._query_log.write(sql, table, response, ended_s)
        return response

    def refused(self, error: QueryError) -> BrokerResponse:
        """Return the answer to a request whose query is not even looked at: its options make no sense, or all is full."""
        response = BrokerResponse.of_error(error)
        response.request_id, response.broker_id = str(next(self._request_ids)), self.broker_id
        self.counters.count(None, response, Phases())
        return response

    def begin(
        self,
        sql: str,
        options: Mapping[str, str],
        database: str | None = None,
        parse: Parse = parse_query,
        principal: Principal = ANYONE,
    ) -> PendingQuery:
        """Compile a query and choose the segments to ask, which takes no longer than the text is long; never raises."""
        pending = PendingQuery(sql, next(self._request_ids), self._clock.monotonic_s(), principal=principal)
        if self.is_remote and not options and database is None and parse is parse_query:
            pending.routed = self._at_once.find(sql, principal)
        if pending.routed is None:
            self._compile(pending, options, database, parse)
        else:
            self._expect(pending, pending.routed)
        return pending

    def _expect(self, pending: PendingQuery, routed: RoutedQuery) -> None:
        """Prepare a query of a known shape for `fetch`."""
        timeout_s = routed.prepared.timeout_s
        pending.query, pending.routes = routed.prepared.bound.query, (routed.route,)
        pending.deadline = CancellableDeadline(self._clock, pending.started_s + timeout_s, timeout_s * 1000)

    def _compile(self, pending: PendingQuery, options: Mapping[str, str], database: str | None, parse: Parse) -> None:
        """Compile and bind a query, or say why that is not possible."""
        if spans.is_on():
            pending.span = spans.begin("gamay.query")
        begun_s = self._clock.monotonic_s()
        try:
            defaults = self.routing.default_options
            query = parse(pending.sql, {**defaults, **options} if defaults else options, self.routing.row_limits)
            if (mode := self.routing.option_validation) != "NONE" and query.options:
                heed_unknown(mode, query.options, options)
            if (log2m := self.routing.log2m) is not None:
                query = with_log2m(query, log2m)
            compiled_s = self._clock.monotonic_s()
            pending.phases.compilation_s = compiled_s - begun_s
            self._plan(pending, query, database)
            pending.phases.routing_s = self._clock.monotonic_s() - compiled_s - pending.phases.authorization_s
        except Exception as error:  # noqa: BLE001 - `of_failure` tells a user's mistakes from defects, and logs the latter
            pending.failure = of_failure(pending, error)

    def _compile_after_all(self, pending: PendingQuery) -> None:
        """Go on with a query of a known shape as with any other."""
        expected, pending.routed = pending.deadline, None
        self._compile(pending, {}, None, parse_query)
        if expected.is_cancelled and pending.failure is None:
            pending.deadline.cancel()

    async def fetch(self, pending: PendingQuery) -> None:
        """Ask the servers of other processes for a query that was begun, so that `finish` only has to merge; never raises.

        A query that asks the broker something first is left to `finish`.
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
        """Have a query of a known shape answered by the server that has its segments, if that is one, else compile it."""
        answer, shape = None, routed.prepared.answers
        begun_s = self._clock.monotonic_s()
        try:
            if not isinstance(shape, Here):
                turn, number = self._turn(pending), str(pending.number)
                with self.running.listed(pending):
                    answer = await self._gatherer.answer_remote(routed, shape, turn, pending.deadline, number)
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
            self._compile_after_all(pending)  # nobody has fetched it
        response = pending.failure or pending.answered
        begun_s = self._clock.monotonic_s()
        if response is None:
            try:
                with spans.within(pending.span):
                    response = self._answer(pending)
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
        ended_s = self._clock.monotonic_s()
        if pending.plan is not None and pending.failure is None:
            pending.plan.took_ns = processor_ns(response, ended_s - begun_s)
            if not pending.plan.shape.is_learned and not response.exceptions:
                pending.plan.shape.is_learned = True
                self._learn(pending, pending.plan)
        pending.phases.execution_s = took_s = ended_s - pending.started_s
        response.time_used_ms = round(took_s * 1000)
        self.counters.count(pending.routes[0].table if pending.routes else None, response, pending.phases)
        if pending.span is not None:
            end_span(pending, response)
        # a client that did not wait for the query to end has been told already
        was_told = pending.failure is not None and response is not pending.failure
        if response.time_used_ms >= self._query_log.from_ms and not was_told:
            table = pending.routes[0].table if pending.routes else None
            self._query_log.write(pending.sql, table, response, ended_s)
        return response

    def _learn(self, pending: PendingQuery, plan: Plan) -> None:
        """Let the next query of the shape be answered at once, if it is of that kind."""
        query = pending.query
        if pending.database is None and not query.options and query.table is not None and len(pending.routes) == 1:
            self._at_once.learn(pending.sql, query.shape, plan, pending.routes[0], query.table)

    def hang_up(self, pending: PendingQuery) -> None:
        """End a query whose client is gone."""
        if pending.failure is None:
            pending.deadline.cancel()
            self.counters.count_hung_up(pending.routes[0].table if pending.routes else None)

    def render(self, pending: PendingQuery, response: BrokerResponse, to_bytes: ToBytes) -> tuple[BrokerResponse, bytes]:
        """Return a long answer as bytes; an error in its place when it was cancelled, is late, or needs too much memory."""
        if pending.failure is not None or response.exceptions:
            return response, to_bytes(response)
        deadline = pending.deadline
        before = guard.enter(deadline)
        try:
            with self.running.listed(pending):
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

    def segments_of(self, sql: str) -> dict[str, list[str]]:
        """Return server -> segments that a query would be sent to. Raises QueryError."""
        query = parse_query(sql)
        if query.table is None:
            raise QueryError(ErrorCode.TABLE_DOES_NOT_EXIST, "The query names no table")
        found: dict[str, list[str]] = {}
        for route, half in halves(self._routes(query.table, None), query):
            for server, segments in _part(route, bind(half, route.schema), FIRST_TURN).asked.items():
                found.setdefault(server, []).extend(segments)
        return found

    def optional_segments(self, sql: str) -> frozenset[str]:
        """Return the new segments of a query's table that not all servers have yet. Raises QueryError."""
        return frozenset().union(*(route.optional for route in self._routes(parse_query(sql).table or "", None)))

    @property
    def servers_down(self) -> frozenset[str]:
        """The servers that do not answer now."""
        return self._gatherer.down

    def server_routing_stats(self) -> dict[str, dict[str, Any]] | None:
        """Return how busy and fast each server is; None where that is not measured."""
        return self.server_stats.snapshot(self._clock.monotonic_s() * 1000) if self.server_stats.collects else None

    def _plan(self, pending: PendingQuery, query: Query, database: str | None) -> None:
        self.quotas.admit_application(query.options, pending.started_s)
        if query.table is not None:
            pending.database = database_of_request(database, query.options)
            pending.routes = self._routes(query.table, pending.database)
            if pending.principal is not ANYONE:
                begun_s = self._clock.monotonic_s()
                _check_may_use(pending.principal, pending.routes)
                query = _restricted(pending, query)
                pending.phases.authorization_s = self._clock.monotonic_s() - begun_s
        route = pending.routes[0] if pending.routes else None
        limit_ms = timeout_ms(query.options, DEFAULT_TIMEOUT_MS if route is None else route.config.query.timeout_ms)
        budget = self.limits.budget(query.options, NO_LIMITS if route is None else route.limits)
        pending.deadline = CancellableDeadline(self._clock, pending.started_s + limit_ms / 1000, limit_ms, budget)
        self.quotas.admit(pending.routes, pending.started_s)
        pending.query = query
        if not query.asks_broker:  # these are completed first, in `_answer`, which may take its time
            self._bind(pending)

    def _bind(self, pending: PendingQuery) -> None:
        query, routes = pending.query, pending.routes
        if not routes:
            pending.bound = bind(query, NO_SCHEMA)
            return
        turn = pending.turn = self._turn(pending)
        if len(routes) == 1:
            plan = routes[0].plans.plan(query)
            pending.parts = (_part(routes[0], plan.bound, turn),)
        else:
            plans = [(route, route.plans.plan(half)) for route, half in halves(routes, query)]
            pending.parts = [_part(route, planned.bound, turn) for route, planned in plans]
            plan = plans[0][1]
        pending.plan, pending.bound = plan, plan.bound

    def _turn(self, pending: PendingQuery) -> Turn:
        """Return what decides among replicas."""
        route, options, gatherer = pending.routes[0], pending.query.options, self._gatherer
        fixed = route.config.routing.use_fixed_replica
        is_fixed = self.routing.fixed_replica if fixed is None else fixed
        rank = self.server_stats.rank(self._clock.monotonic_s() * 1000) if self.server_stats.collects else None
        if not options and not is_fixed:
            return Turn(pending.number, gatherer.down, rank)
        return Turn.of(pending.number, options, route.table, avoided=gatherer.down, rank=rank, fixed=is_fixed)

    def _answer(self, pending: PendingQuery) -> BrokerResponse:
        options = pending.query.options
        before = guard.enter(pending.deadline)
        try:
            with self.running.listed(pending):
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

    def _complete(self, pending: PendingQuery) -> None:
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
            if call.name in LOOKUPS:
                return looked_up(call, lambda table: self._whole_routes(pending, table))
            return answered(call, id_set) if call.name in SUBQUERIES else facts.answer(call)

        pending.query = with_answers(pending.query, answer)
        self._bind(pending)

    def _id_set(self, outer: PendingQuery, text: str) -> str:
        """Return the id set that a subquery selects; raises QueryError when it is none or the answer is not whole."""
        options = {name: value for name, value in outer.query.options.items() if name != "dropResults"}
        query = parse_query(text, options, self.routing.row_limits)
        check_is_id_set(query)
        if outer.depth == _SUBQUERY_DEPTH_MAX:
            raise QueryError(ErrorCode.QUERY_VALIDATION, f"Subqueries nest at most {_SUBQUERY_DEPTH_MAX} deep")
        inner = PendingQuery(
            text,
            outer.number,
            outer.started_s,
            depth=outer.depth + 1,
            database=outer.database,
            principal=outer.principal,
        )
        inner.deadline = outer.deadline
        inner.routes = self._usable_routes(outer, query.table or "")
        query = inner.query = _restricted(inner, query)
        outer.has_row_filters = outer.has_row_filters or inner.has_row_filters
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

    def _usable_routes(self, pending: PendingQuery, table: str) -> Sequence[TableRoute]:
        """Return the routes of another table than that of FROM. Raises QueryError, also when the sender may not use it."""
        routes = self._routes(table, pending.database)
        _check_may_use(pending.principal, routes)
        return routes

    def _whole_routes(self, pending: PendingQuery, table: str) -> Sequence[TableRoute]:
        """Return the routes of a table of which the query finds any row; raises QueryError where not all are for it."""
        routes = self._usable_routes(pending, table)
        check_sees_all_rows(pending.principal, routes)
        return routes

    def _execute(self, pending: PendingQuery) -> BrokerResponse:
        deadline = pending.deadline
        gathered = self._gathered(pending) if pending.routes else None
        if gathered is not None and gathered.problems and not gathered.results:
            response = BrokerResponse()
            tell(response, pending, gathered, self._clock)
            return response
        results = [literal_row(pending.bound, deadline)] if gathered is None else self._results(pending, gathered)
        route = pending.routes[0] if pending.routes else None
        if route is not None and (sizes := sizes_of(pending.query.options, route.limits)) is not None:
            check_sizes(results, sizes)
        deadline.check()
        traces = [result.trace for result in results if result.trace is not None]
        reduce_started_s = self._clock.monotonic_s()
        answer = reduce(pending.bound, results)
        # Millions of groups take their time to reduce, so a cancellation may have come meanwhile.
        deadline.check()
        response = BrokerResponse(table=answer.table, stats=answer.stats)
        pending.phases.reduce_s = self._clock.monotonic_s() - reduce_started_s
        response.reduce_time_ms = round(pending.phases.reduce_s * 1000)
        if traces:
            own = Trace(self._clock, self.broker_id)
            own.span("BROKER_REDUCE", reduce_started_s, 0 if answer.table is None else answer.table.num_rows)
            own.span("BROKER", pending.started_s)
            response.trace_info = {trace.name: trace.to_json() for trace in (own, *traces)}
        if gathered is None:
            response.stats.num_servers_queried = response.stats.num_servers_responded = 0
        else:
            tell(response, pending, gathered, self._clock)
        return response

    def _gathered(self, pending: PendingQuery) -> Gathered[Result]:
        """Return what the servers found."""
        gathered = pending.gathered
        begun_s = self._clock.monotonic_s()
        if gathered is None:
            gathered = self._gatherer.gather(pending.parts, pending.turn, pending.deadline)
        attempts, missed = 1, list[str]()
        while gathered.missing not in ([], missed) and attempts < _ROUTE_ATTEMPTS:
            # A server was quicker than this broker to learn that segments were dropped or moved. While segments come and go
            # that may happen again; the same ones missing twice are missing.
            attempts, missed = attempts + 1, gathered.missing
            for route in pending.routes:
                self.routing.refresh(route.table)
            pending.routes = self._routes(pending.query.table or "", pending.database)
            self._bind(pending)
            gathered = self._gatherer.gather(pending.parts, pending.turn, pending.deadline)
        pending.phases.scatter_gather_s += self._clock.monotonic_s() - begun_s
        return gathered

    def _results(self, pending: PendingQuery, gathered: Gathered[Result]) -> list[ServerResult]:
        results: list[ServerResult] = []
        for part, server, found in gathered.results:
            result = found.result(part.bound, self._clock) if isinstance(found, Received) else found
            if result.trace is not None:
                result.trace.name = server if len(pending.parts) == 1 else f"{server} ({part.route.table})"
            if not part.route.is_offline:
                stats = result.stats
                stats.realtime_thread_cpu_time_ns, stats.offline_thread_cpu_time_ns = stats.offline_thread_cpu_time_ns, 0
            results.append(result)
        return results

    def _routes(self, name: str, database: str | None) -> Sequence[TableRoute]:
        """Return the routes of a table, OFFLINE first. Raises QueryError when there is none, or it is switched off."""
        wanted = full_table_name(name, database)
        routes = self.routing.find(wanted)
        if not routes:
            hint = nearest(wanted, self.routing.table_names())
            raise QueryError(ErrorCode.TABLE_DOES_NOT_EXIST, f"Table '{wanted}' does not exist.{hint}")
        enabled = [route for route in routes if route.enabled]
        if not enabled:
            raise QueryError(ErrorCode.TABLE_IS_DISABLED, f"Table '{wanted}' is disabled")
        return enabled


def _part(route: TableRoute, bound: BoundQuery, turn: Turn) -> Part:
    """Divide the segments that may match among servers."""
    pruning = route.pruning
    kept = pruning.kept(bound) if is_on(bound.query.options, "brokerPruning", True) else pruning.every
    num_docs = pruning.docs_in(kept)
    asked = route.by_server(turn, kept)
    return Part(route, bound, asked, num_docs, len(route.segments) - len(kept), pruning.total_docs - num_docs)


def _restricted(pending: PendingQuery, query: Query) -> Query:
    """Return a query about the rows that its sender may see, and note whether that makes a difference."""
    filters = row_filters_of(pending.principal, pending.routes)
    if not filters:
        return query
    pending.has_row_filters = True
    return with_row_filters(query, filters)


def _check_may_use(principal: Principal, routes: Sequence[TableRoute]) -> None:
    for route in routes:
        if not principal.may_use(route.table):
            raise QueryError(ErrorCode.ACCESS_DENIED, f"{principal.name} may not use table {raw_table_name(route.table)}")
