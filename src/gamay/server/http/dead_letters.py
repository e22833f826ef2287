"""HTTP: a server's dead letters, and their replay."""

from collections.abc import Callable, Iterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.llc_name import Place
from gamay.model.parse import load_json
from gamay.server.consuming.dead_letters import DeadLetters
from gamay.server.instance.instance import ServerInstance
from gamay.web.error_answers import refusal

_SHOWN = 100
_Answer = Callable[[DeadLetters, Request, bytes], Any]


def dead_letter_routes(instance: ServerInstance) -> list[Route]:
    """Return the routes."""

    def of_table(answer: _Answer) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            consumers, table = instance.consumers, request.path_params["table"]
            if consumers is None or instance.table(table) is None:
                return refusal(404, f"'{table}' is not loaded on this server")
            letters, body = consumers.dead_letters(table), await request.body()
            return JSONResponse(await run_in_threadpool(answer, letters, request, body))

        handle.__doc__ = answer.__doc__
        return handle

    path = "/tables/{table}/deadLetters"
    return [
        Route(path, of_table(_entries)),
        Route(f"{path}/replayable", of_table(_replayable)),
        Route(f"{path}/find", of_table(_find), methods=["POST"]),
        Route(f"{path}/replayed", of_table(_replayed), methods=["POST"]),
    ]


def _entries(letters: DeadLetters, request: Request, _: bytes) -> list[dict[str, Any]]:
    """List the latest messages of a table's stream that could not become rows."""
    return letters.entries(_limit(request))


def _replayable(letters: DeadLetters, request: Request, _: bytes) -> dict[str, Any]:
    """List the positions of messages that can be replayed and have not been, the oldest first."""
    places, more = letters.replayable(_limit(request))
    return {"messages": [{"partition": partition, "offset": offset} for partition, offset in places], "more": more}


def _find(letters: DeadLetters, _: Request, body: bytes) -> dict[str, Any]:
    """Return some of the dead letters at the `messages` in the body, and which of these were replayed."""
    entries, replayed = letters.find({place for place, _ in _messages(body)})
    found = [{"partition": partition, "offset": offset, "replayedTo": to} for (partition, offset), to in replayed.items()]
    return {"deadLetters": entries, "replayed": found}


def _replayed(letters: DeadLetters, _: Request, body: bytes) -> dict[str, Any]:
    """Record that the `messages` in the body were written to the stream again, at their `replayedTo`."""
    replayed = {}
    for place, message in _messages(body):
        if not isinstance(to := message.get("replayedTo"), str):
            raise InvalidConfigError('each of the messages must have a text "replayedTo"')
        replayed[place] = to
    letters.note_replayed(replayed)
    return {"noted": len(replayed)}


def _limit(request: Request) -> int:
    limit = request.query_params.get("limit", str(_SHOWN))
    if not limit.isascii() or not limit.isdecimal():
        raise InvalidConfigError(f"limit must be a number, not '{limit}'")
    return int(limit)


def _messages(body: bytes) -> Iterator[tuple[Place, dict[str, Any]]]:
    document = load_json(body, "body")
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list):
        raise _malformed()
    for message in messages:
        if not isinstance(message, dict):
            raise _malformed()
        partition, offset = message.get("partition"), message.get("offset")
        if not isinstance(partition, int) or not isinstance(offset, str):
            raise _malformed()
        yield (partition, offset), message


def _malformed() -> InvalidConfigError:
    return InvalidConfigError('the body must be {"messages": [{"partition": 0, "offset": "17"}]}')
