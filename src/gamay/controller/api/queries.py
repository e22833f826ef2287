"""REST: queries through the controller, forwarded to a broker."""

import itertools
from collections.abc import Mapping
from typing import Annotated, Any

import httpx
import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gamay.base.errors import ErrorCode, QueryError
from gamay.cluster.records import Instance, Role
from gamay.controller.api.services import Services, body_docs

_TIMEOUT_S = 600.0


def query_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["Query"])
    client = httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False)
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
        return await forward(request, {"sql": sql, "trace": trace, "queryOptions": options})

    async def forward(request: Request, body: Mapping[str, Any]) -> Response:
        if not isinstance(body.get("sql"), str) or not body["sql"].strip():
            return _failed(request, QueryError(ErrorCode.JSON_PARSING, "the request has no 'sql'"))
        brokers = _live_brokers(services)
        if not brokers:
            return _failed(request, QueryError(ErrorCode.BROKER_INSTANCE_MISSING, "there is no live broker"))
        broker = brokers[next(turns) % len(brokers)]
        headers = {name: request.headers[name] for name in ("authorization", "database") if name in request.headers}
        try:
            answer = await client.post(f"http://{broker.host}:{broker.port}/query/sql", json=dict(body), headers=headers)
        except httpx.HTTPError as error:
            return _failed(request, QueryError(ErrorCode.BROKER_INSTANCE_MISSING, f"broker {broker.id} failed: {error!r}"))
        return Response(answer.content, status_code=answer.status_code, media_type=_media_type(request))

    return router


def _live_brokers(services: Services) -> list[Instance]:
    registry = services.context.registry
    live = [registry.get_instance(name) for name in registry.live_instance_ids() if name.startswith(Role.BROKER.value)]
    return [broker for broker in live if broker is not None]


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
