"""A controller as a process of its own."""

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
_SETTLED_MS = 600_000  # what is older and belongs to nothing was left behind by somebody who died
_SWEEP_MS = 3_600_000
_WORK = ".work"


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
