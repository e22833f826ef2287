"""A server as its own process."""

import logging
import threading
from functools import partial
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.base.rng import new_rng
from gamay.cluster.store.election import leader_of
from gamay.ingest.stream.spi import StreamContext
from gamay.query.limits.budget import ProcessBudget
from gamay.roles.layout import Layout
from gamay.roles.lock import FolderLock
from gamay.roles.membership import set_shutting_down
from gamay.roles.process import RoleProcess
from gamay.roles.server_role import ServerRole, consuming_resources
from gamay.roles.settings import RoleSettings
from gamay.roles.warming import Warming
from gamay.server.answering.listener import QueryListener
from gamay.server.answering.query_memory import follow_settings
from gamay.server.answering.running import RunningQueries
from gamay.server.consuming.completion_client import HttpCompletionClient
from gamay.server.grpc.port import GrpcPort
from gamay.server.http.app import ServerApp
from gamay.server.loading.sources import ClusterMembers, SegmentSources
from gamay.server.metrics.gauges import server_history
from gamay.storage.fetchers import Fetchers
from gamay.web.process_routes import process_routes

_log = logging.getLogger(__name__)
_ROUTES_FOLLOW_S = 1.0  # time for brokers to notice that a server is leaving


class ServerProcess(RoleProcess):
    """The process of a server."""

    def __init__(self, settings: RoleSettings, clock: Clock = SYSTEM_CLOCK, ids: Ids = RANDOM_IDS) -> None:
        assert settings.data_dir is not None
        super().__init__(settings, clock, ids)
        self._lock = FolderLock(settings.data_dir.expanduser().absolute())
        self._lock.describe({"server": self.url})
        self._warming = Warming()
        port, tls = settings.grpc_port, settings.tls if settings.grpc_tls else None
        others = [http.port for http in self._listeners]
        self._grpc = None if port is None else GrpcPort(port, settings.address, tls, others)

    @property
    def grpc_port(self) -> int | None:
        """The gRPC port, or None."""
        return None if self._grpc is None else self._grpc.port

    def _member_port(self) -> int:
        return self._listener.port

    def _grpc_port(self) -> int | None:
        return -1 if self._grpc is None else self._grpc.port

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
        self._running = RunningQueries()
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
            running=self._running,
        )
        self._history = server_history(self._role.instance, self.clock)
        more = process_routes(self.registry, self.id, self.clock, self._history)
        self._let_in = self._access()
        return (ServerApp(self._role.instance, lambda: self.ready, self._let_in, more, self._running).asgi(),)

    def _announce(self) -> None:
        pass  # the instance announces itself, once its segments are loaded

    def _prepare(self) -> None:
        self._unfollow = follow_settings(self.registry, self._budget)

    def _begin(self) -> None:
        if self.settings.warm_up:
            self._warming.start()
        else:
            self._warming.skip()
        self._listener.start()
        self._role.instance.start()
        if self._grpc is not None:
            self._grpc.start(self._role.instance, self._role.executor, self._running, self._let_in, self.clock)
            _log.info("%s takes queries by gRPC on port %d", self.id, self._grpc.port)

    def _is_of_use(self) -> bool:
        return self._role.instance.ready and self._warming.done

    def _leave(self, deadline_s: float) -> None:
        """Drain: brokers are directed to other replicas, then the queries in flight are answered."""
        try:
            set_shutting_down(self.registry, self.id)
        except Exception:  # noqa: BLE001 - without ZooKeeper, queries in flight are still finished
            _log.exception("brokers could not be notified that %s leaves", self.id)
        self._listener.leave()
        if self._grpc is not None:
            self._grpc.stop(max(deadline_s - self.clock.monotonic_s(), 0))
        threading.Event().wait(_ROUTES_FOLLOW_S)
        while self._listener.in_flight and self.clock.monotonic_s() < deadline_s:
            threading.Event().wait(0.05)

    def stop(self) -> None:
        """Leave the cluster gracefully."""
        super().stop()
        if self._grpc is not None:  # also if it was never started
            self._grpc.stop()

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
