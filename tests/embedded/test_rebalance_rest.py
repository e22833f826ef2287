"""The REST interface of rebalances and instance partitions, on a cluster with one server."""

import time
from typing import Any

import pytest

from gamay.controller.rebalance.rebalance import RebalanceManager

TYPE = {"type": "OFFLINE"}


def test_a_balanced_table_has_nothing_to_move(trips: Any, make_segment: Any) -> None:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    rest, server = trips.controller, trips.cluster.core.server.id
    dry = rest.post("/tables/trips/rebalance", params={**TYPE, "dryRun": "true", "preChecks": "true"}).json()
    assert (dry["status"], dry["description"]) == ("NO_OP", "Table is already balanced")
    assert dry["instanceAssignment"]["OFFLINE"]["partitionToInstancesMap"] == {"0_0": [server]}
    assert dry["segmentAssignment"] == {"trips_0": {server: "ONLINE"}}
    assert dry["rebalanceSummaryResult"]["segmentInfo"]["totalSegmentsToBeMoved"] == 0
    assert dry["preChecksResult"]["needReloadStatus"]["preCheckStatus"] == "PASS"
    assert rest.delete("/tables/trips/rebalance", params=TYPE).json() == []
    assert rest.get("/rebalanceStatus/nothing").status_code == 404
    assert rest.post("/tables/nothing/rebalance", params=TYPE).status_code == 404
    assert rest.post("/tables/trips/rebalance", params={**TYPE, "dryrun": "1"}).status_code == 400
    assert rest.post("/tables/trips/rebalance").status_code == 400


def test_rebalances_are_among_the_jobs_of_a_table(trips: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"one": {"status": "DONE"}}
    monkeypatch.setattr(RebalanceManager, "jobs", lambda self, table: told if table == "trips_OFFLINE" else {})
    get = trips.controller.get
    assert get("/table/trips/jobs").json() == told
    assert get("/table/trips/jobs?jobTypes=TABLE_REBALANCE,FORCE_COMMIT").json() == told
    assert get("/table/trips/jobs?jobTypes=FORCE_COMMIT").json() == {}


def test_a_tenant_is_rebalanced(trips: Any) -> None:
    rest = trips.controller
    answer = rest.post("/tenants/DefaultTenant/rebalance", json={"minAvailableReplicas": -1}).json()
    assert (answer["totalTables"], answer["statusSummary"]) == (1, {"NO_OP": 1})
    for _ in range(3000):
        told = rest.get(f"/tenants/rebalanceStatus/{answer['jobId']}").json()
        if told["tenantRebalanceProgressStats"]["remainingTables"] == 0:
            break
        time.sleep(0.02)
    assert told["tenantRebalanceProgressStats"]["tableStatusMap"] == {"trips_OFFLINE": "NO_OP"}
    assert list(rest.get("/tenants/DefaultTenant/rebalanceJobs").json()) == [answer["jobId"]]
    assert rest.delete(f"/tenants/rebalance/{answer['jobId']}").status_code == 200
    assert rest.post("/tenants/nobody/rebalance").status_code == 404
    body = {"tenantName": "DefaultTenant", "includeTables": ["trips_OFFLINE"], "degreeOfParallelism": 2, "dryRun": True}
    told = rest.post("/tenants/DefaultTenant/rebalance", json={**body, "verboseResult": True}).json()
    assert list(told["rebalanceTableResults"]) == ["trips_OFFLINE"]
    for wrong, text in (
        ({"tenantName": "other"}, "tenantName"),
        ({"degreeOfParallelism": 0}, "degreeOfParallelism"),
        ({"includeTables": 3}, "includeTables"),
        ({"tenantNam": "x"}, "unknown option"),
    ):
        refused = rest.post("/tenants/DefaultTenant/rebalance", json={**body, **wrong})
        assert (refused.status_code, text in refused.json()["error"]) == (400, True), refused.text
    wrong = rest.post("/tenants/DefaultTenant/rebalance", params={"includeTables": "nothing_OFFLINE"})
    assert (wrong.status_code, "nothing_OFFLINE" in wrong.json()["error"]) == (404, True)


def test_instance_partitions_are_stored_and_forgotten(trips: Any) -> None:
    rest, server = trips.controller, trips.cluster.core.server.id
    given = {"instancePartitionsName": "trips_OFFLINE", "partitionToInstancesMap": {"0_0": [server]}}
    assert rest.put("/tables/trips/instancePartitions", json=given).json() == {"OFFLINE": given}
    assert rest.get("/tables/trips/instancePartitions", params=TYPE).json() == {"OFFLINE": given}
    for wrong, message in (
        ({**given, "instancePartitionsName": "other_OFFLINE"}, "has the instance partitions trips_OFFLINE"),
        ({**given, "partitionToInstancesMap": {"0_1": [server]}}, "must have an entry for each"),
        ({**given, "partitionToInstancesMap": {"0_0": ["Server_x_1"]}}, "do not exist: Server_x_1"),
        ({}, "need 'instancePartitionsName'"),
    ):
        answer = rest.put("/tables/trips/instancePartitions", json=wrong)
        assert (answer.status_code, message in answer.json()["error"]) == (400, True), answer.text
    replaced = {"oldInstanceId": server, "newInstanceId": server}
    assert rest.post("/tables/trips/replaceInstance", params=replaced).status_code == 400
    assert rest.delete("/tables/trips/instancePartitions", params=TYPE).status_code == 200
    assert rest.post("/tables/trips/replaceInstance", params=replaced).status_code == 404
    shared = rest.put("/tenants/DefaultTenant/instancePartitions", params={"instancePartitionType": "OFFLINE"}, json=given)
    assert shared.json()["instancePartitionsName"] == "DefaultTenant_OFFLINE"
    asked = rest.get("/tenants/DefaultTenant/instancePartitions", params={"instancePartitionType": "OFFLINE"})
    assert asked.json() == shared.json()


def test_retention_and_relocation_are_periodic_tasks(trips: Any) -> None:
    rest = trips.controller
    names = rest.get("/periodictask/names").json()
    assert {"RetentionManager", "SegmentRelocator", "RebalanceChecker"} <= set(names)
    for name in ("RetentionManager", "SegmentRelocator", "RebalanceChecker"):
        assert rest.get("/periodictask/run", params={"taskname": name}).status_code == 200
