"""Whether the servers of a table have room for what it consumes."""

import logging
from dataclasses import dataclass

from gamay.base.errors import NotFoundError
from gamay.cluster.records.registry import Registry
from gamay.controller.context import Servers
from gamay.model.cluster_settings import DISK_UTILIZATION_THRESHOLD, RESOURCE_UTILIZATION_CHECK

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Disks:
    """The disks of servers. A server that does not answer has room: what is wrong with it is found elsewhere."""

    registry: Registry
    servers: Servers

    def full(self, table: str) -> str | None:
        """Return which server of a typed table has a disk that is too full, in words; None when none has.

        None, too, unless the cluster's setting `controller.enable.resource.utilization.check` is true.
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
                _log.warning("how full the disk of %s is cannot be told: %s", server, error)
                continue
            if used > most * total:
                return f"the disk of {server} is {used / total:.1%} full, and {DISK_UTILIZATION_THRESHOLD.name} is {most}"
        return None
