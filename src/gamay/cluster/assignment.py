"""Which servers a new segment goes to. Pure functions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records import ONLINE, Instance, Role


def servers_tagged(instances: Iterable[Instance], tag: str) -> list[str]:
    """Return the ids of the enabled servers that carry a tag, ascending."""
    return sorted(i.id for i in instances if i.role is Role.SERVER and i.enabled and tag in i.tags)


def assign_balanced(
    segments: Sequence[str], servers: Sequence[str], replication: int, states: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Place each segment on the `replication` servers that hold fewest segments of the table; ties by position.

    states: the present ideal state, segment -> server -> state.
    Raises InvalidConfigError when there are fewer servers than replicas.
    """
    if len(servers) < replication:
        raise InvalidConfigError(
            f"{replication} replicas need as many servers, but the table's tenant has {len(servers)}; "
            "lower 'segmentsConfig.replication' or tag more servers"
        )
    load = Counter(dict.fromkeys(servers, 0))
    for assigned in states.values():
        load.update(server for server in assigned if server in load)
    placed: dict[str, dict[str, str]] = {}
    for segment in segments:
        chosen = sorted(servers, key=lambda server: load[server])[:replication]
        load.update(chosen)
        placed[segment] = dict.fromkeys(sorted(chosen), ONLINE)
    return placed
