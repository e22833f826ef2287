"""What the description of the REST interface (`/swagger.json`, `/help`) contains besides its routes."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from fastapi import FastAPI

from gamay.controller.api.not_offered import REFUSED
from gamay.controller.api.rights import CONTROLLER_RIGHTS
from gamay.web.openapi import FILE, HTML, LIST, OBJECT, TEXT, complete

# in the order in which a newcomer needs them
TAGS = {
    "Schema": "Schemas, and JSON Schemas of the documents that users write",
    "Table": "Tables: create, change, validate, drop, inspect",
    "TableConfigs": "Schema and table configs together, in one step",
    "Ingest": "Rows from a file or a URI, without a job",
    "Segment": "Segments: push, list, reload, replace, delete",
    "Query": "Queries through the controller, running queries, and their cancellation",
    "Realtime": "Consumption: pause, resume, commit, lag",
    "Upsert": "Tables with primary keys",
    "Task": "Tasks of minions and their schedules",
    "Rebalance": "Moving segments to the instances that a table's config demands",
    "Tenant": "Tenants and their instances",
    "Instance": "Processes of the cluster",
    "Broker": "Which brokers answer for which tables",
    "Cluster": "The cluster as a whole, and its settings",
    "Database": "Databases",
    "User": "Users and their rights",
    "Auth": "The sender of a request, and its rights",
    "Console": "The web console",
    "PeriodicTask": "Periodic tasks of the lead controller",
    "Zookeeper": "The metadata store",
    "Logger": "Logs and their levels",
    "AppConfigs": "This process",
    "Debug": "Diagnosis of problems",
    "SegmentCompletion": "What servers ask while they commit; not for users",
    "NotOffered": "Calls of Pinot that Gamay refuses, with the reason",
}


# what the handlers' types do not say
_ANSWERS: Mapping[str, Any] = {
    "/jsonSchemas/{name}": {"application/schema+json": {"schema": {"type": "object"}}},
    "/segments/{table}/endReplaceSegments": OBJECT,
    "/segments/{table}/endReplaceSegmentsTogether": OBJECT,
    "/segments/{table}/revertReplaceSegments": OBJECT,
    "/segments/{table}/lineage": OBJECT,
    "GET /segments/{table}/{segment}": FILE,
    "/metrics": TEXT,
    "/metrics/history/{name}": OBJECT,
    "/loggers/instances/{name}/recent": OBJECT,
    "/loggers/download": TEXT,
    "/loggers/instances/{name}": LIST,
    "/loggers/instances/{name}/download": TEXT,
    "/sql": OBJECT,
    "/queries/recent": OBJECT,
    "/clientQuery/{broker}/{query_id}": TEXT,
    "/query/{broker}/{query_id}": TEXT,
    "/clientQuery/{query_id}": TEXT,
    "/sql/export": FILE,
    "/responseStore/{broker}/{request_id}/results": OBJECT,
    "/responseStore/{broker}/{request_id}": TEXT,
    "/auth/session": OBJECT,
    "/auth/login": OBJECT,
    "/auth/logout": OBJECT,
    "/console": HTML,
    "/console/assets/{name}": FILE,
    **{f"{method} {path}": None for method, path, _ in REFUSED},
}


def describe(app: FastAPI, *, is_open: bool) -> None:
    """Complete the document of the interface. is_open: no log-in is needed; otherwise the document describes it."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        return complete(deepcopy(plain()), CONTROLLER_RIGHTS, TAGS, _ANSWERS, is_open=is_open)

    app.openapi = openapi  # type: ignore[method-assign]  # the documented way to extend it
