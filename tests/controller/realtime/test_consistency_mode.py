"""RESTRICTED: tables whose rows depend on earlier rows refuse commits and reloads on request."""

from typing import Any

import pytest

MODE = "pinot.server.consuming.segment.consistency.mode"
KEYED = {
    "schemaName": "t",
    "primaryKeyColumns": ["id"],
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "STRING"},
        {"name": "name", "dataType": "STRING"},
        {"name": "gone", "dataType": "INT"},
    ],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
PARTIAL = {"mode": "PARTIAL", "partialUpsertStrategies": {"name": "OVERWRITE"}, "deleteRecordColumn": "gone"}


def _create(realtime: Any, upsert: dict[str, Any], replication: int = 2) -> dict[str, Any]:
    realtime.topic()
    realtime.http.put("/schemas/t", params={"force": True}, json=KEYED)
    config = {
        **realtime.config(replication),
        "upsertConfig": upsert,
        "routing": {"instanceSelectorType": "strictReplicaGroup"},
        "tableIndexConfig": {"nullHandlingEnabled": True},
    }
    answer = realtime.http.post("/tables", json=config)
    assert answer.status_code == 200, answer.text
    return {"config": config, "answer": answer.json()}


def _refused(realtime: Any, config: dict[str, Any]) -> list[bool]:
    schema = {**KEYED, "dimensionFieldSpecs": [*KEYED["dimensionFieldSpecs"], {"name": "new", "dataType": "INT"}]}
    document = {"tableName": "t", "schema": schema, "realtime": config}
    answers = [
        realtime.http.post("/segments/t/reload"),
        realtime.http.post(f"/segments/t/{realtime.consuming()}/reload"),
        realtime.http.put("/schemas/t", params={"reload": True}, json=schema),
        realtime.http.put("/tableConfigs/t", params={"reload": True}, json=document),
        realtime.http.post("/tables/t/forceCommit"),
        realtime.http.post("/tables/t/pauseConsumption"),
    ]
    refused = [answer.status_code == 409 for answer in answers]
    for answer, is_refused in zip(answers, refused, strict=True):
        assert not is_refused or f"set {MODE} to PROTECTED or UNSAFE by POST /cluster/configs" in answer.text
    stored = realtime.http.get("/schemas/t").json()["dimensionFieldSpecs"]
    assert any(spec["name"] == "new" for spec in stored) != all(refused)  # what is refused stores nothing
    return refused


@pytest.mark.parametrize(
    ("upsert", "replication", "mode", "is_refused"),
    [
        (PARTIAL, 2, None, True),
        (PARTIAL, 1, None, False),
        (PARTIAL, 1, "RESTRICTED", True),
        (PARTIAL, 2, "PROTECTED", False),
        (PARTIAL, 2, "unsafe", False),
        ({"mode": "FULL"}, 2, None, False),
        ({"mode": "FULL", "dropOutOfOrderRecord": True}, 2, None, True),
    ],
)
def test_tables_whose_rows_depend_on_those_before_are_left_alone(
    realtime: Any, upsert: dict[str, Any], replication: int, mode: str | None, is_refused: bool
) -> None:
    created = _create(realtime, upsert, replication)
    if mode is not None:
        assert realtime.http.post("/cluster/configs", json={MODE: mode}).status_code == 200
    assert set(_refused(realtime, created["config"])) == {is_refused}


def test_a_segment_that_could_not_be_loaded_may_be_reset(realtime: Any) -> None:
    _create(realtime, PARTIAL)
    assert realtime.http.post("/segments/t/reset").status_code != 409


def test_a_delete_column_that_is_no_boolean_is_told(realtime: Any) -> None:
    created = _create(realtime, PARTIAL)
    (told,) = [sentence for sentence in created["answer"]["warnings"] if "deleteRecordColumn" in sentence]
    assert told == ("upsertConfig.deleteRecordColumn 'gone' is of type INT, not BOOLEAN: rows delete where it is not 0")
    for method, path, body in (
        ("POST", "/tables/validate", created["config"]),
        ("PUT", "/tables/t", created["config"]),
        ("POST", "/tableConfigs/validate", {"tableName": "t", "schema": KEYED, "realtime": created["config"]}),
    ):
        answer = realtime.http.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        assert "is of type INT, not BOOLEAN" in answer.text, path
