"""Queries to one broker."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from gamay.base.errors import ErrorCode, NotFoundError
from gamay.client.errors import ProgrammingError
from gamay.client.http import HttpService, NotAnAnswerError, ServiceError

if TYPE_CHECKING:
    import httpx

SQL, PQL = "sql", "pql"
SQL_PATH, PQL_PATH = "/query/sql", "/query"
_ANSWER_KEYS = ("exceptions", "resultTable", "aggregationResults", "selectionResults")


class BrokerClient(HttpService):
    """Client of one broker; `gamay.client.Connection` adds discovery, failover and the parsing of answers."""

    def health(self) -> bool:
        """Return whether the broker says that it is ready."""
        try:
            return self.request("GET", "/health").status_code == 200
        except ServiceError:
            return False

    def _is_answer(self, response: "httpx.Response") -> bool:
        """With the header `Pinot-Use-Http-Status-For-Errors` the status repeats what the answer's exceptions say."""
        try:
            answer = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            return False
        return isinstance(answer, dict) and "exceptions" in answer

    def ask(
        self,
        query: str,
        *,
        language: str = SQL,
        options: str = "",
        path: str | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Return the JSON that answers a query, which may hold exceptions.

        options: query options as `option_text` makes them. path: the broker's query endpoint, if not the usual one.
        timeout_s: the timeout of this request, if not the client's.

        Raises the errors of `HttpService.json`.
        """
        payload: dict[str, Any] = {language: query}
        if options:
            payload["queryOptions"] = options
        path = path or (PQL_PATH if language == PQL else SQL_PATH)
        timeout = {} if timeout_s is None else {"timeout": timeout_s}
        answer = self.json("POST", path, json=payload, **timeout)
        if not isinstance(answer, dict) or not any(key in answer for key in _ANSWER_KEYS):
            raise NotAnAnswerError(f"POST {self.url}{path} answered with JSON that is not a query response")
        return answer

    def cancel(self, client_query_id: str) -> bool:
        """Cancel the queries that were sent with this option `clientQueryId`; return whether one runs here.

        Raises the errors of `HttpService.request`.
        """
        try:
            self.request("DELETE", f"/query/{quote(client_query_id, safe='')}", params={"client": True})
        except NotFoundError:
            return False
        return True


def option_text(options: Mapping[str, Any]) -> str:
    """Return query options in the form that requests carry. Raises ProgrammingError for one that would be parsed as another.

    >>> option_text({"timeoutMs": 500, "trace": True})
    'timeoutMs=500;trace=true'
    """
    parts = []
    for name, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not name.strip() or "=" in name or ";" in name or ";" in text:
            raise ProgrammingError(f"a query option cannot be {name!r} = {text!r}", ErrorCode.QUERY_VALIDATION)
        parts.append(f"{name}={text}")
    return ";".join(parts)


def options_of(given: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """Return query options given as a mapping, or as text like `timeoutMs=500;trace=true`. Raises ProgrammingError."""
    if given is None:
        return {}
    if not isinstance(given, str):
        return dict(given)
    options = {}
    for part in filter(None, map(str.strip, given.split(";"))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ProgrammingError(f"the query option {part!r} must look like name=value", ErrorCode.SQL_PARSING)
        options[name.strip()] = value.strip()
    return options
