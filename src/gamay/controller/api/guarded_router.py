"""A router whose routes authorise the sender by the arguments that the handlers get."""

from collections.abc import Callable, Collection
from functools import wraps
from inspect import Parameter, Signature, iscoroutinefunction, signature
from typing import Annotated, Any, get_args, get_origin

from fastapi import APIRouter, Request

from gamay.cluster.access.audit import note
from gamay.cluster.access.rights import Right, must_get_right
from gamay.controller.api.cookies import check_forgery
from gamay.controller.api.rights import CONTROLLER_RIGHTS
from gamay.web.guarded import check_repeated, sender_of

_REQUEST = "sent_request"


class GuardedRouter(APIRouter):
    """A router that accepts only routes of the table of rights; any other raises UndeclaredRouteError."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a route for each of its methods, guarded."""
        rights = [must_get_right(CONTROLLER_RIGHTS, method, path) for method in options["methods"]]
        for method, right in zip(options["methods"], rights, strict=True):
            super().add_api_route(path, guarded(endpoint, right, method), **{**options, "methods": [method]})


def guarded(endpoint: Callable[..., Any], right: Right, method: str) -> Callable[..., Any]:
    """Return a handler that authorises its sender first; it raises ForbiddenError, InvalidConfigError.

    FastAPI passes it the parsed arguments, so the checked arguments are those that are used.
    """
    own = signature(endpoint)
    request_name = next((name for name, given in own.parameters.items() if given.annotation is Request), None)
    repeatable = _repeatable(own)
    if unknown := [path[0] for path in right.arguments if path[0] not in own.parameters]:
        raise TypeError(f"{endpoint.__qualname__} has no argument '{unknown[0]}', by which {right.action} is to be checked")

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        request: Request = arguments[request_name or _REQUEST]
        given = arguments if request_name else {key: value for key, value in arguments.items() if key != _REQUEST}
        note(request.scope, right, sender_of(request.scope), right.tables(given))
        check_repeated(request.scope["query_string"], repeatable)
        check_forgery(request.scope, right)
        right.check(sender_of(request.scope), method, given)
        return given

    if iscoroutinefunction(endpoint):

        @wraps(endpoint)
        async def handler(**arguments: Any) -> Any:
            return await endpoint(**check(arguments))
    else:

        @wraps(endpoint)
        def handler(**arguments: Any) -> Any:
            return endpoint(**check(arguments))

    if request_name is None:
        sent = Parameter(_REQUEST, Parameter.KEYWORD_ONLY, annotation=Request)
        parameters = [given.replace(kind=Parameter.KEYWORD_ONLY) for given in own.parameters.values()]
        handler.__signature__ = own.replace(parameters=[*parameters, sent])  # type: ignore[attr-defined]
    return handler


def _repeatable(own: Signature) -> Collection[str]:
    """Return the names of the query parameters that are lists."""
    found = set()
    for name, given in own.parameters.items():
        if get_origin(given.annotation) is Annotated:
            kind, *metadata = get_args(given.annotation)
            aliases = [alias for entry in metadata if (alias := getattr(entry, "alias", None))]
            if get_origin(kind) is list:
                found.add(aliases[0] if aliases else name)
    return frozenset(found)
