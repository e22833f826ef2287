"""REST: warnings, checks before a change, and inspection of a cluster's contents."""

import shutil
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually

from gamay.model.rules.without_effect import without_effect
from gamay.model.table.table_config import TableConfig


def table_of(api: Any) -> dict[str, Any]:
    config: dict[str, Any] = api.controller.get("/tables/trips").json()["OFFLINE"]
    return config


def test_settings_without_effect_are_named_when_a_table_is_stored(trips: Any) -> None:
    config = table_of(trips)
    assert "warnings" not in trips.controller.put("/tables/trips", json=config).json()
    config["tableIndexConfig"]["jsonIndexConfigs"] = {"city": {"maxBytesSize": 1}}
    config["fieldConfigList"] = [{"name": "city", "indexTypes": ["TEXT"], "properties": {"luceneUseCompoundFile": "false"}}]
    config["quota"] = {"storage": "10G"}
    config["instanceAssignmentConfigMap"] = {
        "OFFLINE": {
            "tagPoolConfig": {"tag": "DefaultTenant_OFFLINE"},
            "replicaGroupPartitionConfig": {},
            "constraintConfig": {"constraints": ["rack"]},
        }
    }
    config["segmentsConfig"]["segmentPushFrequency"] = "weekly"
    answer = trips.controller.put("/tables/trips", json=config).json()
    assert answer["status"] == "Table config updated for trips"
    said = " ".join(answer["warnings"])
    assert "segmentsConfig.segmentPushFrequency: 'weekly' is none of HOURLY, DAILY and is treated as DAILY" in said
    assert "jsonIndexConfigs.city: maxBytesSize has no effect" in said
    assert "instanceAssignmentConfigMap.OFFLINE.constraintConfig: there is no constraint named rack" in said
    assert "the text index of 'city': luceneUseCompoundFile has no effect: indexes have Gamay's own file format" in said
    assert trips.controller.post("/tables/validate", json=config).json()["warnings"] == answer["warnings"]
    document = trips.controller.get("/tableConfigs/trips").json()
    warnings = trips.controller.put("/tableConfigs/trips", json=document).json()["warnings"]
    assert warnings == [f"offline: {sentence}" for sentence in answer["warnings"]]


def test_parameters_that_are_missing_or_wrong_are_named(trips: Any) -> None:
    def refused(method: str, path: str, **params: str) -> str:
        answer = trips.controller.request(method, path, params=params)
        assert answer.status_code == 400
        error: str = answer.json()["error"]
        return error

    assert refused("GET", "/tables/trips/state") == "the query parameter 'type' is missing (OFFLINE or REALTIME)"
    assert refused("PUT", "/tables/trips/state", type="OFFLINE") == "the query parameter 'state' is missing"
    for method, path, told in (
        ("GET", "/pql", "404 Not Found: GET /pql"),
        ("PUT", "/help", "405 Method Not Allowed: PUT /help"),
    ):
        unknown = trips.controller.request(method, path).json()["error"]
        assert unknown == f"HTTP {told}; /help lists the requests that exist"
    long = "x" * 5000
    wrong = refused("GET", "/tables/trips/deadLetters", limit=long)
    assert wrong.startswith(f"the query parameter 'limit' is '{long[:100]}': Input should be a valid integer")
    assert len(wrong) < 400


def test_settings_of_streams_without_effect_say_what_holds_instead() -> None:
    given = {
        "trackFilteredMessageOffsets": True, "realtimeOffsetAutoResetHandlerClass": "a.B", "enforceConsumptionInOrder": True,
        "useIdealStateToCalculatePreviousSegment": True, "disasterRecoveryMode": "ALWAYS", "oomProtection": "ENABLE",
    }  # fmt: skip
    config: dict[str, Any] = {
        "tableName": "t",
        "tableType": "REALTIME",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
    }
    config |= {"tableIndexConfig": {}, "ingestionConfig": {"streamIngestionConfig": given}}
    said = without_effect(TableConfig.from_json(config).value)
    assert sorted(sentence.partition(": ")[0].rpartition(".")[2] for sentence in said) == sorted(given)
    defaults = {"disasterRecoveryMode": "DEFAULT", "oomProtection": "DEFAULT"}
    config["ingestionConfig"]["streamIngestionConfig"] = defaults
    assert without_effect(TableConfig.from_json(config).value) == []


