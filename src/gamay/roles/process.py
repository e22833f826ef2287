"""One role of a cluster on ZooKeeper as a process of its own.

Start: take the ports, wait for ZooKeeper, join, wire the role together, answer `/health` with 503 until it is of use. Stop:
say that it leaves, let others take over, finish what is under way, end the session.
"""

import logging
import shutil
import ssl
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import InvalidConfigError
from gamay.base.history import MetricsHistory
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.base.machine import usable_processors
from gamay.base.rng import new_rng
from gamay.base.tls import TlsSettings
from gamay.broker.answer.query_log import SLOW_QUERY_MS
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.flight.port import FlightPort
from gamay.broker.history import broker_history
from gamay.broker.http.app import BrokerApp
from gamay.broker.http.inserts import FileInserts
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.scatter.remote import QueryConnections
from gamay.cluster.access.principals import AccessControl
from gamay.cluster.access.users import resolve_access
from gamay.cluster.records.broker_resource import BrokerResource
from gamay.cluster.records.records import Instance, Role
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store import buckets
from gamay.cluster.store.election import LeadElection, leader_of
from gamay.cluster.store.secret import shared_secret
from gamay.cluster.store.zookeeper_store import ZooKeeperStore
from gamay.controller.api.app import create_app
from gamay.controller.health.periodic import PeriodicTask, PeriodicTasks
from gamay.controller.instances.remote_servers import HttpServers
from gamay.ingest.stream.spi import StreamContext
from gamay.minion.app import minion_app
from gamay.minion.metrics import minion_history
from gamay.minion.on_spark import SparkBuilder
from gamay.minion.role import task_worker
from gamay.query.limits.budget import ProcessBudget
from gamay.query.limits.queue import QueryQueue
from gamay.roles.controller_role import ControllerRole
from gamay.roles.layout import Layout
from gamay.roles.lock import FolderLock
from gamay.roles.membership import claim_instance_id, connect, join, set_shutting_down
from gamay.roles.memory import process_tasks, use_one_allocator
from gamay.roles.pandas_import import keep_arrow_from_importing_pandas
from gamay.roles.server_role import ServerRole, consuming_resources
from gamay.roles.settings import RoleSettings
from gamay.roles.starting import starting
from gamay.roles.switching import switch_threads_often
from gamay.roles.warming import Warming
from gamay.rpc.handshake import ClusterSecret
from gamay.server.answering.listener import QueryListener
from gamay.server.answering.query_memory import follow_settings
from gamay.server.consuming.completion_client import HttpCompletionClient
from gamay.server.http.app import ServerApp
from gamay.server.loading.sources import ClusterMembers, SegmentSources
from gamay.server.metrics.gauges import server_history
from gamay.storage.deep_store import DeepStore
from gamay.storage.fetchers import Fetchers
from gamay.storage.filesystems import scheme_of
from gamay.storage.remote_store import open_deep_store
from gamay.web.bounded_heads import BoundedHeads
from gamay.web.process_routes import process_routes
from gamay.web.request_limits import Limited
from gamay.web.serving import HttpServer

_log = logging.getLogger(__name__)

_QUERY_THREADS = max(4, 2 * usable_processors())
_REPAIR_S = 3600
_SETTLED_MS = 600_000  # what is older and belongs to nothing was left behind by somebody who died
_SWEEP_MS = 3_600_000
_ANSWERS_S = 1.0  # for requests by HTTP, however long what was drained before took
_ROUTES_FOLLOW_S = 1.0  # brokers hear in that time that a server is leaving
_WORK = ".work"


