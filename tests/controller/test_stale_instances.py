"""Which instances are removed as stale, and when."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from gamay.cluster.records.records import Instance
from gamay.cluster.records.registry import announce
from gamay.cluster.store import paths
from gamay.controller.instances.instances import InstanceManager
from gamay.controller.instances.stale_instances import StaleInstances

HOUR_S = 3600
SERVING = ("DefaultTenant_OFFLINE", "DefaultTenant_REALTIME")


class Cluster:
    """A controller, and instances that join and leave."""

    def __init__(self, controller: Any) -> None:
        self.controller = controller
        self.registry = controller.registry
        self.sessions: dict[str, Any] = {}
        self.stale = StaleInstances(InstanceManager(controller.context, controller.tables))
        self.stale.run()
        self.told = threading.Semaphore(0)
        controller.store.watch(paths.LIVE_INSTANCES, lambda _: self.told.release())

    def come(self, name: str, *tags: str) -> None:
        if self.registry.get_instance(name) is None:
            self.registry.create_instance(Instance(name, "h", 1, tags))
        self.sessions[name] = self.controller.store.new_session()
        announce(self.sessions[name], name)
        assert self.told.acquire(timeout=PATIENCE_S)  # the watch set before this one has been notified, too

    def go(self, name: str) -> None:
        self.sessions.pop(name).close()
        assert self.told.acquire(timeout=PATIENCE_S)

    def run(self, hours: float = 0) -> list[str]:
        """Let time pass, and look."""
        self.controller.clock.advance(hours * HOUR_S)
        self.stale.run()
        return [name for name in self.registry.instance_ids() if name != "Server_a_1"]

    def dropped(self) -> dict[str, float]:
        return {one.name.removeprefix("pinot_controller_dropped"): one.value for one in self.stale.measure() if one.value}


@pytest.fixture
def cluster(open_controller: Callable[[], Any]) -> Cluster:
    controller = open_controller()
    announce(controller.store, "Server_a_1")
    return Cluster(controller)


def test_those_that_are_away_for_an_hour_are_forgotten(cluster: Cluster) -> None:
    names = ["Broker_b_1", "Minion_m_1", "Server_s_1"]
    for name in names:
        cluster.come(name, "none_untagged")
    assert cluster.run() == cluster.run(5) == names
    for name in names:
        cluster.go(name)
    assert cluster.run() == names  # from here on they are missed
    assert cluster.run(0.9) == names
    assert cluster.dropped() == {}
    assert cluster.run(0.2) == []
    assert cluster.dropped() == {"BrokerInstances": 1, "MinionInstances": 1, "ServerInstances": 1}


def test_the_time_begins_anew_with_each_return(cluster: Cluster) -> None:
    cluster.come("Minion_m_1", "minion_untagged")
    cluster.go("Minion_m_1")
    assert cluster.run() == ["Minion_m_1"]
    cluster.come("Minion_m_1")
    cluster.go("Minion_m_1")  # and no check ran meanwhile
    assert cluster.run(2) == cluster.run(0.9) == ["Minion_m_1"]
    assert cluster.run(0.2) == []


def test_the_cluster_says_how_long(cluster: Cluster) -> None:
    key = "controller.stale.instances.cleanup.task.minOfflineTimeBeforeDeletionPeriod"
    cluster.registry.update_cluster_config({key: "3d"})
    cluster.come("Server_s_1", "server_untagged")
    cluster.go("Server_s_1")
    assert cluster.run() == cluster.run(71) == ["Server_s_1"]
    assert cluster.run(2) == []


def test_who_has_segments_or_is_needed_stays(cluster: Cluster) -> None:
    cluster.come("Broker_b_1", "DefaultTenant_BROKER")
    cluster.controller.create()
    cluster.controller.write("one")
    cluster.come("Server_s_1", *SERVING)
    cluster.registry.update_ideal_state("t_OFFLINE", lambda ideal: ideal.with_segments({"one": {"Server_s_1": "ONLINE"}}))
    cluster.go("Broker_b_1")
    cluster.go("Server_s_1")
    assert cluster.run() == cluster.run(100) == ["Broker_b_1", "Server_s_1"]
    cluster.come("Broker_b_2", "DefaultTenant_BROKER")
    cluster.registry.update_ideal_state("t_OFFLINE", lambda ideal: ideal.with_segments({"one": {"Server_a_1": "ONLINE"}}))
    assert cluster.run(1) == ["Broker_b_2"]


def test_a_controller_that_is_away_stays(cluster: Cluster) -> None:
    cluster.registry.create_instance(Instance("Controller_c_1", "h", 1, ()))
    assert cluster.run() == cluster.run(100) == ["Controller_c_1"]