@pytest.mark.parametrize(
    ("period", "cluster", "query", "days"),
    [(None, None, "", 7), ("2d", "3", "", 2), (None, "3", "", 3), ("2d", None, "?retention=5d", 5), ("0d", None, "", 0)],
)
def test_deleted_segments_are_kept_as_long_as_is_said(
    trips: Any, make_segment: Callable[..., Path], period: str | None, cluster: str | None, query: str, days: int
) -> None:
    if period is not None:
        config = table_of(trips)
        config["segmentsConfig"]["deletedSegmentsRetentionPeriod"] = period
        assert trips.controller.put("/tables/trips", json=config).status_code == 200
    if cluster is not None:
        trips.controller.post("/cluster/configs", json={"controller.deleted.segments.retentionInDays": cluster})
    trips.push(make_segment("a", [1]))
    before = time.time() * 1000
    assert trips.controller.delete(f"/segments/trips/a{query}").json() == {"status": "Segment deleted"}
    kept = list((trips.data_dir / "deepstore" / "Deleted_Segments").glob("*/a__*"))
    if days == 0:
        assert kept == []
    else:
        until = int(kept[0].name.rpartition("__")[2])
        assert until - before == pytest.approx(days * 86_400_000, abs=60_000)


def test_a_schema_may_not_take_from_a_table_config_what_that_names(trips: Any) -> None:
    schema = trips.controller.get("/schemas/trips").json()
    without_time = {**schema, "dateTimeFieldSpecs": []}
    for method, path in (("PUT", "/schemas/trips"), ("POST", "/schemas")):
        refused = trips.controller.request(method, path, params={"force": "true"}, json=without_time)
        assert refused.status_code == 400
        assert "does not match the config of table trips_OFFLINE" in refused.json()["error"]
        assert "timeColumnName" in refused.json()["error"]
    assert trips.controller.get("/schemas/trips").json() == schema
    document = trips.controller.get("/tableConfigs/trips").json()
    document["schema"] = without_time
    del document["offline"]["segmentsConfig"]["timeColumnName"]
    answer = trips.controller.put("/tableConfigs/trips", params={"forceTableSchemaUpdate": "true"}, json=document)
    assert answer.json()["status"] == "TableConfigs updated for trips"


def test_tenants_and_partitions_are_shown(trips: Any) -> None:
    get = trips.controller.get
    server, broker = (
        next(i for i in get("/instances").json()["instances"] if i.startswith(role)) for role in ("Server_", "Broker_")
    )
    assert get("/tenants?type=broker").json() == {"BROKER_TENANTS": ["DefaultTenant"]}
    assert get("/tenants/DefaultTenant?type=SERVER").json() == {
        "ServerInstances": [server],
        "OfflineServerInstances": [server],
        "RealtimeServerInstances": [server],
        "tenantName": "DefaultTenant",
    }
    assert get("/tenants/DefaultTenant?type=minion").status_code == 400
    metadata = get("/tenants/DefaultTenant/metadata").json()
    assert metadata["BrokerInstances"] == [broker]
    assert metadata["tags"] == ["DefaultTenant_BROKER", "DefaultTenant_OFFLINE", "DefaultTenant_REALTIME"]
    assert get("/tenants/DefaultTenant/tables?type=BROKER").json() == {"tables": ["trips_OFFLINE"]}
    assert get("/tenants/DefaultTenant/tables?withTableProperties=false").json() == {"tables": ["trips_OFFLINE"]}
    refused = get("/tenants/DefaultTenant/tables?withTableProperties=true")
    assert refused.status_code == 400
    assert "withTableProperties is not supported" in refused.json()["error"]
    shown = {"instancePartitionsName": "trips_OFFLINE", "partitionToInstancesMap": {"0_0": [server]}}
    assert get("/tables/trips/instancePartitions").json() == {"OFFLINE": shown}
    assert get("/tables/trips/instancePartitions?type=CONSUMING").status_code == 404
    assert get("/tables/trips/instancePartitions?type=HOT").status_code == 400
    partitions = get("/tenants/DefaultTenant/instancePartitions?instancePartitionType=OFFLINE").json()
    assert partitions["partitionToInstancesMap"] == {"0_0": [server]}
    assert get("/tenants/x/instancePartitions?instancePartitionType=OFFLINE").status_code == 404
    rebuilt = trips.controller.post("/tables/trips_OFFLINE/rebuildBrokerResourceFromHelixTags")
    assert rebuilt.status_code == 200
    assert trips.controller.post(f"/instances/{broker}/updateBrokerResource").status_code == 200
    assert trips.controller.post(f"/instances/{server}/updateBrokerResource").status_code == 400


