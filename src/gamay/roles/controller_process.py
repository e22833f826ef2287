"""A controller as its own process."""

import logging
import threading
from typing import Any

from gamay.cluster.records.registry import Registry
from gamay.cluster.store import buckets
from gamay.cluster.store.election import LeadElection, leader_of
from gamay.controller.api.app import create_app
from gamay.controller.health.periodic import PeriodicTask
from gamay.controller.instances.remote_servers import HttpServers
from gamay.roles.controller_role import ControllerRole
from gamay.roles.process import RoleProcess
from gamay.storage.fetchers import Fetchers

_log = logging.getLogger(__name__)
_REPAIR_S = 3600
_SETTLED_MS = 600_000  # older records without an owner are remains of dead processes
_SWEEP_MS = 3_600_000
_WORK = ".work"


class ControllerProcess(RoleProcess):
    """The process of a controller; one of several leads."""

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
        repair = PeriodicTask("ClusterRepair", _REPAIR_S, self._repair)
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
        threading.Thread(target=self._try_repair, name="lead-repair", daemon=True).start()

    def _resign(self) -> None:
        self._periodic.stop()
        self._role.task_lead.stop()
        self._role.resign()

    def _try_repair(self) -> None:
        try:
            self._repair()
        except Exception:  # noqa: BLE001 - it is tried again in the next interval
            _log.exception("interrupted operations of other controllers could not be repaired")

    def _repair(self) -> None:
        """Complete or roll back operations of controllers that died."""
        now_ms = self.clock.now_ms()
        self._role.repair(now_ms - _SETTLED_MS)
        buckets.sweep(self._election.store, now_ms - _SWEEP_MS)
