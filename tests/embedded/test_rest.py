"""The controller's REST interface over a real cluster: the texts and status codes that clients rely on."""

import json
import re
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.waiting import eventually

SCHEMA = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
TABLE: dict[str, Any] = {
    "tableName": "trips",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}


def test_schemas(api: Any) -> None:
    http = api.controller
    assert http.get("/schemas").json() == []
    assert http.get("/schemas/trips").status_code == 404
    answer = http.post("/schemas", content=json.dumps({**SCHEMA, "extra": {"a": 1}}), headers={"Content-Type": "text/plain"})
    assert answer.json() == {"unrecognizedProperties": {"/extra": {"a": 1}}, "status": "trips successfully added"}
    assert http.post("/schemas", files={"schema": json.dumps(SCHEMA)}).status_code == 200
    assert http.post("/schemas", params={"override": "false"}, json=SCHEMA).status_code == 409
    assert http.get("/schemas").json() == ["trips"]
    shown = http.get("/schemas/trips").json()
    assert [field["name"] for field in shown["dimensionFieldSpecs"]] == ["city"]
    assert http.post("/schemas/validate", json=SCHEMA).json()["unrecognizedProperties"] == {}
    assert http.post("/schemas/validate", json={"schemaName": "a__b"}).status_code == 400
    assert http.post("/schemas", content=b"{not json").status_code == 400
    narrower = {**SCHEMA, "metricFieldSpecs": []}
    assert http.post("/schemas", json=narrower).status_code == 400
    assert http.put("/schemas/trips", json=narrower).status_code == 400
    assert http.put("/schemas/trips", params={"force": "true"}, json=narrower).status_code == 200
    assert http.put("/schemas/other", json=SCHEMA).status_code == 400
    assert http.put("/schemas/other", json={**SCHEMA, "schemaName": "other"}).status_code == 404
    assert http.delete("/schemas/trips").json() == {"status": "Schema trips deleted"}
    assert http.delete("/schemas/trips").status_code == 404


def test_tables(api: Any) -> None:
    http = api.controller
    missing = http.post("/tables", json=TABLE)
    assert missing.status_code == 400
    assert "schema" in missing.json()["error"]
    http.post("/schemas", json=SCHEMA)
    answer = http.post("/tables", json={**TABLE, "tabelIndexConfig": {}})
    assert answer.json()["status"] == "Table trips_OFFLINE successfully added"
    assert answer.json()["unrecognizedProperties"] == {"/tabelIndexConfig": {}}
    assert http.post("/tables", json=TABLE).status_code == 409
    assert http.get("/tables").json() == {"tables": ["trips"]}
    assert http.get("/tables", params={"type": "offline"}).json() == {"tables": ["trips_OFFLINE"]}
    assert http.get("/tables", params={"type": "realtime"}).json() == {"tables": []}
    assert http.get("/tables", params={"sortType": "creationTime"}).json() == {"tables": ["trips_OFFLINE"]}
    assert http.get("/tables", params={"type": "nonsense"}).status_code == 400
    assert http.get("/tables/trips").json()["OFFLINE"]["tableName"] == "trips_OFFLINE"
    assert http.get("/tables/trips_OFFLINE").status_code == 200
    assert http.get("/tables/other").status_code == 404
    assert http.get("/tables/trips_OFFLINE", params={"type": "REALTIME"}).status_code == 403
    assert http.get("/tables/trips/schema").json()["schemaName"] == "trips"
    assert http.delete("/schemas/trips").status_code == 409
    changed = deepcopy(TABLE)
    changed["tableIndexConfig"]["invertedIndexColumns"] = ["city"]
    assert http.put("/tables/trips_OFFLINE", json=changed).json()["status"] == "Table config updated for trips_OFFLINE"
    assert http.get("/tables/trips").json()["OFFLINE"]["tableIndexConfig"]["invertedIndexColumns"] == ["city"]
    assert http.put("/tables/other", json=changed).status_code == 400
    assert http.post("/tables/validate", json=changed).json()["OFFLINE"]["tableName"] == "trips_OFFLINE"
    changed["segmentsConfig"]["replication"] = "3"
    assert http.post("/tables/validate", json=changed).status_code == 400
    assert http.post("/tables/validate", params={"validationTypesToSkip": "TENANT"}, json=changed).status_code == 200
    assert http.delete("/tables/trips").json() == {"status": "Tables: [trips_OFFLINE] deleted"}
    assert http.delete("/tables/trips").status_code == 404
    assert http.get("/schemas").json() == ["trips"]