def test_changes_of_instances_can_be_tried_first(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("a", [1]))
    http = trips.controller
    server = next(i for i in http.get("/instances").json()["instances"] if i.startswith("Server_"))
    told = http.get("/instances/dropInstance/validate", params={"instanceNames": [server]}).json()
    codes = [issue["code"] for issue in told[0]["issues"]]
    assert codes == ["INSTANCE_IS_LIVE", "INSTANCE_CONTAINED_IN_IDEAL_STATE"]
    assert not told[0]["isSafe"]
    assert http.get("/instances/dropInstance/validate", params={"instanceNames": ["Server_x_1"]}).status_code == 404
    bad = [{"instanceName": server, "newTags": ["server_untagged"]}]
    told = http.post("/instances/updateTags/validate", json=bad).json()
    assert [issue["code"] for issue in told[0]["issues"]] == ["MINIMUM_INSTANCE_UNSATISFIED"]
    good = [{"instanceName": server, "newTags": ["DefaultTenant_OFFLINE"]}]
    assert http.post("/instances/updateTags/validate", json=good).json() == [
        {"instanceName": server, "isSafe": True, "issues": []}
    ]
    assert http.post("/instances/updateTags/validate", json={"x": 1}).status_code == 400


def test_stale_segments_are_named_until_they_are_loaded_again(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("a", [1, 2, 3, 1]))
    get = trips.controller.get
    assert get("/segments/trips_OFFLINE/needReload").json() == {
        "needReload": False,
        "serverToSegmentsCheckReloadList": {},
    }
    config = deepcopy(table_of(trips))
    config["tableIndexConfig"]["invertedIndexColumns"] = ["city"]
    trips.controller.put("/tables/trips", json=config)
    told = get("/segments/trips_OFFLINE/needReload?verbose=true").json()
    server = next(iter(told["serverToSegmentsCheckReloadList"]))
    assert told["needReload"]
    stale = get("/segments/trips_OFFLINE/isStale").json()[server]
    assert [entry["segmentName"] for entry in stale["staleSegmentList"]] == ["a"]
    assert stale["validResponse"]
    job = trips.controller.post("/segments/trips/reload", params={"startTimestamp": "0"}).json()["status"]
    eventually(lambda: not get("/segments/trips_OFFLINE/needReload").json()["needReload"])
    jobs = get("/table/trips/jobs?jobTypes=RELOAD_SEGMENT").json()
    assert all(job_id in job and fields["messageCount"] == "1" for job_id, fields in jobs.items())
    assert get("/table/trips/jobs?jobTypes=TABLE_REBALANCE").json() == {}
    later = trips.controller.post("/segments/trips/reload", params={"startTimestamp": str(2**60)})
    assert later.status_code == 404


def test_a_segment_that_failed_is_reset(
    trips: Any, make_segment: Callable[..., Path], open_api: Any, tmp_path: Path
) -> None:
    trips.push(make_segment("a", [1, 2]))
    copy = next((trips.data_dir / "deepstore" / "trips_OFFLINE").iterdir())
    trips.stop()
    aside = tmp_path / "aside"
    shutil.move(copy, aside)
    shutil.rmtree(trips.data_dir / "server")
    again = open_api(trips.data_dir)
    get = again.controller.get
    shown = get("/debug/segments/trips/a").json()
    state = next(iter(shown["serverState"].values()))
    assert state["errorInfo"]["errorMessage"]
    assert get("/debug/segments/trips/b").status_code == 404
    shutil.move(aside, copy)
    answer = again.controller.post("/segments/trips_OFFLINE/reset", params={"errorSegmentsOnly": "true"})
    assert answer.status_code == 200
    eventually(lambda: again.query("SELECT COUNT(*) FROM trips").get("resultTable", {}).get("rows") == [[2]])
    answer = again.controller.post("/segments/trips_OFFLINE/a/reset")
    assert answer.json()["status"] == "Successfully reset segment: a of table: trips_OFFLINE"
    assert again.controller.post("/segments/trips_OFFLINE/b/reset").status_code == 404


def test_a_server_that_does_not_answer_spoils_no_overview(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("a", [1, 2]))
    trips.controller.post(
        "/instances", json={"host": "away", "port": 1, "type": "SERVER", "tags": ["DefaultTenant_OFFLINE"]}
    )
    for number in range(2):  # one of these goes to the server that is away
        trips.push(make_segment(f"b{number}", [3]), wait=False)
    for path in ("/tables/trips/metadata", "/debug/tables/trips", "/tables/trips/size", "/segments/trips_OFFLINE/isStale"):
        assert trips.controller.get(path).status_code == 200, path
    debug = trips.controller.get("/debug/tables/trips").json()[0]
    away = [info["serverState"].get("Server_away_1") for info in debug["segmentDebugInfos"]]
    assert any(state and "does not answer" in state["errorInfo"]["errorMessage"] for state in away)


