"""Which servers a table may use. Pure functions."""

from collections.abc import Iterable

from gamay.cluster.records import Instance, Role


def servers_tagged(instances: Iterable[Instance], tag: str) -> list[str]:
    """Return the ids of the enabled servers that carry a tag, ascending."""
    return sorted(i.id for i in instances if i.role is Role.SERVER and i.enabled and tag in i.tags)
