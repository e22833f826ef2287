"""A data folder served to Flight SQL clients: what `gamay.connect` opens, plus a port, without the roles' HTTP
interfaces."""

from pathlib import Path
from types import TracebackType

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.ids import RANDOM_IDS
from gamay.base.machine import usable_processors
from gamay.base.tls import TlsSettings
from gamay.broker.flight.port import FlightPort
from gamay.cluster.access.logins import Logins
from gamay.cluster.access.principals import EVERYBODY, ListedAccess, StoredUsers
from gamay.cluster.access.users import resolve_access
from gamay.cluster.records.records import Role
from gamay.embedded.opened import open_folder
from gamay.query.limits.queue import QueryQueue
from gamay.sql.options.option_values import NULLS_ON

_THREADS = max(4, 2 * usable_processors())


class ServedFolder:
    """A data folder with a port for Flight SQL. Null handling is on, as for `gamay.connect`, unless a query turns it off.

    port: 0 takes a free one; see `url`. host: the address to listen on. access: who may query. tls: with a certificate, the
    port is encrypted. Raises InUseError when another process uses the folder or the port.
    """

    def __init__(
        self,
        path: Path,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        access: ListedAccess | StoredUsers = EVERYBODY,
        tls: TlsSettings | None = None,
        threads: int | None = None,
    ) -> None:
        self._port = FlightPort(port, host, tls)
        try:
            self._folder = open_folder(path, threads, self)
        except BaseException:
            self._port.stop()
            raise
        self.url = f"{self._port.scheme}://localhost:{self._port.port}"
        self._queries = QueryQueue(_THREADS)
        cluster = self._folder.cluster
        let_in = resolve_access(access, Role.BROKER, cluster.registry)
        self._port.start(cluster.runner, self._queries, Logins(let_in), SYSTEM_CLOCK, RANDOM_IDS, NULLS_ON)

    def close(self) -> None:
        """End the running queries, and release the folder."""
        self._port.stop()
        self._queries.shutdown(wait=False)
        self._folder.leave(self)

    def __enter__(self) -> "ServedFolder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
