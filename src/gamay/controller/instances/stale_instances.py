"""Forgetting instances that have gone for good, such as the machines of yesterday of a cluster that grows and shrinks."""

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

# the metric that tells how many, by role
_DROPPED = {
    Role.BROKER: "droppedBrokerInstances",
    Role.SERVER: "droppedServerInstances",
    Role.MINION: "droppedMinionInstances",
}


class StaleInstances:
    """Drops brokers, servers and minions that have been away for long, that no segment is on and no tenant needs.

    Nobody writes down when an instance went, so the time counts from when this controller first missed it.
    """

    def __init__(self, instances: InstanceManager) -> None:
        self._instances = instances
        self._missed_s: dict[str, float] = {}
        self._dropped: Counter[Role] = Counter()
        self._watches = False

    def run(self) -> None:
        """Look once. Raises what the metadata store raises."""
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
                _log.info("%s is forgotten: it has been away for %.0f s", name, now_s - self._missed_s.pop(name))

    def measure(self) -> Iterator[Measured]:
        """Yield how many were dropped by this controller."""
        text = "Instances that were forgotten because they had been away for long"
        for role, name in _DROPPED.items():
            yield Measured(f"pinot_controller_{name}", self._dropped[role], text)

    def _drop(self, name: str) -> bool:
        # One that comes back later is tagged like a new one, so it must not have been what a tenant relied on.
        if problems := self._instances.tag_problems({name: ()})[name]:
            _log.info("%s is away and not forgotten: %s", name, problems[0][1])
            return False
        try:
            self._instances.drop(name)
        except (ConflictError, NotFoundError) as error:
            _log.info("%s is away and not forgotten: %s", name, error)
            return False
        return True

    def _on_change(self, path: str) -> None:
        """An instance came or went; after a lost connection any of them may have."""
        if path == paths.LIVE_INSTANCES:
            self._missed_s.clear()
        else:
            self._missed_s.pop(path.rpartition("/")[2], None)
