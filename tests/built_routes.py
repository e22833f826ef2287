"""Routes that are built once per run for all applications: building those of a controller takes a third of a second."""

from copy import copy
from dataclasses import replace
from inspect import unwrap
from types import CodeType
from typing import Any

from fastapi.routing import APIRoute, request_response

_build = APIRoute.__init__
_built: dict[tuple[CodeType, str, tuple[str, ...]], APIRoute] = {}


def _build_or_copy(route: APIRoute, path: str, endpoint: Any, **options: Any) -> None:
    """Be like the route of an earlier application whose handler is of the same code, but for the handler itself."""
    key = (unwrap(endpoint).__code__, path, tuple(options["methods"]))
    if (known := _built.get(key)) is None:
        _build(route, path, endpoint, **options)
        _built[key] = copy(route)
        return
    vars(route).update(vars(known), endpoint=endpoint, dependant=replace(known.dependant, call=endpoint))
    route.app = request_response(route.get_route_handler())


def build_routes_once() -> None:
    """Make it so for this process."""
    APIRoute.__init__ = _build_or_copy  # type: ignore[method-assign]