def test_a_slash_at_the_end_changes_nothing(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    asked = trips.controller.post("/sql/", json={"sql": "SELECT count(*) FROM trips"})
    assert (asked.status_code, asked.json()["resultTable"]["rows"]) == (200, [[3]])
    for path in ("/tables", "/tables/trips", "/segments/trips", "/health"):
        assert trips.controller.get(f"{path}/").content == trips.controller.get(path).content
    assert trips.controller.put("/tables/trips/state/", params={"state": "disable", "type": "OFFLINE"}).status_code == 200
    assert httpx.get(f"{trips.cluster.server_url}/tables/").status_code == 200


def test_table_state(trips: Any, make_segment: Callable[..., Path]) -> None:
    http = trips.controller
    trips.push(make_segment("trips_0", [1]))
    assert http.get("/tables/trips/state", params={"type": "OFFLINE"}).json() == {"state": "enabled"}
    answer = http.put("/tables/trips/state", params={"type": "OFFLINE", "state": "disable"})
    assert answer.json() == {"status": "Request to disable table 'trips_OFFLINE' is successful"}
    core = trips.cluster.core
    core.routing.wait_until(lambda: not core.routing.find("trips")[0].enabled, 60)
    assert trips.query("SELECT count(*) FROM trips")["exceptions"][0]["errorCode"] == 191
    assert core.routing.wait_until(lambda: not core.routing.find("trips")[0].segments, 60)
    http.put("/tables/trips/state", params={"type": "OFFLINE", "state": "enable"})
    core.wait_until_visible("trips_OFFLINE", ["trips_0"], 60)
    assert core.routing.wait_until(lambda: core.routing.find("trips")[0].enabled, 60)
    assert trips.rows("SELECT count(*) FROM trips") == [[1]]
    assert http.put("/tables/trips/state", params={"type": "OFFLINE", "state": "off"}).status_code == 400


def test_table_documents(api: Any) -> None:
    http = api.controller
    document = {"tableName": "trips", "schema": SCHEMA, "offline": TABLE, "more": 1}
    answer = http.post("/tableConfigs", json=document).json()
    assert answer == {"unrecognizedProperties": {"/more": 1}, "status": "TableConfigs trips successfully added"}
    assert http.post("/tableConfigs", json=document).status_code == 400
    assert http.get("/tableConfigs").json() == ["trips"]
    shown = http.get("/tableConfigs/trips").json()
    assert (shown["tableName"], shown["offline"]["tableName"], "realtime" in shown) == ("trips", "trips_OFFLINE", False)
    assert http.get("/tableConfigs/nowhere").status_code == 500
    for typed in ("trips_OFFLINE", "trips_REALTIME"):
        assert "named without type, 'trips'" in http.get(f"/tableConfigs/{typed}").json()["error"]
        body = {**document, "tableName": typed}
        assert "named without type, 'trips'" in http.post("/tableConfigs/validate", json=body).json()["error"]
    assert http.post("/tableConfigs/validate", json=document).json()["unrecognizedProperties"] == {"/more": 1}
    assert http.put("/tableConfigs/trips", json=document).json()["status"] == "TableConfigs updated for trips"
    assert http.put("/tableConfigs/other", json=document).status_code == 400
    assert http.delete("/tableConfigs/trips_OFFLINE").status_code == 500
    assert http.delete("/tableConfigs/trips").json() == {"status": "Deleted TableConfigs: trips"}
    assert http.get("/schemas").json() == []
    assert http.delete("/tableConfigs/trips").status_code == 200
    bad = {**document, "offline": {**TABLE, "segmentsConfig": {"replication": "many"}}}
    assert http.post("/tableConfigs", json=bad).status_code == 400
    assert http.get("/schemas").json() == []


def test_reading_segments(trips: Any, make_segment: Callable[..., Path]) -> None:
    http = trips.controller
    day = 86_400_000
    for i in range(3):
        trips.push(make_segment(f"trips_{i}", [i, i + 1], first_ms=1_700_000_000_000 + i * day))
    assert http.get("/segments/trips").json() == [{"OFFLINE": ["trips_0", "trips_1", "trips_2"]}]
    window = {"startTimestamp": str(1_700_000_000_000 + day), "endTimestamp": str(1_700_000_000_000 + 2 * day)}
    assert http.get("/segments/trips", params=window).json() == [{"OFFLINE": ["trips_1"]}]
    server = http.get("/segments/trips/servers").json()[0]
    assert list(server["serverToSegmentsCountMap"].values()) == [3]
    records = http.get("/segments/trips/zkmetadata").json()
    assert records["trips_1"]["segment.total.docs"] == "2"
    assert records["trips_1"]["segment.crc"] == http.get("/segments/trips/crc").json()["trips_1"]
    assert records["trips_1"]["segment.start.time"] == str(1_700_000_000_000 + day)
    detailed = http.get("/segments/trips/trips_1/metadata", params={"columns": "*"}).json()
    assert set(detailed["indexes"]) == {"city", "n", "ts"}
    assert detailed["indexes"]["city"]["dictionary"] == "YES"
    listed = http.get("/segments/trips/metadata", params={"columns": ["city"], "segments": ["trips_2"]}).json()
    assert list(listed) == ["trips_2"]
    assert listed["trips_2"]["totalDocs"] == 2
    assert http.get("/segments/trips/nope/metadata").status_code == 404
    assert http.get("/segments/trips/nope").status_code == 404
    size = http.get("/tables/trips/size").json()
    assert size["reportedSizeInBytes"] == sum(s["reportedSizeInBytes"] for s in size["offlineSegments"]["segments"].values())
    assert http.get("/tables/trips/size", params={"verbose": "false"}).json()["offlineSegments"].get("segments") is None
    assert {s["segmentStatus"] for s in http.get("/tables/trips/segmentsStatus").json()} == {"GOOD"}
    assert http.get("/tables/trips/indexes").json()["totalOnlineSegments"] == 3
    assert trips.server.get("/tables").json() == {"tables": ["trips_OFFLINE"]}
    assert trips.server.get("/tables/trips_OFFLINE/segments").json() == {"segments": ["trips_0", "trips_1", "trips_2"]}
    assert trips.server.get("/tables/trips_OFFLINE/size").json()["diskSizeInBytes"] == size["reportedSizeInBytes"]
    assert trips.server.get("/tables/nope/size").status_code == 404


def test_deleting_segments(trips: Any, make_segment: Callable[..., Path]) -> None:
    http = trips.controller
    for i in range(8):
        trips.push(make_segment(f"trips_{i}", [i]))
    assert http.delete("/segments/trips/trips_0").json() == {"status": "Segment deleted"}
    assert http.delete("/segments/trips/trips_0").status_code == 404
    two = {"type": "OFFLINE", "segments": ["trips_1", "trips_2"]}
    answer = http.delete("/segments/trips", params=two).json()
    assert answer == {"status": "Deleted segments: [trips_1, trips_2] from table: trips_OFFLINE"}
    answer = http.post("/segments/trips/delete", json=["trips_3"], params={"retention": "0d"}).json()
    assert answer == {"status": "Deleted segments: [trips_3] from table: trips_OFFLINE"}
    assert http.post("/segments/trips/delete", json={"a": 1}).status_code == 400
    assert http.delete("/segments/trips", params={"type": "OFFLINE"}).json() == {
        "status": "All segments of table trips_OFFLINE deleted"
    }
    assert http.get("/segments/trips").json() == [{"OFFLINE": []}]
    assert trips.rows("SELECT count(*) FROM trips") == [[0]]
    aside = sorted(p.name.partition("__")[0] for p in (trips.data_dir / "deepstore" / "Deleted_Segments").rglob("*.*"))
    assert aside == ["trips_0", "trips_1", "trips_2", "trips_4", "trips_5", "trips_6", "trips_7"]


def test_reload(trips: Any, make_segment: Callable[..., Path]) -> None:
    http = trips.controller
    assert http.post("/segments/trips/reload").status_code == 404
    trips.push(make_segment("trips_0", [1]))
    told = json.loads(http.post("/segments/trips/reload").json()["status"])["trips_OFFLINE"]
    assert told["numMessagesSent"] == "1"
    job = f"/segments/segmentReloadStatus/{told['reloadJobId']}"
    eventually(lambda: http.get(job).json()["status"] == "COMPLETED")
    status = http.get(job).json()
    assert (status["totalSegmentCount"], status["successCount"], status["failureCount"]) == (1, 1, 0)
    text = http.post("/segments/trips/trips_0/reload", params={"forceDownload": "true"}).json()["status"]
    assert text.startswith("Submitted reload job id: ")
    assert http.post("/segments/trips/nope/reload").status_code == 404
    assert http.get("/segments/segmentReloadStatus/nope").status_code == 404
    assert trips.rows("SELECT count(*) FROM trips") == [[1]]


def test_ingest_from_file(trips: Any) -> None:
    csv = "city,n,ts\nOslo,1,1700000000000\nLima,2,1700000000001\n"
    params = {"tableNameWithType": "trips_OFFLINE", "batchConfigMapStr": json.dumps({"inputFormat": "csv"})}
    answer = trips.controller.post("/ingestFromFile", params=params, files={"file": ("trips.csv", csv)})
    assert answer.status_code == 200, answer.text
    name = answer.json()["status"].rpartition(": ")[2]
    trips.cluster.core.wait_until_visible("trips_OFFLINE", [name], 60)
    assert trips.rows("SELECT city, n FROM trips ORDER BY n") == [["Oslo", 1], ["Lima", 2]]
    bad = trips.controller.post("/ingestFromFile", params=params, files={"file": ("bad.csv", "city,n,ts\nOslo,x,1\n")})
    assert bad.status_code == 400
    assert "bad.csv" in bad.json()["error"]
    raw = {**params, "tableNameWithType": "trips"}
    assert trips.controller.post("/ingestFromFile", params=raw, files={"file": ("a.csv", csv)}).status_code == 400
    early = trips.controller.post("/ingestFromFile", params=params, files={"file": ("old.csv", "city,n,ts\nOslo,1,5\n")})
    assert (early.status_code, "not between 1971 and 2071" in early.json()["error"]) == (403, True)
    local = {**params, "sourceURIStr": "file:///etc/passwd"}
    assert trips.controller.post("/ingestFromURI", params=local).status_code == 400
    assert list((trips.data_dir / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, r"trips_1700000000000_1700090000000_\d{13}"),
        ({"configs.segment.name.postfix": "a"}, "trips_1700000000000_1700090000000_a"),
        ({"configs.exclude.time.in.segment.name": "true", "configs.segment.name.prefix": "p"}, r"p_\d{13}"),
        ({"type": "normalizedDate", "configs.segment.name.prefix": "p"}, r"p_2023-11-14_2023-11-15_\d{13}"),
        ({"configs.segment.name": "mine"}, "mine"),
        (
            {"type": "inputFile", "configs.file.path.pattern": ".*day=(.*).csv",
             "configs.segment.name.template": r"t_${filePathPattern:\1}"},
            "t_7",
        ),
    ],
)  # fmt: skip
def test_a_file_makes_a_segment_that_is_named_as_in_a_job(trips: Any, settings: dict[str, str], name: str) -> None:
    config = {"inputFormat": "csv", **{f"segmentNameGenerator.{key}": value for key, value in settings.items()}}
    params = {"tableNameWithType": "trips_OFFLINE", "batchConfigMapStr": json.dumps(config)}
    csv = "city,n,ts\nOslo,1,1700000000000\nLima,2,1700090000000\n"
    answer = trips.controller.post("/ingestFromFile", params=params, files={"file": ("day=7.csv", csv)})
    assert re.fullmatch(name, answer.json()["status"].rpartition(": ")[2]), answer.text
    (listed,) = trips.controller.get("/segments/trips").json()[0]["OFFLINE"]
    trips.cluster.core.wait_until_visible("trips_OFFLINE", [listed], 60)
    assert re.fullmatch(name, listed)
    assert trips.rows("SELECT $segmentName, COUNT(*) FROM trips GROUP BY 1") == [[listed, 2]]


