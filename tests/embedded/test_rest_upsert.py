"""REST: storing and changing configs of tables with primary keys."""

import base64
import threading
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyroaring import BitMap
from tests.waiting import PATIENCE_S, eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic

SCHEMA: dict[str, Any] = {
    "schemaName": "orders",
    "dimensionFieldSpecs": [{"name": "id", "dataType": "STRING"}, {"name": "gone", "dataType": "BOOLEAN"}],
    "metricFieldSpecs": [{"name": "total", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "at", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    ],
    "primaryKeyColumns": ["id"],
}
TABLE: dict[str, Any] = {
    "tableName": "orders", "tableType": "OFFLINE", "tenants": {},
    "segmentsConfig": {"timeColumnName": "at", "replication": "1"},
    "tableIndexConfig": {
        "segmentPartitionConfig": {"columnPartitionMap": {"id": {"functionName": "Murmur", "numPartitions": 4}}}
    },
    "routing": {"instanceSelectorType": "strictReplicaGroup"},
    "upsertConfig": {"mode": "FULL", "hashFunction": "MURMUR3"},
}  # fmt: skip


def upserting(**changes: Any) -> dict[str, Any]:
    return {**deepcopy(TABLE), "upsertConfig": {**TABLE["upsertConfig"], **changes}}


def realtime(topic: str, upsert: dict[str, Any], rows: int = 1000) -> dict[str, Any]:
    stream = {
        "streamType": "log", "stream.log.topic.name": topic, "stream.log.decoder.class.name": "JSONMessageDecoder",
        "stream.log.consumer.prop.auto.offset.reset": "smallest",
        "realtime.segment.flush.threshold.segment.rows": str(rows),
    }  # fmt: skip
    return {
        "tableName": "orders", "tableType": "REALTIME", "segmentsConfig": TABLE["segmentsConfig"], "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True}, "routing": {"instanceSelectorType": "strictReplicaGroup"},
        "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [stream]}}, "upsertConfig": upsert,
    }  # fmt: skip


def refused(*keys: str, flag: str | None = "force") -> str:
    hint = f" With {flag}=true it changes for new rows." if flag else ""
    return (
        f"Failed to update table 'orders_OFFLINE': Cannot modify [{', '.join(keys)}] as it may lead to data "
        f"inconsistencies. Please create a new table instead.{hint}"
    )


def said(response: Any, status: int = 400) -> str:
    assert response.status_code == status, response.text
    text: str = response.json()["error"]
    return text


def test_what_chose_the_rows_changes_by_force_only(trips: Any) -> None:
    api = trips.controller
    assert api.post("/schemas", json=SCHEMA).status_code == 200
    created = api.post("/tables", json=upserting(comparisonColumn="total", enableSnapshot=True)).json()
    assert [sentence.partition(";")[0] for sentence in created["warnings"]] == [
        "upsertConfig.comparisonColumn is deprecated",
        "upsertConfig.enableSnapshot is deprecated",
    ]
    stored = api.get("/tables/orders").json()["OFFLINE"]["upsertConfig"]
    assert (stored["comparisonColumns"], stored["snapshot"], "comparisonColumn" in stored) == (["total"], "ENABLE", False)

    changed = upserting(comparisonColumns=["at"], deleteRecordColumn="gone")
    error = refused("comparisonColumns")  # a delete column may be added
    assert said(api.put("/tables/orders", json=changed)) == error
    document = {"tableName": "orders", "schema": SCHEMA, "offline": changed}
    assert said(api.put("/tableConfigs/orders", json=document)) == refused(
        "comparisonColumns", flag="forceTableSchemaUpdate"
    )
    without = {**changed, "upsertConfig": None}
    assert said(api.put("/tables/orders", json=without)) == refused("mode")
    forced = api.put("/tables/orders", params={"force": True}, json=changed).json()
    assert [
        "comparisonColumns, deleteRecordColumn: servers of an upsert table apply the change" in w for w in forced["warnings"]
    ] == [True]
    document["offline"] = upserting(comparisonColumn="total")
    error = refused("comparisonColumns", "deleteRecordColumn", flag="forceTableSchemaUpdate")
    assert said(api.put("/tableConfigs/orders", json=document)) == error
    forced = api.put("/tableConfigs/orders", params={"forceTableSchemaUpdate": True}, json=document).json()
    assert [sentence.partition(";")[0] for sentence in forced["warnings"]] == [
        "offline: upsertConfig.comparisonColumn is deprecated",
        "offline: comparisonColumns, deleteRecordColumn: servers of an upsert table apply the change when restarted, and "
        "stored rows stay as they are",
    ]
    assert api.get("/tables/orders").json()["OFFLINE"]["upsertConfig"]["comparisonColumns"] == ["total"]

    other_key = {**SCHEMA, "primaryKeyColumns": ["id", "gone"]}
    for force in (False, True):
        assert said(api.put("/schemas/orders", params={"force": force}, json=other_key)) == refused(
            "primaryKeyColumns", flag=None
        )


def test_how_rows_are_merged_changes_by_force_only(trips: Any, tmp_path: Path) -> None:
    api = trips.controller
    create_topic(tmp_path / "data" / "streams", "orders", TopicConfig(1))
    assert api.post("/schemas", json=SCHEMA).status_code == 200
    assert api.post("/tables", json=realtime("orders", {"mode": "PARTIAL"})).status_code == 200
    other = {"mode": "PARTIAL", "partialUpsertStrategies": {"total": "INCREMENT"}, "defaultPartialUpsertStrategy": "IGNORE"}
    error = refused("partialUpsertStrategies", "defaultPartialUpsertStrategy").replace("orders_OFFLINE", "orders_REALTIME")
    assert said(api.put("/tables/orders", json=realtime("orders", other))) == error
    told = api.put("/tables/orders", params={"force": True}, json=realtime("orders", other)).json()["warnings"]
    assert [text.partition(":")[0] for text in told] == ["partialUpsertStrategies, defaultPartialUpsertStrategy"]
    assert api.put("/tables/orders", json=realtime("orders", other)).json().get("warnings", []) == []
    wrong = {**other, "partialUpsertStrategies": {"gone": "INCREMENT"}}
    assert "INCREMENT is for single numbers" in said(api.put("/tables/orders", json=realtime("orders", wrong)))
    stored = api.get("/tables/orders").json()["REALTIME"]["upsertConfig"]
    assert stored["partialUpsertStrategies"] == {"total": "INCREMENT"}


def test_validations_of_upserts_can_be_skipped(trips: Any) -> None:
    api = trips.controller
    assert api.post("/schemas", json=SCHEMA).status_code == 200
    broken = upserting(deletedKeysTTL=5)
    assert "deletedKeysTTL needs a deleteRecordColumn" in said(api.post("/tables", json=broken))
    assert api.post("/tables", params={"validationTypesToSkip": "TASK,UPSERT"}, json=broken).status_code == 200


def test_a_cluster_may_forbid_md5(trips: Any) -> None:
    api = trips.controller
    assert api.post("/schemas", json=SCHEMA).status_code == 200
    assert api.post("/cluster/configs", json={"pinot.md5.disabled": "true"}).status_code == 200
    assert said(api.post("/tables", json=upserting(hashFunction="MD5"))) == (
        "upsertConfig.hashFunction is MD5, which the cluster's setting pinot.md5.disabled forbids"
    )
    assert api.post("/tables", json=upserting(hashFunction="XXH128")).status_code == 200


def test_halves_of_a_hybrid_table_agree(trips: Any, tmp_path: Path) -> None:
    api = trips.controller
    assert api.post("/schemas", json=SCHEMA).status_code == 200
    create_topic(tmp_path / "data" / "streams", "orders", TopicConfig(1))
    assert api.post("/tables", json=upserting()).status_code == 200
    half = realtime("orders", {"mode": "PARTIAL"})
    assert "a table with both types supports FULL only" in said(api.post("/tables", json=half))


def test_servers_tell_which_rows_count_and_how_many_keys_they_hold(trips: Any, tmp_path: Path) -> None:
    api, server = trips.controller, trips.server
    topic = create_topic(tmp_path / "data" / "streams", "orders", TopicConfig(1))
    assert api.post("/schemas", json=SCHEMA).status_code == 200
    table = realtime("orders", {"mode": "FULL", "deleteRecordColumn": "gone"}, rows=3)
    assert api.post("/tables", json=table).status_code == 200
    keys = ["a", "b", "c", "a", "b", "d", "e"]  # b is deleted, and the last row is not committed
    rows = [{"id": key, "gone": i == 4, "total": i, "at": i} for i, key in enumerate(keys)]
    Producer(topic, SYSTEM_CLOCK).send(pa.array([orjson.dumps(row) for row in rows], pa.binary()), partition=0)

    def counts(**params: Any) -> list[list[Any]]:
        found = api.get("/tables/orders/validDocIdsMetadata", params=params).json()
        fields = ("totalValidDocs", "totalInvalidDocs", "totalDocs", "validDocIdsType", "serverStatus")
        return [[entry[field] for field in fields] for entry in found]

    kind = "IN_MEMORY"
    eventually(lambda: counts(validDocIdsType=kind) == [[1, 2, 3, kind, "GOOD"], [3, 0, 3, kind, "GOOD"]])
    assert counts(validDocIdsType=f"{kind}_WITH_DELETE", serverRequestBatchSize=1)[1][:3] == [2, 1, 3]
    names = server.get("/tables/orders_REALTIME/segments").json()["segments"]
    assert len(counts(validDocIdsType=kind, segmentNames=names[1])) == 1
    assert len(counts(validDocIdsType=kind, segmentNames=[f"{names[1]}, {names[0]}", "nope"])) == 2
    assert "'ALL' is not among SNAPSHOT" in said(api.get("/tables/orders/validDocIdsMetadata?validDocIdsType=ALL"))
    assert "REALTIME tables only" in said(api.get("/tables/trips/validDocIdsMetadata"), 501)
    assert "REALTIME tables only" in said(api.get("/tables/orders/validDocIdsMetadata?type=OFFLINE"), 501)
    assert "not found" in said(api.get("/tables/nope/validDocIdsMetadata"), 404)

    bitmap = server.get(f"/segments/orders_REALTIME/{names[0]}/validDocIdsBitmap?validDocIdsType={kind}").json()["bitmap"]
    assert list(BitMap.deserialize(base64.b64decode(bitmap))) == [2]
    for body in ("{", "[1]", '{"segments": "x"}', '{"segments": [1]}'):
        said(server.post("/tables/orders_REALTIME/validDocIdsMetadata", content=body))
    held = server.get("/instance/primaryKeyCount").json()
    assert (held["numPrimaryKeys"], held["upsertAndDedupTables"]) == (5, ["orders_REALTIME"])
    assert held["lastUpdatedTimeInEpochMs"] > 0
    told = server.get("/tables/orders_REALTIME/metadata").json()["upsertPartitionToServerPrimaryKeyCountMap"]
    assert told == {"0": {held["instanceId"]: 5}}


@pytest.mark.parametrize(
    "upsert",
    [
        {"mode": "FULL", "metadataTTL": 100},
        {"mode": "FULL", "deleteRecordColumn": "gone", "deletedKeysTTL": 100},
        {"mode": "PARTIAL", "partialUpsertStrategies": {"total": "INCREMENT"}},
    ],
)
def test_a_table_that_was_switched_off_comes_back_as_it_was(trips: Any, tmp_path: Path, upsert: dict[str, Any]) -> None:
    """Which row of an expired key is valid is known from snapshots alone: they, and the copies of segments, stay."""
    api, table = trips.controller, "orders_REALTIME"
    topic = create_topic(tmp_path / "data" / "streams", "orders", TopicConfig(1))
    assert api.post("/schemas", json=SCHEMA).status_code == 200
    assert api.post("/tables", json=realtime("orders", upsert, rows=4)).status_code == 200
    keys, times = "abacabadefghi", [0, 1, 10, 12, 20, 21, 30, 5000, 5001, 5002, 9000, 9001, 9002]
    rows = [{"id": k, "gone": k == "b", "total": i, "at": at} for i, (k, at) in enumerate(zip(keys, times, strict=True))]
    producer = Producer(topic, SYSTEM_CLOCK)

    def send(rows: list[dict[str, Any]]) -> None:
        producer.send(pa.array([orjson.dumps(row) for row in rows], pa.binary()), partition=0)

    def seen() -> list[list[Any]]:
        answer = trips.query("SELECT id, total, at FROM orders ORDER BY id, at LIMIT 100")
        return [] if answer["exceptions"] else list(answer["resultTable"]["rows"])

    def switch(state: str) -> None:
        told = api.put("/tables/orders/state", params={"type": "REALTIME", "state": state})
        assert told.status_code == 200

    def loaded() -> list[str]:
        return list(trips.server.get(f"/tables/{table}/segments/crc").json())

    expected: dict[str, tuple[int, int]] = {}
    for row in rows:  # none comes so late that its key has expired
        before = expected[row["id"]][0] if upsert["mode"] == "PARTIAL" and row["id"] in expected else 0
        expected[row["id"]] = (before + row["total"], row["at"])
    hidden = {"b"} if "deleteRecordColumn" in upsert else set()
    want = [[k, total, at] for k, (total, at) in sorted(expected.items()) if k not in hidden]

    send(rows)
    eventually(lambda: seen() == want and len(loaded()) == 3)
    copies = sorted(path.name for path in (tmp_path / "data" / "server" / table).iterdir())
    for _ in range(2):
        switch("disable")
        eventually(lambda: trips.server.get("/tables").json()["tables"] == [])
        assert sorted(path.name for path in (tmp_path / "data" / "server" / table).iterdir()) == copies
        switch("enable")
        eventually(lambda: len(loaded()) == 3 and seen() == want)
    send([{"id": "z", "total": 1, "at": 9003}])
    want.append(["z", 1, 9003])
    eventually(lambda: seen() == want)

    switch("disable")
    eventually(lambda: trips.server.get("/tables").json()["tables"] == [])
    assert api.delete("/tables/orders").status_code == 200
    eventually(lambda: not (tmp_path / "data" / "server" / table).exists())


def test_a_table_that_is_made_anew_at_once_has_nothing_of_the_one_before(
    trips: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is where the server never sees that the table was gone: names of segments may be the same."""
    api, server = trips.controller, trips.cluster.core.server
    topic = create_topic(tmp_path / "data" / "streams", "orders", TopicConfig(1))
    assert api.post("/schemas", json=SCHEMA).status_code == 200
    assert api.post("/tables", json=realtime("orders", {"mode": "FULL", "metadataTTL": 100}, rows=2)).status_code == 200
    rows = [
        {"id": key, "total": 1, "at": at} for key, at in (("a", 1000), ("a", 1050), ("b", 1051), ("c", 9000), ("d", 9001))
    ]
    Producer(topic, SYSTEM_CLOCK).send(pa.array([orjson.dumps(row) for row in rows], pa.binary()), partition=0)

    def seen() -> list[list[Any]]:
        answer = trips.query("SELECT id, total FROM orders ORDER BY id, total")
        return [] if answer["exceptions"] else list(answer["resultTable"]["rows"])

    eventually(lambda: seen() == [["a", 1], ["b", 1], ["c", 1], ["d", 1]])
    eventually(lambda: len(server.table("orders_REALTIME").snapshot()) == 2)

    looks, reconcile = threading.Event(), server._reconcile

    def reconciled(table: str, changed: Any) -> None:
        assert looks.wait(PATIENCE_S)
        reconcile(table, changed)

    with server._transitions.applying:
        monkeypatch.setattr(server, "_reconcile", reconciled)
        assert api.delete("/tables/orders").status_code == 200
        anew = realtime("orders", {"mode": "PARTIAL", "partialUpsertStrategies": {"total": "INCREMENT"}})
        assert api.post("/tables", json=anew).status_code == 200
    looks.set()
    eventually(lambda: seen() == [["a", 2], ["b", 1], ["c", 1], ["d", 1]])
    assert list(server.table("orders_REALTIME").snapshot()) == []
    assert server.upserts.upsert("orders_REALTIME").settings.is_partial


def test_a_table_that_is_switched_off_for_a_moment_loses_no_merged_row(
    trips: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers that ended alone would take their rows again, and find nothing of what these had replaced."""
    api, server, table = trips.controller, trips.cluster.core.server, "orders_REALTIME"
    topic = create_topic(tmp_path / "data" / "streams", "orders", TopicConfig(1))
    assert api.post("/schemas", json=SCHEMA).status_code == 200
    config = realtime("orders", {"mode": "PARTIAL", "partialUpsertStrategies": {"total": "INCREMENT"}}, rows=2)
    assert api.post("/tables", json=config).status_code == 200

    def send(*rows: tuple[str, int]) -> None:
        lines = [orjson.dumps({"id": key, "total": 1, "at": at}) for key, at in rows]
        Producer(topic, SYSTEM_CLOCK).send(pa.array(lines, pa.binary()), partition=0)

    def seen() -> list[list[Any]]:
        answer = trips.query("SELECT id, total FROM orders ORDER BY id")
        return [] if answer["exceptions"] else list(answer["resultTable"]["rows"])

    send(("a", 1), ("b", 2), ("a", 3))
    eventually(lambda: seen() == [["a", 2], ["b", 1]] and len(server.table(table).snapshot()) == 1)
    looks, reconcile = threading.Event(), server._reconcile

    def reconciled(table: str, changed: Any) -> None:
        assert looks.wait(PATIENCE_S)
        reconcile(table, changed)

    monkeypatch.setattr(server, "_reconcile", reconciled)
    for state in ("disable", "enable"):
        assert api.put("/tables/orders/state", params={"type": "REALTIME", "state": state}).status_code == 200
        server._transitions.apply(table)
    looks.set()
    send(("b", 4), ("a", 5))
    eventually(lambda: seen() == [["a", 3], ["b", 2]])
