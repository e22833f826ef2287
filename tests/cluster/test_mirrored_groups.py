"""Replica groups whose servers at the same position form a mirror set: across fault domains, and from given server sets."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.cluster.place.instance_partitions import MIRRORED, choose_partitions
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import Instance
from gamay.model.table.sections import InstanceAssignmentConfig, ReplicaGroupPartitionConfig, TagPoolConfig

TABLE = "trips_OFFLINE"
TAG = "DefaultTenant_OFFLINE"
BY_DOMAIN = "FD_AWARE_INSTANCE_PARTITION_SELECTOR"


def servers(*pool_sizes: int, first: int = 0) -> list[Instance]:
    return [
        Instance(f"Server_p{pool}s{i:02}_8098", f"p{pool}s{i:02}", 8098, (TAG,), pools={TAG: str(pool)})
        for pool, size in enumerate(pool_sizes)
        for i in range(first, first + size)
    ]


def config(selector: str, groups: int, size: int = 0, partitions: int = 0, per: int = 0) -> InstanceAssignmentConfig:
    wanted = ReplicaGroupPartitionConfig(
        replica_group_based=True, num_replica_groups=groups, num_instances_per_replica_group=size,
        num_partitions=partitions, num_instances_per_partition=per,
    )  # fmt: skip
    return InstanceAssignmentConfig(TagPoolConfig(TAG, selector == BY_DOMAIN), wanted, partition_selector=selector)


def pool_of(name: str) -> str:
    return name[len("Server_p")]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 5), st.integers(0, 4), st.data())
def test_replicas_lie_in_as_many_domains_as_there_are(
    sizes: list[int], groups: int, partitions: int, data: st.DataObject
) -> None:
    most = -(-groups // len(sizes))
    candidates, wanted = servers(*sizes), config(BY_DOMAIN, groups, partitions=partitions)
    try:
        found = choose_partitions("n", TABLE, wanted, candidates)
    except InvalidConfigError:
        assert sum(min(size, most) for size in sizes) < groups
        return
    members = found.groups[0]
    size = len(members[0])
    assert sum(min(one, (size + 1) * most) for one in sizes) < (size + 1) * groups, "more fit in"
    assert len({instance for group in members for instance in group}) == size * groups
    for replicas in (tuple(column) for part in found.groups for column in zip(*part, strict=True)):
        assert max(Counter(map(pool_of, replicas)).values()) <= most
    gone = data.draw(st.sampled_from(candidates))
    left = [one for one in candidates if one is not gone] + servers(*sizes, first=10)
    same_size = config(BY_DOMAIN, groups, size, partitions)
    again = choose_partitions("n", TABLE, same_size, left, existing=found)
    for replicas in (tuple(column) for part in again.groups for column in zip(*part, strict=True)):
        assert max(Counter(map(pool_of, replicas)).values()) <= most
        assert gone.id not in replicas


def test_what_serves_the_table_stays_where_it_is() -> None:
    wanted = config(BY_DOMAIN, 3, 2)
    before = choose_partitions("n", TABLE, wanted, servers(2, 2, 2))
    after = choose_partitions("n", TABLE, wanted, [*servers(2, 2, 2)[1:], *servers(1, 1, 1, first=5)], existing=before)
    pairs = [pair for a, b in zip(before.groups[0], after.groups[0], strict=True) for pair in zip(a, b, strict=True)]
    assert sum(old != new for old, new in pairs) == 1


def test_a_domain_that_fails_takes_one_replica_group_along() -> None:
    found = choose_partitions("n", TABLE, config(BY_DOMAIN, 3), servers(4, 4, 4)).groups[0]
    assert [len(set(map(pool_of, group))) for group in found] == [1, 1, 1]


def plain(*names: str) -> list[Instance]:
    return [Instance(f"Server_{name}_1", name, 1, (TAG,)) for name in names]


def sets(*columns: tuple[str, str]) -> InstancePartitions:
    rows = tuple(tuple(f"Server_{name}_1" for name in row) for row in zip(*columns, strict=True))
    return InstancePartitions("sets_OFFLINE", (rows,))


def test_server_sets_stay_together_and_where_they_are() -> None:
    known = sets(("a", "x"), ("b", "y"), ("c", "z"))
    candidates = plain(*"abcxyz")
    every = choose_partitions("n", TABLE, config(MIRRORED, 2, partitions=3, per=1), candidates, server_sets=known)
    pairs = {tuple(column) for part in every.groups for column in zip(*part, strict=True)}
    assert pairs == set(zip(*known.groups[0], strict=True))
    two = choose_partitions("n", TABLE, config(MIRRORED, 2, 2), candidates, server_sets=known)
    pairs_of_two = list(zip(*two.groups[0], strict=True))
    assert set(pairs_of_two) < pairs
    changed = sets(("a", "x"), ("b", "y"), ("c", "w")) if ("Server_c_1", "Server_z_1") in pairs_of_two else known
    again = choose_partitions(
        "n", TABLE, config(MIRRORED, 2, 2), plain(*"abcwxyz"), existing=two, server_sets=changed
    )  # fmt: skip
    kept = [pair for pair in zip(*again.groups[0], strict=True) if pair in pairs_of_two]
    assert len(kept) >= (1 if changed is not known else 2)


@pytest.mark.parametrize(
    ("wanted", "known", "message"),
    [
        (config(MIRRORED, 2), None, "named in instancePartitionsMap"),
        (config(MIRRORED, 3), sets(("a", "x")), "numReplicaGroups is 3"),
        (config(MIRRORED, 2, 2), sets(("a", "x"), ("b", "gone")), "have 1 whose servers"),
        (config(MIRRORED, 2), InstancePartitions("s", ((("a",), ("x", "y")),)), "are no server sets"),
        (config(BY_DOMAIN, 2), None, "no server tagged .* has a pool"),
    ],
)
def test_what_cannot_be_met_is_told(
    wanted: InstanceAssignmentConfig, known: InstancePartitions | None, message: str
) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        choose_partitions("n", TABLE, wanted, plain(*"abxy"), server_sets=known)


def test_too_few_servers_in_too_few_domains_are_told() -> None:
    with pytest.raises(InvalidConfigError, match="cannot be formed from pools of 1, 4 servers"):
        choose_partitions("n", TABLE, config(BY_DOMAIN, 2, 2), servers(1, 4))
    flat = InstanceAssignmentConfig(
        TagPoolConfig(TAG), ReplicaGroupPartitionConfig(True, num_replica_groups=2), partition_selector=BY_DOMAIN
    )
    with pytest.raises(InvalidConfigError, match="needs poolBased"):
        choose_partitions("n", TABLE, flat, servers(2, 2))