def test_fixed_answers(api: Any) -> None:
    expected = {
        "/health": "OK",
        "/pinot-controller/admin": "GOOD",
        "/cluster/info": '{"clusterName":"PinotCluster"}',
        "/auth/info": '{"workflow":"NONE"}',
        "/auth/verify/v2": "true",
        "/tenants": '{"SERVER_TENANTS":["DefaultTenant"],"BROKER_TENANTS":["DefaultTenant"]}',
    }
    answers = {path: api.controller.get(path) for path in expected}
    assert {path: answer.text for path, answer in answers.items()} == expected
    assert {answer.status_code for answer in answers.values()} == {200}


def test_cluster(trips: Any) -> None:
    http = trips.controller
    instances = http.get("/instances").json()["instances"]
    assert [name.partition("_")[0] for name in instances] == ["Broker", "Controller", "Minion", "Server"]
    assert http.get("/liveinstances").json()["instances"] == instances
    shown = http.get(f"/instances/{instances[0]}").json()
    assert shown["port"] == trips.cluster.broker_url.rpartition(":")[2]
    assert http.get("/instances/nope").status_code == 404
    assert http.get("/instances", params={"tag": "DefaultTenant_OFFLINE"}).json() == {"instances": [instances[3]]}
    assert http.get("/tenants/DefaultTenant").json()["BrokerInstances"] == [instances[0]]
    assert http.get("/tenants/nope").status_code == 404
    assert http.get("/tenants/DefaultTenant/tables").json() == {"tables": ["trips_OFFLINE"]}
    live = http.get("/tables/livebrokers", params={"tables": "trips"}).json()
    assert live["trips_OFFLINE"][0]["instanceName"] == instances[0]
    assert http.get("/brokers/tables/trips").json() == [instances[0]]
    assert http.get("/v2/brokers/tenants/DefaultTenant", params={"state": "ONLINE"}).json()[0]["host"] == "localhost"
    assert http.post("/cluster/configs", json={"a": 1, "b": "x"}).json() == {"status": "Updated cluster config."}
    assert http.get("/cluster/configs").json() == {"a": "1", "b": "x"}
    http.delete("/cluster/configs/a")
    assert http.get("/cluster/configs").json() == {"b": "x"}
    refused = http.post("/cluster/configs", json={"pinot.broker.default.query.limit": "many", "c": 1})
    assert refused.status_code == 400
    assert refused.json()["error"] == "The setting pinot.broker.default.query.limit must be a whole number, not 'many'"
    assert http.get("/cluster/configs").json() == {"b": "x"}
    assert "gamay" in http.get("/version").json()


