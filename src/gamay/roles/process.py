"""One role of a cluster on ZooKeeper as its own process.

Start: open the ports, wait for ZooKeeper, join, wire the role together, answer `/health` with 503 until it is ready.
Stop: announce the shutdown, let others take over, finish requests in flight, end the session.
"""

import logging
import threading
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import InvalidConfigError
from gamay.base.history import MetricsHistory
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.cluster.access.principals import AccessControl
from gamay.cluster.access.users import resolve_access
from gamay.cluster.records.records import Instance, Role
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store.secret import shared_secret
from gamay.cluster.store.zookeeper_store import ZooKeeperStore
from gamay.controller.health.periodic import PeriodicTasks
from gamay.roles.membership import claim_instance_id, connect, join
from gamay.roles.memory import process_tasks, use_one_allocator
from gamay.roles.pandas_import import keep_arrow_from_importing_pandas
from gamay.roles.settings import RoleSettings
from gamay.roles.starting import starting
from gamay.roles.switching import switch_threads_often
from gamay.rpc.handshake import ClusterSecret
from gamay.storage.deep_store import DeepStore
from gamay.storage.filesystems import scheme_of
from gamay.storage.remote_store import open_deep_store
from gamay.web.request_limits import Limited
from gamay.web.serving import HttpServer

_log = logging.getLogger(__name__)
_ANSWERS_S = 1.0  # minimum for HTTP requests, however long the drain took


class RoleProcess(ABC):
    """Base class of role processes. Raises InUseError if a port is taken; `start` raises as `connect` and `join` do."""

    def __init__(self, settings: RoleSettings, clock: Clock = SYSTEM_CLOCK, ids: Ids = RANDOM_IDS) -> None:
        keep_arrow_from_importing_pandas()
        self.settings = settings
        self.clock = clock
        self.ids = ids
        tls, name = settings.tls, settings.role.value.lower()
        self._tls_client = None if tls is None else tls.client_context()
        self._tls_server = None if tls is None or tls.certificate is None else tls.server_context()
        is_encrypted = settings.https or (settings.role is Role.SERVER and (settings.query_tls or settings.grpc_tls))
        if is_encrypted and self._tls_server is None:
            raise InvalidConfigError("https needs a certificate: --tls-cert and --tls-key, or the key …tls.certificate.path")
        self._http = HttpServer(name, settings.port, settings.address, self._tls_server if settings.https else None)
        self._plain = None if settings.plain_port is None else HttpServer(name, settings.plain_port, settings.address)
        self.id = settings.instance_id or Instance.make_id(settings.role, settings.host, self._http.port)
        self._stopped = threading.Event()
        self._started = False
        self._own_tasks = PeriodicTasks(process_tasks(lambda: self._history.sample()), clock)
        self._history: MetricsHistory  # set by `_build`

    @property
    def url(self) -> str:
        """The URL of the HTTP interface."""
        return f"{self.settings.scheme}://{self.settings.host}:{self._http.port}"

    @property
    def ready(self) -> bool:
        """Whether `/health` answers 200."""
        return self._started and not self._stopped.is_set() and self._is_of_use()

    def start(self) -> None:
        """Join the cluster, and return when the role is running."""
        switch_threads_often()
        use_one_allocator()
        for http in self._listeners:
            http.start(starting(self.settings.role))
        self.store: ZooKeeperStore = connect(self.settings, self.clock, self._stopped.is_set)
        try:
            self.registry = Registry(self.store, self.settings.cluster)
            apps = self._build()
            claim_instance_id(self.store, self.id, self.clock, self.settings.session_timeout_s)
            join(self.settings, self.registry, self.id, self._member_port(), self._http.port, self._grpc_port())
            self._prepare()
            for http in self._listeners:
                http.start(Limited(apps[0], self.settings.limits, self.clock), *apps[1:])
            self._begin()
            self._announce()
            self.store.on_new_session(self._announce)
        except BaseException:
            self.store.close()
            raise
        self._own_tasks.start()
        self._started = True
        _log.info("%s is running at %s", self.id, self.url)

    @property
    def _listeners(self) -> list[HttpServer]:
        return [http for http in (self._http, self._plain) if http is not None]

    def request_stop(self) -> None:
        """Make `wait` return."""
        self._stopped.set()

    def wait(self) -> None:
        """Block until a stop is requested."""
        self._stopped.wait()

    def stop(self) -> None:
        """Leave the cluster gracefully."""
        self._stopped.set()
        deadline_s = self.clock.monotonic_s() + self.settings.drain_s
        if self._started:
            _log.info("%s leaves the cluster", self.id)
            self._leave(deadline_s)
        left_s = max(deadline_s - self.clock.monotonic_s(), _ANSWERS_S)
        for http in self._listeners:
            http.begin_stop(left_s)
        for http in self._listeners:
            http.stop(left_s)
        if self._started:
            self._own_tasks.stop()
            self._end()
            self.store.close()

    def _member_port(self) -> int:
        """Return the port by which the cluster knows the instance."""
        return self._http.port

    def _grpc_port(self) -> int | None:
        """Return the gRPC port of the instance: None if its role has none, -1 if it is not open."""
        return None

    def _deep_store(self, uri: str) -> DeepStore:
        """Return the deep store at a URI or path. Raises InvalidConfigError."""
        storage, scheme = self.settings.storage, scheme_of(uri)
        retries = replace(storage.retries_of(scheme), sleep=self._stopped.wait)
        return open_deep_store(uri, storage.options_of(scheme), retries, self.ids)

    def _announce(self) -> None:
        announce(self.store, self.id)

    def _prepare(self) -> None:  # noqa: B027 - most roles have nothing to do
        """Prepare for the first request; no other process is live as this instance."""

    def _leave(self, deadline_s: float) -> None:  # noqa: B027
        """Let others take over, while requests are still answered. deadline_s: the time limit of running work."""

    @abstractmethod
    def _build(self) -> tuple[Any, ...]:
        """Wire the role together; return the application, and the protocol class of connections if it is a special
        one."""

    @abstractmethod
    def _begin(self) -> None:
        """Start the role's work."""

    @abstractmethod
    def _is_of_use(self) -> bool:
        """Whether the started role can do its work."""

    def _access(self) -> AccessControl:
        """Return the access control of the HTTP interface."""
        return resolve_access(self.settings.access, self.settings.role, self.registry)

    def _secret(self) -> ClusterSecret:
        """Return the secret with which brokers and servers authenticate each other."""
        return ClusterSecret(self.settings.secret or shared_secret(self.store))

    @abstractmethod
    def _end(self) -> None:
        """Stop the threads of the role."""