def test_the_process_and_its_queries(trips: Any) -> None:
    get = trips.controller.get
    assert int(get("/uptime").text) >= 0
    assert get("/start-time").text.endswith("Z")
    assert get("/invalidconfigs").json() == []
    assert get("/appconfigs").json()["runtimeConfig"]["version"]
    assert get("/leader/tables/trips").status_code == 200
    broker = next(i for i in get("/instances").json()["instances"] if i.startswith("Broker_"))
    assert get("/queries").json() == {broker: {}}
    assert trips.controller.delete(f"/query/{broker}/12345").status_code == 404
    assert trips.controller.delete("/query/Broker_x_1/1").status_code == 404
    names = trips.controller.post("/query/tableNames", json=["SELECT * FROM trips", "SELECT 1", "SELECT COUNT(*) FROM b"])
    assert names.json() == ["b", "trips"]
    joined = "WITH x AS (SELECT * FROM a.b) SELECT * FROM trips t JOIN x ON t.fare = x.y WHERE 1 IN (SELECT z FROM c)"
    assert trips.controller.post("/query/tableNames", json=[joined]).json() == ["a.b", "c", "trips"]


def test_queries_of_several_tables_are_validated(trips: Any) -> None:
    good, bad = "SELECT COUNT(*) FROM trips a JOIN trips b ON a.city = b.city", "SELECT a.nothing FROM trips a, trips b"
    found = trips.controller.post("/validateMultiStageQuery", json={"sqls": [good, bad, "SELECT FROM"]}).json()
    assert [(each["compiledSuccessfully"], each["errorCode"], each["sql"]) for each in found] == [
        (True, None, good),
        (False, "UNKNOWN_COLUMN", bad),
        (False, "SQL_PARSING", "SELECT FROM"),
    ]
    assert "Unknown columnName 'a.nothing'" in found[1]["errorMessage"]
    schema = {"schemaName": "sent", "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}]}
    for sql, code in (("SELECT MAX(s) FROM sent", None), ("SELECT 1 FROM trips", "TABLE_DOES_NOT_EXIST")):
        found = trips.controller.post("/validateMultiStageQuery", json={"sql": sql, "schemas": [schema]}).json()
        assert [each["errorCode"] for each in found] == [code]
    for wrong in (
        [],
        {},
        {"sql": " "},
        {"sqls": "SELECT 1"},
        {"sql": good, "schemas": {}},
        {"sql": good, "logicalTableConfigs": [{}]},
    ):
        answer = trips.controller.post("/validateMultiStageQuery", json=wrong)
        assert answer.status_code == 400, wrong
        assert "Traceback" not in answer.text


def test_memory_of_primary_keys_is_estimated(trips: Any) -> None:
    schema = {
        "schemaName": "orders",
        "dimensionFieldSpecs": [{"name": "id", "dataType": "STRING"}, {"name": "at", "dataType": "LONG"}],
        "primaryKeyColumns": ["id"],
    }
    table = {
        "tableName": "orders", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {},
        "upsertConfig": {"mode": "FULL", "comparisonColumns": ["at"], "hashFunction": "MURMUR3"},
        "routing": {"instanceSelectorType": "strictReplicaGroup"},
        "tableIndexConfig": {
            "segmentPartitionConfig": {"columnPartitionMap": {"id": {"functionName": "Murmur", "numPartitions": 4}}}
        },
    }  # fmt: skip

    def ask(given: dict[str, Any], **params: Any) -> Any:
        return trips.controller.post("/upsert/estimateHeapUsage", params=params, json=given)

    found = ask({"schema": schema, "tableConfig": table}, cardinality=1000, numPartitions=4).json()
    assert found["totalSpace(bytes)"] == 4 * found["totalSpacePerPartition(bytes)"]
    assert 30_000 < found["totalSpace(bytes)"] < 45_000
    assert found["bytesPerKey"] == 0
    assert found["totalValueSpace(bytes)"] == found["totalSpace(bytes)"]
    plain = ask({"schema": schema, "tableConfig": {**table, "upsertConfig": None}}, cardinality=1)
    assert (plain.status_code, "neither upsertConfig" in plain.json()["error"]) == (400, True)
    assert ask({"schema": schema}, cardinality=1).status_code == 400
    assert ask({"schema": schema, "tableConfig": table}, cardinality=-1).status_code == 400
