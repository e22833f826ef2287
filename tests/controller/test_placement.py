"""Placement of new segments, with disabled servers and with the older replica-group setting."""

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.cluster.access.principals import ANYONE
from gamay.cluster.records.records import Instance
from gamay.controller.placement import PlacementManager

TAG = "DefaultTenant_OFFLINE"


def test_servers_that_are_switched_off_get_new_segments_only_where_others_are_too_few(controller) -> None:
    registry = controller.registry
    second = Instance("Server_b_1", "b", 1, (TAG,), enabled=False)
    registry.create_instance(second)
    controller.write("a", "b")
    states = registry.must_get_ideal_state("t_OFFLINE").states
    assert [set(instances) for instances in states.values()] == [{"Server_a_1"}, {"Server_a_1"}]
    table = controller.tables.document("t_OFFLINE")
    controller.tables.replace("t", {**table, "segmentsConfig": {"replication": "2"}}, by=ANYONE)
    controller.write("c")
    assert set(registry.must_get_ideal_state("t_OFFLINE").states["c"]) == {"Server_a_1", "Server_b_1"}


def test_the_older_replica_group_setting_assigns_replica_groups(controller) -> None:
    registry = controller.registry
    for name in "bcdefgh":
        registry.create_instance(Instance(f"Server_{name}_1", name, 1, (TAG,)))
    older = {
        "replication": "2",
        "segmentAssignmentStrategy": "ReplicaGroupSegmentAssignmentStrategy",
        "replicaGroupStrategyConfig": {"numInstancesPerPartition": 3},
    }
    document = controller.tables.document("t_OFFLINE")
    controller.tables.replace("t", {**document, "segmentsConfig": older}, by=ANYONE)
    names = [f"s{number}" for number in range(12)]
    controller.write(*names)
    states = registry.must_get_ideal_state("t_OFFLINE").states
    placement = PlacementManager(controller.context, controller.tables)
    [groups] = placement.partitions(controller.tables.get("t_OFFLINE"), "OFFLINE").groups
    assert [len(group) for group in groups] == [3, 3]
    assert not set(groups[0]) & set(groups[1])
    for segment, servers in states.items():
        assert [len(set(servers) & set(group)) for group in groups] == [1, 1], segment


def test_the_older_replica_group_setting_with_a_partition_column(controller) -> None:
    for name in "bcdefgh":
        controller.registry.create_instance(Instance(f"Server_{name}_1", name, 1, (TAG,)))
    older = {
        "replication": "2",
        "segmentAssignmentStrategy": "ReplicaGroupSegmentAssignmentStrategy",
        "replicaGroupStrategyConfig": {"partitionColumn": "n", "numInstancesPerPartition": 2},
    }
    document = controller.tables.document("t_OFFLINE")
    with pytest.raises(InvalidConfigError, match="'n' is not a column of tableIndexConfig"):
        controller.tables.replace("t", {**document, "segmentsConfig": older}, by=ANYONE)
    with pytest.raises(InvalidConfigError, match="needs replicaGroupStrategyConfig"):
        controller.tables.replace(
            "t", {**document, "segmentsConfig": {**older, "replicaGroupStrategyConfig": None}}, by=ANYONE
        )
    indexing = {"segmentPartitionConfig": {"columnPartitionMap": {"n": {"functionName": "Modulo", "numPartitions": 4}}}}
    controller.tables.replace("t", {**document, "segmentsConfig": older, "tableIndexConfig": indexing}, by=ANYONE)
    placement = PlacementManager(controller.context, controller.tables)
    groups = placement.partitions(controller.tables.get("t_OFFLINE"), "OFFLINE").groups
    assert [[len(group) for group in partition] for partition in groups] == [[2, 2]] * 4