class RoleProcess(ABC):
    """What all roles have in common. Raises InUseError when a port is taken; `start` raises as `connect` and `join` do."""

    def __init__(self, settings: RoleSettings, clock: Clock = SYSTEM_CLOCK, ids: Ids = RANDOM_IDS) -> None:
        keep_arrow_from_importing_pandas()
        self.settings = settings
        self.clock = clock
        self.ids = ids
        tls, name = settings.tls, settings.role.value.lower()
        self._tls_client = None if tls is None else tls.client_context()
        self._tls_server = None if tls is None or tls.certificate is None else tls.server_context()
        is_encrypted = settings.https or (settings.query_tls and settings.role is Role.SERVER)
        if is_encrypted and self._tls_server is None:
            raise InvalidConfigError("https needs a certificate: --tls-cert and --tls-key, or the key …tls.certificate.path")
        self._http = HttpServer(name, settings.port, settings.address, self._tls_server if settings.https else None)
        self._plain = None if settings.plain_port is None else HttpServer(name, settings.plain_port, settings.address)
        self.id = settings.instance_id or Instance.make_id(settings.role, settings.host, self._http.port)
        self._stopped = threading.Event()
        self._started = False
        self._own_tasks = PeriodicTasks(process_tasks(lambda: self._history.sample()), clock)
        self._history: MetricsHistory  # of what `_build` makes

    @property
    def url(self) -> str:
        """Where the HTTP interface is."""
        return f"{self.settings.scheme}://{self.settings.host}:{self._http.port}"

    @property
    def ready(self) -> bool:
        """Whether `/health` answers 200."""
        return self._started and not self._stopped.is_set() and self._is_of_use()

    def start(self) -> None:
        """Join the cluster, and return when the role is at work."""
        switch_threads_often()
        use_one_allocator()
        for http in self._listeners:
            http.start(starting(self.settings.role))
        self.store: ZooKeeperStore = connect(self.settings, self.clock, self._stopped.is_set)
        try:
            self.registry = Registry(self.store, self.settings.cluster)
            apps = self._build()
            claim_instance_id(self.store, self.id, self.clock, self.settings.session_timeout_s)
            join(self.settings, self.registry, self.id, self._member_port(), self._http.port)
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
        _log.info("%s is at work at %s", self.id, self.url)

    @property
    def _listeners(self) -> list[HttpServer]:
        return [http for http in (self._http, self._plain) if http is not None]

    def request_stop(self) -> None:
        """Have `wait` return."""
        self._stopped.set()

    def wait(self) -> None:
        """Return when the process is to stop."""
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

    def _deep_store(self, uri: str) -> DeepStore:
        """Return the deep store at a URI or path. Raises InvalidConfigError."""
        storage, scheme = self.settings.storage, scheme_of(uri)
        retries = replace(storage.retries_of(scheme), sleep=self._stopped.wait)
        return open_deep_store(uri, storage.options_of(scheme), retries, self.ids)

    def _announce(self) -> None:
        announce(self.store, self.id)

    def _prepare(self) -> None:  # noqa: B027 - most roles have nothing to do
        """Do what must be done before the first request, as the only process that is this instance."""

    def _leave(self, deadline_s: float) -> None:  # noqa: B027
        """Let others take over, while requests are still answered. deadline_s: until when what runs may end."""

    @abstractmethod
    def _build(self) -> tuple[Any, ...]:
        """Wire the role together; return the application, and what serves a connection when that is special."""

    @abstractmethod
    def _begin(self) -> None:
        """Set the role to work."""

    @abstractmethod
    def _is_of_use(self) -> bool:
        """Whether the role, which has begun, can do what it is there for."""

    def _access(self) -> AccessControl:
        """Return who may use the HTTP interface."""
        return resolve_access(self.settings.access, self.settings.role, self.registry)

    def _secret(self) -> ClusterSecret:
        """Return what brokers and servers prove to each other that they know."""
        return ClusterSecret(self.settings.secret or shared_secret(self.store))

    @abstractmethod
    def _end(self) -> None:
        """End the threads of the role."""


class ControllerProcess(RoleProcess):
    """A controller; of several, one leads."""

    def _build(self) -> tuple[Any, ...]:
        folder = self.settings.data_dir
        assert folder is not None
        self._election = LeadElection(self.store, self.id, self._lead, self._resign)
        self._servers = HttpServers(self.registry, self.settings.auth_token, self._tls_client)
        self._role = ControllerRole(
            self.registry,
            Registry(self._election.store, self.settings.cluster, self.registry.failed),
            self._deep_store(self.settings.deep_store or str(folder)),
            folder / _WORK / self.id,
            self._servers,
            self.id,
            self.settings.url or self.url,
            self.clock,
            self.ids,
            minion_token=self.settings.auth_token,
            fetchers=Fetchers(self.settings.storage, self._tls_client, self.settings.deep_store),
            tls=self._tls_client,
        )
        repair = PeriodicTask("ClusterRepair", _REPAIR_S, self._mend)
        self._periodic = self._role.periodic_tasks([repair])
        self._history = self._role.history
        services = self._role.services(self._periodic, lambda: self.ready, self._stopped.wait)
        return (create_app(services, self._access()),)

    def _prepare(self) -> None:
        self._role.prepare(alone=False)

    def _begin(self) -> None:
        self._election.start()

    def _is_of_use(self) -> bool:
        return self.store.connected and leader_of(self.store) is not None

    def _leave(self, deadline_s: float) -> None:
        self._election.stop()

    def _end(self) -> None:
        self._role.stop()
        self._servers.close()

    def _lead(self) -> None:
        self._role.lead()
        self._role.task_lead.start()
        self._periodic.start()
        threading.Thread(target=self._mend_at_once, name="lead-repair", daemon=True).start()

    def _resign(self) -> None:
        self._periodic.stop()
        self._role.task_lead.stop()
        self._role.resign()

    def _mend_at_once(self) -> None:
        try:
            self._mend()
        except Exception:  # noqa: BLE001 - it is tried again in the next interval
            _log.exception("what other controllers left behind could not be put in order")

    def _mend(self) -> None:
        """Finish or undo what controllers left behind that died."""
        now_ms = self.clock.now_ms()
        self._role.mend(now_ms - _SETTLED_MS)
        buckets.sweep(self._election.store, now_ms - _SWEEP_MS)


