"""REST: protection of tables and instances, and what clients read in the metadata store."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually

from gamay.cluster.tasks.records import Job, SubtaskLimits, Trigger

SCHEMA: dict[str, Any] = {
    "schemaName": "places",
    "primaryKeyColumns": ["id"],
    "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}, {"name": "name", "dataType": "STRING"}],
}
TABLE: dict[str, Any] = {
    "tableName": "places",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
}
REFRESH = {"batchIngestionConfig": {"segmentIngestionType": "REFRESH", "segmentIngestionFrequency": "DAILY"}}


def stored(api: Any, **changes: Any) -> Any:
    answer = api.controller.post("/tables/validate", json={**deepcopy(TABLE), **changes})
    return answer.json()["OFFLINE"] if answer.status_code == 200 else answer.json()["error"]


def test_a_table_needs_the_servers_that_its_instance_assignment_names(api: Any) -> None:
    http, server = api.controller, api.cluster.core.server.id
    http.post("/schemas", json=SCHEMA)

    def hot(**groups: Any) -> dict[str, Any]:
        return {"OFFLINE": {"tagPoolConfig": {"tag": "hot_OFFLINE"}, "replicaGroupPartitionConfig": groups}}

    assert "no server is tagged 'hot_OFFLINE'" in stored(api, instanceAssignmentConfigMap=hot())
    # those of its tenant do not matter then
    assert http.put(f"/instances/{server}/updateTags", params={"tags": "hot_OFFLINE"}).status_code == 200
    assert "tagged 'DefaultTenant_OFFLINE'" in stored(api)
    assert stored(api, instanceAssignmentConfigMap=hot())["tableName"] == "places_OFFLINE"
    assert "numInstances 2 is more" in stored(api, instanceAssignmentConfigMap=hot(numInstances=2))
    skipped = {**TABLE, "instanceAssignmentConfigMap": hot(numInstances=2)}
    assert http.post("/tables/validate", json=skipped, params={"validationTypesToSkip": "TENANT"}).status_code == 200


@pytest.mark.parametrize(
    "ingestion",
    [
        {"transformConfigs": [{"columnName": "name", "transformFunction": "Groovy({x + 1}, x)"}]},
        {"filterConfig": {"filterFunction": " groovy ({x > 1}, x)"}},
    ],
)
def test_a_config_with_groovy_is_told_what_to_write_instead(api: Any, ingestion: dict[str, Any]) -> None:
    api.controller.post("/schemas", json=SCHEMA)
    assert "Groovy is not supported; write the expression in SQL" in stored(api, ingestionConfig=ingestion)


EXPRESSIONS = {
    "textScore(name, 'a') > 1": "Function 'textScore': it depends on all texts of a segment",
    "lookUp('t', 'c', 'k', name) = 'x'": "Function 'lookUp': it is resolved by the broker in the clauses of a query",
    "sleep(5) = 0": "Function 'sleep': it is computed by the broker of a query",
    "VECTOR_SIMILARITY(v, ARRAY[1.0], 3)": "Function 'vectorSimilarity': it is allowed as a condition on a column in WHERE",
    "$docId > 5": "'$docId' cannot stand here, for it is of rows that are in a segment",
    "mapValue(name, 'k', 'v') = 'x'": "Function 'mapValue': arguments 1 and 3, keys and values, must be multi-value",
    "COUNT(*) > 1": "the aggregate count cannot stand here",
    "*": "* cannot stand here; name the fields that are read",
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_that_no_row_can_be_given_to_are_refused(api: Any, expression: str) -> None:
    """When a table is stored, not at its first row; so are those of a schema."""
    http = api.controller
    made, dimensions = {"name": "made", "dataType": "STRING"}, SCHEMA["dimensionFieldSpecs"]
    http.post("/schemas", json={**SCHEMA, "dimensionFieldSpecs": [*dimensions, made]})
    generated = {"enricherType": "generateColumn", "properties": {"fieldToFunctionMap": {"made": expression}}}
    for ingestion in (
        {"transformConfigs": [{"columnName": "made", "transformFunction": expression}]},
        {"filterConfig": {"filterFunction": expression}},
        {"enrichmentConfigs": [generated]},
    ):
        assert EXPRESSIONS[expression] in stored(api, ingestionConfig=ingestion), ingestion
    computed = {**SCHEMA, "dimensionFieldSpecs": [*dimensions, {**made, "transformFunction": expression}]}
    for method, path in (("POST", "/schemas"), ("PUT", "/schemas/places")):
        answer = http.request(method, path, json=computed)
        assert answer.status_code == 400
        assert EXPRESSIONS[expression] in answer.json()["error"]


def test_a_table_has_as_many_replicas_as_the_cluster_wants_at_least(api: Any) -> None:
    http = api.controller
    http.post("/schemas", json=SCHEMA)
    for given in ({}, {"replication": "0"}, {"replication": "-3"}, {"replication": "1"}):
        assert stored(api, segmentsConfig=given)["segmentsConfig"]["replication"] == "1", given
    http.post("/cluster/configs", json={"table.minReplicas": "2"})
    told = stored(api, segmentsConfig={"replication": "1"})
    assert told.startswith("segmentsConfig.replication: 2 replicas need as many servers")
    # it is how schemas were found once
    answer = http.post("/tables/validate", json={**TABLE, "segmentsConfig": {"schemaName": "other"}}, params={
        "validationTypesToSkip": "TENANT"
    })  # fmt: skip
    assert answer.json()["unrecognizedProperties"] == {"/segmentsConfig/schemaName": "other"}


def test_dimension_tables_have_a_storage_quota(api: Any) -> None:
    api.controller.post("/schemas", json=SCHEMA)
    dimension = {"isDimTable": True, "ingestionConfig": REFRESH}
    assert stored(api, **dimension)["quota"] == {"storage": "200M"}
    assert stored(api, **dimension, quota={"storage": "1M", "maxQueriesPerSecond": "5"})["quota"]["storage"] == "1M"
    assert stored(api, **dimension, quota={"storage": "1G"}).startswith("Invalid storage quota: 1G of the dimension table")
    api.controller.post("/cluster/configs", json={"controller.dimTable.maxSize": "2G"})
    assert stored(api, **dimension, quota={"storage": "1G"})["quota"]["storage"] == "1G"
    assert "quota" not in stored(api) or not stored(api)["quota"]


def test_the_tenants_of_a_table_have_members(api: Any) -> None:
    api.controller.post("/schemas", json=SCHEMA)
    told = stored(api, tenants={"broker": "nobody"})
    assert told.startswith("Failed to find instances with tag: nobody_BROKER for table: places_OFFLINE")
    answer = api.controller.post("/tables", json={**TABLE, "tenants": {"broker": "nobody", "server": "nobody"}}, params={
        "validationTypesToSkip": "tenant"
    })  # fmt: skip
    assert answer.status_code == 200, answer.text


def test_clients_find_the_brokers_of_tables_in_the_store(trips: Any) -> None:
    (broker,) = [name for name in trips.controller.get("/instances").json()["instances"] if name.startswith("Broker_")]

    def view() -> Any:
        return trips.controller.get("/zk/get", params={"path": "/PinotCluster/EXTERNALVIEW/brokerResource"}).json()

    eventually(lambda: view().get("mapFields") == {"trips_OFFLINE": {broker: "ONLINE"}})
    trips.controller.put(f"/instances/{broker}/updateTags", params={"tags": "other_BROKER"})
    eventually(lambda: view()["mapFields"] == {})
    trips.controller.put(f"/instances/{broker}/updateTags", params={"tags": "DefaultTenant_BROKER"})
    trips.controller.put(f"/instances/{broker}/state", params={"state": "disable"})
    eventually(lambda: view()["mapFields"] == {"trips_OFFLINE": {broker: "OFFLINE"}})
    trips.controller.delete("/tables/trips")
    eventually(lambda: view()["mapFields"] == {})


def test_a_table_with_tasks_under_way_is_not_deleted_unasked(trips: Any) -> None:
    http, queues = trips.controller, trips.cluster.core.controller.tasks.queues
    name = "Task_SomeTask_one"
    queues.submit(Job(name, "SomeTask", ("trips_OFFLINE",), 1, 0, Trigger.MANUAL, SubtaskLimits()), [("trips_OFFLINE", {})])
    for path in ("/tables/trips", "/tableConfigs/trips"):
        refused = http.delete(path)
        assert (refused.status_code, name in refused.json()["error"]) == (500, True), path
    assert http.delete("/tables/trips", params={"ignoreActiveTasks": "true"}).status_code == 200
    assert http.get("/tables").json() == {"tables": []}


def test_tables_are_listed_by_the_types_of_their_tasks(trips: Any) -> None:
    http = trips.controller
    table = http.get("/tables/trips").json()["OFFLINE"]
    assert http.put("/tables/trips", json={**table, "task": {"taskTypeConfigsMap": {"SomeTask": {}}}}).status_code == 200
    assert http.get("/tables", params={"taskType": "SomeTask"}).json() == {"tables": ["trips_OFFLINE"]}
    assert http.get("/tables", params={"taskType": "OtherTask"}).json() == {"tables": []}


def test_leaders_are_told_by_the_partition_of_the_tables_name(trips: Any) -> None:
    http = trips.controller
    (controller,) = [name for name in http.get("/instances").json()["instances"] if name.startswith("Controller_")]
    everything = http.get("/leader/tables").json()
    entries = everything["leadControllerEntryMap"]
    assert everything["leadControllerResourceEnabled"] is True
    assert list(entries) == [f"leadControllerResource_{n}" for n in range(24)]
    assert {entry["leadControllerId"] for entry in entries.values()} == {controller}
    # Kafka's murmur2 of "trips", without its sign, is 649347350
    expected = {f"leadControllerResource_{649347350 % 24}": {"leadControllerId": controller, "tableNames": ["trips"]}}
    assert http.get("/leader/tables/trips").json()["leadControllerEntryMap"] == expected
    assert {name: entry for name, entry in entries.items() if entry["tableNames"]} == expected


def test_instances_keep_the_ports_of_engines_that_others_have(api: Any) -> None:
    http = api.controller
    given = {"host": "far", "port": 8098, "type": "SERVER", "queryServicePort": 8421, "queryMailboxPort": 8422}
    assert http.post("/instances", json=given).status_code == 200
    shown = http.get("/instances/Server_far_8098").json()
    assert (shown["queryServicePort"], shown["queryMailboxPort"]) == (8421, 8422)
    http.post("/instances", json={"host": "far", "port": 9514, "type": "MINION"})
    shown = http.get("/instances/Minion_far_9514").json()
    assert (shown["tags"], shown["queryServicePort"]) == (["minion_untagged"], -1)


def test_what_was_replaced_can_go_at_once(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("old", [1]))
    body = {"segmentsFrom": ["old"], "segmentsTo": ["new"]}
    started = trips.controller.post("/segments/trips/startReplaceSegments", params={"type": "OFFLINE"}, json=body)
    trips.push(make_segment("new", [2]), wait=False)
    ended = trips.controller.post("/segments/trips/endReplaceSegments", params={
        "type": "OFFLINE", "segmentLineageEntryId": started.json()["segmentLineageEntryId"], "cleanup": "true"
    })  # fmt: skip
    assert ended.status_code == 200, ended.text
    assert trips.controller.get("/segments/trips").json() == [{"OFFLINE": ["new"]}]


def test_a_server_is_told_to_reload_the_named_segments_only(trips: Any, make_segment: Callable[..., Path]) -> None:
    for name in ("a", "b"):
        trips.push(make_segment(name, [1]))
    (server,) = [name for name in trips.controller.get("/instances").json()["instances"] if name.startswith("Server_")]

    def reload(text: str) -> Any:
        return trips.controller.post("/segments/trips/reload", params={"instanceToSegmentsMap": text})

    assert reload(f'{{"{server}": ["b"]}}').status_code == 200
    (job,) = trips.controller.get("/table/trips/jobs").json().values()
    assert job["servers"] == f'{{"{server}":["b"]}}'
    assert reload('{"Server_far_1": ["b"]}').status_code == 404
    assert reload("[]").status_code == 400


def test_tables_of_a_tenant_may_be_rebalanced_one_by_one(trips: Any) -> None:
    def ask(**params: str) -> Any:
        return trips.controller.post("/tenants/DefaultTenant/rebalance", params={"dryRun": "true", **params})

    assert ask(parallelWhitelist="trips_OFFLINE", parallelBlacklist="trips_OFFLINE").status_code == 200
    assert ask(parallelBlacklist="nowhere_OFFLINE").status_code == 404
