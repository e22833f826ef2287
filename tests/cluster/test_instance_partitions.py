"""Assignment of instances to tables: the documented rules by example, and the properties of every assignment."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.cluster.place.instance_partitions import choose_partitions, default_partitions, table_hash
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import Instance
from gamay.model.table.sections import (
    ConstraintConfig,
    InstanceAssignmentConfig,
    ReplicaGroupPartitionConfig,
    TagPoolConfig,
)

TABLE = "trips_OFFLINE"
TAG = "DefaultTenant_OFFLINE"


def servers(count: int, pools: int = 0, first: int = 0) -> list[Instance]:
    return [
        Instance(f"Server_s{i:02}_8098", f"s{i:02}", 8098, (TAG,), pools={TAG: str(i % pools)} if pools else {})
        for i in range(first, first + count)
    ]


def config(
    *, pool_based: bool = False, num_pools: int = 0, pools: tuple[int, ...] = (), **groups: object
) -> InstanceAssignmentConfig:
    return InstanceAssignmentConfig(
        TagPoolConfig(TAG, pool_based, num_pools, pools),
        ReplicaGroupPartitionConfig(**groups),  # type: ignore[arg-type]
    )


def names(*numbers: int) -> tuple[str, ...]:
    return tuple(f"Server_s{i:02}_8098" for i in numbers)


def test_the_hash_is_that_of_java() -> None:
    assert [table_hash(text) for text in ("", "a", "trips_OFFLINE", "polygenelubricants", "é😀")] == [
        0,
        97,
        abs(_java("trips_OFFLINE")),
        1 << 31,
        abs(_java("é😀")),
    ]


def _java(text: str) -> int:
    """The definition, s[0] * 31^(n-1) + … + s[n-1] over UTF-16 units, in whole numbers, wrapped at the end."""
    encoded = text.encode("utf-16-be")
    units = [int.from_bytes(encoded[i : i + 2]) for i in range(0, len(encoded), 2)]
    total = sum(unit * 31 ** (len(units) - 1 - i) for i, unit in enumerate(units)) % (1 << 32)
    return total - (1 << 32) if total >= 1 << 31 else total


def test_without_configuration_all_instances_are_one_group_that_starts_by_the_tables_name() -> None:
    found = default_partitions("trips_OFFLINE", TABLE, names(2, 0, 1))
    first = table_hash(TABLE) % 3
    assert found.groups == (((*names(0, 1, 2)[first:], *names(0, 1, 2)[:first]),),)
    assert found.is_plain
    with pytest.raises(InvalidConfigError, match="no server is tagged"):
        default_partitions("trips_OFFLINE", TABLE, [])


def test_instances_are_dealt_to_replica_groups_in_turn() -> None:
    found = choose_partitions("n", TABLE, config(replica_group_based=True, num_replica_groups=2), servers(5))
    assert found.groups == ((names(0, 2), names(1, 3)),)


def test_replica_groups_take_pools_in_turn() -> None:
    wanted = config(pool_based=True, replica_group_based=True, num_replica_groups=3)
    found = choose_partitions("n", TABLE, wanted, servers(9, pools=3))
    pools = [names(0, 3, 6), names(1, 4, 7), names(2, 5, 8)]
    first = table_hash(TABLE) % 3
    assert found.groups == (tuple(pools[(first + g) % 3] for g in range(3)),)


def test_partitions_go_round_their_replica_group() -> None:
    wanted = config(replica_group_based=True, num_replica_groups=2, num_partitions=4, num_instances_per_partition=2)
    found = choose_partitions("n", TABLE, wanted, servers(6))
    first, second = names(0, 2, 4), names(1, 3, 5)
    assert found.groups == tuple(
        tuple((group[2 * p % 3], group[(2 * p + 1) % 3]) for group in (first, second)) for p in range(4)
    )


def test_a_record_can_be_read_back() -> None:
    wanted = config(replica_group_based=True, num_replica_groups=2, num_partitions=3, num_instances_per_partition=1)
    found = choose_partitions("n", TABLE, wanted, servers(4))
    assert InstancePartitions.from_record(found.to_record()) == found
    assert list(found.to_map()) == ["0_0", "0_1", "1_0", "1_1", "2_0", "2_1"]


def test_constraints_change_nothing() -> None:
    wanted = config(replica_group_based=True, num_replica_groups=2)
    named = replace(wanted, constraint=ConstraintConfig(("rack",)))
    assert choose_partitions("n", TABLE, named, servers(4)) == choose_partitions("n", TABLE, wanted, servers(4))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (config(replica_group_based=True), "numReplicaGroups must be 1 at least"),
        (config(replica_group_based=True, num_replica_groups=5), "5 replica groups of 1 instances need 5 servers"),
        (config(num_instances=9), "numInstances 9 is more than the 4"),
        (config(pool_based=True), "has a pool"),
        (
            config(replica_group_based=True, num_replica_groups=2, num_partitions=2, num_instances_per_partition=3),
            "numInstancesPerPartition 3 is more than a replica group has, 2",
        ),
        (InstanceAssignmentConfig(TagPoolConfig("x"), ReplicaGroupPartitionConfig()), "no server is tagged 'x'"),
        (
            InstanceAssignmentConfig(
                TagPoolConfig(TAG), ReplicaGroupPartitionConfig(), partition_selector="FD_AWARE_INSTANCE_PARTITION_SELECTOR"
            ),
            "needs replicaGroupBased",
        ),
    ],
)
def test_what_cannot_be_met_is_told(wanted: InstanceAssignmentConfig, message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        choose_partitions("n", TABLE, wanted, servers(4))


def test_pools_that_do_not_exist_are_told() -> None:
    for wanted in (config(pool_based=True, pools=(0, 7)), config(pool_based=True, num_pools=3)):
        with pytest.raises(InvalidConfigError, match="pools"):
            choose_partitions("n", TABLE, wanted, servers(4, pools=2))


@given(
    st.integers(1, 12),
    st.integers(0, 3),
    st.integers(1, 3),
    st.integers(0, 5),
    st.integers(0, 2),
    st.sets(st.integers(0, 11), max_size=5),
    st.integers(0, 4),
)
def test_every_choice_is_sound_and_moves_little(
    count: int, pools: int, groups: int, partitions: int, per_partition: int, lost: set[int], joined: int
) -> None:
    wanted = config(
        pool_based=pools > 0,
        replica_group_based=True,
        num_replica_groups=groups,
        num_partitions=partitions,
        num_instances_per_partition=per_partition,
    )
    before, after = servers(count, pools), [*servers(count, pools), *servers(joined, pools, first=count)]
    after = [instance for i, instance in enumerate(after) if i not in lost]
    try:
        chosen = choose_partitions("n", TABLE, wanted, before)
        again = choose_partitions("n", TABLE, wanted, after, existing=chosen)
    except InvalidConfigError:
        assume(False)
        return
    for found, there in ((chosen, before), (again, after)):
        assert found.num_replica_groups == groups
        assert found.num_partitions == max(1, partitions)
        members = [{i for part in found.groups for i in part[g]} for g in range(groups)]
        assert sum(map(len, members)) == len(set.union(*members)), "an instance is in two replica groups"
        assert set.union(*members) <= {instance.id for instance in there}
        for part in found.groups:
            assert all(len(set(group)) == len(group) for group in part)
            assert len({len(group) for group in part}) == 1
    assert choose_partitions("n", TABLE, wanted, before, existing=chosen) == chosen, "nothing changed, nothing moves"
    if not lost:
        size = lambda found: sum(len(group) for part in found.groups for group in part)  # noqa: E731
        kept = sum(
            len(set(old) & set(new))
            for olds, news in zip(chosen.groups, again.groups, strict=True)
            for old, new in zip(olds, news, strict=True)
        )
        if size(chosen) == size(again) and not per_partition:
            assert kept == size(chosen), "instances that only join move nothing"