class BrokerProcess(RoleProcess):
    """A broker."""

    def __init__(self, settings: RoleSettings, clock: Clock = SYSTEM_CLOCK, ids: Ids = RANDOM_IDS) -> None:
        super().__init__(settings, clock, ids)
        tls = settings.tls if settings.https else None
        port = settings.flight_port
        others = [http.port for http in self._listeners]
        self._flight = None if port is None else FlightPort(port, settings.address, tls, others)

    @property
    def flight_url(self) -> str | None:
        """Where Flight SQL is spoken, None for nowhere."""
        return None if self._flight is None else f"{self._flight.scheme}://{self.settings.host}:{self._flight.port}"

    def _build(self) -> tuple[Any, ...]:
        self._routing = RoutingTables(self.registry, broker_id=self.id)
        self._connections = QueryConnections(
            self.id,
            self._address_of,
            self.clock,
            self._query_tls,
            busy_poll_us=self.settings.busy_poll_us,
            secret=self._secret(),
        )
        self._runner = QueryRunner(
            self.id,
            self._routing,
            self._connections,
            self.clock,
            request_base=self.clock.now_ms() % 1_000_000,
            slow_ms=SLOW_QUERY_MS,
        )
        self._queries = QueryQueue(_QUERY_THREADS)
        self._warming = Warming(of_broker=True)
        self._history = broker_history(self._runner, self.clock)
        more = process_routes(self.registry, self.id, self.clock, self._history)
        self._let_in = self._access()
        inserts = FileInserts(self.registry, self._tls_client)
        app = BrokerApp(self._runner, self._queries, lambda: self.ready, self._let_in, more, inserts)
        # requests are counted in front of the application, where the shortest way for queries does not pass
        is_counted = self.settings.limits.per_s is not None
        return app.asgi(), BoundedHeads if is_counted else app.protocol()

    @property
    def _query_tls(self) -> ssl.SSLContext | None:
        """What servers are checked against."""
        if not self.settings.query_tls:
            return None
        return self._tls_client or TlsSettings().client_context()

    def _address_of(self, server: str) -> tuple[str, int] | None:
        if not self.store.connected:  # servers that were never asked so far can be asked all the same
            return self._routing.known_address(server)
        found = self.registry.get_instance(server)
        return None if found is None else (found.host, found.port)

    def _prepare(self) -> None:
        if (broker := self.registry.get_instance(self.id)) is not None:
            BrokerResource(self.registry).enrol(broker)
        self._routing.start()  # before the first request, which would be told that there is no such table

    def _begin(self) -> None:
        if self._flight is not None:
            self._flight.start(self._runner, self._queries, self._let_in, self.clock, self.ids)
            _log.info("%s speaks Flight SQL at %s", self.id, self.flight_url)
        if self.settings.warm_up:  # it answers meanwhile: most queries need no kernel of a broker
            self._warming.start()

    def _is_of_use(self) -> bool:
        return True  # without ZooKeeper a broker goes on with the routes it has

    def _leave(self, deadline_s: float) -> None:
        if self._flight is not None:
            self._flight.stop(max(deadline_s - self.clock.monotonic_s(), 0))

    def stop(self) -> None:
        """Leave the cluster gracefully."""
        super().stop()
        if self._flight is not None:  # also one that was never at work
            self._flight.stop()

    def _end(self) -> None:
        self._warming.stop()
        self._routing.stop()
        self._runner.close()
        self._connections.close()
        self._queries.shutdown(wait=False)


