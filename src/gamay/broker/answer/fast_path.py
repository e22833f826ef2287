"""Fast path for small queries of known shapes, without the steps that only larger ones need.

The first query of a shape is compiled, routed and answered by `gamay.broker.answer.runner`, and its table's route keeps the
prepared statement. For the next one the literals are cut out of the text and put into the filter, which prunes the segments;
the rest are looked up by a server in this process, or by a remote one, which is sent the filter and the key of the
statement. Every special case (options, quotas, several servers, a missing segment, many rows, nulls, an error) falls back to
the runner.
"""

from collections.abc import Callable

from gamay.base import spans
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, GamayError, QueryError
from gamay.broker.admit.quota import Quotas
from gamay.broker.answer.options import timeout_ms
from gamay.broker.answer.running import RunningQueries
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.scatter.connection import AnswersPrepared, Connections
from gamay.broker.scatter.routed_query import RoutedQuery
from gamay.broker.scatter.server_stats import ServerStats
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.query.answer.response import BrokerResponse
from gamay.query.few.rows import SEGMENTS_MAX
from gamay.sql.options.option_values import NULLS_ON
from gamay.sql.parser import template_of
from gamay.sql.text.slots import cut_literals

_TEXT_MAX = 10_000


class _Running:
    """A running query as `RunningQueries` lists it; also its own deadline."""

    __slots__ = ("is_cancelled", "number", "principal", "sql")

    client_id = None
    budget = None

    def __init__(self, number: int, sql: str, principal: Principal) -> None:
        self.number = number
        self.sql = sql
        self.principal = principal
        self.is_cancelled = False

    @property
    def deadline(self) -> "_Running":
        return self

    def cancel(self) -> None:
        """Cancel the query."""
        self.is_cancelled = True


class FastPath:
    """Fast path of a broker: answers such queries, or returns where to send them; thread-safe.

    next_number: allocates request ids. is_remote: whether servers are in other processes.
    """

    def __init__(
        self,
        routing: RoutingTables,
        connections: Connections,
        clock: Clock,
        running: RunningQueries,
        quotas: Quotas,
        server_stats: ServerStats,
        next_number: Callable[[], int],
        *,
        is_remote: bool,
    ) -> None:
        self._routing = routing
        self._connections = connections
        self._clock = clock
        self._running = running
        self._quotas = quotas
        self._server_stats = server_stats
        self._next_number = next_number
        self._is_remote = is_remote

    def find(self, sql: str, principal: Principal, null_handling: bool = False) -> RoutedQuery | None:
        """Return the routed query if the text, without options, is of a known shape; None to leave it to the runner."""
        if len(sql) > _TEXT_MAX:
            return None
        key, sources, pattern = cut_literals(sql)
        template = template_of((key, pattern), sources)
        if template is None or not template.is_plain or template.table is None:
            return None
        routing = self._routing
        routes = routing.find(template.table)
        if (
            len(routes) != 1
            or not (route := routes[0]).is_plain
            or not routing.is_enabled
            or routing.default_options
            or routing.group_options
            or self._quotas.has_shared
            or self._server_stats.collects
            or spans.is_on()
            or (principal is not ANYONE and not principal.sees_rows_of(route.table))
        ):
            return None
        shape = template.shape(sources, routing.row_limits, routing.log2m)
        statement = route.statements.find(shape, NULLS_ON if null_handling else {})
        if statement is None or not statement.takes_texts:
            return None
        is_answered = statement.is_small if self._is_remote else statement.lookup is not None
        if not is_answered or not statement.is_tried():
            return None
        filter_ = statement.filter_of(sources)
        if filter_ is None:
            return None
        kept = route.pruning.kept_by(filter_, statement.bound.fields)
        return RoutedQuery(statement, route, filter_, kept) if 0 < len(kept) <= SEGMENTS_MAX else None

    def answer(self, sql: str, principal: Principal, null_handling: bool) -> tuple[BrokerResponse, str, float, float] | None:
        """Answer a query without options by a server in this process; None to leave it to the runner.

        Returns the response, the typed table, the duration and the end time, both in seconds.
        """
        started_s = self._clock.monotonic_s()
        routed = self.find(sql, principal, null_handling)
        response = None if routed is None else self._answer(routed, sql, principal)
        if routed is None or response is None:
            return None
        ended_s = self._clock.monotonic_s()
        took_s = ended_s - started_s
        if took_s * 1000 >= timeout_ms({}, routed.route.config.query.timeout_ms) and not response.exceptions:
            return None  # the runner reports the timeout, if the query takes as long again
        if (query := routed.statement.bound.query).looks_ahead:
            response.cut(query.limit - 1)
        response.time_used_ms = round(took_s * 1000)
        return response, routed.route.table, took_s, ended_s

    def _answer(self, routed: RoutedQuery, sql: str, principal: Principal) -> BrokerResponse | None:
        route, lookup = routed.route, routed.statement.lookup
        connection = None if route.only_server is None else self._connections.get(route.only_server)
        answer_prepared: AnswersPrepared | None = getattr(connection, "answer_prepared", None)
        if lookup is None or answer_prepared is None:
            return None
        names = [route.segments[place] for place in routed.kept]
        number = self._next_number()
        running = self._running.queries[number] = _Running(number, sql, principal)
        try:
            answer = answer_prepared(route.table, lookup, routed.filter, names, self._clock)
        except GamayError:
            return None  # the runner meets the error again, and reports it
        finally:
            del self._running.queries[number]
        if running.is_cancelled:
            response = BrokerResponse.of_error(QueryError(ErrorCode.QUERY_CANCELLATION, "The query was cancelled"))
            response.request_id = str(number)
            return response
        return None if answer is None else routed.complete(BrokerResponse(answer.table, stats=answer.stats), number)
