"""Which servers consume a partition, and how many partitions share a server. Pure functions."""

from collections.abc import Sequence

from gamay.base.errors import InvalidConfigError
from gamay.cluster.llc_name import LlcName
from gamay.cluster.records import OFFLINE, Assignment


def consuming_servers(table: str, partition: int, replication: int, servers: Sequence[str]) -> tuple[str, ...]:
    """Return the servers that consume a partition: replica r of partition p is server `(p * replication + r) mod n`.

    table: typed name; it decides where in the ascending list of servers the counting begins, so that small tables do not
    all meet on the same servers. Raises InvalidConfigError when there are fewer servers than replicas.
    """
    if len(servers) < replication:
        raise InvalidConfigError(
            f"table {table}: {replication} replicas of each partition need as many servers, but {len(servers)} are tagged "
            "for its consuming segments; lower the replication or tag more servers"
        )
    first = _java_hash(table) % len(servers)
    at = [first + partition * replication + replica for replica in range(replication)]
    return tuple(servers[index % len(servers)] for index in at)


def present_servers(ideal: Assignment, partition: int) -> tuple[str, ...]:
    """Return the servers of a partition's latest segment that is not OFFLINE everywhere; empty when there is none.

    Where rows of one primary key must meet on one server, new segments of a partition follow the older ones.
    """
    found: LlcName | None = None
    for segment, states in ideal.states.items():
        name = LlcName.parse(segment)
        if name is None or name.partition != partition or set(states.values()) == {OFFLINE}:
            continue
        if found is None or name.sequence > found.sequence:
            found = name
    return () if found is None else tuple(sorted(ideal.states[str(found)]))


def partitions_per_server_max(num_partitions: int, replication: int, num_servers: int) -> int:
    """Return how many consuming segments of a table the fullest server has; at least 1."""
    return max(1, -(-num_partitions * replication // max(1, num_servers)))


def _java_hash(text: str) -> int:
    """Return the absolute value of Java's `String.hashCode`, so that tables lie as they would in Pinot."""
    value = 0
    utf16 = text.encode("utf-16-be")
    for i in range(0, len(utf16), 2):
        value = (31 * value + (utf16[i] << 8 | utf16[i + 1])) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value >= 1 << 31 else value)
