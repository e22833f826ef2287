"""Execution of a planned query: resolve the functions that only the broker can answer, ask the servers, reduce their
results."""

from collections.abc import Callable

from gamay.base import guard
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError
from gamay.broker.admit.limits import check_sizes, sizes_of
from gamay.broker.admit.quota import Quotas
from gamay.broker.answer.diagnostics import QueryFacts
from gamay.broker.answer.literals import literal_row
from gamay.broker.answer.lookups import looked_up
from gamay.broker.answer.outcome import annotate
from gamay.broker.answer.pending import PendingQuery
from gamay.broker.answer.planning import QueryPlanner, restricted
from gamay.broker.answer.relational import RelationalExecution
from gamay.broker.answer.running import RunningQueries
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.scatter.gather import Gatherer, Result
from gamay.broker.scatter.state import GatheredAnswers
from gamay.functions.expression import Call, Expression
from gamay.query.answer.response import BrokerResponse
from gamay.query.execute.server_result import ServerResult
from gamay.query.reduce.merge import reduce
from gamay.query.trace import Trace
from gamay.query.wire.result import Received
from gamay.relational.engine import Engine
from gamay.sql.answers import LOOKUPS, SUBQUERIES, with_answers
from gamay.sql.options.option_values import MULTI_STAGE, flag
from gamay.sql.parser import parse_query
from gamay.sql.subquery import answered, check_is_id_set

_ROUTE_ATTEMPTS = 5
_SUBQUERY_DEPTH_MAX = 3
# errors of a subquery that also end the outer query
_ENDINGS = (ErrorCode.EXECUTION_TIMEOUT, ErrorCode.QUERY_CANCELLATION)


