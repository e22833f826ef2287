from typing import Any

import pytest

from gamay.cluster.store import paths
from gamay.cluster.store.znrecord import decode

TABLE = "t_REALTIME"


def _messages(table: Any, server: str) -> list[list[str]]:
    store = table.registry.store
    parent = paths.messages(f"Server_{server}_1")
    found = [decode(store.get(f"{parent}/{name}").value) for name in store.children(parent)]
    assert all(message.simple["MSG_SUBTYPE"] == "FORCE_COMMIT" for message in found)
    return [message.lists["segments"] for message in found]


def test_a_paused_table_commits_what_it_has_and_goes_on_when_it_is_resumed(table) -> None:
    first = table.consuming(0)
    paused = table.http.post("/tables/t/pauseConsumption", params={"comment": "upgrade"}).json()
    assert paused == {
        "pauseFlag": True, "consumingSegments": sorted(table.ideal().states), "reasonCode": "ADMINISTRATIVE",
        "comment": "upgrade", "timestamp": str(table.clock.now_ms()), "indexOfInactiveTopics": [],
    }  # fmt: skip
    assert _messages(table, "a") == _messages(table, "b") == [sorted(table.ideal().states)]
    table.commit(first, 30, 30)
    assert table.http.get("/tables/t/pauseStatus").json()["consumingSegments"] == [table.consuming(1)]
    table.http.get("/periodictask/run", params={"taskname": "RealtimeSegmentValidationManager"})
    # The servers of consuming segments are notified again, as they may have been restarted.
    assert _messages(table, "a")[-1] == [table.consuming(1)]
    assert len(table.ideal().states) == 2
    resumed = table.http.post("/tables/t_REALTIME/resumeConsumption").json()
    assert (resumed["pauseFlag"], len(resumed["consumingSegments"])) == (False, 2)
    assert table.records()[table.consuming(0)].start_offset == "30"


def test_a_table_is_resumed_at_either_end_of_the_stream(table) -> None:
    table.http.post("/tables/t/pauseConsumption")
    table.commit(table.consuming(0), 30, 30)
    assert table.http.post("/tables/t/resumeConsumption", params={"consumeFrom": "somewhere"}).status_code == 400
    table.http.post("/tables/t/resumeConsumption", params={"consumeFrom": "smallest"})
    assert table.records()[table.consuming(0)].start_offset == "0"
    assert table.http.get("/tables/t/lostOffsets").json() == {"lostOffsets": []}


def test_a_table_over_its_storage_quota_rests_until_it_has_room(table) -> None:
    def validate(storage: str) -> dict[str, Any]:
        config = table.http.get("/tables/t").json()["REALTIME"]
        assert table.http.put("/tables/t", json=config | {"quota": {"storage": storage}}).status_code == 200
        table.http.get("/periodictask/run", params={"taskname": "RealtimeSegmentValidationManager"})
        status: dict[str, Any] = table.http.get("/tables/t/pauseStatus").json()
        return status

    assert validate("1B")["pauseFlag"] is False  # nothing is stored yet
    table.commit(table.consuming(0), 30, 30)
    paused = validate("1B")
    assert (paused["pauseFlag"], paused["reasonCode"]) == (True, "STORAGE_QUOTA_EXCEEDED")
    assert "its quota.storage is 1B" in paused["comment"]
    assert _messages(table, "a") != []
    table.commit(table.consuming(0), 40, 10)
    assert len(paused["consumingSegments"]) == 2
    assert len(table.http.get("/tables/t/pauseStatus").json()["consumingSegments"]) == 1
    resumed = validate("1G")
    assert (resumed["pauseFlag"], len(resumed["consumingSegments"])) == (False, 2)
    assert table.records()[table.consuming(0)].start_offset == "40"
    table.http.post("/tables/t/pauseConsumption")
    assert validate("1G")["reasonCode"] == "ADMINISTRATIVE"
    assert table.http.get("/tables/t/pauseStatus").json()["pauseFlag"] is True


