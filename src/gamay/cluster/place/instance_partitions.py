"""The instances that serve each part of a table: partitions, each with its replica groups. Pure functions.

A record names them `<partition>_<replica group>`. Without replica groups, all instances are in the single entry
`0_0`, and replicas of a segment go to any of them. With replica groups, each group holds one replica of everything,
so that a query needs only one group.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gamay.base.errors import InvalidConfigError
from gamay.cluster.place.mirrored_groups import of_server_sets, over_fault_domains
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import Instance, Role
from gamay.cluster.store.znrecord import ZNRecord
from gamay.model.table.sections import InstanceAssignmentConfig

_IMPLICIT = "IMPLICIT_REALTIME_TABLE_PARTITION_SELECTOR"
_FAULT_DOMAINS = "FD_AWARE_INSTANCE_PARTITION_SELECTOR"
MIRRORED = "MIRROR_SERVER_SET_PARTITION_SELECTOR"


def table_hash(typed_table: str) -> int:
    """Return |Java's String.hashCode| of a table's typed name, by which tables start at different instances."""
    units = typed_table.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return abs(code - (1 << 32) if code >> 31 else code)


def default_partitions(name: str, typed_table: str, instances: Sequence[str]) -> InstancePartitions:
    """Return the single group of all instances for a table without a config, rotated by the table's name.

    Raises InvalidConfigError if there are no instances.
    """
    if not instances:
        raise InvalidConfigError(f"no server is tagged for table {typed_table}: tag some by PUT /instances/NAME/updateTags")
    ordered = sorted(instances)
    first = table_hash(typed_table) % len(ordered)
    return InstancePartitions(name, (((*ordered[first:], *ordered[:first]),),))


def choose_partitions(
    name: str,
    typed_table: str,
    config: InstanceAssignmentConfig,
    instances: Iterable[Instance],
    *,
    existing: InstancePartitions | None = None,
    num_stream_partitions: int = 0,
    server_sets: InstancePartitions | None = None,
) -> InstancePartitions:
    """Choose instances by a config; with `existing`, as many as possible keep their places.

    num_stream_partitions: of an implicit realtime table. server_sets: the instance partitions that the config names for
    MIRROR_SERVER_SET_PARTITION_SELECTOR. Raises InvalidConfigError if the config cannot be satisfied.
    """
    where = f"instanceAssignmentConfigMap of table {typed_table}"
    wanted = config.replica_group_partition
    first = table_hash(typed_table)
    is_mirrored = config.partition_selector in (_FAULT_DOMAINS, MIRRORED)
    if is_mirrored and not wanted.replica_group_based:
        raise InvalidConfigError(f"{where}: partitionSelector '{config.partition_selector}' needs replicaGroupBased: true")
    pools = _pools(config, instances, first, where)
    if not wanted.replica_group_based:
        pool = pools[first % len(pools)]
        count = wanted.num_instances or len(pool)
        if count > len(pool):
            raise InvalidConfigError(f"{where}: numInstances {count} is more than the {len(pool)} instances there are")
        return InstancePartitions(name, ((tuple(_kept_first(pool, existing, count)),),))
    groups = (
        _mirrored_groups(config, pools, first, where, existing, server_sets)
        if is_mirrored
        else _replica_groups(config, pools, first, where, existing)
    )
    implicit = config.partition_selector == _IMPLICIT
    num_partitions = num_stream_partitions if implicit else wanted.num_partitions or 1
    per_partition = 1 if implicit else wanted.num_instances_per_partition
    if per_partition > len(groups[0]):
        raise InvalidConfigError(
            f"{where}: numInstancesPerPartition {per_partition} is more than a replica group has, {len(groups[0])}"
        )
    if is_mirrored:  # a partition takes the same positions of all groups
        existing = None
    by_group = [_partitions_of(group, g, num_partitions, per_partition, existing) for g, group in enumerate(groups)]
    return InstancePartitions(name, tuple(zip(*by_group, strict=True)))


def _pools(config: InstanceAssignmentConfig, instances: Iterable[Instance], first: int, where: str) -> list[list[str]]:
    """Return the candidates by pool, each ascending; a single pool if the config has no pools."""
    tag_pool = config.tag_pool
    tagged = sorted((i for i in instances if i.role is Role.SERVER and tag_pool.tag in i.tags), key=lambda i: i.id)
    if not tagged:
        raise InvalidConfigError(f"{where}: no server is tagged '{tag_pool.tag}'")
    if not tag_pool.pool_based:
        return [[instance.id for instance in tagged]]
    by_pool: dict[int, list[str]] = {}
    for instance in tagged:
        if tag_pool.tag in instance.pools:
            by_pool.setdefault(int(instance.pools[tag_pool.tag]), []).append(instance.id)
    if not by_pool:
        raise InvalidConfigError(
            f"{where}: no server tagged '{tag_pool.tag}' has a pool: set 'pools' by PUT /instances/NAME"
        )
    if missing := [pool for pool in tag_pool.pools if pool not in by_pool]:
        raise InvalidConfigError(f"{where}: the pools {missing} have no server; there are {sorted(by_pool)}")
    if tag_pool.pools:
        return [by_pool[pool] for pool in sorted(tag_pool.pools)]
    count = tag_pool.num_pools or len(by_pool)
    if count > len(by_pool):
        raise InvalidConfigError(f"{where}: numPools {count} is more than the {len(by_pool)} pools there are")
    numbers = sorted(by_pool)
    return [by_pool[pool] for pool in sorted(numbers[(first + i) % len(numbers)] for i in range(count))]


def _kept_first(pool: Sequence[str], existing: InstancePartitions | None, count: int) -> list[str]:
    """Return the first instances of a pool; those that already serve the table come first and keep their places."""
    if existing is None:
        return list(pool[:count])
    return _filled([existing.groups[0][0]], [count], pool)[0]


def _mirrored_groups(
    config: InstanceAssignmentConfig,
    pools: Sequence[Sequence[str]],
    first: int,
    where: str,
    existing: InstancePartitions | None,
    server_sets: InstancePartitions | None,
) -> list[tuple[str, ...]]:
    """Return the instances of each replica group, those at one position belonging together."""
    wanted = config.replica_group_partition
    if wanted.num_replica_groups < 1:
        raise InvalidConfigError(f"{where}: numReplicaGroups must be 1 at least when replicaGroupBased is true")
    size, members = wanted.num_instances_per_replica_group, [] if existing is None else _group_members(existing)
    if config.partition_selector == _FAULT_DOMAINS:
        if not config.tag_pool.pool_based:
            raise InvalidConfigError(f"{where}: {_FAULT_DOMAINS} needs poolBased: true; pools are the fault domains")
        return over_fault_domains(wanted.num_replica_groups, size, pools, first, where, members)
    if server_sets is None:
        raise InvalidConfigError(
            f"{where}: {MIRRORED} needs stored instance partitions, named in instancePartitionsMap; "
            "write them by PUT /tenants/NAME/instancePartitions"
        )
    candidates = {instance for pool in pools for instance in pool}
    return of_server_sets(wanted.num_replica_groups, size, server_sets, candidates, first, where, members)


def _replica_groups(
    config: InstanceAssignmentConfig,
    pools: Sequence[Sequence[str]],
    first: int,
    where: str,
    existing: InstancePartitions | None,
) -> list[tuple[str, ...]]:
    """Return the instances of each replica group."""
    wanted = config.replica_group_partition
    num_groups = wanted.num_replica_groups
    if num_groups < 1:
        raise InvalidConfigError(f"{where}: numReplicaGroups must be 1 at least when replicaGroupBased is true")
    members = _group_members(existing) if existing is not None else []
    pool_of_group = _pools_of_groups(num_groups, pools, first, members)
    in_pool = {pool: [g for g in range(num_groups) if pool_of_group[g] == pool] for pool in set(pool_of_group)}
    size = wanted.num_instances_per_replica_group or min(len(pools[pool]) // len(own) for pool, own in in_pool.items())
    for pool, own in in_pool.items():
        if size < 1 or size * len(own) > len(pools[pool]):
            raise InvalidConfigError(
                f"{where}: {len(own)} replica groups of {max(1, size)} instances need {max(1, size) * len(own)} servers, "
                f"and their pool has {len(pools[pool])}"
            )
    groups: list[tuple[str, ...]] = [()] * num_groups
    for pool, own in in_pool.items():
        if existing is None:
            dealt = [list(pools[pool][k :: len(own)][:size]) for k in range(len(own))]
        else:
            dealt = _filled([members[g] if g < len(members) else () for g in own], [size] * len(own), pools[pool])
        for group, chosen in zip(own, dealt, strict=True):
            groups[group] = tuple(chosen)
    return groups


def _group_members(existing: InstancePartitions) -> list[tuple[str, ...]]:
    """Return the instances of each replica group in all partitions, in the order of the partitions."""
    return [
        tuple(dict.fromkeys(instance for groups in existing.groups for instance in groups[group]))
        for group in range(existing.num_replica_groups)
    ]


def _pools_of_groups(
    num_groups: int, pools: Sequence[Sequence[str]], first: int, members: Sequence[Sequence[str]]
) -> list[int]:
    """Return the pool of each replica group: the one with the most of its instances, or else pools in turn."""
    if not members:
        return [(first + group) % len(pools) for group in range(num_groups)]
    most = -(-num_groups // len(pools))
    used: Counter[int] = Counter()
    chosen: list[int] = []
    for group in range(num_groups):
        own = set(members[group]) if group < len(members) else set()
        turn = [(first + group + i) % len(pools) for i in range(len(pools))]
        pool = min((p for p in turn if used[p] < most), key=lambda p: (-len(own & set(pools[p])), turn.index(p)))
        used[pool] += 1
        chosen.append(pool)
    return chosen


def _filled(before: Sequence[Sequence[str]], sizes: Sequence[int], candidates: Sequence[str]) -> list[list[str]]:
    """Return groups of the given sizes in which instances keep their places, and holes are filled, emptiest group
    first."""
    free = dict.fromkeys(candidates)
    slots: list[list[str | None]] = []
    for members, size in zip(before, sizes, strict=True):
        group: list[str | None] = [None] * size
        for place, instance in enumerate(members):
            if instance in free and place < size:
                group[place] = instance
                del free[instance]
        # instances beyond the size move up into holes
        for instance in members[size:]:
            if instance in free and None in group:
                group[group.index(None)] = instance
                del free[instance]
        slots.append(group)
    for instance in free:
        open_groups = [group for group in slots if None in group]
        if not open_groups:
            break
        group = max(open_groups, key=lambda g: g.count(None))
        group[group.index(None)] = instance
    return [[instance for instance in group if instance is not None] for group in slots]


def _partitions_of(
    group: Sequence[str], number: int, num_partitions: int, per_partition: int, existing: InstancePartitions | None
) -> list[tuple[str, ...]]:
    """Return the instances of each partition within one replica group."""
    if num_partitions == 1 and not per_partition:
        return [tuple(group)]
    size = per_partition or len(group)
    if existing is None or number >= existing.num_replica_groups:
        return [
            tuple(group[(partition * size + i) % len(group)] for i in range(size)) for partition in range(num_partitions)
        ]
    most = -(-num_partitions * size // len(group))
    serving: Counter[str] = Counter(dict.fromkeys(group, 0))
    kept: list[list[str | None]] = []
    for partition in range(num_partitions):
        before = existing.groups[partition][number] if partition < existing.num_partitions else ()
        places: list[str | None] = [None] * size
        for place, instance in enumerate(before[:size]):
            if serving.get(instance, most) < most and instance in serving:
                places[place] = instance
                serving[instance] += 1
        kept.append(places)
    for places in kept:
        for place, kept_one in enumerate(places):
            if kept_one is None:
                others = [other for other in group if other not in places]
                chosen = min(others, key=lambda other: (serving[other], group.index(other)))
                places[place] = chosen
                serving[chosen] += 1
    return [tuple(instance for instance in places if instance is not None) for places in kept]


def tagged_instances(instances: Iterable[Instance], tag: str) -> list[str]:
    """Return the ids of the servers that carry a tag, enabled or not, ascending."""
    return sorted(i.id for i in instances if i.role is Role.SERVER and tag in i.tags)


def partitions_by_pair(groups: Mapping[str, Sequence[str]], name: str) -> InstancePartitions:
    """Return the partitions of a request's `partitionToInstancesMap`. Raises InvalidConfigError."""
    try:
        return InstancePartitions.from_record(ZNRecord(name, lists={key: list(value) for key, value in groups.items()}))
    except ValueError as error:
        raise InvalidConfigError(f"{name}: {error}; keys look like 0_0 (partition 0, replica group 0)") from error
