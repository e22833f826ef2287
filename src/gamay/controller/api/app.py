"""The controller's application: all routes, errors in the shape that clients know, and the OpenAPI page at `/help`."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gamay.base.process_info import VERSION
from gamay.cluster.access.audit import Audited
from gamay.cluster.access.logins import Logins
from gamay.cluster.access.principals import EVERYBODY, AccessControl
from gamay.cluster.access.rights import read_rights
from gamay.controller.api.cluster.auth import auth_router
from gamay.controller.api.cluster.cluster import cluster_router, instance_router, live_broker_router
from gamay.controller.api.cluster.instance_changes import instance_change_router
from gamay.controller.api.cluster.loggers import logger_router
from gamay.controller.api.cluster.past import past_router
from gamay.controller.api.cluster.periodic import periodic_router
from gamay.controller.api.cluster.process import process_router
from gamay.controller.api.cluster.tenants import tenant_router
from gamay.controller.api.cluster.users import user_router
from gamay.controller.api.cluster.zookeeper import zookeeper_router
from gamay.controller.api.console.catalog import catalog_router
from gamay.controller.api.console.login import login_router
from gamay.controller.api.console.pages import page_router
from gamay.controller.api.cookies import SessionCookies, cookie_name
from gamay.controller.api.not_offered import not_offered_router
from gamay.controller.api.openapi import describe
from gamay.controller.api.querying.queries import query_router
from gamay.controller.api.rights import CONTROLLER_RIGHTS
from gamay.controller.api.segments.changes import segment_change_router
from gamay.controller.api.segments.checks import segment_check_router
from gamay.controller.api.segments.completion import completion_router
from gamay.controller.api.segments.inspection import inspection_router
from gamay.controller.api.segments.segments import segment_read_router
from gamay.controller.api.segments.uploads import ingest_router, upload_router
from gamay.controller.api.services import Services
from gamay.controller.api.sessions import Sessions
from gamay.controller.api.streams.consumption import consumption_router
from gamay.controller.api.streams.dead_letters import dead_letters_router
from gamay.controller.api.streams.realtime_status import realtime_status_router
from gamay.controller.api.tables.databases import DatabaseHeader, database_router
from gamay.controller.api.tables.json_schemas import json_schema_router
from gamay.controller.api.tables.partitions import partition_router
from gamay.controller.api.tables.rebalance import rebalance_router
from gamay.controller.api.tables.recommender import recommender_router
from gamay.controller.api.tables.schemas import schema_router
from gamay.controller.api.tables.tables import table_documents_router, table_router
from gamay.controller.api.tables.upserts import upsert_router
from gamay.controller.api.tables.views import view_router
from gamay.controller.api.tasks.changes import task_change_router
from gamay.controller.api.tasks.tasks import task_router
from gamay.web.error_answers import ERROR_ANSWERS, refusal
from gamay.web.guarded import Guarded
from gamay.web.help_page import HELP_RIGHTS
from gamay.web.request_forms import UsualForm

_log = logging.getLogger(__name__)

_SHOWN_MAX = 100  # characters of a parameter in an error


def create_app(services: Services, access: AccessControl = EVERYBODY) -> FastAPI:
    """Return the application, which admits the principals that `access` knows. Its `/help` page (also `/api`) needs
    no internet."""
    app: FastAPI = FastAPIOffline(
        title="Gamay controller",
        version=VERSION,
        description="Schemas, tables, segments and the cluster. Errors are `{code, error}` with the HTTP status as code.",
        docs_url="/help",
        redoc_url=None,
        openapi_url="/swagger.json",
    )
    logins, sessions = Logins(access), Sessions(services.context.clock)
    scheme, _, address = services.context.url.partition("://")
    cookie = cookie_name(services.context.instance_id)
    for router in (
        not_offered_router(),
        recommender_router(),
        json_schema_router(),
        live_broker_router(services),
        schema_router(services),
        view_router(services),
        realtime_status_router(services),
        dead_letters_router(services),
        consumption_router(services),
        completion_router(services),
        table_router(services),
        table_documents_router(services),
        upload_router(services),
        segment_change_router(services),
        segment_check_router(services),
        segment_read_router(services),
        instance_router(services),
        instance_change_router(services),
        rebalance_router(services),
        partition_router(services),
        tenant_router(services),
        periodic_router(services),
        database_router(services),
        user_router(services, access),
        upsert_router(services),
        task_change_router(services),
        task_router(services),
        cluster_router(services),
        zookeeper_router(services),
        process_router(services),
        past_router(services),
        logger_router(services),
        query_router(services),
        ingest_router(services),
        inspection_router(services),
        auth_router(access),
        login_router(logins, sessions, services.context.clock, cookie, is_open=access.is_open, tls=scheme == "https"),
        page_router(),
        catalog_router(services),
    ):
        # `include_router` would build each route again, which delays the first request by 0.1 s
        app.router.routes.extend(router.routes)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    for kind, answer in ERROR_ANSWERS.items():
        app.add_exception_handler(kind, answer)
    describe(app, is_open=access.is_open)
    app.add_middleware(Audited)
    if not access.is_open:
        app.add_middleware(Guarded, logins=logins, rights={**CONTROLLER_RIGHTS, **read_rights(HELP_RIGHTS)})
        app.add_middleware(SessionCookies, sessions=sessions, cookie=cookie)
    app.add_middleware(DatabaseHeader)
    app.add_middleware(UsualForm)
    app.add_middleware(_Headers, host=address)
    return app


class _Headers:
    """ASGI middleware that adds the common headers to every answer, and answers OPTIONS on every path."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._headers = [
            (b"pinot-controller-host", host.encode()),
            (b"pinot-controller-version", VERSION.encode()),
            (b"access-control-allow-origin", b"*"),
            (b"access-control-allow-methods", b"GET, POST, PUT, OPTIONS, DELETE"),
            (b"access-control-allow-headers", b"*"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self._headers]
            await send(message)

        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            await Response(status_code=200)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    meant = {field.alias: field.field_info.description for field in request.scope["route"].dependant.query_params}
    return refusal(400, "; ".join(_problem(e, meant.get(e["loc"][-1])) for e in error.errors()))


def _problem(found: Mapping[str, Any], meant: str | None) -> str:
    """Return a sentence about a parameter. found: an error of Pydantic. meant: what the parameter is for, if known."""
    place, name = found["loc"][0], found["loc"][-1]
    what = "is missing" if found["type"] == "missing" else f"is {str(found['input'])[:_SHOWN_MAX]!r}: {found['msg']}"
    return f"the {place} parameter '{name}' {what}{f' ({meant})' if meant else ''}"


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = "; /help lists the requests that exist" if error.status_code in (404, 405) else ""
    text = f"HTTP {error.status_code} {error.detail}: {request.method} {request.url.path}{hint}"
    return refusal(error.status_code, text)
