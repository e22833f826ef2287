"""REST: configs of tables with primary keys, when they are stored and changed."""

from copy import deepcopy
from pathlib import Path
from typing import Any

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
    "upsertConfig": {"mode": "FULL", "hashFunction": "MURMUR3"},
}  # fmt: skip


def upserting(**changes: Any) -> dict[str, Any]:
    return {**deepcopy(TABLE), "upsertConfig": {**TABLE["upsertConfig"], **changes}}


def refused(*keys: str) -> str:
    return (
        f"Failed to update table 'orders_OFFLINE': Cannot modify [{', '.join(keys)}] as it may lead to data "
        "inconsistencies. Please create a new table instead."
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
    error = refused("comparisonColumns", "deleteRecordColumn")
    assert said(api.put("/tables/orders", json=changed)) == error
    document = {"tableName": "orders", "schema": SCHEMA, "offline": changed}
    assert said(api.put("/tableConfigs/orders", json=document)) == error
    assert api.put("/tables/orders", params={"force": True}, json=changed).status_code == 200
    document["offline"] = upserting(comparisonColumns=["total"])
    assert said(api.put("/tableConfigs/orders", json=document)) == error
    forced = api.put("/tableConfigs/orders", params={"forceTableSchemaUpdate": True}, json=document)
    assert forced.status_code == 200
    assert api.get("/tables/orders").json()["OFFLINE"]["upsertConfig"]["comparisonColumns"] == ["total"]

    other_key = {**SCHEMA, "primaryKeyColumns": ["id", "gone"]}
    for force in (False, True):
        assert said(api.put("/schemas/orders", params={"force": force}, json=other_key)) == refused("primaryKeyColumns")


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
    stream = {"streamType": "log", "stream.log.topic.name": "orders", "stream.log.decoder.class.name": "JSONMessageDecoder"}
    half = {
        "tableName": "orders", "tableType": "REALTIME", "segmentsConfig": TABLE["segmentsConfig"], "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True}, "routing": {"instanceSelectorType": "strictReplicaGroup"},
        "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [stream]}}, "upsertConfig": {"mode": "PARTIAL"},
    }  # fmt: skip
    assert "a table with both types supports FULL only" in said(api.post("/tables", json=half))
