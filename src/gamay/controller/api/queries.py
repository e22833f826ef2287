"""REST: queries through the controller, forwarded to a broker."""

import itertools
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import orjson
from fastapi import Query, Request
from starlette.responses import Response

from gamay.base.errors import ErrorCode, GamayError, InvalidConfigError, NotFoundError, QueryError, nearest
from gamay.base.urls import url_parameters
from gamay.cluster.broker_resource import BrokerResource, answering_instances
from gamay.cluster.records import Instance, Role
from gamay.cluster.registry import Registry
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.planned_queries import validated
from gamay.controller.api.services import Services, body_docs, names_body, principal_of
from gamay.model.parse import load_json
from gamay.model.table_name import raw_table_name
from gamay.sql.parser import parse_query

_TIMEOUT_S = 600.0
_RUNNING_TIMEOUT_MS = 3000


class BrokerError(GamayError):
    """A broker that does not answer in time."""

    http_status = 500


def query_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Query"])
    client = httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, verify=services.context.tls or True)
    turns = itertools.count()

    @router.post("/sql", summary="Answer a query", openapi_extra=body_docs("A query", {"sql": "SELECT 1"}))
    async def post_sql(request: Request) -> Response:
        try:
            body = orjson.loads(await request.body())
        except orjson.JSONDecodeError as error:
            return _failed(request, QueryError(ErrorCode.JSON_PARSING, f"the request body is not JSON: {error}"))
        return await forward(request, body if isinstance(body, dict) else {})

    @router.get("/sql", summary="Answer a query")
    async def get_sql(
        request: Request, sql: str = "", trace: str = "false", options: Annotated[str, Query(alias="queryOptions")] = ""
    ) -> Response:
        try:
            url_parameters(request.scope["query_string"])  # FastAPI has put a replacement where bytes are no text
        except InvalidConfigError as error:
            return _failed(request, QueryError(ErrorCode.JSON_PARSING, str(error)))
        return await forward(request, {"sql": sql, "trace": trace, "queryOptions": options})

    async def forward(request: Request, body: Mapping[str, Any]) -> Response:
        if not isinstance(body.get("sql"), str) or not body["sql"].strip():
            return _failed(request, QueryError(ErrorCode.JSON_PARSING, "the request has no 'sql'"))
        brokers = _brokers_for(services.context.registry, body["sql"], request.headers.get("database"))
        if not brokers:
            return _failed(request, QueryError(ErrorCode.BROKER_INSTANCE_MISSING, "there is no live broker for the query"))
        broker = brokers[next(turns) % len(brokers)]
        headers = {name: request.headers[name] for name in ("authorization", "database") if name in request.headers}
        try:
            answer = await client.post(f"{broker.url}/query/sql", json=dict(body), headers=headers)
        except httpx.HTTPError as error:
            return _failed(request, QueryError(ErrorCode.BROKER_INSTANCE_MISSING, f"broker {broker.id} failed: {error!r}"))
        return Response(answer.content, status_code=answer.status_code, media_type=_media_type(request))

    _running_routes(router, services, client)
    return router


def _running_routes(router: GuardedRouter, services: Services, client: httpx.AsyncClient) -> None:
    timeout_ms = Annotated[int, Query(alias="timeoutMs", gt=0)]

    @router.get("/queries", summary="List the queries that run, by broker")
    async def running(request: Request, timeout: timeout_ms = _RUNNING_TIMEOUT_MS) -> dict[str, Any]:
        found = {}
        for broker in _live_brokers(services):
            answer = await _ask(client, "GET", broker, "/queries", {}, timeout, request)
            found[broker.id] = orjson.loads(answer.content)
        return found

    @router.delete("/query/{broker}/{query_id}", summary="Cancel a query that a broker runs")
    @router.delete("/clientQuery/{broker}/{query_id}", summary="Cancel a query that a broker runs, by its client's id")
    async def cancel(
        request: Request, broker: str, query_id: str, timeout: timeout_ms = _RUNNING_TIMEOUT_MS, verbose: bool = False
    ) -> Response:
        asked, client_id = _broker(services, broker), request.url.path.startswith("/clientQuery/")
        return _passed_on(await _cancel(client, request, asked, query_id, timeout, verbose=verbose, client_id=client_id))

    @router.delete("/clientQuery/{query_id}", summary="Cancel a query by its client's id, whichever broker runs it")
    async def cancel_anywhere(
        request: Request, query_id: str, timeout: timeout_ms = _RUNNING_TIMEOUT_MS, verbose: bool = False
    ) -> Response:
        for broker in _live_brokers(services):
            answer = await _cancel(client, request, broker, query_id, timeout, verbose=verbose, client_id=True)
            if answer.status_code != 404:
                return _passed_on(answer)
        raise NotFoundError(f"Client query: {query_id} not found on any broker")

    @router.post("/query/tableNames", summary="List the tables that queries read")
    async def table_names(request: Request) -> list[str]:
        queries = await names_body(request)
        return sorted({table for sql in queries for table in parse_query(sql).tables})

    @router.post(
        "/validateMultiStageQuery",
        summary="Plan queries of several tables, and say what is wrong with them",
        openapi_extra=body_docs("Queries, perhaps with schemas of their tables", {"sqls": ["SELECT 1"]}),
    )
    async def validate(request: Request) -> list[dict[str, Any]]:
        return validated(load_json(await request.body(), "request body"), services.context.registry, principal_of(request))


