"""REST calls for instances, tenants, periodic tasks and columns, as a tool would use them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SERVER = {"host": "far", "port": 8000, "type": "SERVER"}


def test_instances_are_added_changed_and_dropped(api: Any) -> None:
    rest = api.controller
    assert rest.post("/instances", json=SERVER).json() == {"status": "Added instance: Server_far_8000"}
    assert rest.post("/instances", json=SERVER).status_code == 409
    assert rest.get("/instances/Server_far_8000").json()["tags"] == ["server_untagged"]
    answer = rest.put("/instances/Server_far_8000/updateTags", params={"tags": "a_OFFLINE, b_REALTIME"})
    assert answer.json() == {"status": "Updated tags: [a_OFFLINE, b_REALTIME] for instance: Server_far_8000"}
    answer = rest.put("/instances/Server_far_8000/state", params={"state": "disable"}, content=b"{}")
    assert answer.json() == {"status": "Request to disable instance 'Server_far_8000' is successful"}
    assert rest.get("/instances/Server_far_8000").json()["enabled"] is False
    assert rest.put("/instances/Server_far_8000", json={**SERVER, "adminPort": 8097}).status_code == 200
    shown = rest.get("/instances/Server_far_8000").json()
    assert (shown["adminPort"], shown["enabled"]) == (8097, False)
    assert rest.delete("/instances/Server_far_8000").json() == {"status": "Successfully dropped instance"}
    assert rest.get("/instances/Server_far_8000").status_code == 404


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"port": 1, "type": "SERVER"}, "host"),
        ({"host": "h", "port": 1, "type": "SEVRER"}, "must be one of"),
        ({"host": "h", "port": "x", "type": "SERVER"}, "65535"),
        ({"host": "h", "port": 1, "type": "SERVER", "tag": []}, "tags"),
    ],
)
def test_a_bad_instance_is_refused_with_what_would_be_right(api: Any, document: dict[str, Any], text: str) -> None:
    answer = api.controller.post("/instances", json=document)
    assert answer.status_code == 400
    assert text in answer.json()["error"]


def test_a_live_instance_cannot_be_dropped_nor_a_strange_state_set(api: Any) -> None:
    server = api.cluster.core.server.id
    assert api.controller.delete(f"/instances/{server}").status_code == 409
    assert api.controller.put(f"/instances/{server}/state", params={"state": "sleep"}).status_code == 400
    assert api.controller.put(f"/instances/{server}/state", params={"state": "drain"}).status_code == 400
    assert api.controller.put("/instances/Server_x_1/state", params={"state": "enable"}).status_code == 404


def test_queries_do_not_reach_a_server_that_is_switched_off_for_them(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    core = trips.cluster.core

    def switch(state: str, num_segments: int) -> None:
        trips.controller.put(f"/instances/{core.server.id}/state", params={"state": state})
        assert core.routing.wait_until(lambda: len(core.routing.find("trips")[0].segments) == num_segments, 60)

    switch("queries_disable", 0)
    switch("queries_enable", 1)
    assert trips.rows("SELECT count(*) FROM trips") == [[3]]


def test_a_tenant_is_made_of_untagged_instances(trips: Any) -> None:
    rest = trips.controller
    tenant = {"tenantRole": "SERVER", "tenantName": "fast", "numberOfInstances": 1}
    assert rest.post("/tenants", json=tenant).status_code == 400
    rest.post("/instances", json=SERVER)
    assert rest.post("/tenants", json=tenant).json() == {"status": "Successfully created tenant"}
    assert rest.get("/tenants/fast").json()["ServerInstances"] == ["Server_far_8000"]
    assert rest.put("/tenants", json=tenant).json() == {"status": "Updated tenant"}
    answer = rest.post("/tenants/fast", params={"state": "disable", "type": "SERVER"})
    assert answer.json() == {"status": "Changed state of tenant fast to disable successfully."}
    assert rest.delete("/tenants/DefaultTenant", params={"type": "SERVER"}).status_code == 400
    assert rest.delete("/tenants/fast", params={"type": "SERVER"}).json() == {"status": "Successfully deleted tenant fast"}
    assert rest.get("/instances/Server_far_8000").json()["tags"] == ["server_untagged"]


def test_empty_texts_in_bodies_say_nothing_and_numbers_may_be_texts(trips: Any) -> None:
    rest = trips.controller
    empty = dict.fromkeys(("adminPort", "grpcPort", "queryServicePort", "queriesDisabled", "tags", "pools"), "")
    assert rest.post("/instances", json={**SERVER, "port": "8000", **empty}).status_code == 200
    assert rest.get("/instances/Server_far_8000").json()["tags"] == ["server_untagged"]
    tenant = {"tenantRole": "SERVER", "tenantName": "fast", "numberOfInstances": "1", "offlineInstances": ""}
    assert rest.post("/tenants", json=tenant).json() == {"status": "Successfully created tenant"}
    for key, value in (("tenantName", ""), ("numberOfInstances", ""), ("offlineInstances", "-1"), ("offlineInstances", 1.5)):
        answer = rest.post("/tenants", json={**tenant, key: value})
        assert (answer.status_code, key in answer.text) == (400, True), answer.text
    for key, value in (("queriesDisabled", "yes"), ("pools", []), ("adminPort", "x")):
        answer = rest.post("/instances", json={**SERVER, "port": 8001, key: value})
        assert (answer.status_code, key in answer.text) == (400, True), answer.text
    disabled = {**SERVER, "port": 8002, "queriesDisabled": "true"}
    rest.post("/instances", json=disabled)
    assert "true" in str(rest.get("/instances/Server_far_8002").json()["queriesDisabled"]).lower()
    for port in (8000, 8002):
        rest.put(f"/instances/Server_far_{port}/updateTags", params={"tags": "server_untagged"})
        assert rest.delete(f"/instances/Server_far_{port}").status_code == 200


def test_an_instance_that_a_user_added_is_never_taken_for_this_folders_server(
    tmp_path: Path, open_api: Callable[[Path], Any]
) -> None:
    first = open_api(tmp_path / "data")
    server = first.cluster.core.server.id
    first.controller.post("/instances", json={**SERVER, "host": "a"})
    first.controller.post("/instances", json={"host": "a", "port": 1, "type": "BROKER"})
    first.stop()
    again = open_api(tmp_path / "data")
    assert again.cluster.core.server.id == server
    assert {"Server_a_8000", "Broker_a_1"} <= set(again.controller.get("/instances").json()["instances"])


def test_expired_deleted_segments_are_removed_by_the_periodic_task(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1]))
    trips.controller.delete("/segments/trips/trips_0", params={"retention": "1s"})
    aside = trips.data_dir / "deepstore" / "Deleted_Segments"
    kept = list(aside.rglob("trips_0*"))
    assert kept
    kept[0].rename(kept[0].with_name(kept[0].name.rpartition("__")[0] + "__1"))  # its time is over
    assert trips.controller.get("/periodictask/names").json() == [
        "BrokerResourceValidationManager",
        "MemoryRelease",
        "MemoryTrim",
        "MetricsHistory",
        "RealtimeSegmentValidationManager",
        "RebalanceChecker",
        "RetentionManager",
        "SegmentRelocator",
        "SegmentStatusChecker",
        "StaleInstancesCleanupTask",
    ]
    answer = trips.controller.get("/periodictask/run", params={"taskname": "RetentionManager"}).json()
    assert answer["isSuccessful"]
    assert answer["taskId"].startswith("api-")
    assert list(aside.rglob("trips_0*")) == []
    assert trips.controller.get("/periodictask/run", params={"taskname": "Retention"}).status_code == 404


def test_the_metadata_of_a_table_is_added_up(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    trips.push(make_segment("trips_1", [4]))
    told = trips.controller.get("/tables/trips/metadata", params={"columns": "*"}).json()
    assert (told["tableName"], told["numSegments"], told["numRows"]) == ("trips_OFFLINE", 2, 4)
    assert told["columnCardinalityMap"] == {"city": 2.0, "n": 2.0, "ts": 2.0}
    assert told["diskSizeInBytes"] > 0
    assert trips.controller.get("/tables/trips/metadata").json()["columnCardinalityMap"] == {}
    assert trips.controller.get("/tables/nowhere/metadata").status_code == 404


def test_field_specs_tell_types_and_default_nulls(api: Any) -> None:
    told = api.controller.get("/schemas/fieldSpec").json()
    dimensions = told["fieldTypes"]["DIMENSION"]["allowedDataTypes"]
    assert dimensions["STRING"] == {"nullDefault": "null"}
    assert dimensions["INT"] == {"nullDefault": -(2**31)}
    assert told["fieldTypes"]["METRIC"]["allowedDataTypes"]["LONG"] == {"nullDefault": 0}
    assert "STRING" not in told["fieldTypes"]["METRIC"]["allowedDataTypes"]


def test_expressions_are_looked_into_when_they_are_stored_and_slips_are_named(api: Any) -> None:
    bad = {"schemaName": "s", "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING", "transformFunction": "upper(("}]}
    answer = api.controller.post("/schemas", json=bad)
    assert answer.status_code == 400
    assert "upper((" in answer.json()["error"]
    slip = {"schemaName": "s", "dimensionFeildSpecs": [], "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}]}
    named = {"/dimensionFeildSpecs": "dimensionFieldSpecs"}
    assert api.controller.post("/schemas/validate", json=slip).json()["suggestions"] == named
    assert api.controller.post("/schemas", json=slip).json()["suggestions"] == named

    table: dict[str, Any] = {"tableName": "s", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {}}
    table["tableIndexConfig"] = {"sortedColum": "a"}
    column = {"/tableIndexConfig/sortedColum": "sortedColumn"}
    for path in ("/tables/validate", "/tables"):
        assert api.controller.post(path, json=table).json()["suggestions"] == column, path
    document = {"tableName": "s", "schema": slip, "offline": table}
    in_parts = {f"/schema{pointer}": key for pointer, key in named.items()}
    in_parts |= {f"/offline{pointer}": key for pointer, key in column.items()}
    assert api.controller.post("/tableConfigs/validate", json=document).json()["suggestions"] == in_parts
    assert api.controller.put("/tableConfigs/s", json=document).json()["suggestions"] == in_parts
