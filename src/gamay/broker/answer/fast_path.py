"""Small queries of known shapes, answered without the steps that only larger ones need.

The first query of a shape is compiled, routed and answered by `gamay.broker.answer.runner`. What of that depends on the
shape and on the table's route alone is kept (`Prepared`); for the next query its literals are cut out of the text, put into
the filter, and the segments that this leaves are looked up in: by a server in this process, or by one elsewhere, which is
sent the filter and what it knows the shape by. Whatever is out of the ordinary (options, quotas, several servers, a route
that has changed, a segment that is not there, many rows, nulls, an error) is left to the runner, which then does it all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import ref

from gamay.base import spans
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, GamayError, QueryError
from gamay.broker.admit.quota import Quotas
from gamay.broker.answer.options import DEFAULT_TIMEOUT_MS
from gamay.broker.answer.running import RunningQueries
from gamay.broker.routes.route import TableRoute
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.scatter.connection import AnswersPrepared, Connections
from gamay.broker.scatter.known_shapes import LocalTarget, Prepared, RoutedQuery
from gamay.broker.scatter.server_stats import ServerStats
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.model.table.table_name import raw_table_name
from gamay.query.answer.response import BrokerResponse
from gamay.query.bind.binder import BoundQuery
from gamay.query.bind.plans import Plan
from gamay.query.bind.predicate import EVERYTHING
from gamay.query.few.rows import SEGMENTS_MAX
from gamay.query.prepared.filters import PreparedFilter
from gamay.query.prepared.lookup import PreparedQuery
from gamay.sql.parser import template_of
from gamay.sql.text.slots import cut_literals

if TYPE_CHECKING:
    from gamay.query.wire.shape import KnownShape

_TEXT_MAX = 10_000
_TEMPLATES_MAX = 1000
_LIMITS_MAX = 16
# a shape is given up when so many of its queries in a row were not answered here, or took long

_Key: TypeAlias = tuple[str, tuple[int, ...] | None, bool]
"""Of a template, with whether there is null handling."""


@dataclass(slots=True)
class _Known:
    """The shapes of a template: one for each combination of the literals that LIMIT and OFFSET are."""

    fixed: Callable[[tuple[str, ...]], Any] | None
    shapes: dict[Any, Prepared]


class _Running:
    """A query that runs, as `RunningQueries` wants it; its own deadline."""

    __slots__ = ("is_cancelled", "number", "principal", "sql")

    client_id = None

    def __init__(self, number: int, sql: str, principal: Principal) -> None:
        self.number = number
        self.sql = sql
        self.principal = principal
        self.is_cancelled = False

    @property
    def deadline(self) -> "_Running":
        return self

    def cancel(self) -> None:
        """Let the query end."""
        self.is_cancelled = True


class FastPath:
    """Fast path for such queries: answers them, or finds who does; its methods may be called from any thread.

    next_number: gives request ids. is_remote: whether servers are in other processes.
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
        self._known: dict[_Key, _Known] = {}

    def learn(self, sql: str, shape: object | None, plan: Plan, route: TableRoute, name: str) -> None:
        """Keep what is known after the first query of a shape. name: of its table, as written; shape: of the query."""
        if shape is None or len(sql) > _TEXT_MAX or not _is_plain(route):
            return
        key, sources, pattern = cut_literals(sql)
        template = template_of((key, pattern))
        if template is None or template.shape is not shape or template.fill_options is not None:
            return
        bound, filter_ = plan.bound, PreparedFilter.of(template.where, plan.shape.pattern)
        if filter_ is None and (bound.query.where is not None or bound.filter is not EVERYTHING):
            return  # a FILTER clause that all aggregates share makes a filter without WHERE
        if self._is_remote and filter_ is not None and filter_.has_negation:
            return  # `gamay.query.wire.known` has no form for that
        answers = self._who_answers(bound, route)
        if answers is None:
            return
        timeout_s = (route.config.query.timeout_ms or DEFAULT_TIMEOUT_MS) / 1000
        tables, limits, log2m = [raw_table_name(route.table)], self._routing.row_limits, self._routing.log2m
        prepared = Prepared(bound, filter_, answers, ref(route), name, tables, timeout_s, limits, log2m)
        place = key, pattern, bound.null_handling
        known = self._known.get(place)
        if known is None or len(known.shapes) >= _LIMITS_MAX:
            if len(self._known) >= _TEMPLATES_MAX:
                self._known.clear()
            known = self._known[place] = _Known(itemgetter(*template.fixed) if template.fixed else None, {})
        known.shapes[None if known.fixed is None else known.fixed(sources)] = prepared

    def _who_answers(self, bound: BoundQuery, route: TableRoute) -> "LocalTarget | KnownShape | None":
        """Return what is known of queries like this one where they are answered; None where they go the ordinary way."""
        if self._is_remote:
            from gamay.query.wire.shape import KnownShape

            return KnownShape.of(bound)
        server = _only_server(route)
        connection = None if server is None else self._connections.get(server)
        if server is None or not isinstance(connection, AnswersPrepared):
            return None
        query = PreparedQuery.of(bound)
        return None if query is None else LocalTarget(server, connection, query)

    def find(self, sql: str, principal: Principal, null_handling: bool = False) -> RoutedQuery | None:
        """Return a query without options if it is of a known shape; None to leave it to the runner."""
        if len(sql) > _TEXT_MAX:
            return None
        key, sources, pattern = cut_literals(sql)
        known = self._known.get((key, pattern, null_handling))
        if known is None:
            return None
        place = None if known.fixed is None else known.fixed(sources)
        prepared = known.shapes.get(place)
        if prepared is None:
            return None
        routing = self._routing
        routes = routing.find(prepared.name)
        if (
            len(routes) != 1
            or not routing.is_enabled
            or (route := routes[0]) is not prepared.route()
            or prepared.limits is not routing.row_limits
            or prepared.log2m != routing.log2m
            or prepared.credit < 1
        ):
            known.shapes.pop(place, None)
            return None
        is_ordinary = not (
            routing.default_options
            or routing.group_options
            or self._quotas.has_shared
            or self._server_stats.collects
            or spans.is_on()
        )
        if not is_ordinary or (principal is not ANYONE and not principal.sees_rows_of(route.table)):
            return None
        prepared.credit -= 1
        filter_ = EVERYTHING if prepared.filter is None else prepared.filter.bind(sources)
        if filter_ is None:
            return None
        kept = route.pruning.kept_by(filter_, prepared.bound.fields)
        return RoutedQuery(prepared, route, filter_, kept) if 0 < len(kept) <= SEGMENTS_MAX else None

    def answer(self, sql: str, principal: Principal, null_handling: bool) -> tuple[BrokerResponse, str, float, float] | None:
        """Answer a query without options; None to leave it. Returns that, the typed table, and seconds: its time, and when.

        It is answered by a server in this process.
        """
        started_s = self._clock.monotonic_s()
        routed = self.find(sql, principal, null_handling)
        if routed is None or not isinstance(here := routed.prepared.answers, LocalTarget):
            return None
        response = self._answer(routed, here, sql, principal)
        if response is None:
            return None
        ended_s = self._clock.monotonic_s()
        took_s = ended_s - started_s
        if took_s >= routed.prepared.timeout_s and not response.exceptions:
            return None  # the runner says so, if it takes as long again
        if (query := routed.prepared.bound.query).looks_ahead:
            response.cut(query.limit - 1)
        response.time_used_ms = round(took_s * 1000)
        return response, routed.route.table, took_s, ended_s

    def _answer(self, routed: RoutedQuery, here: LocalTarget, sql: str, principal: Principal) -> BrokerResponse | None:
        if self._connections.get(here.server) is not here.connection:
            return None
        route = routed.route
        names = [route.segments[place] for place in routed.kept]
        number = self._next_number()
        running = self._running.queries[number] = _Running(number, sql, principal)
        try:
            answer = here.connection.answer_prepared(route.table, here.query, routed.filter, names, self._clock)
        except GamayError:
            return None  # the runner meets it again, and tells
        finally:
            del self._running.queries[number]
        if running.is_cancelled:
            response = BrokerResponse.of_error(QueryError(ErrorCode.QUERY_CANCELLATION, "The query was cancelled"))
            response.request_id = str(number)
            return response
        return None if answer is None else routed.complete(BrokerResponse(answer.table, stats=answer.stats), number)


def _is_plain(route: TableRoute) -> bool:
    """Whether an answer from the route's segments is whole, and nothing limits who asks for it or what that reads."""
    limits = route.limits
    is_limited = limits.scan is not None or limits.sizes is not None or route.queries_per_s is not None
    return route.is_offline and route.enabled and not route.unavailable and not is_limited


def _only_server(route: TableRoute) -> str | None:
    """Return the server that alone has all segments, None where there are several."""
    servers = {server for candidates in set(route.servers) for server in candidates}
    return servers.pop() if len(servers) == 1 else None
