"""Planning of a compiled query: access rights, limits, routes, binding, and the parts for each server."""

from collections.abc import Sequence

from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.broker.admit.limits import NO_LIMITS, query_budget, with_group_limits
from gamay.broker.admit.quota import Quotas
from gamay.broker.answer.database import database_of_request, full_table_name
from gamay.broker.answer.hybrid import halves
from gamay.broker.answer.options import DEFAULT_TIMEOUT_MS, skipping_warnings, timeout_ms
from gamay.broker.answer.pending import PendingQuery
from gamay.broker.answer.row_filters import check_sees_all_rows, row_filters_of, with_row_filters
from gamay.broker.routes.route import TableRoute
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.routes.selection import Turn
from gamay.broker.scatter.gather import Gatherer
from gamay.broker.scatter.server_stats import ServerStats
from gamay.broker.scatter.state import Part
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.model.schema.schema import Schema
from gamay.model.table.table_name import database_of, raw_table_name
from gamay.query.bind.binder import NO_SCHEMA, BoundQuery, bind
from gamay.query.limits.budget import ProcessBudget
from gamay.query.limits.deadline import CancellableDeadline
from gamay.sql.options.option_values import SKIP_INDEXES, flag
from gamay.sql.overrides import approximated, overridden
from gamay.sql.query import Query


