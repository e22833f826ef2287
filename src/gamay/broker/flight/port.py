"""The port on which a broker serves Flight SQL, and its TLS settings."""

import importlib.util
import socket
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from gamay.base.clock import Clock
from gamay.base.errors import InUseError, InvalidConfigError
from gamay.base.ids import Ids
from gamay.base.tls import TlsSettings
from gamay.broker.answer.runner import QueryRunner
from gamay.cluster.access.logins import Logins
from gamay.query.limits.queue import QueryQueue

if TYPE_CHECKING:
    from gamay.broker.flight.server import FlightSqlServer

DEFAULT_FLIGHT_PORT = 32010
_LAST_PORT = 65_535


def is_installed() -> bool:
    """Whether Protobuf, which Flight SQL needs, is installed."""
    return importlib.util.find_spec("google") is not None and importlib.util.find_spec("google.protobuf") is not None


def usual_port(host: str) -> int | None:
    """Return the default port; None if it is in use or Flight SQL is not installed."""
    if not is_installed():
        return None
    try:
        FlightPort(DEFAULT_FLIGHT_PORT, host).stop()
    except InUseError:
        return None
    return DEFAULT_FLIGHT_PORT


class FlightPort:
    """A port that is reserved on creation and serves from `start` on. port: 0 selects a free one, which the attribute
    holds."""

    def __init__(self, port: int, host: str, tls: TlsSettings | None = None, others: Collection[int] = ()) -> None:
        """tls: with a certificate, the port is encrypted. others: ports that this process will listen on later.

        Raises InUseError if another process has the port, InvalidConfigError for an invalid port or certificate.
        """
        if not 0 <= port <= _LAST_PORT:
            raise InvalidConfigError(f"Flight SQL cannot listen on port {port}: a port is a number from 1 to {_LAST_PORT}")
        if port in others and port:
            raise InvalidConfigError(f"Flight SQL cannot listen on port {port}, which HTTP uses; choose another port")
        if not is_installed():
            raise InvalidConfigError("Flight SQL needs Protobuf: pip install 'gamay[flight]'")
        self._transport = {} if tls is None or tls.certificate is None else _transport(tls)
        # without SO_REUSEPORT, with which gRPC would share the port with another process that sets it
        self._held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._held.bind((host, port))
            self._held.listen(1)
        except OSError as error:
            self._held.close()
            raise InUseError(f"Flight SQL cannot listen on port {port}: {error.strerror}; choose another port") from error
        self._host = host
        self.port: int = self._held.getsockname()[1]
        self._server: FlightSqlServer | None = None

    @property
    def scheme(self) -> str:
        """Scheme of the URI that clients connect to."""
        return "grpc+tls" if self._transport else "grpc"

    def start(
        self,
        runner: QueryRunner,
        queue: QueryQueue,
        logins: Logins,
        clock: Clock,
        ids: Ids,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Begin to serve. logins: authenticate the callers. options: defaults for the options of calls.

        Raises InUseError if another process took the port meanwhile.
        """
        from gamay.broker.flight.server import FlightSqlServer  # imported lazily: the process may not serve Flight SQL

        self._held.close()
        location = f"{self.scheme}://{self._host}:{self.port}"
        try:
            self._server = FlightSqlServer(
                location, runner, queue, logins, clock, ids, options=options, transport=self._transport
            )
        except OSError as error:
            raise InUseError(f"Flight SQL cannot listen on port {self.port}: {error}") from error

    def stop(self, within_s: float = 0) -> None:
        """Wait for the running queries up to the timeout, cancel the rest, and close the port."""
        self._held.close()
        if self._server is not None:
            self._server.stop(within_s)
            self._server = None


def _transport(tls: TlsSettings) -> Mapping[str, Any]:
    """Return the certificates in the form that Arrow takes. Raises InvalidConfigError."""
    certificate, key, authorities = tls.pem_files("Flight SQL")
    found: dict[str, Any] = {"tls_certificates": [(certificate, key)]}
    if authorities is not None:
        found |= {"verify_client": True, "root_certificates": authorities}
    return found