def test_the_metadata_store_can_be_read(trips: Any) -> None:
    http = trips.controller
    assert http.get("/zk/ls", params={"path": "/"}).json() == ["PinotCluster"]
    assert "IDEALSTATES" in http.get("/zk/ls", params={"path": "/PinotCluster"}).json()
    record = http.get("/zk/get", params={"path": "/PinotCluster/IDEALSTATES/trips_OFFLINE"}).json()
    assert set(record) == {"id", "simpleFields", "mapFields", "listFields"}
    stat = http.get("/zk/stat", params={"path": "/PinotCluster/IDEALSTATES/trips_OFFLINE"}).json()
    assert stat["dataLength"] > 0
    assert http.get("/zk/get", params={"path": "/nope"}).status_code == 404
    assert http.get("/zk/get", params={"path": "nope/"}).status_code == 400
    live = http.get("/zk/ls", params={"path": "/PinotCluster/LIVEINSTANCES"}).json()
    assert len(live) == 4


def test_queries_through_the_controller(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1, 2]))
    body = {"sql": "SELECT sum(n) FROM trips", "trace": False, "queryOptions": "timeoutMs=60000"}
    answer = trips.controller.post("/sql", json=body, headers={"Accept": "text/plain"})
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.json()["resultTable"]["rows"] == [[3.0]]
    assert trips.controller.get("/sql", params={"sql": "SELECT 1"}).json()["resultTable"]["rows"] == [[1]]
    assert trips.controller.get("/sql?sql=SELECT%20'%FF'").json()["exceptions"][0]["errorCode"] == 100
    assert trips.controller.post("/sql", content=b"{").json()["exceptions"][0]["errorCode"] == 100
    without = trips.controller.post("/sql", json={}).json()
    assert without["exceptions"][0]["errorCode"] == 100
    assert set(without) == set(trips.query("SELECT nothing FROM nowhere"))


