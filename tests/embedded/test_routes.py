"""REST calls for loggers, tiers, partitions, time ranges, minions and tuners, as a tool would use them."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually

from gamay.cluster.records.records import SegmentRecord

TUNED = {
    "tableName": "t",
    "schema": {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}, {"name": "day", "dataType": "INT"}],
        "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    },
    "offline": {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"sortedColumn": ["day"]},
        "tunerConfigs": [{"name": "realtimeAutoIndexTuner"}],
        "metadata": {},
    },
}


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("gamay.tested")
    yield made
    made.setLevel(logging.NOTSET)


def test_a_logger_tells_and_takes_its_level(api: Any, logger: logging.Logger) -> None:
    rest = api.controller
    assert {"root", "gamay", logger.name} <= set(rest.get("/loggers").json())
    assert rest.get(f"/loggers/{logger.name}").json() == {"name": logger.name, "level": "WARN", "filter": None}
    assert rest.put(f"/loggers/{logger.name}", params={"level": "debug"}).json()["level"] == "DEBUG"
    assert logger.level == logging.DEBUG
    answer = rest.put(f"/loggers/{logger.name}", params={"level": "LOUD"})
    assert (answer.status_code, "it must be one of" in answer.json()["error"]) == (400, True)
    answer = rest.get("/loggers/gamay.tsted")
    assert (answer.status_code, "Did you mean 'gamay.tested'?" in answer.json()["error"]) == (404, True)


def test_there_are_no_log_files(api: Any) -> None:
    rest = api.controller
    for path in ("/loggers/files", "/loggers/download?filePath=x"):
        answer = rest.get(path)
        assert (answer.status_code, "standard error" in answer.json()["error"]) == (404, True)
    live = rest.get("/liveinstances").json()["instances"]
    assert rest.get("/loggers/instances").json() == {name: [] for name in live}
    assert "standard error" in rest.get(f"/loggers/instances/{live[0]}").json()["error"]
    assert rest.get("/loggers/instances/nobody").status_code == 404
    assert rest.get(f"/loggers/instances/{live[0]}/download?filePath=x").status_code == 404


def test_segments_tell_on_which_tier_they_are(trips: Any, make_segment: Callable[..., Path]) -> None:
    rest, server = trips.controller, trips.cluster.core.server.id
    for name in ("trips_0", "trips_1"):
        trips.push(make_segment(name, [1]))
    tags = rest.get(f"/instances/{server}").json()["tags"]
    assert rest.put(f"/instances/{server}/updateTags", params={"tags": ",".join([*tags, "cold_OFFLINE"])}).status_code == 200
    config = rest.get("/tables/trips").json()["OFFLINE"]
    config["tierConfigs"] = [
        {"name": "cold", "segmentSelectorType": "fixed", "segmentList": ["trips_1"], "storageType": "pinot_server",
         "serverTag": "cold_OFFLINE"}
    ]  # fmt: skip
    assert rest.put("/tables/trips", json=config).status_code == 200

    def told() -> Any:
        return rest.get("/segments/trips/tiers", params={"type": "OFFLINE"}).json()["segmentTiers"]

    plain = {server: None, "targetTier": None}
    assert told() == {"trips_0": plain, "trips_1": plain}
    rest.post("/periodictask/run", params={"taskname": "SegmentRelocator", "tableName": "trips", "type": "OFFLINE"})
    eventually(lambda: told() == {"trips_0": plain, "trips_1": {server: "cold", "targetTier": "cold"}})
    rest.put(f"/instances/{server}/updateTags", params={"tags": ",".join(tags)})
    assert told()["trips_1"] == {server: None, "targetTier": "cold"}


def test_segments_are_on_the_plain_tier(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1]))
    trips.push(make_segment("trips_1", [2]))
    server = trips.cluster.core.server.id
    told = trips.controller.get("/segments/trips/tiers", params={"type": "OFFLINE"}).json()
    tier = {server: None, "targetTier": None}
    assert told == {"tableName": "trips_OFFLINE", "segmentTiers": {"trips_0": tier, "trips_1": tier}}
    told = trips.controller.get("/segments/trips/trips_1/tiers", params={"type": "OFFLINE"}).json()
    assert told["segmentTiers"] == {"trips_1": tier}
    assert trips.controller.get("/segments/trips/trips_9/tiers", params={"type": "OFFLINE"}).status_code == 404
    assert trips.controller.get("/segments/trips/tiers").status_code == 400


def test_segments_of_no_single_partition_are_listed(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1]))
    rest = trips.controller
    answer = rest.get("/segments/trips/invalidPartitionMetadata")
    assert (answer.status_code, "partitionColumn is missing" in answer.json()["error"]) == (400, True)
    config = rest.get("/tables/trips").json()["OFFLINE"]
    partitioned = {"columnPartitionMap": {"n": {"functionName": "Modulo", "numPartitions": 4}}}
    config["tableIndexConfig"]["segmentPartitionConfig"] = partitioned
    assert rest.put("/tables/trips", json=config).status_code == 200
    told = rest.get("/segments/trips/invalidPartitionMetadata")
    assert told.json() == {"trips_0": "its partition is not recorded"}
    cases = {("Modulo", 1): None, ("Modulo", 2): "rows of 2 partitions", ("Murmur", 1): "by Murmur into 4"}
    for (function, count), problem in cases.items():
        partition = {"functionName": function, "numPartitions": 4, "partitions": list(range(count))}

        def changed(
            record: SegmentRecord | None, text: str = json.dumps({"columnPartitionMap": {"n": partition}})
        ) -> SegmentRecord | None:
            return None if record is None else record.with_changes(partition_metadata=text)

        trips.cluster.core.registry.update_segment("trips_OFFLINE", "trips_0", changed)
        told = rest.get("/segments/trips/invalidPartitionMetadata", params={"partitionColumn": "n"}).json()
        assert told == {} if problem is None else problem in told["trips_0"]
    assert rest.get("/segments/trips/invalidPartitionMetadata", params={"partitionColumn": "x"}).status_code == 400


def test_time_ranges_are_worked_out_anew(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    registry = trips.cluster.core.registry
    before = registry.get_segment("trips_OFFLINE", "trips_0")
    registry.update_segment("trips_OFFLINE", "trips_0", lambda r: r and r.with_changes(start_time_ms=5, end_time_ms=6))
    answer = trips.controller.post("/segments/trips_OFFLINE/updateZKTimeInterval")
    assert answer.json() == {"status": "Successfully updated time interval zk metadata for table: trips_OFFLINE"}
    assert registry.get_segment("trips_OFFLINE", "trips_0") == before


def test_instances_of_a_table_follow_from_tags(trips: Any) -> None:
    rest, server = trips.controller, trips.cluster.core.server.id
    shown = rest.get("/tables/trips/instancePartitions").json()
    assert rest.post("/tables/trips/assignInstances", params={"dryRun": "true"}).json() == shown
    parameters = {"oldInstanceId": server, "newInstanceId": server}
    answer = rest.post("/tables/trips/replaceInstance", params=parameters)
    assert (answer.status_code, "follow from tags" in answer.json()["error"]) == (404, True)


def test_minions_are_told_with_their_state(api: Any) -> None:
    rest = api.controller
    own = rest.get("/minions/status").json()["minionStatus"]
    assert [minion["status"] for minion in own] == ["ONLINE"]
    rest.post("/instances", json={"host": "far", "port": 9514, "type": "MINION"})
    minion = {"instanceId": "Minion_far_9514", "host": "far", "port": 9514, "runningTaskCount": 0, "status": "OFFLINE"}
    assert rest.get("/minions/status").json() == {"currentMinionCount": 2, "minionStatus": [minion, *own]}
    assert rest.get("/minions/status", params={"status": "ONLINE"}).json()["minionStatus"] == own
    assert rest.get("/minions/status", params={"status": "AWAY"}).status_code == 400
    rest.put(f"/instances/{own[0]['instanceId']}/state", params={"state": "drain"})
    asked = {"status": "DRAINED", "includeTaskCounts": "true"}
    (drained,) = rest.get("/minions/status", params=asked).json()["minionStatus"]
    assert drained == {**own[0], "status": "DRAINED"}


def test_tuners_change_what_they_say(api: Any) -> None:
    told = api.controller.post("/tableConfigs/tune", json=TUNED).json()
    indexing = told["offline"]["tableIndexConfig"]
    assert (indexing["invertedIndexColumns"], indexing["noDictionaryColumns"]) == (["city", "day"], ["n"])
    assert indexing["sortedColumn"] == ["day"]
    assert api.controller.get("/tables").json() == {"tables": []}
    unknown = {**TUNED, "offline": {**TUNED["offline"], "tunerConfigs": [{"name": "autoIndexTuner"}]}}  # type: ignore[dict-item]
    for path in ("/tableConfigs/tune", "/tableConfigs"):
        answer = api.controller.post(path, json=unknown)
        assert (answer.status_code, "autoIndexTuner" in answer.json()["error"]) == (400, True)
    api.controller.post("/schemas", json=TUNED["schema"])
    added = {**TUNED["offline"], "tunerConfigs": [{"name": "realtimeAutoIndexTuner", "properties": {"a": "b"}}]}  # type: ignore[dict-item]
    answer = api.controller.post("/tables", json=added).json()
    assert [told.partition(":")[0] for told in answer["warnings"]] == ["tunerConfigs"]
    assert api.controller.get("/tables/t").json()["OFFLINE"]["tableIndexConfig"]["noDictionaryColumns"] == ["n"]


def test_a_query_of_a_client_that_runs_nowhere_is_not_cancelled(api: Any) -> None:
    broker = api.controller.get("/brokers").json()["tenants"]["DefaultTenant"][0]
    for path in ("/clientQuery/mine", f"/clientQuery/{broker}/mine", "/clientQuery/nobody/mine"):
        assert api.controller.delete(path).status_code == 404


def test_a_table_of_the_other_type_is_no_guess_at_its_own_name(trips: Any) -> None:
    answer = trips.controller.get("/tables/trips", params={"type": "REALTIME"})
    assert (answer.status_code, answer.json()["error"]) == (404, "Table trips not found. It exists with the other type.")
