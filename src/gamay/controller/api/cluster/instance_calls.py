"""Requests of a controller to other instances, on behalf of clients that cannot reach them."""

from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

import httpx
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from gamay.base.errors import GamayError
from gamay.cluster.records.records import Role
from gamay.controller.api.clients import role_client
from gamay.controller.api.services import Services

_TIMEOUT_S = 5.0


class SilentInstanceError(GamayError):
    """An instance that does not answer in time."""

    http_status = 503


class Instances:
    """The instances of the cluster, asked over HTTP.

    Brokers and controllers check the client's own credentials, so these are passed on. Servers and minions are asked
    with the credentials of this controller, which has authorised the client already.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._client = role_client(services.context.tls, _TIMEOUT_S)

    async def ask(self, request: Request, name: str, path: str, params: Mapping[str, str]) -> Response:
        """Return the answer of an instance unchanged. Raises NotFoundError, SilentInstanceError."""
        answer = await self._sent(request, name, path, params, stream=False)
        return Response(answer.content, status_code=answer.status_code, media_type=answer.headers.get("content-type"))

    async def fetch(self, request: Request, name: str, path: str, params: Mapping[str, str]) -> Response:
        """Stream a large answer of an instance. Raises NotFoundError, SilentInstanceError."""
        answer = await self._sent(request, name, path, params, stream=True)
        kept = ("content-type", "content-disposition", "content-length")
        headers = {header: answer.headers[header] for header in kept if header in answer.headers}

        async def passed_on() -> AsyncIterator[bytes]:
            try:
                async for part in answer.aiter_raw():
                    yield part
            finally:
                await answer.aclose()

        return StreamingResponse(passed_on(), answer.status_code, headers)

    async def _sent(
        self, request: Request, name: str, path: str, params: Mapping[str, str], *, stream: bool
    ) -> httpx.Response:
        instance = self._services.instances.get(name)
        if name not in self._services.context.registry.live_instance_ids():  # another process may listen there now
            raise SilentInstanceError(f"{name} is not live: it has left the cluster or does not answer")
        own = self._services.context.auth_token if instance.role in (Role.SERVER, Role.MINION) else ""
        authorization = own or request.headers.get("authorization", "")
        headers = {"Authorization": authorization} if authorization else {}
        if stream:
            headers["Accept-Encoding"] = "identity"
        asked = self._client.build_request("GET", f"{instance.url}{quote(path)}", params=dict(params), headers=headers)
        try:
            return await self._client.send(asked, stream=stream)
        except httpx.HTTPError as error:
            raise SilentInstanceError(f"{name} does not answer at {instance.url}: {error!r}") from error
