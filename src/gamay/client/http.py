"""Requests to a controller or broker; failures become Gamay's errors.

httpx is imported with the first client, not with this module: it takes longer to load than all other imports together.
"""

import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit, urlunsplit

import orjson

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError, NotFoundError

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 30.0
_SHOWN_MAX = 120  # characters of an unintelligible answer


class ServiceError(GamayError):
    """A request that failed for a possibly transient reason: status 500 and above, or no answer (status None)."""

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.status = status
        self.http_status = status or 503


class UnreachableError(ServiceError):
    """A failure to connect, so that the service has not received the request."""


class NoAnswerInTimeError(ServiceError):
    """A timeout; the service may still be processing the request."""


class NotAnAnswerError(GamayError):
    """An answer that is not from the expected service: not JSON, or truncated. Another program may listen there."""

    http_status = 502


def service_url(text: str, scheme: str = "http") -> tuple[str, tuple[str, str] | None]:
    """Return the URL of a service without credentials, and its (user, password) if present.

    scheme: the scheme of a text without one. Raises InvalidConfigError.

    >>> service_url("broker-1:8099", "https")
    ('https://broker-1:8099', None)
    >>> service_url("http://ann:s%40cret@localhost:8099/")
    ('http://localhost:8099', ('ann', 's@cret'))
    """
    try:
        parts = urlsplit(text if "://" in text else f"{scheme}://{text}")
        port = parts.port
    except ValueError as error:
        raise InvalidConfigError(f"{text!r} is not the address of a service: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in parts.netloc):
        raise InvalidConfigError(f"{text!r} is not the address of a service, such as http://localhost:8099")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = urlunsplit((parts.scheme, host if port is None else f"{host}:{port}", parts.path.rstrip("/"), "", ""))
    if parts.username is None:
        return url, None
    return url, (unquote(parts.username), unquote(parts.password or ""))


def _trusted(verify: Any) -> Any:
    """Return the `verify` argument for httpx: the authorities in OpenSSL's environment variables, if set."""
    if verify is not True or not ("SSL_CERT_FILE" in os.environ or "SSL_CERT_DIR" in os.environ):
        return verify
    return ssl.create_default_context()


class HttpService:
    """A thread-safe client of one service at one address. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        url: str,
        *,
        auth_token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        connect_timeout_s: float | None = None,
        verify: Any = True,
        transport: "httpx.BaseTransport | None" = None,
    ) -> None:
        """url: may carry a user and password, which are sent as Basic credentials unless there is a token.

        auth_token: the value of the Authorization header. headers: sent with every request. timeout_s: timeout for
        an answer; connect_timeout_s: for a connection. verify: as for httpx: True, False or an SSLContext.
        Raises InvalidConfigError for an invalid URL.
        """
        import httpx

        self.url, auth = service_url(url)
        sent = dict(headers or {})
        if auth_token:
            sent["Authorization"] = auth_token
            auth = None
        self._http = httpx.Client(
            base_url=self.url,
            headers=sent,
            auth=auth,
            timeout=httpx.Timeout(timeout_s, connect=connect_timeout_s or timeout_s),
            # without TLS there is nothing to verify, and to load the certificates takes longer than many a query
            verify=_trusted(verify) if self.url.startswith("https:") else False,
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(self, method: str, path: str, **options: Any) -> "httpx.Response":
        """Send a request; raises the error for the answer's status, with the service's message.

        400, 409, 404 become InvalidConfigError, ConflictError, NotFoundError; other 4xx GamayError; 5xx and failed
        connections ServiceError (UnreachableError, NoAnswerInTimeError). Redirects are not followed but raise
        NotAnAnswerError.
        """
        import httpx

        if isinstance(params := options.get("params"), Mapping):
            options["params"] = {k: _parameter(v) for k, v in params.items() if v is not None}
        what = f"{method} {self.url}{path}"
        try:
            response = self._http.request(method, path, **options)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            detail = "no connection in time" if isinstance(error, httpx.TimeoutException) else str(error)
            raise UnreachableError(f"{what} got no answer: {detail}", None) from error
        except httpx.TimeoutException as error:
            raise NoAnswerInTimeError(f"{what} got no answer in time", None) from error
        except httpx.TransportError as error:
            detail = str(error) or type(error).__name__
            raise ServiceError(f"{what} got no answer: {detail}", None) from error
        except httpx.DecodingError as error:
            raise NotAnAnswerError(f"{what} got an answer that cannot be decompressed: {error}") from error
        if response.status_code >= 400:
            if self._is_answer(response):
                return response
            raise failure_of(response)
        if response.status_code >= 300:
            raise NotAnAnswerError(f"{what} is redirected to {response.headers.get('location')}; give that address instead")
        return response

    def _is_answer(self, _: "httpx.Response") -> bool:
        """Whether a response with an error status is nevertheless a valid answer."""
        return False

    def json(self, method: str, path: str, **options: Any) -> Any:
        """Send a request and return the JSON of its answer. Raises NotAnAnswerError for what is not JSON."""
        response = self.request(method, path, **options)
        try:
            return orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            kind = response.headers.get("content-type", "unknown type").partition(";")[0]
            raise NotAnAnswerError(
                f"{method} {self.url}{path} answered with something that is not JSON ({kind}, {error}): "
                f"{_shown(response.text)}"
            ) from error

    def status_text(self, method: str, path: str, **options: Any) -> str:
        """Send a request and return the `status` sentence of its answer."""
        return str(self.json(method, path, **options).get("status", ""))


def _parameter(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN_MAX else f"{line[:_SHOWN_MAX]}…")


def failure_of(response: "httpx.Response") -> GamayError:
    """Return the error for a response with an error status."""
    status = response.status_code
    sentence = _sentence(response)
    if status >= 500:
        return ServiceError(sentence, status)
    kind = {400: InvalidConfigError, 404: NotFoundError, 409: ConflictError}.get(status, GamayError)
    error = kind(sentence)
    error.http_status = status
    return error


def _sentence(response: "httpx.Response") -> str:
    """Return the service's error message: `error` of its JSON, or the text, or the status line."""
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
