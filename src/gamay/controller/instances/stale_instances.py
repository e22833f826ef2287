"""Removal of instances that are gone for good, such as former machines of an elastic cluster."""

import logging
from collections import Counter
from collections.abc import Iterator

from gamay.base.errors import ConflictError, NotFoundError
from gamay.base.metrics import Measured
from gamay.cluster.records.records import Role
from gamay.cluster.store import paths
from gamay.controller.instances.instances import InstanceManager
from gamay.model.cluster_settings import STALE_INSTANCE_AGE
from gamay.model.units import parse_period

_log = logging.getLogger(__name__)

# role -> the metric that counts them
_DROPPED = {
    Role.BROKER: "droppedBrokerInstances",
    Role.SERVER: "droppedServerInstances",
    Role.MINION: "droppedMinionInstances",
}


class StaleInstances:
    """Removal of brokers, servers and minions that have long been dead, that hold no segment and that no tenant needs.

    The time of death is not recorded, so it is counted from when this controller first missed the instance.
    """

    def __init__(self, instances: InstanceManager) -> None:
        self._instances = instances
        self._missed_s: dict[str, float] = {}
        self._dropped: Counter[Role] = Counter()
        self._watches = False

    def run(self) -> None:
        """Remove stale instances once. Raises the metadata store's errors."""
        context = self._instances.context
        registry, now_s = context.registry, context.clock.monotonic_s()
        if not self._watches:
            registry.store.watch(paths.LIVE_INSTANCES, self._on_change)
            self._watches = True
        min_s = parse_period(STALE_INSTANCE_AGE.text(registry.cluster_config())) / 1000
        live = set(registry.live_instance_ids())
        for instance in registry.instances():
            name = instance.id
            if instance.role not in _DROPPED or name in live:
                continue
            if now_s - self._missed_s.setdefault(name, now_s) >= min_s and self._drop(name):
                self._dropped[instance.role] += 1
                _log.info("%s is removed: it has not been live for %.0f s", name, now_s - self._missed_s.pop(name))

    def measure(self) -> Iterator[Measured]:
        """Yield the numbers of instances that this controller dropped."""
        text = "Instances that were removed because they had not been live for long"
        for role, name in _DROPPED.items():
            yield Measured(f"pinot_controller_{name}", self._dropped[role], text)

    def _drop(self, name: str) -> bool:
        # an instance that comes back is tagged like a new one, so it must not be one that a tenant needs
        if problems := self._instances.tag_problems({name: ()})[name]:
            _log.info("%s is not live but kept: %s", name, problems[0][1])
            return False
        try:
            self._instances.drop(name)
        except (ConflictError, NotFoundError) as error:
            _log.info("%s is not live but kept: %s", name, error)
            return False
        return True

    def _on_change(self, path: str) -> None:
        """Handle an instance that came or went; after a lost connection any of them may have."""
        if path == paths.LIVE_INSTANCES:
            self._missed_s.clear()
        else:
            self._missed_s.pop(path.rpartition("/")[2], None)
