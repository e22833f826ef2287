"""Client of the lead controller for the completion of segments."""

import logging
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from gamay.base.errors import GamayError
from gamay.cluster.records.completion import (
    METADATA_PART,
    REQUEST_TIMEOUT_S,
    SEGMENT_PART,
    UPLOAD_TIMEOUT_S,
    Call,
    CompletionRequest,
    CompletionResponse,
    MalformedMessageError,
    Status,
)

_log = logging.getLogger(__name__)
_NOT_SENT = CompletionResponse(Status.NOT_SENT)


class CompletionClient(Protocol):
    """Thread-safe client of the controllers."""

    def ask(
        self, call: Call, request: CompletionRequest, file: Path | None = None, controller_url: str | None = None
    ) -> CompletionResponse:
        """Return the answer, with status NOT_SENT if there is none; never raises for network errors.

        file: the body of a POST: the archive, or the `metadata.json` of COMMIT_END_WITH_METADATA.
        controller_url: another controller than the leader, for an upload.
        """
        ...


class HttpCompletionClient:
    """Client over HTTP.

    leader: returns the URL of the current lead controller, None if there is none. auth_token: the
    `Authorization` header for controllers; empty for none. tls: verifies their certificates.
    """

    def __init__(self, leader: Callable[[], str | None], auth_token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self._leader = leader
        self._tls = tls
        self._headers = {"Authorization": auth_token} if auth_token else {}
        self._lock = threading.Lock()
        self._http: Any = None

    def ask(
        self, call: Call, request: CompletionRequest, file: Path | None = None, controller_url: str | None = None
    ) -> CompletionResponse:
        """Return the answer, with status NOT_SENT if there is none."""
        import httpx

        try:
            base = controller_url or self._leader()
        except GamayError as error:
            _log.warning("%s of %s waits: the lead controller is unknown: %s", call.value, request.segment, error)
            return _NOT_SENT
        if base is None:
            _log.warning("%s of %s waits: the cluster has no lead controller", call.value, request.segment)
            return _NOT_SENT
        url = f"{base.rstrip('/')}/{call.value}"
        timeout_s = UPLOAD_TIMEOUT_S if call in (Call.UPLOAD, Call.COMMIT) else REQUEST_TIMEOUT_S
        part = METADATA_PART if call is Call.COMMIT_END_WITH_METADATA else SEGMENT_PART
        try:
            if file is None:
                answer = self._client().request(call.http_method, url, params=request.to_params(), timeout=timeout_s)
            else:
                with file.open("rb") as content:
                    files = {part: (file.name, content, "application/octet-stream")}
                    answer = self._client().request(
                        call.http_method, url, params=request.to_params(), files=files, timeout=timeout_s
                    )
            return CompletionResponse.from_bytes(answer.content)
        except (httpx.HTTPError, MalformedMessageError) as error:
            _log.warning("%s of %s got no answer from %s: %s", call.value, request.segment, base, error)
            return _NOT_SENT

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._http is not None:
                self._http.close()
                self._http = None

    def _client(self) -> Any:
        import httpx

        with self._lock:
            if self._http is None:
                self._http = httpx.Client(headers=self._headers, verify=self._tls or True)
            return self._http
