"""A whole cluster with its HTTP interfaces in one process and one data folder."""

import secrets
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import InvalidConfigError
from gamay.base.history import MetricsHistory
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.base.machine import usable_processors
from gamay.base.tls import TlsSettings
from gamay.broker.flight.port import FlightPort
from gamay.broker.history import broker_history
from gamay.broker.http.app import BrokerApp
from gamay.broker.http.inserts import FileInserts
from gamay.cluster.access.logins import Logins
from gamay.cluster.access.principals import EVERYBODY, ListedAccess, StoredUsers, with_token
from gamay.cluster.access.users import resolve_access
from gamay.cluster.records.records import Role
from gamay.controller.api.app import create_app
from gamay.embedded.core import HOST, LocalCluster
from gamay.minion.app import minion_app
from gamay.minion.metrics import minion_history
from gamay.minion.purgers import NO_FACTORIES, PurgeFactories
from gamay.query.limits.queue import QueryQueue
from gamay.roles.memory import process_tasks, use_one_allocator
from gamay.roles.switching import switch_threads_often
from gamay.roles.warming import Warming
from gamay.server.answering.running import RunningQueries
from gamay.server.grpc.port import GrpcPort
from gamay.server.http.app import ServerApp
from gamay.server.metrics.gauges import server_history
from gamay.storage.settings import StorageSettings
from gamay.web.bounded_heads import BoundedHeads
from gamay.web.process_routes import process_routes
from gamay.web.request_limits import Limited, RequestLimits
from gamay.web.serving import STOP_S, HttpServer

# Concurrent queries: more would not finish sooner, and would delay the small ones.
_QUERY_THREADS = max(4, 2 * usable_processors())


