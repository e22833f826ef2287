"""The broker's HTTP interface."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError
from gamay.base.urls import url_parameters
from gamay.broker.answer.options import without_limit
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.history import measure_broker
from gamay.broker.http.comparison import compared_bodies, comparison
from gamay.broker.http.cursors import CursorRoutes, with_cursor
from gamay.broker.http.inserts import FileInserts
from gamay.broker.http.legacy import begin_pql, pql_text, refused_pql
from gamay.broker.http.query_checks import fingerprint, syntax_report
from gamay.broker.http.query_endpoint import (
    ERROR_CODE_HEADER,
    HTTP_STATUS_HEADER,
    SHORT_TEXT_MAX,
    Answered,
    QueryAnswers,
    QueryEndpoint,
    answered,
    shown_status,
)
from gamay.broker.http.query_protocol import QueryProtocol
from gamay.broker.http.rights import BROKER_RIGHTS
from gamay.broker.routes.route import TableRoute
from gamay.broker.routes.routing import describe
from gamay.cluster.access.audit import Audited
from gamay.cluster.access.logins import Logins
from gamay.cluster.access.principals import EVERYBODY
from gamay.model.cluster_settings import ADAPTIVE_STATS
from gamay.model.table.table_name import raw_table_name
from gamay.query.limits.queue import QueryQueue
from gamay.sql.insert import is_insert
from gamay.web.bounded_heads import BoundedHeads
from gamay.web.error_answers import ERROR_ANSWERS
from gamay.web.guarded import AsgiApp, Guarded, guarded_routes, sender_of
from gamay.web.help_page import help_routes
from gamay.web.metrics_page import metrics_page
from gamay.web.openapi import LIST, TEXT
from gamay.web.request_forms import UsualForm

# endpoints of Pinot's brokers that Gamay does not support, with the reason and an alternative
_NO_TIME_SERIES = "there is no time-series engine: use SQL, with GROUP BY over DATETRUNC and GAPFILL"
_NOT_OFFERED = {
    "/query/timeseries": ("POST", _NO_TIME_SERIES),
    "/timeseries/api/v1/query_range": ("GET", _NO_TIME_SERIES),
    "/queryWorkloadConfigs": ("GET", "there are no query workloads: limit rates with quotas"),
}

# URL parameters of the paths, for /help
_PARAMETERS = {
    "/query/sql": ("sql", "trace", "queryOptions", "getCursor", "numRows"),
    "/query": ("sql", "pql"),
    "/query/{query_id}": ("client",),
    "/queries/recent": ("table",),
    "/responseStore": ("expiredBefore",),
    "/responseStore/{request_id}/results": ("offset", "numRows"),
    "/debug/routingTable/sql": ("query",),
    "/debug/routingTableWithOptionalSegments/sql": ("query",),
}

# responses that are not JSON objects
_ANSWERS = {
    "/query/{query_id}": TEXT,
    "GET /responseStore": LIST,
    "DELETE /responseStore": TEXT,
    "DELETE /responseStore/{request_id}": TEXT,
    "DELETE /responseStore/{request_id}/": TEXT,
    "/queries/recent": LIST,
    "/debug/queries/resourceUsage": LIST,
    "/routing/{table}": TEXT,
    "/routing/refresh/{table}/{segment}": TEXT,
    "/debug/tables/queryQuota/{table}": TEXT,
    "/debug/databases/queryQuota/{name}": TEXT,
    "/debug/applicationQuotas/{name}": TEXT,
    **dict.fromkeys(_NOT_OFFERED),
}


class BrokerApp:
    """The handlers. Long queries wait in `queue` for a thread, so that they do not delay other requests."""

    def __init__(
        self,
        runner: QueryRunner,
        queue: QueryQueue,
        is_ready: Callable[[], bool],
        logins: Logins | None = None,
        more: Sequence[Route] = (),
        inserts: FileInserts | None = None,
    ) -> None:
        """logins: authenticate the callers; None admits everybody. more: routes of the process, in addition to the role's.

        inserts: None rejects INSERT.
        """
        self._inserts = inserts
        self._more = more
        self._runner = runner
        self._queue = queue
        self._answers = QueryAnswers(runner, queue)
        self._is_ready = is_ready
        self._logins = logins or Logins(EVERYBODY)

    def protocol(self) -> Callable[..., BoundedHeads]:
        """Return the factory of connection handlers: the fast path for queries, in front of `asgi`."""
        count_unsent = self._runner.memory.count_unsent
        return partial(QueryProtocol, self._answers, self._logins.access, count_unsent=count_unsent)

    def asgi(self) -> AsgiApp:
        """Return the application: the short path for queries, in front of everything else."""
        app = QueryEndpoint(self._answers, self._others())
        return UsualForm(app if self._logins.access.is_open else Guarded(app, self._logins, BROKER_RIGHTS))

    def _others(self) -> AsgiApp:
        routes = [
            Route("/query/sql", self.query, methods=["GET", "POST"]),
            Route("/query", self.query, methods=["GET", "POST"]),
            Route("/query/sql/validateSyntax", self.validate_syntax, methods=["POST"]),
            Route("/query/sql/queryFingerprint", self.query_fingerprint, methods=["POST"]),
            Route("/query/compare", self.compare, methods=["POST"]),
            Route("/query/{query_id}", self.cancel, methods=["DELETE"]),
            Route("/queries", self.queries),
            Route("/queries/recent", self.recent_queries),
            *CursorRoutes(self._runner.answers).routes(),
            *(Route(path, self.not_offered, methods=[method]) for path, (method, _) in _NOT_OFFERED.items()),
            Route(
                "/timeseries/api/v1/query",
                lambda _: JSONResponse({}),
                name="An empty object: there is no time-series engine",
            ),
            Route("/health", self.health),
            Route("/health/readiness", self.health),
            Route("/health/liveness", self.liveness),
            Route("/metrics", self.metrics),
            Route("/debug/routingTable/sql", self.routing_table_of_query),
            Route("/debug/routingTable/{table}", self.routing_table),
            Route("/debug/routingTableWithOptionalSegments/sql", self.routing_table_of_query),
            Route("/debug/routingTableWithOptionalSegments/{table}", self.routing_table),
            Route("/routing/{table}", self.rebuild_routing, methods=["PUT"]),
            Route("/routing/{table}", self.drop_routing, methods=["DELETE"]),
            Route("/routing/refresh/{table}/{segment}", self.rebuild_routing, methods=["PUT"]),
            Route("/debug/timeBoundary/{table}", self.time_boundary),
            Route("/debug/serverRoutingStats", self.server_stats),
            Route("/debug/queries/resourceUsage", self.resource_usage),
            Route("/debug/tables/queryQuota/{table}", self.query_quota),
            Route("/debug/databases/queryQuota/{name}", self.database_quota),
            Route("/debug/applicationQuotas/{name}", self.application_quota),
            *self._more,
        ]
        routes += help_routes("broker", routes, _PARAMETERS, BROKER_RIGHTS, _ANSWERS, is_open=self._logins.access.is_open)
        cors = Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
        routes = guarded_routes(routes, BROKER_RIGHTS)
        handlers = {404: _not_found, 405: _not_allowed, **ERROR_ANSWERS}
        return Audited(Starlette(routes=routes, middleware=[cors], exception_handlers=handlers))

    async def query(self, request: Request) -> Response:
        """Answer `sql` from the URL (GET) or from a JSON body (POST); at /query also `pql`, and `bql` in the URL."""
        if request.method == "POST":
            try:
                body = orjson.loads(await request.body())
            except orjson.JSONDecodeError as error:
                return _failure(400, f"Invalid JSON: {error}")
            if not isinstance(body, dict):
                return _failure(400, 'Invalid JSON: the body must be an object like {"sql": "SELECT 1"}')
        else:
            try:
                body = url_parameters(request.scope["query_string"])
            except InvalidConfigError as error:
                return _failure(400, str(error))
        body = with_cursor(body, request.query_params)
        sql = body.get("sql")
        pql = pql_text(body)
        if sql is None and pql is not None and request.url.path == "/query":
            try:
                answer = await self._pql(request, pql, body)
            except QueryError as error:
                refused = refused_pql(self._runner, error)
                return _answered(request, error.code.code, error.code.http_status, refused)
            return _answered(request, *answer)
        if not isinstance(sql, str):
            hint = "" if pql is None else "; PQL is answered at /query"
            return _failure(400, f"Payload is missing the query string field 'sql'{hint}")
        if self._inserts is not None and is_insert(sql):
            return await self._insert(request, self._inserts, sql)
        if request.url.path == "/query":
            body = without_limit(body)
        database = request.headers.get("database")
        return _answered(request, *await self._answers.answer(body, database, sender_of(request.scope), request.receive))

    async def _insert(self, request: Request, inserts: FileInserts, sql: str) -> Response:
        """Start the tasks of INSERT INTO … FROM FILE; requests from web pages are rejected."""
        headers = request.headers
        if "origin" in headers:
            return _failure(403, "INSERT is not accepted from web pages")
        try:
            if request.method != "POST":
                raise QueryError(ErrorCode.SQL_PARSING, "INSERT is accepted from POST requests only")
            response = await run_in_threadpool(inserts.answer, sql, headers.get("authorization"), headers.get("database"))
            self._runner.number(response)
        except QueryError as error:
            response = self._runner.refused(error)
        return _answered(request, *answered(response))

    async def _pql(self, request: Request, pql: str, body: Mapping[str, Any]) -> Answered:
        """Answer PQL from the queue; the query is listed, and can be cancelled, once it is compiled."""
        begin = partial(begin_pql, self._runner, pql, body, request.headers.get("database"), sender_of(request.scope))
        begun = begin() if len(pql) <= SHORT_TEXT_MAX else await self._queue.turn(begin, len(pql))
        if begun.pending.failure is not None:
            return begun.finish()
        with self._runner.running.listed(begun.pending):
            turn = self._queue.turn(begun.finish, len(pql), begun.pending.deadline)
            return await self._answers.watched(begun.pending, turn, request.receive)

    async def compare(self, request: Request) -> Response:
        """Run a query, `sql`, or two, `sqlV1` and `sqlV2`, with useMultistageEngine off and on, and compare the answers."""
        try:
            body = orjson.loads(await request.body())
            bodies = compared_bodies(body if isinstance(body, dict) else {})
        except orjson.JSONDecodeError as error:
            return _failure(400, f"Invalid JSON: {error}")
        except InvalidConfigError as error:
            return _failure(400, str(error))
        told: list[bytes] = []
        for each in bodies:
            database, sender = request.headers.get("database"), sender_of(request.scope)
            code, status, content = await self._answers.answer(each, database, sender, request.receive)
            if code == ErrorCode.ACCESS_DENIED.code:
                return Response(content, status, media_type="application/json")
            told.append(content)
        return Response(orjson.dumps(comparison(*told)), media_type="application/json")

    async def validate_syntax(self, request: Request) -> Response:
        """Check the syntax of the `sql` of a JSON body."""
        sql = _text(await request.body())
        return sql if isinstance(sql, Response) else JSONResponse(syntax_report(sql))

    async def query_fingerprint(self, request: Request) -> Response:
        """Return the fingerprint of the `sql` of a JSON body: the query with its constants replaced."""
        sql = _text(await request.body())
        if isinstance(sql, Response):
            return sql
        try:
            return JSONResponse(fingerprint(sql))
        except QueryError as error:
            return _failure(400, error.client_message())

    async def cancel(self, request: Request) -> Response:
        """Cancel a running query by its request id, or with `client=true` by the client's id."""
        query_id = request.path_params["query_id"]
        by_client = request.query_params.get("client", "false").lower() == "true"
        if not by_client and not query_id.isdigit():
            return _failure(400, f"Invalid query id: {query_id}, it must be a number")
        if not self._runner.running.cancel(query_id, sender_of(request.scope), by_client_id=by_client):
            what = "Client query" if by_client else "Query"
            return _failure(404, f"{what}: {query_id} not found on the broker")
        return PlainTextResponse(f"Cancelled {'client query' if by_client else 'query'}: {query_id}")

    async def queries(self, request: Request) -> Response:
        """List the running queries: the caller's own, or all for those who see all tables."""
        return JSONResponse(self._runner.running.snapshot(sender_of(request.scope)))

    async def resource_usage(self, request: Request) -> Response:
        """List the memory and the processor time of the running queries: the caller's own, or all for those who see all
        tables."""
        return JSONResponse(self._runner.running.usage(sender_of(request.scope)))

    async def recent_queries(self, request: Request) -> Response:
        """List the most recent queries with their costs: the caller's own, or all for those who see all tables."""
        return JSONResponse(self._runner.recent.told(sender_of(request.scope), request.query_params.get("table")))

    async def not_offered(self, request: Request) -> Response:
        """Not supported: returns the reason and an alternative."""
        _, reason = _NOT_OFFERED[request.url.path]
        return _failure(501, f"{request.url.path} is not supported: {reason}")

    async def liveness(self, _: Request) -> Response:
        """Report that the process is alive."""
        return PlainTextResponse("OK")

    async def health(self, request: Request) -> Response:
        """Report whether the broker accepts queries."""
        if not self._runner.routing.is_enabled:
            return PlainTextResponse("Broker is disabled", status_code=503)
        if self._is_ready():
            return PlainTextResponse("OK")
        return PlainTextResponse("Broker is not ready, status: STARTING", status_code=503)

    async def metrics(self, request: Request) -> Response:
        """Return the broker's metrics, in the format of Prometheus, or as OpenMetrics if accepted."""
        return metrics_page(request, [partial(measure_broker, self._runner)])

    async def routing_table(self, request: Request) -> Response:
        """Show the segments that each server would be asked for."""
        table = request.path_params["table"]
        routes = self._runner.routing.find(table)
        if not routes:
            return _failure(404, f"Cannot find routing for table: {table}")
        shown = describe(routes)
        return JSONResponse(_with_optional(routes, shown) if "Optional" in request.url.path else shown)

    async def routing_table_of_query(self, request: Request) -> Response:
        """Show the segments that each server would be asked for by a query, after pruning."""
        try:
            sql = url_parameters(request.scope["query_string"]).get("query")
        except InvalidConfigError as error:
            return _failure(400, str(error))
        if not sql:
            return _failure(400, "The parameter 'query' is missing")
        try:
            found = self._runner.segments_of(sql, sender_of(request.scope))
        except QueryError as error:
            if error.code is ErrorCode.ACCESS_DENIED:
                return _failure(403, f"Permission denied.Reason: {error.client_message()}")
            missing = error.code is ErrorCode.TABLE_DOES_NOT_EXIST
            return _failure(404 if missing else 400, error.client_message())
        if "Optional" in request.url.path:
            optional = self._runner.optional_segments(sql)
            return JSONResponse({server: _divided(segments, optional) for server, segments in found.items()})
        return JSONResponse(found)

    async def rebuild_routing(self, request: Request) -> Response:
        """Rebuild the routing of a table; this happens automatically when its segments or servers change."""
        table, routing = request.path_params["table"], self._runner.routing
        names = routing.tables_of(table)
        for name in names:
            await run_in_threadpool(routing.refresh, name)
        if not routing.find(table):
            return _failure(404, f"Cannot find routing for table: {table}")
        return PlainTextResponse("Success")

    async def drop_routing(self, request: Request) -> Response:
        """Drop the routing of a table: its queries fail until it is rebuilt, or the table's records change."""
        table = request.path_params["table"]
        routes = self._runner.routing.find(table)
        if not routes:
            return _failure(404, f"Cannot find routing for table: {table}")
        for route in routes:
            await run_in_threadpool(self._runner.routing.drop, route.table)
        return PlainTextResponse("Success")

    async def query_quota(self, request: Request) -> Response:
        """Return this broker's quota of queries per second for a table; 0 without a quota.

        For a hybrid table, the smaller quota of its two halves.
        """
        table = request.path_params["table"]
        routes = self._runner.routing.find(table)
        if not routes:
            return _failure(404, f"Table {table} not found")
        rates = [route.queries_per_s for route in routes if route.queries_per_s is not None]
        return PlainTextResponse(f"{min(rates, default=0.0)}")

    async def database_quota(self, request: Request) -> Response:
        """Return this broker's quota of queries per second for a database; 0 without a quota."""
        return PlainTextResponse(f"{self._runner.quotas.databases.of(request.path_params['name']) or 0.0}")

    async def application_quota(self, request: Request) -> Response:
        """Return this broker's quota of queries per second for an application; 0 without a quota."""
        return PlainTextResponse(f"{self._runner.quotas.applications.of(request.path_params['name']) or 0.0}")

    async def time_boundary(self, request: Request) -> Response:
        """Show the time boundary of a hybrid table."""
        table = request.path_params["table"]
        routes = self._runner.routing.find(raw_table_name(table))
        boundary = routes[0].boundary if len(routes) == 2 else None
        if boundary is None:
            return _failure(404, f"Cannot find time boundary for table: {table}")
        return JSONResponse({"timeColumn": boundary.column, "timeValue": str(boundary.value)})

    async def server_stats(self, _: Request) -> Response:
        """Show the load and latency of each server, if they are measured."""
        found = self._runner.server_routing_stats()
        if found is None:
            text = f"Server routing stats are disabled; enable them with {ADAPTIVE_STATS.name}=true, or a selector"
            return _failure(404, text)
        return JSONResponse(found)


