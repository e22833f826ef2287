"""Who logs in: principals by their `Authorization` header, and a pause for who gets it wrong again and again."""

import asyncio
from collections.abc import Awaitable, Callable

from gamay.cluster.access.audit import log_failed_login
from gamay.cluster.access.failed_logins import FailedLogins
from gamay.cluster.access.passwords import credentials
from gamay.cluster.access.principals import AccessControl, Principal, UnauthorizedError


class Logins:
    """The log-ins at one HTTP interface. However they come, failures of a name and address are counted together."""

    def __init__(self, access: AccessControl, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """sleep: waits for so many seconds, for those whose log-ins failed."""
        self._access = access
        self._sleep = sleep
        self._failed = FailedLogins()

    async def principal(self, authorization: str | None, address: str, path: str) -> Principal:
        """Return who sent a request with this header, from an address, to a path.

        Raises UnauthorizedError, TooManyLoginsError.
        """
        if authorization is None or self._access.is_known(authorization):
            return self._access.principal(authorization)
        name = credentials(authorization)[0]
        now_s = asyncio.get_running_loop().time
        if wait_s := self._failed.wait_s(address, name, now_s()):
            await self._sleep(wait_s)
        try:
            found = await asyncio.to_thread(self._access.principal, authorization)
        except UnauthorizedError:
            log_failed_login(name, address, path, self._failed.failed(address, name, now_s()))
            raise
        self._failed.succeeded(address, name)
        return found
