"""Completes OpenAPI documents: access rights, descriptions of parameters, kinds of responses, errors."""

import re
from collections.abc import Mapping
from typing import Any

from gamay.cluster.access.rights import Level, Right, Rights, Scope
from gamay.web.parameters import PARAMETERS

OBJECT = {"application/json": {"schema": {"type": "object"}}}
LIST = {"application/json": {"schema": {"type": "array", "items": {}}}}
TEXT = {"text/plain": {"schema": {"type": "string"}}}
HTML = {"text/html": {"schema": {"type": "string"}}}
FILE = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
ARROW = {"application/vnd.apache.arrow.stream": {"schema": {"type": "string", "format": "binary"}}}
"""Kinds of responses, as `content` of a response."""

_METHODS = ("get", "post", "put", "delete")
_ERROR = {"type": "object", "properties": {"code": {"type": "integer"}, "error": {"type": "string"}}}
_ERROR_ANSWER = {
    "description": "What is wrong; `code` is the HTTP status",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
_KIND = re.compile(r":\w+}")


def complete(
    document: dict[str, Any], rights: Rights, tags: Mapping[str, str], answers: Mapping[str, Any], *, is_open: bool
) -> dict[str, Any]:
    """Return a document with these additions, its paths in the order of their tags.

    tags: name -> description of the group, in order. answers: "GET /path", or "/path" for all methods -> content of a
    successful response; None for routes that always fail; others are unchanged. is_open: whether no log-in is needed.
    """
    needed = {(method.lower(), _KIND.sub("}", path)): right for (method, path), right in rights.items()}
    operations = [
        (method, path, operation)
        for path, found in document["paths"].items()
        for method, operation in found.items()
        if method in _METHODS
    ]
    for method, path, operation in operations:
        right = needed.get((method, path))
        _describe(operation, right)
        _answer(operation, answers.get(f"{method.upper()} {path}", answers.get(path, operation)))
        if not is_open and right is not None and right.level is Level.OPEN:
            operation["security"] = []
    parts = document.setdefault("components", {})
    schemas = {name: one for name, one in parts.get("schemas", {}).items() if not name.endswith("ValidationError")}
    parts["schemas"] = {**schemas, "Error": _ERROR}
    if not is_open:
        parts["securitySchemes"] = {"basic": {"type": "http", "scheme": "basic"}}
        document["security"] = [{"basic": []}]
    document["tags"] = [{"name": name, "description": text} for name, text in tags.items()]
    order = {name: place for place, name in enumerate(tags)}
    first = {path: next(iter(found.values()))["tags"][0] for path, found in document["paths"].items()}
    document["paths"] = dict(sorted(document["paths"].items(), key=lambda one: order[first[one[0]]]))
    return document


def _describe(operation: dict[str, Any], right: Right | None) -> None:
    if right is not None:
        operation["description"] = "\n\n".join(filter(None, (operation.get("description"), _who_may(right))))
    for parameter in operation.get("parameters", ()):
        parameter.setdefault("description", PARAMETERS.get(parameter["name"], ""))


def _answer(operation: dict[str, Any], content: Any) -> None:
    responses = {status: told for status, told in operation["responses"].items() if status != "422"}  # reported as 400
    if content is None:
        responses = {}
    elif content is not operation:
        responses["200"] = {"description": "Success", "content": content}
    operation["responses"] = {**responses, "default": _ERROR_ANSWER}


def _who_may(right: Right) -> str:
    if right.level is Level.OPEN:
        return "Open to everybody, without a log-in."
    told = {
        Scope.NAMED: "on the tables that the request names, or on all if it names none",
        Scope.CLUSTER: "of the cluster",
        Scope.ALL: "on all tables",
        Scope.LISTED: "; the answer omits what the sender may not use",
        Scope.FOUND: "on the tables that the request concerns",
    }[right.scope]
    return f"Requires the right to {right.level.value} ({right.action}){'' if told.startswith(';') else ' '}{told}."
