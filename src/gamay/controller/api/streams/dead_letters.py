"""REST: dead letters, the messages of streams that did not become rows, and their replay to the streams."""

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.llc_name import Place
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services
from gamay.controller.completion.consuming_info import ask_servers
from gamay.controller.completion.replay import REPLAYED_AT_ONCE, merged
from gamay.model.parse import load_json
from gamay.model.table.table_name import TableType

_Limit = Annotated[int, Query(ge=0, le=10_000, description="How many entries to show, the last ones")]
_All = Annotated[
    bool, Query(alias="all", description="All that can be replayed and were not yet, the oldest first; no body")
]
_Again = Annotated[bool, Query(description="Also messages of the body that were replayed already")]

_EXAMPLE = [{"partition": 0, "offset": "17"}]
_BODY = {
    "requestBody": {
        "description": "The places of the messages, as listed; no body with all=true",
        "content": {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}, "example": _EXAMPLE}},
    }
}


def _places(body: bytes) -> list[Place]:
    """Return the places in a request's body, or none without a body. Raises InvalidConfigError."""
    document = load_json(body, "request body") if body.strip() else []
    if not isinstance(document, list) or len(document) > REPLAYED_AT_ONCE:
        raise InvalidConfigError(f"the request body must be a JSON list of at most {REPLAYED_AT_ONCE:,} messages")
    return [_place(entry) for entry in document]


def _place(entry: Any) -> Place:
    if isinstance(entry, dict) and entry.keys() == {"partition", "offset"}:
        partition, offset = entry["partition"], entry["offset"]
        if type(partition) is int and partition >= 0 and isinstance(offset, str) and offset:
            return partition, offset
    raise InvalidConfigError('a message in the request body is written {"partition": 0, "offset": "17"}, as it is listed')


def dead_letters_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Realtime"])
    registry, servers = services.context.registry, services.context.servers

    @router.get(
        "/tables/{table}/deadLetters", summary="List the messages of the stream that did not become rows of the table"
    )
    def dead_letters(table: str, limit: _Limit = 100) -> dict[str, Any]:
        typed = services.tables.resolve_one(table, TableType.REALTIME.value)
        ideal = registry.must_get_ideal_state(typed)
        answers, silent = ask_servers(ideal, lambda server: servers.dead_letters(server, typed, limit))
        entries = merged(answers.values()).values()
        ordered = sorted(entries, key=lambda e: (e["timestampMs"], e["partition"], e["offset"]))
        return {"tableName": typed, "deadLetters": ordered[-limit:] if limit else [], "serversFailingToRespond": silent}

    def replayed(table: str, places: list[Place] | None, again: bool) -> dict[str, Any]:
        typed = services.tables.resolve_one(table, TableType.REALTIME.value)
        return services.realtime.dead_letters.replay(typed, places, again=again)

    @router.post(
        "/tables/{table}/deadLetters/replay",
        summary="Write dead letters to the stream again, for the table to consume them as new messages",
        openapi_extra=_BODY,
    )
    async def replay(request: Request, table: str, every: _All = False, again: _Again = False) -> dict[str, Any]:
        places = _places(await request.body())
        if every and (places or again):
            raise InvalidConfigError("all=true cannot be combined with messages in the body or again=true")
        if not every and not places:
            raise InvalidConfigError(
                'say what to replay: a JSON list such as [{"partition": 0, "offset": "17"}] in the body, or all=true'
            )
        return await run_in_threadpool(replayed, table, None if every else places, again)

    return router
