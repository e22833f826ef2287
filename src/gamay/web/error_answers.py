"""Errors of handlers as HTTP responses, for every role: a message without a stack trace."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from gamay.base.errors import GamayError

_log = logging.getLogger(__name__)


def refusal(status: int, text: str) -> JSONResponse:
    """Return an error response."""
    return JSONResponse({"code": status, "error": text}, status_code=status)


async def _gamay_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, GamayError)
    return refusal(error.http_status, str(error))


async def _system_error(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed: %s", request.method, request.url.path, error)
    return refusal(500, f"{request.method} {request.url.path} failed: {error}")


async def _hung_up(request: Request, error: Exception) -> Response:
    return refusal(400, f"{request.method} {request.url.path} ended before its body did")  # no client is left to read it


async def _defect(request: Request, error: Exception) -> Response:
    _log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    return refusal(500, f"{request.method} {request.url.path} failed for a reason that is a defect of Gamay: {error!r}")


ERROR_ANSWERS: Mapping[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    GamayError: _gamay_error,
    ClientDisconnect: _hung_up,
    OSError: _system_error,
    Exception: _defect,
}
"""Exception raised by a handler -> function that returns the response."""
