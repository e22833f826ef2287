"""Assignment of a table's segments to instances.

Pure functions. Every strategy has two operations: the assignment of a new segment, and the assignment of all segments
that moves as few as possible. A segment's partition follows from its name or its record, so it is the same for every
controller.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.partition_record import InstancePartitions

Placement: TypeAlias = Mapping[str, Sequence[str]]
PartitionOf: TypeAlias = Callable[[str], int]


class Strategy(Enum):
    """Strategies of spreading segments over instances."""

    BALANCED = "balanced"
    REPLICA_GROUP = "replicagroup"
    ALL_SERVERS = "allservers"

    @classmethod
    def of(cls, configured: str | None, partitions: InstancePartitions, *, is_dimension_table: bool) -> "Strategy":
        """Return a table's strategy: the configured one, or else the one that its instance partitions suggest.

        Pinot's round-robin strategies count in memory, so every controller would count separately; the load-based
        strategies, which also use all instances in turn, replace them.
        """
        if is_dimension_table:
            return cls.ALL_SERVERS
        by_name = {strategy.value: strategy for strategy in cls}
        by_name |= {"roundrobin": cls.BALANCED, "roundrobinreplicagroup": cls.REPLICA_GROUP}
        if configured is not None:
            return by_name[configured.lower()]
        return cls.BALANCED if partitions.is_plain else cls.REPLICA_GROUP


def place_new(
    segments: Sequence[str],
    strategy: Strategy,
    partitions: InstancePartitions,
    replication: int,
    present: Mapping[str, Mapping[str, str]],
    partition_of: PartitionOf,
) -> dict[str, tuple[str, ...]]:
    """Return the instances of each new segment, least loaded first.

    present: the ideal state, segment -> instance -> state. Raises InvalidConfigError when there are too few instances.
    """
    load: Counter[str] = Counter()
    for states in present.values():
        load.update(states.keys())
    placed: dict[str, tuple[str, ...]] = {}
    for segment in segments:
        if strategy is Strategy.ALL_SERVERS:
            chosen = partitions.instances
        elif strategy is Strategy.BALANCED:
            chosen = _least_loaded(partitions.groups[0][0], replication, load)
        else:
            groups = partitions.groups[partition_of(segment) % partitions.num_partitions]
            place = min(range(len(groups[0])), key=lambda i: (load[groups[0][i]], i))
            chosen = tuple(group[place] for group in groups)
        load.update(chosen)
        placed[segment] = chosen
    return placed


def place_consuming(partition: int, partitions: InstancePartitions, replication: int) -> tuple[str, ...]:
    """Return the instances that consume a partition of a stream.

    Without replica groups, replicas go round all instances; in replica groups without own partitions, stream partitions go
    round each group; otherwise the first instance of the partition in each group consumes. Raises InvalidConfigError.
    """
    if partitions.is_plain:
        instances = partitions.groups[0][0]
        _check_enough(instances, replication)
        return tuple(instances[(partition * replication + replica) % len(instances)] for replica in range(replication))
    if partitions.num_partitions == 1:
        return tuple(group[partition % len(group)] for group in partitions.groups[0])
    return tuple(group[0] for group in partitions.groups[partition % partitions.num_partitions])


def place_all(
    present: Placement,
    strategy: Strategy,
    partitions: InstancePartitions,
    replication: int,
    partition_of: PartitionOf,
    seed: str,
) -> dict[str, tuple[str, ...]]:
    """Return the instances of all segments of a table, moving as few as a balanced placement allows.

    seed: determines the order in which segments of a partition are placed, the same on every controller. Raises
    InvalidConfigError if there are too few instances.
    """
    if strategy is Strategy.ALL_SERVERS:
        return dict.fromkeys(present, partitions.instances)
    if strategy is Strategy.BALANCED:
        return _balanced(present, partitions.groups[0][0], replication)
    by_partition: dict[int, list[str]] = {}
    for segment in present:
        by_partition.setdefault(partition_of(segment) % partitions.num_partitions, []).append(segment)
    placed: dict[str, tuple[str, ...]] = {}
    for partition, segments in by_partition.items():
        ordered = sorted(segments, key=lambda segment: (zlib.crc32(f"{seed}/{segment}".encode()), segment))
        placed |= _mirrored({segment: present[segment] for segment in ordered}, partitions.groups[partition])
    return placed


def place_all_consuming(
    present: Placement, partitions: InstancePartitions, replication: int, partition_of: PartitionOf
) -> dict[str, tuple[str, ...]]:
    """Return the instances of segments that belong to the servers consuming their partition."""
    return {segment: place_consuming(partition_of(segment), partitions, replication) for segment in present}


def _balanced(present: Placement, instances: Sequence[str], replication: int) -> dict[str, tuple[str, ...]]:
    """Keep replicas on instances up to their share, then assign the others to the least loaded instances."""
    _check_enough(instances, replication)
    share = -(-len(present) * replication // len(instances))
    load: Counter[str] = Counter(dict.fromkeys(instances, 0))
    placed: dict[str, list[str]] = {}
    for segment in sorted(present):
        kept = [instance for instance in sorted(present[segment]) if instance in load and load[instance] < share]
        placed[segment] = kept[:replication]
        load.update(placed[segment])
    for chosen in placed.values():
        while len(chosen) < replication:
            others = [instance for instance in instances if instance not in chosen]
            instance = min(others, key=lambda other: (load[other], instances.index(other)))
            chosen.append(instance)
            load[instance] += 1
    _even_out(placed, present, load, share)
    return {segment: tuple(chosen) for segment, chosen in placed.items()}


def _even_out(placed: Mapping[str, list[str]], present: Placement, load: Counter[str], share: int) -> None:
    """Move replicas away from instances above their share: the kept ones may have left too few choices for the others.

    Replicas that have to move anyway go first. There is always one to move, since the fuller instance has a segment that
    the emptier one lacks.
    """
    for full in [instance for instance, count in load.items() if count > share]:
        held = sorted((full in present[segment], segment) for segment, chosen in placed.items() if full in chosen)
        for _, segment in held:
            if load[full] <= share:
                break
            chosen = placed[segment]
            empty = min((i for i in load if i not in chosen and load[i] < share), key=lambda i: load[i], default=None)
            if empty is not None:
                chosen[chosen.index(full)] = empty
                load[full] -= 1
                load[empty] += 1


def _mirrored(present: Placement, groups: Sequence[Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Place the segments of one partition: at the same position of every replica group."""
    size = len(groups[0])
    target = -(-len(present) // size)
    load: Counter[int] = Counter()
    places: dict[str, int] = {}
    for segment, instances in present.items():
        held = [sum(group[i] in instances for group in groups) for i in range(size)]
        place = max(range(size), key=lambda i: (held[i], -i))
        if held[place] and load[place] < target:
            places[segment] = place
            load[place] += 1
    for segment in present:
        if segment not in places:
            places[segment] = min(range(size), key=lambda i: (load[i], i))
            load[places[segment]] += 1
    return {segment: tuple(group[place] for group in groups) for segment, place in places.items()}


def _least_loaded(instances: Sequence[str], replication: int, load: Counter[str]) -> tuple[str, ...]:
    _check_enough(instances, replication)
    return tuple(sorted(instances, key=lambda instance: load[instance])[:replication])


def _check_enough(instances: Sequence[str], replication: int) -> None:
    if len(instances) < replication:
        found = ", ".join(instances) or "none"
        raise InvalidConfigError(
            f"{replication} replicas need as many servers, but the tenant (or the tier) that they belong to has {found}; "
            "lower 'segmentsConfig.replication' or tag more servers"
        )