@pytest.mark.parametrize("sql", ["DROP TABLE trips", "-- x\nset a = 1; create table t (x INT)", "SHOW CREATE TABLE trips"])
def test_the_controller_refuses_definitions(trips: Any, sql: str) -> None:
    told = trips.controller.post("/sql", json={"sql": sql}).json()["exceptions"]
    assert [each["errorCode"] for each in told] == [700]
    assert "is not a supported query" in told[0]["message"]
    assert trips.query(sql)["exceptions"][0]["errorCode"] == 150


def test_debug_routing(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1, 2]))
    routing = trips.broker.get("/debug/routingTable/trips").json()
    assert list(routing) == ["trips_OFFLINE"]
    assert list(routing["trips_OFFLINE"].values()) == [["trips_0"]]
    query = {"query": "SELECT * FROM trips WHERE n > 100"}
    assert trips.broker.get("/debug/routingTable/sql", params=query).json() == {}
    assert trips.broker.get("/debug/routingTable/sql", params={"query": "SELECT FROM"}).status_code == 400
    assert trips.broker.get("/debug/routingTable/nope").status_code == 404
    assert trips.broker.get("/debug/timeBoundary/trips").status_code == 404


def test_reload_builds_what_the_config_asks_for_now(trips: Any, make_segment: Callable[..., Path]) -> None:
    http = trips.controller
    values = [(i * 7919) % 1000 for i in range(2000)]
    trips.push(make_segment("trips_0", values))
    query = "SELECT count(*) FROM trips WHERE city = 'city1'"
    before = trips.query(query)
    changed = deepcopy(TABLE)
    changed["tableIndexConfig"] = {
        "invertedIndexColumns": ["city"],
        "bloomFilterColumns": ["city"],
        "rangeIndexColumns": ["n"],
        "noDictionaryColumns": ["ts"],
    }
    http.put("/tables/trips", json=changed)
    schema = deepcopy(SCHEMA)
    schema["dimensionFieldSpecs"].append({"name": "added", "dataType": "STRING", "defaultNullValue": "none"})  # type: ignore[attr-defined]
    assert http.put("/schemas/trips", json=schema, params={"reload": "true"}).status_code == 200
    for _ in range(6000):
        flags = http.get("/segments/trips/trips_0/metadata", params={"columns": "*"}).json()["indexes"]
        if flags["city"]["inverted-index"] == "YES":
            break
        time.sleep(0.01)
    assert (flags["city"]["bloom-filter"], flags["n"]["range-index"], flags["ts"]["dictionary"]) == ("YES", "YES", "NO")
    after = trips.query(query)
    assert after["resultTable"] == before["resultTable"]
    assert after["numEntriesScannedInFilter"] == 0 < before["numEntriesScannedInFilter"]
    assert trips.rows("SELECT added, count(*), sum(n) FROM trips GROUP BY added") == [["none", 2000, float(sum(values))]]
    assert len(list((trips.data_dir / "server" / "trips_OFFLINE").iterdir())) == 1
    # the record still has the CRC of the pushed archive, and a restart finds the rebuilt copy
    crc = http.get("/segments/trips/crc").json()["trips_0"]
    assert next((trips.data_dir / "server" / "trips_OFFLINE").iterdir()).name.startswith(f"trips_0__{crc}__")