class ServerProcess(RoleProcess):
    """A server."""

    def __init__(self, settings: RoleSettings, clock: Clock = SYSTEM_CLOCK, ids: Ids = RANDOM_IDS) -> None:
        assert settings.data_dir is not None
        super().__init__(settings, clock, ids)
        self._lock = FolderLock(settings.data_dir.expanduser().absolute())
        self._warming = Warming()

    def _member_port(self) -> int:
        return self._listener.port

    def _build(self) -> tuple[Any, ...]:
        assert self.settings.data_dir is not None
        settings = self.settings
        store = None if settings.deep_store is None else self._deep_store(settings.deep_store)
        headers = {"Authorization": settings.auth_token} if settings.auth_token else {}
        members = ClusterMembers(self.registry, self.id, new_rng().shuffle)
        sources = SegmentSources(store, Fetchers(settings.storage, self._tls_client), members, headers)
        layout = Layout(self.settings.data_dir.expanduser().absolute())
        self._budget = ProcessBudget.of_machine(layout.spill)
        self._completion = HttpCompletionClient(self._lead_controller, self.settings.auth_token, self._tls_client)
        streams = StreamContext(client_id=self.id, clock=self.clock)
        self._role = ServerRole(
            self.id,
            self.registry,
            layout.server,
            sources,
            self.clock,
            self.ids,
            consuming=partial(consuming_resources, self.id, layout, streams, self._completion, self.clock, self.ids, store),
            key_defaults=self.settings.key_defaults,
        )
        self._listener = QueryListener(
            self.id,
            self._role.executor,
            self.clock,
            port=self.settings.query_port,
            host=self.settings.address,
            memory=self._budget,
            tls=self._tls_server if self.settings.query_tls else None,
            busy_poll_us=self.settings.busy_poll_us,
            secret=self._secret(),
        )
        self._history = server_history(self._role.instance, self.clock)
        more = process_routes(self.registry, self.id, self.clock, self._history)
        return (ServerApp(self._role.instance, lambda: self.ready, self._access(), more, self._listener).asgi(),)

    def _announce(self) -> None:
        pass  # the instance does that, once its segments are loaded

    def _prepare(self) -> None:
        self._unfollow = follow_settings(self.registry, self._budget)

    def _begin(self) -> None:
        if self.settings.warm_up:
            self._warming.start()
        else:
            self._warming.skip()
        self._listener.start()
        self._role.instance.start()

    def _is_of_use(self) -> bool:
        return self._role.instance.ready and self._warming.done

    def _leave(self, deadline_s: float) -> None:
        """Drain: brokers are told to ask others, then what they have asked is answered."""
        try:
            set_shutting_down(self.registry, self.id)
        except Exception:  # noqa: BLE001 - without ZooKeeper there is nobody to be told; what is under way is finished all the same
            _log.exception("brokers could not be told that %s leaves", self.id)
        self._listener.leave()
        threading.Event().wait(_ROUTES_FOLLOW_S)
        while self._listener.in_flight and self.clock.monotonic_s() < deadline_s:
            threading.Event().wait(0.05)

    def _end(self) -> None:
        self._unfollow()
        self._warming.stop()
        self._listener.stop()
        self._role.instance.stop()
        self._completion.close()
        self._role.executor.close()
        self._lock.release()

    def _lead_controller(self) -> str | None:
        leader = leader_of(self.store)
        found = None if leader is None else self.registry.get_instance(leader)
        return None if found is None else found.url


class MinionProcess(RoleProcess):
    """A minion: it does the tasks that controllers make."""

    def __init__(self, settings: RoleSettings, clock: Clock = SYSTEM_CLOCK, ids: Ids = RANDOM_IDS) -> None:
        super().__init__(settings, clock, ids)
        self._spark = None
        if settings.spark is not None:
            self._spark = SparkBuilder(settings.spark, self.id, settings.storage, settings.tls)
            self._spark.check()
        settings.purge.check()

    def _build(self) -> tuple[Any, ...]:
        folder = self.settings.data_dir
        self._own_folder = Path(tempfile.mkdtemp(prefix="gamay-minion-")) if folder is None else None
        scratch = (self._own_folder or folder or Path()).expanduser().absolute() / _WORK / self.id
        token = self.settings.auth_token
        self._worker = task_worker(
            self.id, self.registry, scratch, self.clock, self.ids, token, self._tls_client, self._spark,
            self.settings.storage, self.settings.purge,
        )  # fmt: skip
        self._history = minion_history(self._worker, self.clock)
        more = process_routes(self.registry, self.id, self.clock, self._history)
        return (minion_app(self._worker, lambda: self.ready, self._access(), more),)

    def _begin(self) -> None:
        self._worker.start()

    def _is_of_use(self) -> bool:
        return self.store.connected

    def _leave(self, deadline_s: float) -> None:
        """Drain: no more tasks are taken, and those that run may end in the time that there is."""
        self._worker.drain()
        if not self._worker.wait_idle(max(deadline_s - self.clock.monotonic_s(), 0)):
            _log.warning("%s gives back the tasks that have not ended", self.id)

    def _end(self) -> None:
        self._worker.stop()
        if self._spark is not None:
            self._spark.close()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)


PROCESSES: dict[Role, Callable[[RoleSettings], RoleProcess]] = {
    Role.CONTROLLER: ControllerProcess,
    Role.BROKER: BrokerProcess,
    Role.SERVER: ServerProcess,
    Role.MINION: MinionProcess,
}
