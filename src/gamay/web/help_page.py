"""`/help` and `/swagger.json` of brokers, servers and minions: an OpenAPI document of their routes, and a page with forms.

The controller's come from FastAPI, which knows more about its routes; the page and its files are the same, without the
internet.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from inspect import getdoc
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from gamay.base.process_info import VERSION
from gamay.cluster.access.rights import Rights
from gamay.web.openapi import LIST, OBJECT, TEXT, complete
from gamay.web.process_routes import PROCESS_PARAMETERS

_PACKAGE = "fastapi_offline"
_FILES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css", "favicon.png": "image/png"}
_WITH_BODY = frozenset({"POST", "PUT"})
_METHODS = ("GET", "POST", "PUT", "DELETE")
_IN_PATH = re.compile(r"\{(\w+)(?::\w+)?\}")

HELP_RIGHTS = """
GET    /help                                          GetHelp               open        -
GET    /api                                           GetHelp               open        -
GET    /swagger.json                                  GetHelp               open        -
GET    /static-offline-docs/{name}                    GetHelp               open        -
"""

# in the order in which users look for them
_TAGS = {
    "Query": "Queries: new, running and finished ones, and stored answers",
    "Routing": "Assignment of segments to servers for queries",
    "Table": "Tables and segments of this server",
    "Task": "Tasks of this minion",
    "Quota": "Limits on queries",
    "Process": "This process: health, metrics and settings",
    "Logger": "Logs and their levels",
}
_GROUPS = {
    "Query": ("/query", "/queries", "/responseStore", "/timeseries", "/debug/queries"),
    "Routing": ("/routing", "/debug/routing", "/debug/timeBoundary", "/debug/serverRouting"),
    "Quota": ("/debug/tables/queryQuota", "/debug/databases", "/debug/applicationQuotas"),
    "Table": ("/table", "/segments", "/controllerJob"),
    "Task": ("/tasks",),
    "Logger": ("/loggers",),
    "Process": ("/",),
}
_ANSWERS = {
    "/health": TEXT,
    "/health/readiness": TEXT,
    "/health/liveness": TEXT,
    "/metrics": TEXT,
    "/uptime": TEXT,
    "/start-time": TEXT,
    "/instance/tags": LIST,
    "/loggers": LIST,
    "/debug/threads/resourceUsage": LIST,
    "/loggers/files": LIST,
    "/loggers/download": TEXT,
}

_PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{title}</title>
<link rel="stylesheet" href="/static-offline-docs/swagger-ui.css">
<link rel="shortcut icon" href="/static-offline-docs/favicon.png"></head>
<body><div id="swagger-ui"></div>
<script src="/static-offline-docs/swagger-ui-bundle.js"></script>
<script>SwaggerUIBundle({{url: "/swagger.json", dom_id: "#swagger-ui", deepLinking: true}})</script>
</body></html>
"""


def help_routes(
    role: str,
    routes: Sequence[Route],
    parameters: Mapping[str, Sequence[str]],
    rights: Rights,
    answers: Mapping[str, Any],
    *,
    is_open: bool,
) -> list[Route]:
    """Return the routes `/help`, `/api`, `/swagger.json` and the page's files.

    routes: described by the first lines of their handlers' docstrings, or their names. parameters: query parameters by path.
    answers: responses that are not JSON objects, as in `gamay.web.openapi.complete`. is_open: whether no log-in is needed.
    """
    title = f"Gamay {role}"
    plain = _openapi(title, routes, {**PROCESS_PARAMETERS, **parameters})
    document = complete(plain, rights, _TAGS, {**_ANSWERS, **answers}, is_open=is_open)

    def page(_: Request) -> Response:
        return HTMLResponse(_PAGE.format(title=title))

    def file(request: Request) -> Response:
        name, spec = request.path_params["name"], find_spec(_PACKAGE)
        if name not in _FILES or spec is None or spec.origin is None:
            raise HTTPException(404)
        return FileResponse(Path(spec.origin).parent / "static" / name, media_type=_FILES[name])

    return [
        Route("/help", page),
        Route("/api", lambda _: RedirectResponse("/help")),
        Route("/swagger.json", lambda _: JSONResponse(document)),
        Route("/static-offline-docs/{name}", file),
    ]


def _openapi(title: str, routes: Sequence[Route], parameters: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for route in routes:
        shown = paths.setdefault(_IN_PATH.sub(r"{\1}", route.path), {})
        for method in _METHODS:
            if method in (route.methods or ()):
                shown[method.lower()] = _operation(route, method, parameters.get(route.path, ()))
    return {"openapi": "3.1.0", "info": {"title": title, "version": VERSION}, "paths": paths}


def _operation(route: Route, method: str, names: Sequence[str]) -> dict[str, Any]:
    summary, _, more = (getdoc(route.endpoint) or route.name).partition("\n")
    text = {"schema": {"type": "string"}}
    found: dict[str, Any] = {
        "tags": [next(tag for tag, starts in _GROUPS.items() if route.path.startswith(starts))],
        "summary": summary.rstrip("."),
        "description": more.strip(),
        "parameters": [{"name": name, "in": "path", "required": True, **text} for name in _IN_PATH.findall(route.path)],
        "responses": {"200": {"description": "Success", "content": OBJECT}},
    }
    if method in _WITH_BODY:
        found["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
    else:
        found["parameters"] += [{"name": name, "in": "query", **text} for name in names]
    return found
