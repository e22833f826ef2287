"""The controller that other roles send requests to."""

from gamay.base.errors import NotFoundError
from gamay.cluster.records.records import Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store.election import leader_of


def controller_url(registry: Registry) -> str:
    """Return the URL of the lead controller, or else of any live one. Raises NotFoundError."""
    leader = leader_of(registry.store)
    found = None if leader is None else registry.get_instance(leader)
    if found is None:
        live = set(registry.live_instance_ids())
        there = [i for i in registry.instances() if i.role is Role.CONTROLLER and i.id in live]
        if not there:
            raise NotFoundError("no controller is live")
        found = there[0]
    return found.url