def test_a_table_rests_while_a_disk_of_its_servers_is_too_full(table) -> None:
    def validate(used: int, **settings: str) -> dict[str, Any]:
        if settings:
            assert table.http.post("/cluster/configs", json={f"controller.{k}": v for k, v in settings.items()}).is_success
        table.servers.disks["Server_b_1"] = 1000, used  # the other one does not answer
        table.http.get("/periodictask/run", params={"taskname": "RealtimeSegmentValidationManager"})
        status: dict[str, Any] = table.http.get("/tables/t/pauseStatus").json()
        return status

    assert validate(990)["pauseFlag"] is False  # the check is off
    on = {"enable.resource.utilization.check": "true"}
    assert validate(950, **on)["pauseFlag"] is False
    paused = validate(951)
    assert (paused["pauseFlag"], paused["reasonCode"]) == (True, "RESOURCE_UTILIZATION_LIMIT_EXCEEDED")
    assert paused["comment"] == "the disk of Server_b_1 is 95.1% full, and controller.disk.utilization.threshold is 0.95"
    assert _messages(table, "b") != []
    for partition in (0, 1):
        table.commit(table.consuming(partition), 30, 30)
    assert table.http.get("/tables/t/pauseStatus").json()["consumingSegments"] == []
    assert validate(940, **{"disk.utilization.threshold": "0.9"})["pauseFlag"] is True
    resumed = validate(900)
    assert (resumed["pauseFlag"], len(resumed["consumingSegments"])) == (False, 2)
    assert table.records()[table.consuming(0)].start_offset == "30"
    table.http.post("/tables/t/pauseConsumption")
    assert validate(990)["reasonCode"] == "ADMINISTRATIVE"
    assert validate(100)["pauseFlag"] is True
    refused = table.http.post("/cluster/configs", json={"controller.disk.utilization.threshold": "95"})
    assert (refused.status_code, "up to 1" in refused.text) == (400, True)


def test_a_commit_can_be_forced_for_some_segments(table) -> None:
    job = table.http.post("/tables/t/forceCommit", params={"partitions": "1"}).json()
    assert (job["forceCommitStatus"], job["jobMetaZKWriteStatus"]) == ("SUCCESS", "SUCCESS")
    segment = table.consuming(1)
    assert _messages(table, "a") == [[segment]]
    status = table.http.get(f"/tables/forceCommitStatus/{job['forceCommitJobId']}").json()
    assert status["segmentsForceCommitted"] == status["segmentsYetToBeCommitted"] == [segment]
    assert (status["jobType"], status["tableName"], status["numberOfSegmentsYetToBeCommitted"]) == ("FORCE_COMMIT", TABLE, 1)
    table.commit(segment, 3, 3)
    status = table.http.get(f"/tables/forceCommitStatus/{job['forceCommitJobId']}").json()
    assert status["segmentsYetToBeCommitted"] == []
    assert table.consuming(1) != segment
    jobs = table.http.get("/table/t/jobs", params={"jobTypes": "FORCE_COMMIT"}).json()
    assert list(jobs) == [job["forceCommitJobId"]]


def test_batches_wait_for_each_other(table) -> None:
    table.http.post("/tables/t/forceCommit", params={"batchSize": "1", "batchStatusCheckIntervalSec": "1"})
    assert len(_messages(table, "a")[0]) == 1
    assert table.http.post("/tables/t/forceCommit", params={"batchSize": "0"}).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "params", "status"),
    [
        ("POST", "/tables/none/pauseConsumption", {}, 404),
        ("GET", "/tables/none/pauseStatus", {}, 404),
        ("POST", "/tables/t/forceCommit", {"segments": "t__0__7__20231114T2213Z"}, 404),
        ("POST", "/tables/t/forceCommit", {"partitions": "9"}, 404),
        ("POST", "/tables/t/forceCommit", {"partitions": "x"}, 400),
        ("POST", "/tables/t/forceCommit", {"partitions": "0", "segments": "t"}, 400),
        ("GET", "/tables/forceCommitStatus/none", {}, 404),
        ("POST", "/tables/t/pauseTopicConsumption", {"topicIndices": "1"}, 400),
        ("POST", "/tables/t/pauseTopicConsumption", {}, 400),
    ],
)
def test_what_cannot_be_done_is_told(table, method: str, path: str, params: dict[str, str], status: int) -> None:
    answer = table.http.request(method, path, params=params)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]


def test_a_table_that_is_switched_off_is_left_alone(table) -> None:
    table.http.put("/tables/t/state", params={"type": "realtime", "state": "disable"})
    assert table.http.post("/tables/t/pauseConsumption").status_code == 400
    assert table.http.post("/tables/t/forceCommit").status_code == 400
    assert table.http.post("/tables/t/resumeConsumption").status_code == 400


def test_a_topic_rests_alone(table) -> None:
    table.http.post("/tables/t/pauseTopicConsumption", params={"topicIndices": "0"})
    table.commit(table.consuming(0), 10, 10)
    assert table.http.get("/tables/t/pauseStatus").json()["indexOfInactiveTopics"] == [0]
    table.role.realtime.validate(TABLE)
    assert len(table.http.get("/tables/t/pauseStatus").json()["consumingSegments"]) == 1
    resumed = table.http.post("/tables/t/resumeTopicConsumption", params={"topicIndices": "0"}).json()
    assert (len(resumed["consumingSegments"]), resumed["indexOfInactiveTopics"]) == (2, [])


