"""Log-ins: principals by their `Authorization` header, with a delay after repeated failures."""

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.cluster.access.audit import log_failed_login
from gamay.cluster.access.failed_logins import FailedLogins
from gamay.cluster.access.passwords import credentials
from gamay.cluster.access.principals import AccessControl, Principal, UnauthorizedError

_PEER = re.compile(r"ipv[46]:(.*):\d+")


class Logins:
    """The log-ins at all ports of a role. Failures of a name and address are counted together across protocols."""

    def __init__(
        self,
        access: AccessControl,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pause: Callable[[float], None] = time.sleep,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Create it. access: verifies log-ins. sleep, pause: wait for seconds, on an event loop and on a thread."""
        self.access = access
        self._sleep = sleep
        self._pause = pause
        self._clock = clock
        self._failed = FailedLogins()
        self._lock = threading.Lock()

    async def principal(self, authorization: str | None, address: str, path: str) -> Principal:
        """Return the sender of a request with this header, from an address, to a path.

        Raises UnauthorizedError, TooManyLoginsError.
        """
        if authorization is None:
            return self.access.principal(None)
        if (known := self.access.verified(authorization)) is not None:
            return known
        if wait_s := self._wait_s(authorization, address):
            await self._sleep(wait_s)
        return await asyncio.to_thread(self._verified, authorization, address, path)

    def principal_of_call(self, authorization: str | None, address: str, path: str) -> Principal:
        """Do what `principal` does on the caller's thread, which may block."""
        if authorization is None:
            return self.access.principal(None)
        if (known := self.access.verified(authorization)) is not None:
            return known
        if wait_s := self._wait_s(authorization, address):
            self._pause(wait_s)
        return self._verified(authorization, address, path)

    def _wait_s(self, authorization: str, address: str) -> float:
        with self._lock:
            return self._failed.wait_s(address, credentials(authorization)[0], self._clock.monotonic_s())

    def _verified(self, authorization: str, address: str, path: str) -> Principal:
        name = credentials(authorization)[0]
        try:
            found = self.access.principal(authorization)
        except UnauthorizedError:
            with self._lock:
                count = self._failed.failed(address, name, self._clock.monotonic_s())
            log_failed_login(name, address, path, count)
            raise
        with self._lock:
            self._failed.succeeded(address, name)
        return found


def address_of_peer(peer: str, untold: str) -> str:
    """Return the address in gRPC's name of a client, `ipv4:10.0.0.7:51234` or `ipv6:%5B::1%5D:51234`, in HTTP's form.

    untold: the result for a name without an address.
    """
    found = _PEER.fullmatch(unquote(peer))
    return untold if found is None else found[1].strip("[]")
