"""REST: databases, quotas of databases and applications, and the `database` header of requests."""

from collections.abc import Mapping, MutableMapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

from fastapi import Query, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.quotas import (
    APPLICATION_SETTING,
    DATABASE_SETTING,
    application_quotas,
    database_quota,
    set_application_quota,
    set_database_quota,
)
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, principal_of, status
from gamay.controller.tables.databases import DatabaseManager
from gamay.model.table.table_name import in_database

_Rate: TypeAlias = Annotated[
    str | None, Query(alias="maxQueriesPerSecond", description="Per broker; without it the quota is removed")
]
# parameters that name tables
_NAMING = frozenset({"tableName", "tableNameWithType", "tables"})
# path segments that a table (with or without its type) or a schema follows, except for the paths below
_TABLE_AFTER = frozenset({"tables", "table", "segments", "tableConfigs", "schemas", "deleteSegmentsFromSequenceNum"})
_OF_NO_TABLE = (
    "/tables/validate",
    "/tables/livebrokers",
    "/tables/recommender",
    "/tables/forceCommitStatus",
    "/tableConfigs/validate",
    "/tableConfigs/tune",
    "/schemas/validate",
    "/schemas/info",
    "/schemas/fieldSpec",
    "/segments/batchUpload",
    "/segments/segmentReloadStatus",
)


def database_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Database"])
    databases = DatabaseManager(services.tables)
    registry = services.context.registry

    @router.get("/databases", summary="List the databases")
    def names(request: Request) -> list[str]:
        may_use = principal_of(request).may_use
        return [name for name in databases.names() if any(map(may_use, databases.tables_of(name)))]

    @router.delete("/databases/{name}", summary="Delete all tables of a database, or list them (dryRun)")
    def delete(request: Request, name: str, dry_run: Annotated[bool, Query(alias="dryRun")]) -> dict[str, Any]:
        for table in databases.tables_of(name):
            principal_of(request).check_table(table)
        return databases.delete(name, dry_run=dry_run)

    @router.get("/databases/{name}/quotas", summary="Show the quota of a database")
    def quota(name: str) -> dict[str, str | None]:
        rate = database_quota(registry.store, name)
        return {"maxQueriesPerSecond": rate or registry.cluster_config().get(DATABASE_SETTING)}

    @router.post("/databases/{name}/quotas", summary="Change the quota of a database")
    def change_quota(name: str, rate: _Rate = None) -> dict[str, Any]:
        set_database_quota(registry.store, name, rate)
        return status(f"Database quotas for database config {name} successfully updated")

    @router.get("/applicationQuotas", summary="Show the quotas of applications")
    def application_rates() -> dict[str, float]:
        return {name: float(rate) for name, rate in application_quotas(registry.store).items()}

    @router.get("/applicationQuotas/{name}", summary="Show the quota of an application")
    def application_rate(name: str) -> float | None:
        rate = application_quotas(registry.store).get(name) or registry.cluster_config().get(APPLICATION_SETTING)
        return None if rate is None else float(rate)

    @router.post("/applicationQuotas/{name}", summary="Change the quota of an application")
    def change_application_rate(name: str, rate: _Rate = None) -> dict[str, Any]:
        set_application_quota(registry.store, name, rate)
        return status(f"Query quota for application {name} successfully updated")

    return router


class DatabaseHeader:
    """ASGI middleware that prefixes table and schema names in paths and parameters with the database of the request's
    header.

    `gamay.controller.api.services.json_body` does the same for request bodies.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        database = dict(scope["headers"]).get(b"database", b"").decode("latin-1") if scope["type"] == "http" else ""
        if database:
            try:
                scope = _completed(scope, database)
            except InvalidConfigError as error:
                refusal = JSONResponse({"code": error.http_status, "error": str(error)}, status_code=error.http_status)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _completed(scope: Mapping[str, Any], database: str) -> MutableMapping[str, Any]:
    found = dict(scope)
    parts = scope["path"].split("/")
    position = _table_position(parts)
    if position is not None and parts[position]:
        parts[position] = in_database(parts[position], database)
        found["path"] = "/".join(parts)
    if scope["query_string"]:
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(key in _NAMING for key, _ in pairs):
            named = [(key, in_database(value, database) if key in _NAMING and value else value) for key, value in pairs]
            found["query_string"] = urlencode(named).encode()
    return found


def _table_position(parts: Sequence[str]) -> int | None:
    """Return the index of the path segment that names a table or a schema, or None."""
    path = "/".join(parts)
    if any(path == known or path.startswith(f"{known}/") for known in _OF_NO_TABLE):
        return None
    for position, (before, after) in enumerate(pairwise(parts)):
        if before in _TABLE_AFTER and after and after not in _TABLE_AFTER:
            return position + 1
    return None