def test_stopped_replicas_and_lost_rows_are_repaired_and_listed(table, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = table.consuming(0)
    table.commit(segment, 20, 20)
    segment = table.consuming(0)
    for server in "ab":
        assert table.ask("segmentStoppedConsuming", segment, 25, server, reason="boom")["status"] == "PROCESSED"
    assert set(table.ideal().states[segment].values()) == {"OFFLINE"}
    from gamay.ingest.stream.log.plugin import LogMetadata
    from gamay.ingest.stream.offsets import IntegerOffset

    monkeypatch.setattr(LogMetadata, "offset", lambda self, partition, criteria: IntegerOffset(40))
    table.role.realtime.validate(TABLE)
    successor = table.consuming(0)
    assert table.records()[successor].start_offset == "40"
    assert segment not in table.records()
    assert table.http.get("/tables/t/lostOffsets").json() == {
        "lostOffsets": [
            {"partition": 0, "fromOffset": "20", "toOffset": "40", "segmentName": successor,
             "foundTimeMs": table.clock.now_ms()}
        ]
    }  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [("offsetThreshold", "50"), ("timeThresholdSeconds", "60")])
def test_a_table_that_lags_too_far_jumps_to_the_end_if_it_wants_to(
    realtime, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    from gamay.ingest.stream.log.plugin import LogMetadata
    from gamay.ingest.stream.offsets import IntegerOffset, OffsetKind

    realtime.topic(1)
    reset = "realtime.segment.offsetAutoReset."
    realtime.create(**{f"{reset}enable": "true", f"{reset}{key}": value})
    ends = {OffsetKind.PERIOD: 150}
    monkeypatch.setattr(LogMetadata, "latest_offset", lambda self, partition: IntegerOffset(200))
    monkeypatch.setattr(LogMetadata, "offset", lambda self, partition, criteria: IntegerOffset(ends.get(criteria.kind, 0)))
    realtime.commit(realtime.consuming(), 100, 10)
    record = realtime.records()[realtime.consuming()]
    assert (record.start_offset, record.lost_offsets) == ("200", "100,200")
    realtime.commit(realtime.consuming(), 210, 10)
    assert realtime.records()[realtime.consuming()].start_offset == "210"


def test_a_topic_that_fills_in_old_rows_never_jumps(realtime, monkeypatch: pytest.MonkeyPatch) -> None:
    from gamay.ingest.stream.log.plugin import LogMetadata
    from gamay.ingest.stream.offsets import IntegerOffset

    realtime.topic(1)
    reset = "realtime.segment.offsetAutoReset."
    backfill = {"realtime.segment.isBackfillTopic": "true"}
    realtime.create(**{f"{reset}enable": "true", f"{reset}offsetThreshold": "50", **backfill})
    monkeypatch.setattr(LogMetadata, "latest_offset", lambda self, partition: IntegerOffset(200))
    realtime.commit(realtime.consuming(), 100, 10)
    record = realtime.records()[realtime.consuming()]
    assert (record.start_offset, record.lost_offsets) == ("100", "")


def test_a_partition_is_cut_back_to_an_earlier_sequence(table) -> None:
    names = []
    for offset in (10, 20, 30):
        names.append(table.consuming(0))
        table.commit(names[-1], offset, 10)
    path, asked = "/deleteSegmentsFromSequenceNum/t_REALTIME", {"segments": names[1]}
    refused = table.http.delete(path, params=asked)
    assert (refused.status_code, "must be paused" in refused.text) == (409, True)
    table.http.post("/tables/t/pauseConsumption")
    assert table.http.delete(path, params=asked).status_code == 409  # the last one is not committed yet
    last = table.consuming(0)
    table.commit(last, 40, 10)
    shown = table.http.delete(path, params=asked | {"dryRun": "true"}).json()
    assert shown["partitionToSegments"] == {"0": [names[1], names[2], last]}
    assert last in table.records()
    assert table.http.delete(path, params=asked).json()["partitionToSegments"] == shown["partitionToSegments"]
    assert [name for name in table.ideal().states if name.startswith("t__0__")] == [names[0]]
    table.clock.advance(60)
    table.http.post("/tables/t/resumeConsumption")
    again = table.records()[table.consuming(0)]
    assert (again.name.split("__")[2], again.start_offset) == ("1", "10")
    assert table.http.delete(path, params={"segments": names[1]}).status_code == 404
    assert table.http.delete(path, params={"segments": "pushed"}).status_code == 400
    assert table.http.delete(path).status_code == 400
    assert table.http.delete(path, params={"segments": again.name, "force": "true"}).status_code == 200
    assert again.name not in table.ideal().states
