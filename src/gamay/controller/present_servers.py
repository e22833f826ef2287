"""The servers that already consume a partition, and the number of partitions per server. Pure functions."""

from collections import Counter
from collections.abc import Iterable

from gamay.cluster.place.placement import place_consuming
from gamay.cluster.records.llc_name import PARTITIONS_PER_TOPIC, LlcName
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import OFFLINE, Assignment


def present_servers(ideal: Assignment, partition: int) -> tuple[str, ...]:
    """Return the servers of a partition's latest segment that is not OFFLINE everywhere; empty when there is none."""
    found: LlcName | None = None
    for segment, states in ideal.states.items():
        name = LlcName.parse(segment)
        if name is None or name.partition != partition or set(states.values()) == {OFFLINE}:
            continue
        if found is None or name.sequence > found.sequence:
            found = name
    return () if found is None else tuple(sorted(ideal.states[str(found)]))


def segments_per_server(partitions: Iterable[int], instances: InstancePartitions, replication: int) -> int:
    """Return the highest number of consuming segments of a table on one server, at least 1.

    partitions: ids of the table's partitions. Raises InvalidConfigError when there are too few servers.
    """
    load = Counter(
        server for p in partitions for server in place_consuming(p % PARTITIONS_PER_TOPIC, instances, replication)
    )
    return max(load.values(), default=1)
