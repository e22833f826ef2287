"""The managers that handlers call, and helpers to read requests and write answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from gamay.base.errors import InvalidConfigError
from gamay.base.history import MetricsHistory
from gamay.cluster.access.principals import Principal
from gamay.controller.completion.manager import RealtimeManager
from gamay.controller.context import ControllerContext
from gamay.controller.health.damage import RecordRepair
from gamay.controller.health.periodic import PeriodicTasks
from gamay.controller.instances.instances import InstanceManager
from gamay.controller.placement import PlacementManager
from gamay.controller.rebalance.rebalance import RebalanceManager
from gamay.controller.rebalance.tenants import TenantRebalanceManager
from gamay.controller.segments.lineage import ReplaceManager
from gamay.controller.segments.reload import ReloadManager
from gamay.controller.segments.segments import SegmentManager
from gamay.controller.segments.uploads import UploadManager
from gamay.controller.segments.writer import TableWriter
from gamay.controller.tables.documents import TableDocument, TableDocuments
from gamay.controller.tables.schemas import SchemaManager
from gamay.controller.tables.tables import TableManager
from gamay.controller.tasks.manager import TaskManager
from gamay.model.parse import Parsed, load_json
from gamay.model.table.table_name import database_of, in_database
from gamay.web.guarded import sender_of

# keys that name a table or a schema, and keys of documents that have such keys
_NAMING = ("tableName", "schemaName")
_PARTS = ("schema", "offline", "realtime")


@dataclass(frozen=True, slots=True)
class Services:
    """The controller's managers. is_ready: whether the cluster answers queries. sleep: waits for a number of seconds."""

    context: ControllerContext
    schemas: SchemaManager
    tables: TableManager
    documents: TableDocuments
    segments: SegmentManager
    uploads: UploadManager
    damage: RecordRepair
    realtime: RealtimeManager
    replacements: ReplaceManager
    reloads: ReloadManager
    writer: TableWriter
    instances: InstanceManager
    placement: PlacementManager
    rebalances: RebalanceManager
    tenant_rebalances: TenantRebalanceManager
    tasks: TaskManager
    history: MetricsHistory
    periodic: PeriodicTasks
    is_ready: Callable[[], bool]
    sleep: Callable[[float], object]


async def json_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request's body, whatever its content type. Raises InvalidConfigError.

    Names of tables and schemas in it get the database of the request's header as a prefix.
    """
    return named_in_database(_object(await request.body()), request.headers.get("database", ""))


async def optional_json_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request's body, or an empty one without a body."""
    body = await request.body()
    return _object(body) if body.strip() else {}


async def names_body(request: Request) -> list[str]:
    """Return the JSON list of strings in a request's body. Raises InvalidConfigError."""
    document = load_json(await request.body(), "request body")
    if not isinstance(document, list) or not all(isinstance(name, str) for name in document):
        raise InvalidConfigError('the request body must be a JSON list of names, like ["a", "b"]')
    return document


def principal_of(request: Request) -> Principal:
    """Return the sender of a request."""
    return sender_of(request.scope)


def named_in_database(document: dict[str, Any], database: str) -> dict[str, Any]:
    """Return a schema, a table config or a document of both, with names that include the database. Raises
    InvalidConfigError."""
    if not database:
        return document
    named = {key: in_database(document[key], database) for key in _NAMING if isinstance(document.get(key), str)}
    parts = {part: document[part] for part in _PARTS if isinstance(document.get(part), dict)}
    return document | named | {part: named_in_database(inner, database) for part, inner in parts.items()}


def listed_for(request: Request, names: Iterable[str]) -> list[str]:
    """Return the tables or schemas that a request may see: those that its sender may use, in the database of its
    header, if any.
    """
    database, may_use = request.headers.get("database", ""), principal_of(request).may_use
    return [name for name in names if may_use(name) and (not database or database_of(name) == database)]


def status(text: str) -> dict[str, Any]:
    """Return the answer of a successful change."""
    return {"status": text}


def told_of(document: Parsed[Any] | TableDocument, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the part of an answer about a document that was sent: the keys that Gamay does not know.

    `suggestions` maps the JSON pointer of a probable misspelling to the key that was meant. It and `warnings`
    (settings without effect) are omitted when empty, so that answers stay as Pinot's clients expect them.
    """
    answer: dict[str, Any] = {"unrecognizedProperties": dict(document.unrecognized)}
    if document.suggestions:
        answer["suggestions"] = dict(document.suggestions)
    return answer | ({"warnings": list(warnings)} if warnings else {})


def body_docs(description: str, example: Any = None) -> dict[str, Any]:
    """Return the documentation of a JSON body for the OpenAPI page."""
    content: Mapping[str, Any] = {"schema": {"type": "object"}} | ({} if example is None else {"example": example})
    return {"requestBody": {"description": description, "required": True, "content": {"application/json": content}}}


def file_docs(description: str) -> dict[str, Any]:
    """Return the documentation of an upload of one file for the OpenAPI page."""
    schema = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}
    return {"requestBody": {"description": description, "content": {"multipart/form-data": {"schema": schema}}}}


def _object(body: bytes) -> dict[str, Any]:
    document = load_json(body, "request body")
    if not isinstance(document, dict):
        raise InvalidConfigError("the request body must be a JSON object")
    return document