def _with_optional(routes: Sequence[TableRoute], shown: Mapping[str, Mapping[str, list[str]]]) -> dict[str, Any]:
    optional = {route.table: route.optional for route in routes}
    return {
        table: {server: _divided(segments, optional[table]) for server, segments in servers.items()}
        for table, servers in shown.items()
    }


def _divided(segments: Sequence[str], optional: Collection[str]) -> dict[str, list[str]]:
    """Split segments into those that a server must have, and new ones that it may not have yet."""
    return {
        "segments": [segment for segment in segments if segment not in optional],
        "optionalSegments": [segment for segment in segments if segment in optional],
    }


def _answered(request: Request, code: int, http_status: int, content: bytes) -> Response:
    wants_status = request.headers.get(HTTP_STATUS_HEADER, "false").lower() == "true"
    return Response(
        content,
        status_code=shown_status(code, http_status, is_wanted=wants_status),
        media_type="application/json",
        headers={ERROR_CODE_HEADER: str(code)},
    )


def _text(body: bytes) -> "str | Response":
    """Return the `sql` of a JSON body, or an error response."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _failure(400, f"Invalid JSON: {error}")
    sql = found.get("sql") if isinstance(found, dict) else None
    return sql if isinstance(sql, str) else _failure(400, "Payload is missing the query string field 'sql'")


def _failure(status: int, text: str) -> Response:
    return JSONResponse({"code": status, "error": text}, status_code=status)


async def _not_found(request: Request, _: Exception) -> Response:
    return _failure(404, f"HTTP 404 Not Found: {request.url.path}")


async def _not_allowed(request: Request, _: Exception) -> Response:
    return _failure(405, f"HTTP 405 Method Not Allowed: {request.method} {request.url.path}")
