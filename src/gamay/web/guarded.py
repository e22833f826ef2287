"""HTTP interfaces that authenticate their senders, and whose routes check the senders' rights."""

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.cluster.access.audit import address_of, note
from gamay.cluster.access.logins import Logins
from gamay.cluster.access.principals import ANYONE, NOBODY, Principal, UnauthorizedError
from gamay.cluster.access.rights import Right, Rights, must_get_right, open_paths

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

# key of the sender in a request's scope
PRINCIPAL = "gamay.principal"
# action of open routes that report whether their sender is known
ASKS_WHO = "GetAuth"


class Guarded:
    """ASGI middleware that passes on only requests of known senders.

    Paths that `rights` opens need no sender. The routes behind it check the sender's rights.
    """

    def __init__(self, app: AsgiApp, logins: Logins, rights: Rights) -> None:
        self._app = app
        self._logins = logins
        opened = open_paths(rights)
        self._open_paths = frozenset({"/", *opened})
        self._asking_who = frozenset(path for (_, path), right in rights.items() if right.action == ASKS_WHO)
        # `/` is a single path, not a prefix of all others
        self._open_folders = tuple(path for path in opened if path.endswith("/") and path != "/")

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http":
            is_open = scope["method"] == "OPTIONS" or self._is_open(scope["path"])
            scope[PRINCIPAL] = NOBODY
            if not is_open or scope["path"] in self._asking_who:
                try:
                    scope[PRINCIPAL] = await self._sender(scope)
                except GamayError as error:
                    if not is_open or not isinstance(error, UnauthorizedError):
                        await refusal(error)(scope, receive, send)
                        return
        await self._app(scope, receive, send)

    async def _sender(self, scope: MutableMapping[str, Any]) -> Principal:
        raw = dict(scope["headers"]).get(b"authorization")
        given = None if raw is None else raw.decode("latin-1")
        return await self._logins.principal(given, address_of(scope), scope["path"])

    def _is_open(self, path: str) -> bool:
        return path in self._open_paths or path.startswith(self._open_folders)


def sender_of(scope: Mapping[str, Any]) -> Principal:
    """Return the sender of a request; anyone, if access is open."""
    found: Principal = scope.get(PRINCIPAL, ANYONE)
    return found


def guarded_routes(
    routes: Sequence[Route], rights: Rights, repeatable: Mapping[str, Collection[str]] | None = None
) -> list[Route]:
    """Return routes that first check their sender's rights, by their path parameters.

    repeatable: path -> the query parameters that may be repeated. Raises UndeclaredRouteError.
    """
    return [_guarded(route, rights, (repeatable or {}).get(route.path, ())) for route in routes]


def _guarded(route: Route, rights: Rights, repeatable: Collection[str]) -> Route:
    methods = sorted((route.methods or set()) - {"HEAD"})
    needed = {method: must_get_right(rights, method, route.path) for method in methods}
    endpoint = route.endpoint
    is_coroutine = iscoroutinefunction(endpoint)

    @wraps(endpoint)
    async def handler(request: Request) -> Response:
        try:
            check_request(request, needed[request.method], repeatable)
        except GamayError as error:
            return refusal(error)
        answer: Response = await (endpoint(request) if is_coroutine else run_in_threadpool(endpoint, request))
        return answer

    return Route(route.path, handler, methods=methods, name=route.name)


def check_request(request: Request, right: Right, repeatable: Collection[str] = ()) -> None:
    """Raise InvalidConfigError for a repeated parameter, ForbiddenError if the sender lacks the right."""
    note(request.scope, right, sender_of(request.scope), right.tables(request.path_params))
    check_repeated(request.scope["query_string"], repeatable)
    right.check(sender_of(request.scope), request.method, request.path_params)


def check_repeated(query: bytes, repeatable: Collection[str]) -> None:
    """Raise InvalidConfigError for a repeated parameter that is not a list, rather than guess which value is meant."""
    if b"&" not in query:
        return
    names = [name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)]
    if twice := sorted({name for name in names if name not in repeatable and names.count(name) > 1}):
        raise InvalidConfigError(f"The parameter '{twice[0]}' is given {names.count(twice[0])} times, it can be given once")


def refusal(error: GamayError) -> Response:
    """Return the response to a rejected request."""
    content = orjson.dumps({"code": error.http_status, "error": str(error)})
    headers = {"www-authenticate": 'Basic realm="gamay"'} if isinstance(error, UnauthorizedError) else None
    return Response(content, error.http_status, headers, "application/json")
