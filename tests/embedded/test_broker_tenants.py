"""Brokers answer only for the tables that `brokerResource` assigns to them, and only while enabled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from gamay.base.errors import ErrorCode
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.http.app import BrokerApp
from gamay.broker.routes.routing import RoutingTables, _Snapshot
from gamay.cluster.records.broker_resource import BrokerResource
from gamay.cluster.records.records import Instance
from gamay.cluster.records.registry import announce
from gamay.query.limits.queue import QueryQueue

OTHER = "Broker_other_8099"
MISSING = ErrorCode.BROKER_RESOURCE_MISSING.code
QUERIES = (
    "SELECT count(*) FROM trips",
    "SELECT count(*) FROM trips_OFFLINE",
    "SELECT count(*) FROM TRIPS",
    "EXPLAIN PLAN FOR SELECT count(*) FROM trips",
    "SELECT count(*) FROM trips GROUP BY city LIMIT 3",
)


class SecondBroker:
    """Another broker of the embedded cluster, in its process; tables are those of its tags."""

    def __init__(self, core: Any, *tags: str) -> None:
        self.session = core.registry.store.new_session()
        core.registry.create_instance(Instance(OTHER, "other", 8099, tags))
        announce(self.session, OTHER)
        BrokerResource(core.registry).rebuild()
        self.routing = RoutingTables(core.registry, broker_id=OTHER)
        self.routing.start()
        self.runner = QueryRunner(OTHER, self.routing, {core.server.id: core.executor}, core.clock)
        self.queue = QueryQueue(2)
        self.http = TestClient(BrokerApp(self.runner, self.queue, lambda: True).asgi())

    def codes(self, sql: str, path: str = "/query/sql") -> list[int]:
        answer = self.http.post(path, json={"pql" if path == "/query" else "sql": sql}).json()
        return [one["errorCode"] for one in answer["exceptions"]]

    def close(self) -> None:
        self.routing.stop()
        self.runner.close()
        self.queue.shutdown()
        self.session.close()


@pytest.fixture
def second(trips: Any, make_segment: Callable[..., Path]) -> Any:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    made: list[SecondBroker] = []

    def make(*tags: str) -> SecondBroker:
        made.append(SecondBroker(trips.cluster.core, *tags))
        return made[-1]

    yield make
    for broker in made:
        broker.close()


def test_a_broker_refuses_tables_of_other_tenants_on_every_path(trips: Any, second: Any) -> None:
    other = second("XLNT_BROKER")
    for sql in QUERIES:
        assert trips.query(sql)["exceptions"] == [], sql
        for _ in range(3):  # also once the shape is known
            assert other.codes(sql) == [MISSING], sql
    assert other.codes("SELECT count(*) FROM trips", "/query") == [MISSING]
    assert other.codes("SELECT 1") == []
    assert other.codes("SELECT count(*) FROM trisp") == [ErrorCode.TABLE_DOES_NOT_EXIST.code]
    for path in ("/debug/routingTable/trips", "/debug/tables/queryQuota/trips", "/debug/timeBoundary/trips"):
        assert other.http.get(path).status_code == 404
    assert trips.controller.get("/brokers/tables/trips").json() == [trips.cluster.core.runner.broker_id]


def test_a_broker_that_is_tagged_begins_to_answer_and_ends(trips: Any, second: Any) -> None:
    other = second("broker_untagged")
    for tags, expected in (("DefaultTenant_BROKER", []), ("XLNT_BROKER", [MISSING]), ("a_BROKER,DefaultTenant_BROKER", [])):
        assert trips.controller.put(f"/instances/{OTHER}/updateTags", params={"tags": tags}).status_code == 200
        assert other.routing.wait_until(lambda e=expected: other.routing.is_elsewhere("trips") == bool(e), 30)
        assert other.codes(QUERIES[0]) == expected


def test_quotas_are_divided_among_the_brokers_of_the_table(trips: Any, second: Any) -> None:
    config = trips.controller.get("/tables/trips").json()["OFFLINE"]
    assert trips.controller.put("/tables/trips", json={**config, "quota": {"maxQueriesPerSecond": "60"}}).status_code == 200
    core = trips.cluster.core

    def share(rate: float) -> bool:
        return bool(core.routing.wait_until(lambda: [r.queries_per_s for r in core.routing.find("trips")] == [rate], 30))

    other = second("XLNT_BROKER")
    assert share(60)
    trips.controller.put(f"/instances/{OTHER}/updateTags", params={"tags": "DefaultTenant_BROKER"})
    assert share(30)
    trips.controller.put(f"/instances/{OTHER}/state", params={"state": "disable"})
    assert share(60)
    assert other.routing.wait_until(lambda: not other.routing.is_enabled, 30)


def test_the_resource_is_repaired(trips: Any, second: Any) -> None:
    core = trips.cluster.core
    resource = BrokerResource(core.registry)
    rest = trips.controller
    whole = resource.ideal()
    assert whole == {"trips_OFFLINE": {core.runner.broker_id: "ONLINE"}}
    other = second("XLNT_BROKER")
    repairs = (
        lambda: rest.post("/tables/trips_OFFLINE/rebuildBrokerResourceFromHelixTags"),
        lambda: rest.post(f"/instances/{core.runner.broker_id}/updateBrokerResource"),
        lambda: rest.get("/periodictask/run", params={"taskname": "BrokerResourceValidationManager"}),
        lambda: rest.post("/tenants/DefaultTenant/rebalance"),
    )
    for repair in repairs:
        resource.forget("trips_OFFLINE")
        assert resource.ideal() == {}
        assert core.routing.wait_until(lambda: core.routing.is_elsewhere("trips"), 30)
        assert trips.query(QUERIES[0])["exceptions"][0]["errorCode"] == MISSING
        assert repair().status_code == 200
        deadline = core.routing.wait_until(lambda: bool(core.routing.find("trips")), 30)
        assert deadline
        assert resource.ideal() == whole
    assert other.codes(QUERIES[0]) == [MISSING]


def test_before_there_is_a_record_brokers_answer_for_all(trips: Any, second: Any) -> None:
    core = trips.cluster.core
    core.controller._views.stop()  # no controller of this version leads
    other = second("XLNT_BROKER")
    core.registry.delete_ideal_state("brokerResource")
    assert other.routing.wait_until(lambda: bool(other.routing.find("trips")), 30)
    assert other.codes(QUERIES[0]) == []
    assert BrokerResource(core.registry).rebuild() == ["trips_OFFLINE"]
    assert other.routing.wait_until(lambda: other.routing.is_elsewhere("trips"), 30)
    assert trips.query(QUERIES[0])["exceptions"] == []
    core.controller._views.start()


def test_a_half_of_a_hybrid_table_is_no_answer() -> None:
    offline: Any = object()
    for elsewhere, answers in (({}, True), ({"t_REALTIME": False}, True), ({"t_REALTIME": True}, False)):
        snapshot = _Snapshot({"t_OFFLINE": offline}, elsewhere)
        assert snapshot.find("t") == snapshot.find("T") == ([offline] if answers else [])
        assert snapshot.find("t_OFFLINE") == [offline]
        assert snapshot.is_elsewhere("t") == bool(elsewhere)


def test_a_disabled_broker_drains(trips: Any, second: Any) -> None:
    other = second("DefaultTenant_BROKER")
    rest = trips.controller
    assert [other.codes(sql) for sql in QUERIES] == [[]] * len(QUERIES)
    running = other.runner.begin(QUERIES[0], {})
    answers = other.http.post("/query/sql?getCursor=true&numRows=1", json={"sql": "SELECT n FROM trips"}).json()

    def switch(state: str) -> None:
        assert rest.put(f"/instances/{OTHER}/state", params={"state": state}).status_code == 200
        assert other.routing.wait_until(lambda: other.routing.is_enabled == (state == "enable"), 30)

    def listed() -> list[bool]:
        found = [rest.get(path).json() for path in ("/brokers/tables/trips", "/brokers/tenants/DefaultTenant")]
        found += [rest.get("/brokers/tables", params={"state": "ONLINE"}).json()["trips"]]
        found += [[b["instanceName"] for b in rest.get("/v2/brokers").json()["tables"]["trips"]]]
        found += [[b["instanceName"] for b in rest.get("/tables/livebrokers").json()["trips_OFFLINE"]]]
        return [OTHER in names for names in found]

    assert listed() == [True] * 5
    switch("disable")
    for sql in (*QUERIES, "SELECT 1"):
        answer = other.http.post("/query/sql", json={"sql": sql}).json()
        assert answer["exceptions"] == [{"errorCode": MISSING, "message": answer["exceptions"][0]["message"]}]
        assert "disabled" in answer["exceptions"][0]["message"]
    assert (other.http.get("/health").status_code, other.http.get("/health/liveness").status_code) == (503, 200)
    assert listed() == [False] * 5
    assert OTHER in rest.get("/brokers/tables", params={"state": "OFFLINE"}).json()["trips"]
    assert other.runner.finish(running).exceptions == []  # what was begun is finished
    page = other.http.get(f"/responseStore/{answers['requestId']}/results", params={"offset": 1, "numRows": 1}).json()
    assert page["exceptions"] == []
    for _ in range(4):  # the controller asks the other broker
        assert rest.post("/sql", json={"sql": QUERIES[0]}).json()["resultTable"]["rows"] == [[3]]
    switch("enable")
    assert [other.codes(sql) for sql in QUERIES] == [[]] * len(QUERIES)
    assert other.http.get("/health").status_code == 200
    assert listed() == [True] * 5
