"""Requests to a controller or broker, and their failures as Gamay's errors."""

from collections.abc import Mapping
from typing import Any, Self

import httpx

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError, NotFoundError

TIMEOUT_S = 30.0


class ServiceError(GamayError):
    """A request that failed for a reason that may pass: status 500 and above, or no answer at all (status None)."""

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.status = status
        self.http_status = status or 503


class HttpService:
    """One service at one address. Use as a context manager, or call `close`."""

    def __init__(
        self,
        url: str,
        *,
        auth_token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        verify: Any = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """auth_token: the value of the Authorization header. verify: as for httpx: True, False or an SSLContext."""
        headers = {"Authorization": auth_token} if auth_token else {}
        self.url = (url if "://" in url else f"http://{url}").rstrip("/")
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=timeout_s, verify=verify, transport=transport, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request; raises the error that the answer's status stands for, with the service's own sentence.

        400, 409, 404 become InvalidConfigError, ConflictError, NotFoundError; other 4xx GamayError; 5xx and failed
        connections ServiceError.
        """
        if isinstance(params := options.get("params"), Mapping):
            options["params"] = {k: _parameter(v) for k, v in params.items() if v is not None}
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            detail = str(error) or type(error).__name__
            raise ServiceError(f"{method} {self.url}{path} got no answer: {detail}", None) from error
        if response.status_code >= 400:
            raise failure_of(response)
        return response

    def json(self, method: str, path: str, **options: Any) -> Any:
        """Send a request and return the JSON of its answer."""
        response = self.request(method, path, **options)
        try:
            return response.json()
        except ValueError as error:
            raise GamayError(f"{method} {self.url}{path} answered with something that is not JSON") from error

    def status_text(self, method: str, path: str, **options: Any) -> str:
        """Send a request and return the `status` sentence of its answer."""
        return str(self.json(method, path, **options).get("status", ""))


def _parameter(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


def failure_of(response: httpx.Response) -> GamayError:
    """Return the error that a response stands for."""
    status = response.status_code
    sentence = _sentence(response)
    if status >= 500:
        return ServiceError(sentence, status)
    kind = {400: InvalidConfigError, 404: NotFoundError, 409: ConflictError}.get(status, GamayError)
    error = kind(sentence)
    error.http_status = status
    return error


def _sentence(response: httpx.Response) -> str:
    """Return what the service says went wrong: `error` of its JSON, or the text, or the status line."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict):
        for key in ("error", "message", "status", "detail"):
            if isinstance(body.get(key), str) and body[key]:
                return str(body[key])
    text = response.text.strip()
    if text and len(text) < 2000 and not text.startswith("<"):
        return text
    return (
        f"{response.request.method} {response.request.url} was answered with {response.status_code} {response.reason_phrase}"
    )
