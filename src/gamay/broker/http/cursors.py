"""Cursors over HTTP: a query with `?getCursor=true` returns its first page, and `/responseStore` the others."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.broker.answer.answer_store import AnswerStore
from gamay.broker.http.query_endpoint import ERROR_CODE_HEADER
from gamay.web.guarded import sender_of


def with_cursor(body: Mapping[str, Any], parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """Add the query options for the URL parameters `getCursor=true` and `numRows` to the body of a query."""
    options = body.get("queryOptions") or ""
    if parameters.get("getCursor", "").lower() != "true" or not isinstance(options, str):
        return body
    num_rows = parameters.get("numRows", "0").strip()
    more = ["getCursor=true"] if num_rows == "0" else ["getCursor=true", f"cursorNumRows={num_rows}"]
    return {**body, "queryOptions": ";".join([options, *more])}


class CursorRoutes:
    """The handlers of `/responseStore`."""

    def __init__(self, answers: AnswerStore) -> None:
        self._answers = answers

    def routes(self) -> list[Route]:
        """Return the routes; some clients add a slash to the paths."""
        return [
            Route("/responseStore", self.answers),
            Route("/responseStore", self.delete_expired, methods=["DELETE"]),
            Route("/responseStore/{request_id}/results", self.page),
            *(Route(path, self.answer) for path in ("/responseStore/{request_id}", "/responseStore/{request_id}/")),
            *(
                Route(path, self.delete, methods=["DELETE"])
                for path in ("/responseStore/{request_id}", "/responseStore/{request_id}/")
            ),
        ]

    async def answers(self, request: Request) -> Response:
        """List the answers kept for cursors, without their rows."""
        return JSONResponse(await run_in_threadpool(self._answers.all_described, sender_of(request.scope)))

    async def answer(self, request: Request) -> Response:
        """Show an answer kept for a cursor, without its rows."""
        try:
            described = partial(self._answers.described, request.path_params["request_id"], sender_of(request.scope))
            return JSONResponse(await run_in_threadpool(described))
        except GamayError as error:
            return _failure(error)

    async def page(self, request: Request) -> Response:
        """Show a page of an answer kept for a cursor."""
        try:
            offset, num_rows = _whole(request, "offset"), _whole(request, "numRows", "0")
            page = partial(self._answers.page, request.path_params["request_id"], offset, num_rows, sender_of(request.scope))
            content = await run_in_threadpool(page)
        except GamayError as error:
            return _failure(error)
        return Response(content, media_type="application/json", headers={ERROR_CODE_HEADER: "-1"})

    async def delete(self, request: Request) -> Response:
        """Delete an answer kept for a cursor."""
        request_id = request.path_params["request_id"]
        try:
            await run_in_threadpool(self._answers.delete, request_id, sender_of(request.scope))
        except GamayError as error:
            return _failure(error)
        return PlainTextResponse(f"Query Results for {request_id} deleted.")

    async def delete_expired(self, request: Request) -> Response:
        """Delete the answers kept for cursors that expire by a time, in milliseconds."""
        try:
            before_ms = _whole(request, "expiredBefore")
        except GamayError as error:
            return _failure(error)
        deleted = await run_in_threadpool(self._answers.delete_expired, before_ms, sender_of(request.scope))
        return PlainTextResponse(f"Query Results of {deleted} queries deleted.")


def _whole(request: Request, name: str, default: str | None = None) -> int:
    """Parse a parameter as a whole number. Raises InvalidConfigError."""
    text = request.query_params.get(name, default)
    if text is None:
        raise InvalidConfigError(f"The parameter '{name}' is missing")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidConfigError(f"The parameter '{name}' must be a whole number, not '{text}'")
    return int(text)


def _failure(error: GamayError) -> Response:
    return JSONResponse({"code": error.http_status, "error": str(error)}, status_code=error.http_status)