class EmbeddedCluster:
    """Controller, broker, server and minion over one data folder.

    host: the address to listen on, by default only the loopback interface. access: who may use each role's
    HTTP interface; without it, every client that can connect. tls: with a certificate, which must be for
    `localhost`, all ports are encrypted. limits: of requests to each port. storage: how files that users
    name are fetched. server_storage: how the server fetches segments that are not in the deep store.
    purge: the minion's record purgers, in addition to those of installed packages.
    A port of 0 takes a free one; `controller_url`, `broker_url`, `server_url` and `minion_url` are the roles' addresses.
    flight_port: the broker's port for Flight SQL, None for none; see `flight_url`.
    grpc_port: the port from which Trino and others read the server's segments, None for none; the property has the number.
    Every role answers 503 on `/health` until the segments present at the start are loaded and, unless `warm_up` is
    off, the kernels of queries are compiled. Raises InUseError when the folder or a port is in use.
    """

    def __init__(
        self,
        data_dir: str | Path,
        controller_port: int = 9000,
        broker_port: int = 8099,
        server_port: int = 8098,
        minion_port: int = 0,
        *,
        flight_port: int | None = None,
        grpc_port: int | None = None,
        host: str = "127.0.0.1",
        threads: int | None = None,
        warm_up: bool = True,
        access: Mapping[Role, ListedAccess | StoredUsers] | None = None,
        tls: TlsSettings | None = None,
        limits: RequestLimits | None = None,
        storage: StorageSettings | None = None,
        server_storage: StorageSettings | None = None,
        purge: PurgeFactories = NO_FACTORIES,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = RANDOM_IDS,
    ) -> None:
        self._warm_up = warm_up
        self._access = access or {}
        self._minion_token = f"Bearer {secrets.token_urlsafe(32)}"
        self._limits = limits or RequestLimits()
        is_encrypted = tls is not None and tls.certificate is not None
        own = tls.server_context() if tls is not None and is_encrypted else None
        others = tls.client_context() if tls is not None and is_encrypted else None
        self._http: list[HttpServer] = []
        self._flight: FlightPort | None = None
        self._grpc: GrpcPort | None = None
        self._ids = ids
        self._stopped = threading.Event()
        self._started = False
        self._warm = Warming()
        try:
            ports = {"controller": controller_port, "broker": broker_port, "server": server_port, "minion": minion_port}
            self._take_ports(ports, host, own)
            self._take_grpc_ports(flight_port, grpc_port, host, tls if is_encrypted else None)
            controller, broker, server, minion = (http.port for http in self._http)
            self._core = LocalCluster(
                data_dir,
                controller_port=controller,
                broker_port=broker,
                server_port=server,
                grpc_port=self.grpc_port or -1,
                minion_port=minion,
                minion_token=self._minion_token,
                tls=others,
                storage=storage,
                server_storage=server_storage,
                purge=purge,
                threads=threads,
                clock=clock,
                ids=ids,
            )
        except BaseException:
            self._close_ports()
            raise
        self._histories = _histories_of(self._core)
        self._periodic = self._core.controller.periodic_tasks(process_tasks(self._sample))
        at = f"{'https' if is_encrypted else 'http'}://{HOST}"
        self.controller_url, self.broker_url = f"{at}:{controller}", f"{at}:{broker}"
        self.server_url, self.minion_url = f"{at}:{server}", f"{at}:{minion}"
        self._queries = QueryQueue(_QUERY_THREADS)

    def _take_ports(self, ports: Mapping[str, int], host: str, tls: ssl.SSLContext | None) -> None:
        _check_apart(ports)
        for name, port in ports.items():
            self._http.append(HttpServer(name, port, host, tls))

    def _take_grpc_ports(self, flight_port: int | None, grpc_port: int | None, host: str, tls: TlsSettings | None) -> None:
        others = [http.port for http in self._http]
        if flight_port is not None:
            self._flight = FlightPort(flight_port, host, tls, others)
        if grpc_port is not None:
            self._grpc = GrpcPort(grpc_port, host, tls, others)

    @property
    def flight_url(self) -> str | None:
        """The address of the broker's Flight SQL port, None without one."""
        return None if self._flight is None else f"{self._flight.scheme}://{HOST}:{self._flight.port}"

    @property
    def grpc_port(self) -> int | None:
        """The server's gRPC port, None without one."""
        return None if self._grpc is None else self._grpc.port

    @property
    def core(self) -> LocalCluster:
        """The roles behind the HTTP interfaces."""
        return self._core

    @property
    def ready(self) -> bool:
        """Whether `/health` answers 200: all is loaded and compiled. Queries are answered before that, though possibly
        slowly."""
        return self._core.ready and self._warm.done and not self._stopped.is_set()

    @property
    def compiled(self) -> tuple[int, int]:
        """The number of warm-up steps whose kernels are compiled or loaded, and the number of all steps."""
        return self._warm.progress

    def start(self) -> "EmbeddedCluster":
        """Open the ports, load the segments, and return when queries are answered; a second call does nothing.

        Kernels are compiled in the background, see `ready`.
        """
        if self._started:
            return self
        self._started = True
        switch_threads_often()
        use_one_allocator()
        core = self._core
        services = core.controller.services(self._periodic, lambda: self.ready, self._stopped.wait)
        given = {role: self._access.get(role, EVERYBODY) for role in Role}
        access = {
            role: with_token(resolve_access(known, role, core.registry), self._minion_token, "minion")
            for role, known in given.items()
        }
        assert core.minion is not None
        ids = {Role.BROKER: core.runner.broker_id, Role.SERVER: core.server.id, Role.MINION: core.minion.id}
        more = {role: process_routes(core.registry, ids[role], core.clock, self._histories[role]) for role in ids}
        inserts, running = FileInserts(core.registry, core.context.tls), RunningQueries()
        logins = Logins(access[Role.BROKER], clock=core.clock)
        broker = BrokerApp(core.runner, self._queries, lambda: self.ready, logins, more[Role.BROKER], inserts)
        apps: tuple[tuple[Any, ...], ...] = (
            (create_app(services, access[Role.CONTROLLER]),),
            (broker.asgi(), broker.protocol() if self._limits.per_s is None else BoundedHeads),
            (ServerApp(core.server, lambda: self.ready, access[Role.SERVER], more[Role.SERVER], running).asgi(),),
            (minion_app(core.minion, lambda: self.ready, access[Role.MINION], more[Role.MINION]),),
        )
        core.prepare()
        for http, app in zip(self._http, apps, strict=True):
            http.start(Limited(app[0], self._limits, core.clock), *app[1:])
        core.start()
        if self._flight is not None:
            self._flight.start(core.runner, self._queries, logins, core.clock, self._ids)
        if self._grpc is not None:
            self._grpc.start(core.server, core.executor, running, access[Role.SERVER], core.clock)
        self._periodic.start()
        core.controller.task_lead.start()
        core.minion.start()
        if self._warm_up:
            self._warm.start()
        else:
            self._warm.skip()
        return self

    def wait_until_ready(self, timeout_s: float = 600) -> bool:
        """Wait until `/health` answers 200 or the timeout elapses; return whether it does."""
        return self._warm.wait(timeout_s) and self.ready

    def stop(self) -> None:
        """Finish the requests in flight, then end all threads and release the folder. No data is lost without it."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._warm.stop()
        if self._started:
            self._stop_tasks()
        self._close_ports()
        self._periodic.stop()
        self._queries.shutdown(wait=False)
        self._core.stop()

    def _sample(self) -> None:
        for history in self._histories.values():
            history.sample()

    def _close_ports(self) -> None:
        for http in self._http:
            http.begin_stop()
        if self._flight is not None:
            self._flight.stop(STOP_S)
        if self._grpc is not None:
            self._grpc.stop(STOP_S)
        for http in self._http:
            http.stop()

    def _stop_tasks(self) -> None:
        """Stop scheduling tasks, and return the running ones to their queue: the next start resumes them."""
        self._core.controller.task_lead.stop()
        if self._core.minion is not None:
            self._core.minion.stop()

    def wait(self) -> None:
        """Return when the cluster has been stopped by another thread."""
        self._stopped.wait()

    def __enter__(self) -> "EmbeddedCluster":
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _check_apart(ports: Mapping[str, int]) -> None:
    """Raise InvalidConfigError if two roles are given the same port."""
    taken: dict[int, str] = {}
    for name, port in ports.items():
        if port and port in taken:
            raise InvalidConfigError(f"the {name} cannot listen on port {port} beside the {taken[port]}; choose another")
        taken[port] = name


def _histories_of(core: LocalCluster) -> dict[Role, MetricsHistory]:
    """Return the metrics history of each role."""
    assert core.minion is not None
    return {
        Role.CONTROLLER: core.controller.history,
        Role.BROKER: broker_history(core.runner, core.clock),
        Role.SERVER: server_history(core.server, core.clock),
        Role.MINION: minion_history(core.minion, core.clock),
    }