def _broker(services: Services, name: str) -> Instance:
    brokers = {broker.id: broker for broker in _live_brokers(services)}
    if name not in brokers:
        raise NotFoundError(f"There is no live broker {name}.{nearest(name, brokers)}")
    return brokers[name]


async def _cancel(
    client: httpx.AsyncClient,
    request: Request,
    broker: Instance,
    query_id: str,
    timeout_ms: int,
    *,
    verbose: bool,
    client_id: bool,
) -> httpx.Response:
    params = {"timeoutMs": str(timeout_ms), "verbose": str(verbose).lower(), "client": str(client_id).lower()}
    return await _ask(client, "DELETE", broker, f"/query/{quote(query_id, safe='')}", params, timeout_ms, request)


def _passed_on(answer: httpx.Response) -> Response:
    return Response(answer.content, status_code=answer.status_code, media_type=answer.headers.get("content-type"))


async def _ask(
    client: httpx.AsyncClient,
    method: str,
    broker: Instance,
    path: str,
    params: Mapping[str, str],
    timeout_ms: int,
    sent: Request,
) -> httpx.Response:
    """Ask a broker in the name of who sent a request."""
    headers = {name: sent.headers[name] for name in ("authorization",) if name in sent.headers}
    url = f"{broker.url}{path}"
    try:
        return await client.request(method, url, params=dict(params), headers=headers, timeout=timeout_ms / 1000)
    except httpx.HTTPError as error:
        raise BrokerError(f"broker {broker.id} does not answer: {error!r}") from error


def _live_brokers(services: Services) -> list[Instance]:
    registry = services.context.registry
    live = [registry.get_instance(name) for name in registry.live_instance_ids() if name.startswith(Role.BROKER.value)]
    return [broker for broker in live if broker is not None]


def _brokers_for(registry: Registry, sql: str, database: str | None) -> list[Instance]:
    """Return the brokers that answer for all tables of a query; all that answer where it is unknown which ones that are."""
    brokers = answering_instances(registry)
    try:
        tables = parse_query(sql).tables
    except QueryError:
        tables = ()  # a broker tells what is wrong
    names = {name.lower() for table in tables for name in (table, f"{database}.{table}")}
    ideal = BrokerResource(registry).ideal() or {}
    own = [ids for table, ids in ideal.items() if {table.lower(), raw_table_name(table).lower()} & names]
    return [broker for broker in brokers if all(broker.id in ids for ids in own)]


def _failed(request: Request, error: QueryError) -> Response:
    """Answer in a broker's shape, with the keys that clients look at first."""
    document = {
        "exceptions": [{"errorCode": error.code.code, "message": error.client_message()}],
        "partialResult": True,
        "numRowsResultSet": 0,
        "numServersQueried": 0,
        "numServersResponded": 0,
        "numDocsScanned": 0,
        "totalDocs": 0,
        "numGroupsLimitReached": False,
        "timeUsedMs": 0,
    }
    return Response(orjson.dumps(document), media_type=_media_type(request))


def _media_type(request: Request) -> str:
    return "text/plain" if request.headers.get("accept", "").startswith("text/plain") else "application/json"
