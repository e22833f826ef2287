"""A broker as its own process."""

import logging
import ssl
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.base.machine import usable_processors
from gamay.base.tls import TlsSettings
from gamay.broker.answer.query_log import SLOW_QUERY_MS
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.flight.port import FlightPort
from gamay.broker.history import broker_history
from gamay.broker.http.app import BrokerApp
from gamay.broker.http.inserts import FileInserts
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.scatter.remote import QueryConnections
from gamay.cluster.access.logins import Logins
from gamay.cluster.records.broker_resource import BrokerResource
from gamay.query.limits.queue import QueryQueue
from gamay.roles.process import RoleProcess
from gamay.roles.settings import RoleSettings
from gamay.roles.warming import Warming
from gamay.web.bounded_heads import BoundedHeads
from gamay.web.process_routes import process_routes

_log = logging.getLogger(__name__)
_QUERY_THREADS = max(4, 2 * usable_processors())


class BrokerProcess(RoleProcess):
    """The process of a broker."""

    def __init__(self, settings: RoleSettings, clock: Clock = SYSTEM_CLOCK, ids: Ids = RANDOM_IDS) -> None:
        super().__init__(settings, clock, ids)
        tls = settings.tls if settings.https else None
        port = settings.flight_port
        others = [http.port for http in self._listeners]
        self._flight = None if port is None else FlightPort(port, settings.address, tls, others)

    @property
    def flight_url(self) -> str | None:
        """The URL of the Flight SQL port, or None."""
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
        self._logins = Logins(self._access(), clock=self.clock)
        inserts = FileInserts(self.registry, self._tls_client)
        app = BrokerApp(self._runner, self._queries, lambda: self.ready, self._logins, more, inserts)
        # requests are counted in front of the application, which the fast path of queries bypasses
        is_counted = self.settings.limits.per_s is not None
        return app.asgi(), BoundedHeads if is_counted else app.protocol()

    @property
    def _query_tls(self) -> ssl.SSLContext | None:
        """The TLS context that verifies servers, or None without encryption."""
        if not self.settings.query_tls:
            return None
        return self._tls_client or TlsSettings().client_context()

    def _address_of(self, server: str) -> tuple[str, int] | None:
        if not self.store.connected:  # the last known address is good enough
            return self._routing.known_address(server)
        found = self.registry.get_instance(server)
        return None if found is None else (found.host, found.port)

    def _prepare(self) -> None:
        if (broker := self.registry.get_instance(self.id)) is not None:
            BrokerResource(self.registry).enrol(broker)
        self._routing.start()  # before the first request, which would get an unknown-table error

    def _begin(self) -> None:
        if self._flight is not None:
            self._flight.start(self._runner, self._queries, self._logins, self.clock, self.ids)
            _log.info("%s speaks Flight SQL at %s", self.id, self.flight_url)
        if self.settings.warm_up:  # it answers queries meanwhile: most need no kernel of a broker
            self._warming.start()

    def _is_of_use(self) -> bool:
        return True  # without ZooKeeper, a broker continues with its current routes

    def _leave(self, deadline_s: float) -> None:
        if self._flight is not None:
            self._flight.stop(max(deadline_s - self.clock.monotonic_s(), 0))

    def stop(self) -> None:
        """Leave the cluster gracefully."""
        super().stop()
        if self._flight is not None:  # also if it was never started
            self._flight.stop()

    def _end(self) -> None:
        self._warming.stop()
        self._routing.stop()
        self._runner.close()
        self._connections.close()
        self._queries.shutdown(wait=False)
