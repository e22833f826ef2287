"""Where new segments go while servers are switched off."""

from gamay.cluster.records import Instance

TAG = "DefaultTenant_OFFLINE"


def test_servers_that_are_switched_off_get_new_segments_only_where_others_are_too_few(controller) -> None:
    registry = controller.registry
    second = Instance("Server_b_1", "b", 1, (TAG,), enabled=False)
    registry.create_instance(second)
    controller.write("a", "b")
    states = registry.must_get_ideal_state("t_OFFLINE").states
    assert [set(instances) for instances in states.values()] == [{"Server_a_1"}, {"Server_a_1"}]
    table = controller.tables.document("t_OFFLINE")
    controller.tables.replace("t", {**table, "segmentsConfig": {"replication": "2"}})
    controller.write("c")
    assert set(registry.must_get_ideal_state("t_OFFLINE").states["c"]) == {"Server_a_1", "Server_b_1"}
