"""Problems of a cluster as text."""

from types import SimpleNamespace
from typing import Any

from gamay.cluster.records.records import Assignment, Instance
from gamay.cluster.store.store import StoreUnavailableError
from gamay.controller.health.cluster_status import Finding, Severity, cluster_status, diagnose_instances, diagnose_table
from gamay.controller.realtime.ideal_steps import PauseState, with_pause_state

A, B = "Server_a_1", "Server_b_1"
HEALTHY = (Instance(A, "a", 1), Instance(B, "b", 1), Instance("Broker_c_1", "c", 1))
LIVE = {A, B, "Broker_c_1"}


def _sentences(findings: list[Finding]) -> list[str]:
    return [f"{f.severity.name} {f.subject}: {f.problem}" for f in findings]


def test_the_metadata_store_is_away() -> None:
    def away() -> list[str]:
        raise StoreUnavailableError("ZooKeeper at 'zk:2181' does not answer for 5 s")

    context: Any = SimpleNamespace(registry=SimpleNamespace(live_instance_ids=away))
    found = cluster_status(context)
    assert found["status"] == "BAD"
    assert found["problems"][0]["problem"].startswith(
        "ZooKeeper at 'zk:2181' does not answer for 5 s: nothing can be changed"
    )


def test_nothing_is_wrong() -> None:
    states = {"s0": {A: "ONLINE", B: "ONLINE"}, "s1": {A: "OFFLINE"}, "s2": {A: "CONSUMING", B: "CONSUMING"}}
    assert diagnose_instances(HEALTHY, LIVE, {A: 1}) == []
    assert diagnose_table(Assignment("t_OFFLINE", states), Assignment("t_OFFLINE", states), LIVE) == []
    assert diagnose_table(Assignment("t_OFFLINE", {}), None, set()) == []


def test_dead_and_switched_off_instances() -> None:
    instances = (
        Instance(A, "a", 1),
        Instance(B, "b", 1, enabled=False),
        Instance("Server_c_1", "c", 1, shutting_down=True),
        Instance("Server_d_1", "d", 1, queries_disabled=True),
    )
    found = diagnose_instances(instances, {B, "Server_c_1", "Server_d_1"}, {A: 1, B: 3})
    assert _sentences(found) == [
        "BAD cluster: no broker is alive: no query is answered",
        f"DEGRADED {A}: it is not alive; 1 segment of tables is assigned to it",
        f"DEGRADED {B}: it is disabled; 3 segments of tables are assigned to it",
        "DEGRADED Server_c_1: it is shutting down",
        "DEGRADED Server_d_1: queries are disabled on it",
    ]


def test_segments_that_are_lost_broken_or_thin() -> None:
    ideal = Assignment("t_OFFLINE", {f"s{i}": {A: "ONLINE", B: "ONLINE"} for i in range(6)})
    view = Assignment(
        "t_OFFLINE",
        {
            "s0": {A: "ONLINE", B: "ERROR"},
            "s1": {A: "ERROR", B: "ERROR"},
            **{f"s{i}": {B: "ONLINE"} for i in (2, 3, 4)},
        },
    )
    found = diagnose_table(ideal, view, LIVE, lambda server: {"s0": "the disk is full", "s1": "the copy is damaged"})
    assert _sentences(found) == [
        "BAD t_OFFLINE: 2 segments without a live replica (s1, s5): answers are marked as partial",
        f"DEGRADED t_OFFLINE: 1 segment in the ERROR state on {A} (s1): the copy is damaged",
        f"DEGRADED t_OFFLINE: 2 segments in the ERROR state on {B} (s0, s1): the disk is full",
        "DEGRADED t_OFFLINE: 4 segments with fewer live replicas than wanted (s0, s2, s3 and 1 more)",
    ]
    loading, failing, dead_ones = (
        "wait until the servers have loaded them", "see why they are in the ERROR state", "start the servers that hold them"
    )  # fmt: skip
    assert (found[0].advice, found[-1].advice) == (f"{failing}; {loading}", f"{failing}; {loading}")
    assert diagnose_table(ideal, view, LIVE - {A})[0].advice == dead_ones
    dead = diagnose_table(ideal, view, {"Broker_c_1"})
    assert dead[0].severity is Severity.BAD
    assert dead[0].problem.startswith("6 segments without a live replica (s0, s1, s2 and 3 more)")


def test_partitions_that_servers_gave_up() -> None:
    states = {
        "t__0__7__20261128T1240Z": {A: "ONLINE", B: "ONLINE"},
        "t__0__8__20261128T1241Z": {A: "OFFLINE", B: "OFFLINE"},
        "t__1__0__20261128T1240Z": {A: "OFFLINE", B: "OFFLINE"},  # another one took its place
        "t__1__1__20261128T1241Z": {A: "CONSUMING", B: "CONSUMING"},
        "t__2__0__20261128T1240Z": {A: "CONSUMING", B: "OFFLINE"},
        "t__3__0__20261128T1240Z": {A: "ONLINE", B: "ONLINE"},  # the partition has ended
    }
    ideal = Assignment("t_REALTIME", states)
    found = diagnose_table(ideal, ideal, LIVE)
    assert _sentences(found) == [
        "BAD t_REALTIME: all servers stopped consuming 1 consuming segment (t__0__8__20261128T1241Z): "
        "rows of the stream are missing in answers",
        "DEGRADED t_REALTIME: some servers stopped consuming 1 consuming segment (t__2__0__20261128T1240Z)",
    ]
    assert "gamay admin realtime status t_REALTIME shows why" in found[0].advice
    assert diagnose_table(with_pause_state(ideal, PauseState(paused=True)), ideal, LIVE) == []