class QueryExecution:
    """Executor for all queries of a broker; thread-safe. Blocks the calling thread until the servers have answered."""

    def __init__(
        self, broker_id: str, routing: RoutingTables, planner: QueryPlanner, gatherer: Gatherer, running: RunningQueries,
        clock: Clock, quotas: Quotas, engine: Engine,
    ) -> None:  # fmt: skip
        self._broker_id = broker_id
        self._routing = routing
        self._planner = planner
        self._gatherer = gatherer
        self._running = running
        self._clock = clock
        self._relational = RelationalExecution(
            routing, planner, quotas, self._leaf, self._answers, engine, clock.monotonic_s
        )

    def answer(self, pending: PendingQuery) -> BrokerResponse:
        """Answer a query whose parts are planned, or that needs the broker's own functions first. Raises QueryError."""
        options = pending.query.options
        before = guard.enter(pending.deadline)
        try:
            with self._running.listed(pending):
                response = self._answer(pending)
        finally:
            guard.enter(before)
            if pending.deadline.budget is not None:
                pending.deadline.budget.close()
        response.client_request_id = options.get("clientQueryId")
        if flag(options, "dropResults"):
            response.table = None
        return response

    def _answer(self, pending: PendingQuery) -> BrokerResponse:
        if pending.query.relational is not None:
            return self._relational.answer(pending)
        if pending.query.asks_broker:
            self._complete(pending)
        return self._execute(pending)

    def _leaf(self, pending: PendingQuery) -> BrokerResponse:
        """Answer a leaf of a relational query: a query of one table."""
        if pending.query.asks_broker:
            self._complete(pending)
        else:
            self._planner.bind(pending)
        return self._execute(pending)

    def _complete(self, pending: PendingQuery) -> None:
        """Resolve the functions that only the broker can answer, then bind the query."""
        pending.query = with_answers(pending.query, self._answers(pending))
        self._planner.bind(pending)

    def _answers(self, pending: PendingQuery) -> Callable[[Call], Expression]:
        """Return a function that evaluates the calls of a query that only the broker can answer."""

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
            broker_id=self._broker_id,
            engine="sse" if pending.query.relational is None else "mse",
            started_ms=round(self._clock.now_ms() - elapsed_ms),
            deadline=pending.deadline,
        )

        def answer(call: Call) -> Expression:
            if call.name in LOOKUPS:
                return looked_up(call, lambda table: self._planner.whole_routes(pending, table))
            return answered(call, id_set) if call.name in SUBQUERIES else facts.answer(call)

        return answer

    def _id_set(self, outer: PendingQuery, text: str) -> str:
        """Return the id set that a subquery selects; raises QueryError if it selects anything else or its answer is
        incomplete."""
        options = {name: value for name, value in outer.query.options.items() if name not in ("dropResults", MULTI_STAGE)}
        query = parse_query(text, options, self._routing.row_limits)
        check_is_id_set(query)
        if outer.depth == _SUBQUERY_DEPTH_MAX:
            raise QueryError(ErrorCode.QUERY_VALIDATION, f"Subqueries nest at most {_SUBQUERY_DEPTH_MAX} deep")
        inner = outer.subquery(text, self._planner.usable_routes(outer, query.table or ""))
        query = inner.query = restricted(inner, query)
        outer.has_row_filters = outer.has_row_filters or inner.has_row_filters
        if query.asks_broker:
            self._complete(inner)
        else:
            self._planner.bind(inner)
        response = self._execute(inner)
        if response.exceptions:
            raise QueryError(ErrorCode.QUERY_EXECUTION, "; ".join(message for _, message in response.exceptions))
        if response.table is None:
            raise QueryError(ErrorCode.QUERY_VALIDATION, "dropResults discards the subquery's id set: remove it")
        return str(response.table.rows()[0][0])

    def _execute(self, pending: PendingQuery) -> BrokerResponse:
        deadline = pending.deadline
        gathered = self._gathered(pending) if pending.routes else None
        if gathered is not None and gathered.problems and not gathered.results:
            response = BrokerResponse()
            annotate(response, pending, gathered, self._clock)
            return response
        results = [literal_row(pending.bound, deadline)] if gathered is None else self._results(pending, gathered)
        route = pending.routes[0] if pending.routes else None
        if route is not None and (sizes := sizes_of(pending.query.options, route.limits)) is not None:
            check_sizes(results, sizes)
        deadline.check()
        traces = [result.trace for result in results if result.trace is not None]
        reduce_started_s = self._clock.monotonic_s()
        answer = reduce(pending.bound, results)
        # Reducing millions of groups takes time, so the query may have been cancelled meanwhile.
        deadline.check()
        response = BrokerResponse(table=answer.table, stats=answer.stats)
        pending.phases.reduce_s = self._clock.monotonic_s() - reduce_started_s
        response.reduce_time_ms = round(pending.phases.reduce_s * 1000)
        if traces:
            own = Trace(self._clock, self._broker_id)
            own.span("BROKER_REDUCE", reduce_started_s, 0 if answer.table is None else answer.table.num_rows)
            own.span("BROKER", pending.started_s)
            response.trace_info = {trace.name: trace.to_json() for trace in (own, *traces)}
        if gathered is None:
            response.stats.num_servers_queried = response.stats.num_servers_responded = 0
        else:
            annotate(response, pending, gathered, self._clock)
        return response

    def _gathered(self, pending: PendingQuery) -> GatheredAnswers[Result]:
        """Return the servers' results."""
        gathered = pending.gathered
        begun_s = self._clock.monotonic_s()
        if gathered is None:
            gathered = self._gatherer.gather(pending.parts, pending.turn, pending.deadline)
        attempts, missed = 1, list[str]()
        while gathered.missing not in ([], missed) and attempts < _ROUTE_ATTEMPTS:
            # A server noticed before this broker that segments were dropped or moved, which may happen again while they
            # change. Segments that are missing twice in a row are missing.
            attempts, missed = attempts + 1, gathered.missing
            for route in pending.routes:
                self._routing.refresh(route.table)
            pending.routes = self._planner.routes(pending.query.table or "", pending.database)
            self._planner.bind(pending)
            gathered = self._gatherer.gather(pending.parts, pending.turn, pending.deadline)
        pending.phases.scatter_gather_s += self._clock.monotonic_s() - begun_s
        return gathered

    def _results(self, pending: PendingQuery, gathered: GatheredAnswers[Result]) -> list[ServerResult]:
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
