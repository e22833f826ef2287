"""Small queries of known shapes, answered without the steps that only larger ones need.

The first query of a shape is compiled, routed and answered by `gamay.broker.runner`. What of that depends on the shape
and on the table's route alone is kept (`Prepared`); for the next query its literals are cut out of the text, put into the
filter, and the segments that this leaves are looked up in. Whatever is out of the ordinary (options, quotas, servers
elsewhere, a route that has changed, a segment that is not there, many rows, an error) is left to the runner, which then
does it all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias
from weakref import ref

from gamay.base import spans
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, GamayError, QueryError
from gamay.broker.connection import AnswersAtOnce, Connections
from gamay.broker.options import DEFAULT_TIMEOUT_MS
from gamay.broker.quota import Quotas
from gamay.broker.route import TableRoute
from gamay.broker.routing import RoutingTables
from gamay.broker.running import RunningQueries
from gamay.broker.server_stats import ServerStats
from gamay.cluster.access import ANYONE, Principal
from gamay.model.table_name import raw_table_name
from gamay.query.plans import LIGHT_NS_MAX, Plan
from gamay.query.prepared import SEGMENTS_MAX, PreparedQuery
from gamay.query.response import BrokerResponse
from gamay.sql.parser import template_of
from gamay.sql.row_limits import RowLimits
from gamay.sql.slots import cut_literals

_TEXT_MAX = 10_000
_TEMPLATES_MAX = 1000
_LIMITS_MAX = 16
# a shape is given up when so many of its queries in a row were not answered here, or took long
_CREDIT = 8

_Key: TypeAlias = tuple[str, tuple[int, ...] | None]


@dataclass(slots=True)
class Prepared:
    """What is known of the queries of one shape, as long as their table's route is the same.

    route: not kept alive from here, for it may hold 100,000 segments, and the next query may never come.
    name: of the table, as written. server: the only one that has segments. credit: goes down with each query that was not
    answered at once.
    """

    query: PreparedQuery
    route: "ref[TableRoute]"
    name: str
    tables_queried: list[str]
    server: str
    timeout_s: float
    limits: RowLimits
    credit: int = _CREDIT


@dataclass(slots=True)
class _Known:
    """The shapes of a template: one for each combination of the literals that LIMIT and OFFSET are."""

    fixed: Callable[[tuple[str, ...]], Any] | None
    shapes: dict[Any, Prepared]


class _Running:
    """A query that runs, as `RunningQueries` wants it; its own deadline."""

    __slots__ = ("is_cancelled", "number", "sql")

    client_id = None

    def __init__(self, number: int, sql: str) -> None:
        self.number = number
        self.sql = sql
        self.is_cancelled = False

    @property
    def deadline(self) -> "_Running":
        return self

    def cancel(self) -> None:
        """Let the query end."""
        self.is_cancelled = True


class AtOnce:
    """Answers such queries; its methods may be called from any thread. next_number: gives request ids."""

    def __init__(
        self,
        routing: RoutingTables,
        connections: Connections,
        clock: Clock,
        running: RunningQueries,
        quotas: Quotas,
        server_stats: ServerStats,
        next_number: Callable[[], int],
    ) -> None:
        self._routing = routing
        self._connections = connections
        self._clock = clock
        self._running = running
        self._quotas = quotas
        self._server_stats = server_stats
        self._next_number = next_number
        self._known: dict[_Key, _Known] = {}

    def learn(self, sql: str, shape: object | None, plan: Plan, route: TableRoute, name: str) -> None:
        """Keep what is known after the first query of a shape. name: of its table, as written; shape: of the query."""
        if shape is None or len(sql) > _TEXT_MAX or not _is_plain(route):
            return
        key, sources, pattern = cut_literals(sql)
        template = template_of((key, pattern))
        servers = set(route.servers)
        if template is None or template.shape is not shape or len(servers) != 1 or len(min(servers)) != 1:
            return
        query = PreparedQuery.of(plan.shape, template)
        ((server,),) = servers
        if query is None or not isinstance(self._connections.get(server), AnswersAtOnce):
            return
        timeout_ms = route.config.query.timeout_ms or DEFAULT_TIMEOUT_MS
        prepared = Prepared(
            query, ref(route), name, [raw_table_name(route.table)], server, timeout_ms / 1000, self._routing.row_limits
        )
        known = self._known.get((key, pattern))
        if known is None or len(known.shapes) >= _LIMITS_MAX:
            if len(self._known) >= _TEMPLATES_MAX:
                self._known.clear()
            known = self._known[key, pattern] = _Known(itemgetter(*template.fixed) if template.fixed else None, {})
        known.shapes[None if known.fixed is None else known.fixed(sources)] = prepared

    def answer(self, sql: str, principal: Principal) -> tuple[BrokerResponse, str, float] | None:
        """Answer a query without options; return that with the typed table and the time in seconds, None to leave it."""
        started_s = self._clock.monotonic_s()
        if len(sql) > _TEXT_MAX:
            return None
        key, sources, pattern = cut_literals(sql)
        known = self._known.get((key, pattern))
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
            or (route := routes[0]) is not prepared.route()
            or prepared.limits is not routing.row_limits
            or prepared.credit < 1
        ):
            known.shapes.pop(place, None)
            return None
        is_ordinary = not (
            routing.default_options or self._quotas.has_shared or self._server_stats.collects or spans.is_on()
        )
        if not is_ordinary or (principal is not ANYONE and not principal.may_use(route.table)):
            return None
        prepared.credit -= 1
        response = self._answer(prepared, route, sql, sources)
        if response is None:
            return None
        ended_s = self._clock.monotonic_s()
        took_s = ended_s - started_s
        if took_s >= prepared.timeout_s and not response.exceptions:
            return None  # the runner says so, if it takes as long again
        if response.stats.offline_thread_cpu_time_ns <= LIGHT_NS_MAX:
            prepared.credit = _CREDIT
        response.time_used_ms = round(took_s * 1000)
        return response, route.table, ended_s

    def _answer(self, prepared: Prepared, route: TableRoute, sql: str, sources: tuple[str, ...]) -> BrokerResponse | None:
        query = prepared.query
        filter_ = query.filter_of(sources)
        if filter_ is None:
            return None
        pruning = route.pruning
        kept = pruning.kept_by(filter_, query.bound.fields)
        connection = self._connections.get(prepared.server)
        if not 0 < len(kept) <= SEGMENTS_MAX or connection is None:
            return None
        names = [route.segments[place] for place in kept]
        number = self._next_number()
        running = self._running.queries[number] = _Running(number, sql)
        try:
            answer = connection.answer_at_once(route.table, query, filter_, names, self._clock)  # type: ignore[attr-defined]
        except GamayError:
            return None  # the runner meets it again, and tells
        finally:
            del self._running.queries[number]
        if running.is_cancelled:
            response = BrokerResponse.of_error(QueryError(ErrorCode.QUERY_CANCELLATION, "The query was cancelled"))
            response.request_id = str(running.number)
            return response
        if answer is None:
            return None
        stats = answer.stats
        stats.num_servers_queried = stats.num_servers_responded = 1
        stats.num_segments_pruned_by_broker = len(route.segments) - len(kept)
        stats.total_docs += pruning.total_docs - pruning.docs_in(kept)
        response = BrokerResponse(table=answer.table, stats=stats, tables_queried=prepared.tables_queried)
        response.request_id = str(running.number)
        return response


def _is_plain(route: TableRoute) -> bool:
    """Whether an answer from the route's segments is whole, and nothing limits who asks for it or what that reads."""
    limits = route.limits
    is_limited = limits.scan is not None or limits.sizes is not None or route.queries_per_s is not None
    return route.is_offline and route.enabled and not route.unavailable and not is_limited
