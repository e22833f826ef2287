"""REST: queries through the controller, forwarded to a broker."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import orjson
from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from gamay.base.errors import ErrorCode, InvalidConfigError, NotFoundError, QueryError
from gamay.base.urls import url_parameters
from gamay.cluster.records.records import Instance
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.querying.brokers import Brokers
from gamay.controller.api.querying.export import FORMATS, as_file, check_format
from gamay.controller.api.querying.planned_queries import validated
from gamay.controller.api.services import Services, body_docs, names_body, principal_of
from gamay.model.parse import load_json
from gamay.query.answer.response import BrokerResponse, encode_short
from gamay.sql.parser import parse_query

_RUNNING_TIMEOUT_MS = 3000
_PAGE_TIMEOUT_MS = 60_000


def query_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Query"])
    brokers = Brokers(services)

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
            url_parameters(request.scope["query_string"])  # FastAPI replaces bytes that are not valid text
        except InvalidConfigError as error:
            return _failed(request, QueryError(ErrorCode.JSON_PARSING, str(error)))
        return await forward(request, {"sql": sql, "trace": trace, "queryOptions": options})

    async def forward(request: Request, body: Mapping[str, Any]) -> Response:
        try:
            answer = await brokers.answer(request, body)
        except QueryError as error:
            return _failed(request, error)
        return Response(answer.content, status_code=answer.status_code, media_type=_media_type(request))

    _running_routes(router, services, brokers)
    _answer_routes(router, brokers)
    return router


def _answer_routes(router: GuardedRouter, brokers: Brokers) -> None:
    """Add the routes for answers: export as files, and pages of the answers that brokers keep for cursors."""

    @router.post(
        "/sql/export",
        summary="Answer a query with a file, in Parquet's or Arrow's format",
        openapi_extra=body_docs("A query", {"sql": "SELECT 1"}),
    )
    async def export(
        request: Request, name: Annotated[str, Query(alias="format", description="parquet or arrow")]
    ) -> Response:
        form = check_format(name)
        body = load_json(await request.body(), "request body")
        answer = await brokers.answer(request, body if isinstance(body, dict) else {})
        if answer.status_code != 200:
            return _passed_on(answer)
        content = await run_in_threadpool(lambda: as_file(orjson.loads(answer.content), form))
        headers = {"Content-Disposition": f'attachment; filename="result.{form}"'}
        return Response(content, headers=headers, media_type=FORMATS[form][0])

    @router.get(
        "/responseStore/{broker}/{request_id}/results", summary="Get rows of an answer that a broker keeps for a cursor"
    )
    async def page(
        request: Request,
        broker: str,
        request_id: str,
        offset: Annotated[int, Query(ge=0)] = 0,
        num_rows: Annotated[int, Query(alias="numRows", ge=0)] = 0,
    ) -> Response:
        params = {"offset": str(offset), "numRows": str(num_rows)}
        path = f"/responseStore/{quote(request_id, safe='')}/results"
        return _passed_on(await brokers.ask(request, "GET", brokers.must_get(broker), path, params, _PAGE_TIMEOUT_MS))

    @router.delete("/responseStore/{broker}/{request_id}", summary="Delete an answer that a broker keeps for a cursor")
    async def forget(request: Request, broker: str, request_id: str) -> Response:
        path = f"/responseStore/{quote(request_id, safe='')}"
        return _passed_on(await brokers.ask(request, "DELETE", brokers.must_get(broker), path, {}, _RUNNING_TIMEOUT_MS))


def _running_routes(router: GuardedRouter, services: Services, brokers: Brokers) -> None:
    timeout_ms = Annotated[int, Query(alias="timeoutMs", gt=0)]

    @router.get("/queries", summary="List the queries that run, by broker")
    async def running(request: Request, timeout: timeout_ms = _RUNNING_TIMEOUT_MS) -> dict[str, Any]:
        found = {}
        for broker in brokers.live():
            answer = await brokers.ask(request, "GET", broker, "/queries", {}, timeout)
            found[broker.id] = orjson.loads(answer.content)
        return found

    @router.get("/queries/recent", summary="List the last queries with their costs, by broker")
    async def recent(
        request: Request,
        table: Annotated[str | None, Query(description="Only queries of this one")] = None,
        timeout: timeout_ms = _RUNNING_TIMEOUT_MS,
    ) -> Response:
        params = {} if table is None else {"table": table}
        found = {}
        for broker in brokers.live():
            answer = await brokers.ask(request, "GET", broker, "/queries/recent", params, timeout)
            if answer.status_code != 200:
                return _passed_on(answer)
            found[broker.id] = orjson.loads(answer.content)
        return JSONResponse(found)

    @router.delete("/query/{broker}/{query_id}", summary="Cancel a query that a broker runs")
    @router.delete("/clientQuery/{broker}/{query_id}", summary="Cancel a query that a broker runs, by its client's id")
    async def cancel(
        request: Request, broker: str, query_id: str, timeout: timeout_ms = _RUNNING_TIMEOUT_MS, verbose: bool = False
    ) -> Response:
        asked, client_id = brokers.must_get(broker), request.url.path.startswith("/clientQuery/")
        return _passed_on(await _cancel(brokers, request, asked, query_id, timeout, verbose=verbose, client_id=client_id))

    @router.delete("/clientQuery/{query_id}", summary="Cancel a query by its client's id, whichever broker runs it")
    async def cancel_anywhere(
        request: Request, query_id: str, timeout: timeout_ms = _RUNNING_TIMEOUT_MS, verbose: bool = False
    ) -> Response:
        for broker in brokers.live():
            answer = await _cancel(brokers, request, broker, query_id, timeout, verbose=verbose, client_id=True)
            if answer.status_code != 404:
                return _passed_on(answer)
        raise NotFoundError(f"Client query: {query_id} not found on any broker")

    @router.post("/query/tableNames", summary="List the tables that queries read")
    async def table_names(request: Request) -> list[str]:
        queries = await names_body(request)
        return sorted({table for sql in queries for table in parse_query(sql).tables})

    @router.post(
        "/validateMultiStageQuery",
        summary="Plan queries of several tables, and report what is wrong with them",
        openapi_extra=body_docs("Queries, optionally with schemas of their tables", {"sqls": ["SELECT 1"]}),
    )
    async def validate(request: Request) -> list[dict[str, Any]]:
        return validated(load_json(await request.body(), "request body"), services.context.registry, principal_of(request))


async def _cancel(
    brokers: Brokers,
    request: Request,
    broker: Instance,
    query_id: str,
    timeout_ms: int,
    *,
    verbose: bool,
    client_id: bool,
) -> httpx.Response:
    params = {"timeoutMs": str(timeout_ms), "verbose": str(verbose).lower(), "client": str(client_id).lower()}
    return await brokers.ask(request, "DELETE", broker, f"/query/{quote(query_id, safe='')}", params, timeout_ms)


def _passed_on(answer: httpx.Response) -> Response:
    return Response(answer.content, status_code=answer.status_code, media_type=answer.headers.get("content-type"))


def _failed(request: Request, error: QueryError) -> Response:
    """Answer in a broker's format, with all of its keys; the request id is missing because no broker was asked."""
    return Response(encode_short(BrokerResponse.of_error(error)), media_type=_media_type(request))


def _media_type(request: Request) -> str:
    return "text/plain" if request.headers.get("accept", "").startswith("text/plain") else "application/json"
