"""Check of the disk space of servers that consume a table."""

import logging
from dataclasses import dataclass

from gamay.base.errors import NotFoundError
from gamay.cluster.records.registry import Registry
from gamay.controller.context import Servers
from gamay.model.cluster_settings import DISK_UTILIZATION_THRESHOLD, RESOURCE_UTILIZATION_CHECK

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Disks:
    """The disks of servers. A server that does not answer counts as having space: other checks report it."""

    registry: Registry
    servers: Servers

    def full(self, table: str) -> str | None:
        """Return a description of the first disk of a typed table's servers that is too full, or None.

        Also None unless the cluster's setting `controller.enable.resource.utilization.check` is true.
        """
        settings = self.registry.cluster_config()
        if not RESOURCE_UTILIZATION_CHECK.flag(settings):
            return None
        most = DISK_UTILIZATION_THRESHOLD.decimal(settings)
        ideal = self.registry.must_get_ideal_state(table)
        for server in sorted({server for replicas in ideal.states.values() for server in replicas}):
            try:
                total, used = self.servers.disk_usage(server)
            except NotFoundError as error:
                _log.warning("the disk usage of %s is unknown: %s", server, error)
                continue
            if used > most * total:
                return f"the disk of {server} is {used / total:.1%} full, and {DISK_UTILIZATION_THRESHOLD.name} is {most}"
        return None
