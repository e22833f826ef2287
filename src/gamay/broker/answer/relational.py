"""Relational queries (several tables or SELECTs) at a broker: their leaves are ordinary queries of one table."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError, error_code
from gamay.broker.admit.limits import with_group_limits
from gamay.broker.admit.quota import Quotas
from gamay.broker.answer.pending import PendingQuery
from gamay.broker.answer.planning import QueryPlanner, restricted
from gamay.broker.routes.route import TableRoute
from gamay.broker.routes.routing import RoutingTables
from gamay.functions.expression import Call, Expression
from gamay.functions.registry import ValueType
from gamay.functions.vector import Vector
from gamay.model.schema.schema import Schema
from gamay.model.table.table_name import raw_table_name
from gamay.model.types import DataType
from gamay.query.answer.response import BrokerResponse, ResultTable
from gamay.query.stats import QueryStats
from gamay.relational.bounds import GROUPS, JOIN, WINDOW, bounds_of
from gamay.relational.engine import Engine
from gamay.relational.execute import ExecutionContext, execute, prepare
from gamay.relational.explain import explained
from gamay.relational.leaf import shaped
from gamay.relational.names import Frame, columns_of, map_values_of
from gamay.relational.plans.cache import PlanCache
from gamay.relational.profile import Profile, analyzed, peak_rows, stage_stats
from gamay.sql.answers import asks_broker
from gamay.sql.options.option_values import flag, number
from gamay.sql.query import Query

# limits of caching leaf queries by shape: length of the statement, and their least weight in the cache
_SHAPED_TEXT_MAX = 1 << 14
_WEIGHT_LEAST = 1000
_NOT_FOR_LEAVES = frozenset({"dropResults", "clientQueryId"})


class RelationalExecution:
    """Executor of relational queries; thread-safe. Blocks the calling thread until the answer is complete.

    leaf: answers the query of a leaf. answers: returns the function that evaluates the calls of a query that only the broker
    can answer.
    """

    def __init__(
        self,
        routing: RoutingTables,
        planner: QueryPlanner,
        quotas: Quotas,
        leaf: Callable[[PendingQuery], BrokerResponse],
        answers: Callable[[PendingQuery], Callable[[Call], Expression]],
        engine: Engine,
        clock: Callable[[], float],
    ) -> None:
        self._routing = routing
        self._planner = planner
        self._quotas = quotas
        self._leaf = leaf
        self._answers = answers
        self._engine = engine
        self._clock = clock
        self._plans = PlanCache()

    def answer(self, pending: PendingQuery) -> BrokerResponse:
        """Answer a relational query. Raises QueryError."""
        query = pending.query
        assert query.relational is not None
        tables = _Tables(self._planner, pending, self._answers(pending))
        nulls = flag(query.options, "enableNullHandling")
        bounds = bounds_of(query.options)
        limits = self._routing.row_limits
        prepared = prepare(query.relational, tables, limits, bounds, null_handling=nulls, plans=self._plans)
        pending.routes = tables.routes
        for routes in tables.by_name.values():
            self._quotas.admit(routes, pending.started_s)
        names = [raw_table_name(routes[0].table) for routes in tables.by_name.values()]
        if query.explain and not query.relational.analyzes:
            return BrokerResponse(_plan_table(pending.sql, explained(prepared.plan)), tables_queried=names)
        response = BrokerResponse(tables_queried=names, stage_stats={})
        memory = self._memory_of(pending)
        profile = Profile(analyzes=query.relational.analyzes)
        context = ExecutionContext(
            lambda leaf: self._ask(pending, leaf, response),
            lambda table: self._planner.usable_routes(pending, table)[0].schema,
            self._engine,
            memory,
            pending.deadline,
            self._clock,
            profile,
        )
        response.table = execute(prepared, context)
        num_rows = response.table.num_rows
        response.stage_stats = stage_stats(profile, num_rows)
        response.peak_rows = peak_rows(profile)
        reached = prepared.watch.reached
        response.stats.max_rows_in_join_reached = JOIN in reached
        response.stats.max_rows_in_window_reached = WINDOW in reached
        response.stats.num_groups_limit_reached |= GROUPS in reached
        warning = number(query.options, "numGroupsWarningLimit", 0)
        response.stats.num_groups_warning_limit_reached |= 0 < warning <= response.peak_rows["numGroups"]
        if profile.analyzes:
            response.table = _plan_table(pending.sql, analyzed(profile, num_rows))
        return response

    def _memory_of(self, pending: PendingQuery) -> int:
        budget = pending.deadline.budget
        return budget.limit if budget is not None else 1 << 30

    def _ask(self, outer: PendingQuery, leaf: Query, response: BrokerResponse) -> tuple[ResultTable, QueryStats]:
        """Return the rows and statistics of a leaf, and add its statistics and errors to the response."""
        inner = outer.subquery(outer.sql, self._planner.usable_routes(outer, leaf.table or ""))
        options = {name: value for name, value in outer.query.options.items() if name not in _NOT_FOR_LEAVES}
        query = replace(leaf, options={**options, **leaf.options}, asks_broker=_asks_broker(leaf))
        if not query.asks_broker and len(outer.sql) <= _SHAPED_TEXT_MAX:
            query = shaped(query, _WEIGHT_LEAST + len(outer.sql))
        query = with_group_limits(restricted(inner, query), inner.routes[0].limits, self._routing.group_options)
        outer.has_row_filters = outer.has_row_filters or inner.has_row_filters
        inner.query = query
        found = self._leaf(inner)
        response.stats.add(found.stats)
        response.exceptions += found.exceptions
        if found.table is None:
            code, message = found.exceptions[0] if found.exceptions else (ErrorCode.INTERNAL.code, "no rows were returned")
            raise QueryError(error_code(code), message.partition(": ")[2])
        return found.table, found.stats


def _plan_table(sql: str, plan: str) -> ResultTable:
    columns = (Vector(DataType.STRING, pa.array([sql])), Vector(DataType.STRING, pa.array([plan])))
    return ResultTable(("SQL", "PLAN"), (DataType.STRING.value, DataType.STRING.value), columns)


class _Tables:
    """Catalog of the tables that the sender of a query may use; records the routes of those that it looks up."""

    def __init__(self, planner: QueryPlanner, pending: PendingQuery, answer: Callable[[Call], Expression]) -> None:
        self._planner = planner
        self._pending = pending
        self.answer = answer
        self.by_name: dict[str, list[TableRoute]] = {}

    @property
    def routes(self) -> tuple[TableRoute, ...]:
        return tuple(route for routes in self.by_name.values() for route in routes)

    def frame(self, name: str) -> Frame | None:
        return (self._pending.frames or {}).get(name)

    def size(self, table: str) -> int:
        """Return the number of rows of a table, from its segments' metadata."""
        routes = self._planner.usable_routes(self._pending, table)
        return sum(route.pruning.total_docs for route in routes)

    def columns(self, table: str) -> Mapping[str, ValueType]:
        routes = list(self._planner.usable_routes(self._pending, table))
        self.by_name.setdefault(routes[0].table, routes)
        return columns_of(routes[0].schema)

    def schemas(self) -> Mapping[str, Schema]:
        return self._planner.usable_schemas(self._pending.principal, self._pending.database)

    def map_values(self, table: str) -> Mapping[str, DataType]:
        return map_values_of(self._planner.usable_routes(self._pending, table)[0].schema)


def _asks_broker(query: Query) -> bool:
    conditions = [] if query.where is None else [query.where]
    return asks_broker([*(item.expression for item in query.select), *conditions, *query.group_by])