class QueryPlanner:
    """Planner for all queries of a broker; thread-safe. gatherer: knows which servers are down."""

    def __init__(
        self, routing: RoutingTables, memory: ProcessBudget, quotas: Quotas, server_stats: ServerStats, gatherer: Gatherer,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._routing = routing
        self._memory = memory
        self._quotas = quotas
        self._server_stats = server_stats
        self._gatherer = gatherer
        self._clock = clock

    def plan(self, pending: PendingQuery, query: Query, database: str | None) -> None:
        """Choose the tables, the limits and the parts of a query; those that need the broker's own functions are bound
        later.

        Raises QueryError.
        """
        if not self._routing.is_enabled:
            raise QueryError(
                ErrorCode.BROKER_RESOURCE_MISSING, "This broker is disabled and takes no new queries: ask another one"
            )
        self._quotas.admit_application(query.options, pending.started_s)
        if query.table is not None or query.relational is not None:
            pending.database = database_of_request(database, query.options)
        if query.table is not None:
            pending.routes = self.routes(query.table, pending.database)
            query = _as_tables_say(query, pending.routes)
            if pending.principal is not ANYONE:
                begun_s = self._clock.monotonic_s()
                check_may_use(pending.principal, pending.routes)
                query = restricted(pending, query)
                pending.phases.authorization_s = self._clock.monotonic_s() - begun_s
        route = pending.routes[0] if pending.routes else None
        limit_ms = timeout_ms(query.options, DEFAULT_TIMEOUT_MS if route is None else route.config.query.timeout_ms)
        table_limits = NO_LIMITS if route is None else route.limits
        query = with_group_limits(query, table_limits, self._routing.group_options)
        budget = query_budget(self._memory, query.options, table_limits)
        pending.deadline = CancellableDeadline(self._clock, pending.started_s + limit_ms / 1000, limit_ms, budget)
        self._quotas.admit(pending.routes, pending.started_s)
        pending.query = query
        if not query.asks_broker:  # otherwise bound in `QueryExecution.answer`, which may block
            self.bind(pending)

    def bind(self, pending: PendingQuery) -> None:
        """Bind a query to the schema of its tables and divide their segments among servers. Raises QueryError."""
        query, routes = pending.query, pending.routes
        if not routes:
            pending.bound = bind(query, NO_SCHEMA)
            return
        if SKIP_INDEXES in query.options:
            table, schemas = raw_table_name(routes[0].table), [route.schema for route in routes]
            pending.warnings = (*pending.warnings, *skipping_warnings(query.options, table, schemas))
        turn = pending.turn = self.turn(pending)
        if len(routes) == 1:
            pending.statement, pending.bound = routes[0].statements.bind(query)
            pending.parts = (part_of(routes[0], pending.bound, turn),)
        else:
            found = [(route, *route.statements.bind(half)) for route, half in halves(routes, query)]
            pending.parts = [part_of(route, bound, turn) for route, _, bound in found]
            _, pending.statement, pending.bound = found[0]
        if not query.explain:
            pending.parts = attested(pending.parts, turn, pending.number)

    def turn(self, pending: PendingQuery) -> Turn:
        """Return the choice among replicas for a query."""
        route, options, gatherer = pending.routes[0], pending.query.options, self._gatherer
        fixed = route.config.routing.use_fixed_replica
        is_fixed = self._routing.fixed_replica if fixed is None else fixed
        rank = self._server_stats.rank(self._clock.monotonic_s() * 1000) if self._server_stats.collects else None
        if not options and not is_fixed:
            return Turn(pending.number, gatherer.down, rank)
        return Turn.of(pending.number, options, route.table, avoided=gatherer.down, rank=rank, fixed=is_fixed)

    def usable_routes(self, pending: PendingQuery, table: str) -> Sequence[TableRoute]:
        """Return the routes of a table that is not that of FROM. Raises QueryError, also if the sender may not use it."""
        routes = self.routes(table, pending.database)
        check_may_use(pending.principal, routes)
        return routes

    def usable_schemas(self, principal: Principal, database: str | None) -> dict[str, Schema]:
        """Return the schemas of the tables that a principal may use, by raw name; only of the given database, if any."""
        wanted = (database or "").lower()
        found: dict[str, Schema] = {}
        for name in self._routing.table_names():
            routes = self._routing.find(name)
            if wanted not in ("", database_of(name).lower()):
                continue
            if routes and all(principal.may_use(route.table) for route in routes):
                found[name] = routes[0].schema
        return found

    def whole_routes(self, pending: PendingQuery, table: str) -> Sequence[TableRoute]:
        """Return the routes of a table that the query may read any row of; raises QueryError if rows are hidden from the
        sender."""
        routes = self.usable_routes(pending, table)
        check_sees_all_rows(pending.principal, routes)
        return routes

    def routes(self, name: str, database: str | None) -> Sequence[TableRoute]:
        """Return the routes of a table, OFFLINE first. Raises QueryError if it does not exist or is disabled."""
        wanted = full_table_name(name, database)
        routes = self._routing.find(wanted)
        if not routes and self._routing.is_elsewhere(wanted):
            raise QueryError(
                ErrorCode.BROKER_RESOURCE_MISSING,
                f"Table '{wanted}' is not served by this broker but by those of its broker tenant: ask one that "
                f"GET /brokers/tables/{wanted} of a controller names, or tag this one for that tenant",
            )
        if not routes and (reason := self._routing.why_unreadable(wanted)) is not None:
            raise QueryError(ErrorCode.INTERNAL, f"Table '{wanted}' cannot be queried: {reason}")
        if not routes:
            hint = nearest(wanted, self._routing.table_names())
            raise QueryError(ErrorCode.TABLE_DOES_NOT_EXIST, f"Table '{wanted}' does not exist.{hint}")
        enabled = [route for route in routes if route.enabled]
        if not enabled:
            raise QueryError(ErrorCode.TABLE_IS_DISABLED, f"Table '{wanted}' is disabled")
        return enabled


def _as_tables_say(query: Query, routes: Sequence[TableRoute]) -> Query:
    """Apply the overrides of the tables' configs to a query; contradicting halves of a hybrid table have no effect."""
    maps = [route.overrides for route in routes if route.overrides]
    if maps and all(each == maps[0] for each in maps):
        query = overridden(query, maps[0])
    choices = {route.config.query.use_approximate_function for route in routes} - {None}
    return approximated(query) if choices == {True} else query


def attested(parts: Sequence[Part], turn: Turn, number: int) -> Sequence[Part]:
    """Return the parts of a query, adding one segment to one of them if pruning has left none.

    Clients treat an answer without any responding server as incomplete. The server finds from the segment's minima and
    maxima that nothing matches. number: of the query; spreads such queries over the segments.
    """
    if any(part.asked for part in parts):
        return parts
    for place, part in enumerate(parts):
        if part.route.segments:
            one = [number % len(part.route.segments)]
            return (*parts[:place], _part(part.route, part.bound, turn, one), *parts[place + 1 :])
    return parts


def part_of(route: TableRoute, bound: BoundQuery, turn: Turn) -> Part:
    """Assign the segments that may match to servers."""
    pruning = route.pruning
    kept = pruning.kept(bound) if flag(bound.query.options, "brokerPruning", True) else pruning.every
    return _part(route, bound, turn, kept)


def _part(route: TableRoute, bound: BoundQuery, turn: Turn, kept: Sequence[int]) -> Part:
    pruning = route.pruning
    num_docs = pruning.docs_in(kept)
    asked = route.by_server(turn, kept)
    return Part(route, bound, asked, num_docs, len(route.segments) - len(kept), pruning.total_docs - num_docs)


def restricted(pending: PendingQuery, query: Query) -> Query:
    """Add the sender's row filters to a query, and note in `pending` whether there are any."""
    filters = row_filters_of(pending.principal, pending.routes)
    if not filters:
        return query
    pending.has_row_filters = True
    return with_row_filters(query, filters)


def check_may_use(principal: Principal, routes: Sequence[TableRoute]) -> None:
    """Raise QueryError 180 if a principal may not use one of the tables."""
    for route in routes:
        if not principal.may_use(route.table):
            raise QueryError(ErrorCode.ACCESS_DENIED, f"{principal.name} may not use table {raw_table_name(route.table)}")
