import os
from pathlib import Path
from typing import Any

import pytest

from gamay.storage.archive import pack

TABLE = "t_REALTIME"


def test_a_split_commit_over_http(table) -> None:
    segment = table.consuming()
    commit = table.ask("segmentConsumed", segment, 100, reason="rowLimit", rowCount=100)
    assert commit == {
        "status": "COMMIT", "streamPartitionMsgOffset": "100", "buildTimeSec": 126, "isSplitCommitType": True,
        "controllerVipUrl": "http://a:1",
    }  # fmt: skip
    other = table.ask("segmentConsumed", segment, 90, "b", reason="timeLimit")
    assert other == {
        "status": "CATCH_UP", "streamPartitionMsgOffset": "100", "buildTimeSec": -1, "isSplitCommitType": True,
    }  # fmt: skip
    table.commit(segment, 100, 100)
    record = table.records()[segment]
    assert (record.status, record.start_offset, record.end_offset, record.total_docs) == ("DONE", "0", "100", 100)
    assert (record.start_time_ms, record.end_time_ms) == (1_700_000_000_000, 1_700_000_000_099)
    assert record.download_url == f"deepstore:{TABLE}/{table.copies()[0]}"
    assert table.copies() == [f"{segment}__{record.crc}.tar.gz"]
    assert set(table.ideal().states[segment].values()) == {"ONLINE"}
    assert table.records()[table.consuming()].start_offset == "100"
    assert table.ask("segmentConsumed", segment, 100, "b")["status"] == "KEEP"
    assert table.ask("segmentConsumed", segment, 120, "b")["status"] == "DISCARD"
    fetched = table.http.get(f"/segments/t/{segment}")
    assert fetched.status_code == 200
    assert len(fetched.content) == record.size_bytes


def test_a_commit_in_one_call_and_one_without_metadata(table) -> None:
    first = table.consuming(0)
    archive = table.archive(first, 7)
    table.ask("segmentConsumed", first, 7, reason="rowLimit")
    assert table.send("segmentCommit", first, 7, archive)["status"] == "COMMIT_SUCCESS"
    second = table.consuming(1)
    archive = table.archive(second, 8)
    table.ask("segmentConsumed", second, 8, reason="rowLimit")
    table.ask("segmentCommitStart", second, 8)
    location = table.send("segmentUpload", second, 8, archive)["segmentLocation"]
    assert table.send("segmentCommitEnd", second, 8, None, location=location)["status"] == "COMMIT_SUCCESS"
    assert [table.records()[name].total_docs for name in (first, second)] == [7, 8]


def test_what_cannot_be_verified_is_not_taken_and_leaves_nothing(table, tmp_path: Path) -> None:
    segment = table.consuming()
    table.ask("segmentConsumed", segment, 5, reason="rowLimit")
    table.ask("segmentCommitStart", segment, 5)
    good = table.archive(segment, 5)
    damaged = tmp_path / "damaged.tar.gz"
    content = bytearray(good.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.write_bytes(content)
    nonsense = tmp_path / "nonsense.tar.gz"
    nonsense.write_bytes(b"nonsense")
    other = table.archive("t__0__9__20231114T2213Z", 5)
    dimensions = [{"name": "s", "dataType": "STRING"}, {"name": "ts", "dataType": "LONG"}]
    wrong_types = pack(
        table.build(segment, 5, {"schemaName": "t", "dimensionFieldSpecs": dimensions}), tmp_path / "wrong.tar.gz"
    )
    for file in (damaged, nonsense, other, wrong_types):
        assert table.send("segmentUpload", segment, 5, file)["status"] == "FAILED", file
    assert table.copies() == []
    assert list((table.folder / "work").iterdir()) == []
    assert table.records()[segment].status == "IN_PROGRESS"
    # The server's next upload is as good as the first would have been.
    location = table.send("segmentUpload", segment, 5, good)["segmentLocation"]
    assert table.send("segmentCommitEnd", segment, 5, None, location=location)["status"] == "COMMIT_SUCCESS"


@pytest.mark.parametrize(
    "location",
    ["deepstore:t_REALTIME/none.tar.gz", "deepstore:../metadata.db", "deepstore:t_REALTIME/../t_REALTIME/{copy}",
     "/etc/passwd", "file:///etc/passwd", "peer:///x", "http://elsewhere/{copy}"],
)  # fmt: skip
def test_only_what_was_uploaded_can_be_committed(table, location: str) -> None:
    segment = table.consuming()
    folder = table.build(segment, 5)
    table.ask("segmentConsumed", segment, 5, reason="rowLimit")
    table.ask("segmentCommitStart", segment, 5)
    table.send("segmentUpload", segment, 5, table.archive(segment, 5))
    at = location.replace("{copy}", table.copies()[0])
    ended = table.send("segmentCommitEndWithMetadata", segment, 5, folder / "metadata.json", location=at)
    assert ended["status"] == "FAILED"
    assert table.records()[segment].status == "IN_PROGRESS"


def test_metadata_of_another_build_is_refused(table) -> None:
    segment = table.consuming()
    table.ask("segmentConsumed", segment, 5, reason="rowLimit")
    table.ask("segmentCommitStart", segment, 5)
    location = table.send("segmentUpload", segment, 5, table.archive(segment, 5))["segmentLocation"]
    other = table.build(segment, 6) / "metadata.json"
    assert table.send("segmentCommitEndWithMetadata", segment, 5, other, location=location)["status"] == "FAILED"


def test_malformed_requests_are_answered_not_refused(table) -> None:
    assert table.http.get("/segmentConsumed").json()["status"] == "FAILED"
    assert table.ask("segmentConsumed", "nonsense", 5)["status"] == "FAILED"
    assert table.ask("segmentConsumed", "u__0__0__20231114T2213Z", 5)["status"] == "FAILED"
    assert table.ask("segmentConsumed", table.consuming(), 5, rowCount="x")["status"] == "FAILED"
    assert table.http.get("/segmentConsumed", params={
        "instance": "Server_a_1", "name": table.consuming(), "streamPartitionMsgOffset": "soon", "reason": "rowLimit",
    }).json()["status"] in ("FAILED", "COMMIT")  # fmt: skip
    assert table.http.post("/segmentUpload", content=b"x", params={
        "instance": "Server_a_1", "name": table.consuming(), "streamPartitionMsgOffset": "5",
    }).json()["status"] == "FAILED"  # fmt: skip


def test_who_does_not_lead_says_so(table) -> None:
    table.role.realtime.resign()
    assert table.ask("segmentConsumed", table.consuming(), 5) == {
        "status": "NOT_LEADER", "streamPartitionMsgOffset": None, "buildTimeSec": -1, "isSplitCommitType": True,
    }  # fmt: skip
    # Any controller takes an upload.
    segment = table.consuming()
    assert table.send("segmentUpload", segment, 5, table.archive(segment, 5))["status"] == "UPLOAD_SUCCESS"


def test_a_segment_that_cannot_be_built_is_replaced_by_a_smaller_one(table) -> None:
    segment = table.consuming()
    answer = table.http.get(
        "/segmentBuildDeterministicFailure", params={"instance": "Server_a_1", "name": segment, "rowCount": "100"}
    )
    assert answer.json()["status"] == "PROCESSED"
    successor = table.records()[table.consuming()]
    assert (successor.start_offset, successor.flush_threshold_rows) == ("0", 50)
    assert set(table.ideal().states[segment].values()) == {"OFFLINE"}
    assert table.ask("segmentConsumed", segment, 100, reason="rowLimit")["status"] == "FAILED"


def test_a_pauseless_segment_whose_builder_died_is_fetched_from_a_server(realtime) -> None:
    realtime.topic(1)
    realtime.create(pauseless=True)
    segment = realtime.consuming()
    realtime.ask("segmentConsumed", segment, 5, reason="rowLimit")
    assert realtime.ask("segmentCommitStart", segment, 5)["status"] == "COMMIT_CONTINUE"
    assert realtime.records()[segment].status == "COMMITTING"
    shown = realtime.http.get("/tables/t/pauselessDebugInfo").json()
    assert shown == {"committingSegments": [segment], "segmentsWithoutDownloadUrl": []}
    realtime.servers.archives["Server_b_1", segment] = realtime.archive(segment, 5)
    realtime.role.realtime.validate(TABLE)
    assert realtime.records()[segment].status == "COMMITTING"  # it may still be being built
    realtime.clock.advance(301)
    realtime.role.realtime.validate(TABLE)
    record = realtime.records()[segment]
    assert (record.status, record.end_offset, record.total_docs) == ("DONE", "5", 5)
    assert realtime.copies() == [f"{segment}__{record.crc}.tar.gz"]


def test_a_segment_without_a_copy_gets_one(realtime) -> None:
    segment = realtime.commit_at_a_peer()
    assert realtime.records()[segment].download_url == ""
    realtime.servers.archives["Server_a_1", segment] = realtime.archive(segment, 6)  # other content is not taken
    realtime.clock.advance(301)
    realtime.role.realtime.validate(TABLE)
    assert realtime.records()[segment].download_url == ""
    realtime.servers.archives["Server_b_1", segment] = realtime.archive(segment, 5)
    realtime.role.realtime.validate(TABLE)
    assert realtime.records()[segment].download_url != ""


def test_an_operator_brings_a_segment_to_the_deep_store(realtime) -> None:
    segment = realtime.commit_at_a_peer()

    def store(**params: str) -> dict[str, Any]:
        answer = realtime.http.post("/segments/t_REALTIME/uploadFromServerToDeepstore", params=params)
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    assert (store()["stored"], store()["failed"]) == ([], [segment])  # no server answers
    realtime.servers.archives["Server_a_1", segment] = realtime.archive(segment, 5)
    assert store(segmentNames=segment)["stored"] == [segment]
    assert len(realtime.copies()) == 1
    assert store() == {"status": "Stored 0 segments of table: t_REALTIME", "stored": [], "failed": []}
    assert store(forceMode="true")["stored"] == [segment]
    missing = realtime.http.post("/segments/t/uploadFromServerToDeepstore", params={"segmentNames": "t__9"})
    assert missing.status_code == 404


def test_uploads_that_are_never_committed_are_set_aside_after_an_hour(table) -> None:
    segment = table.consuming(0)
    table.commit(segment, 10, 10)
    old, young = table.archive(table.consuming(0), 5), table.archive(table.consuming(0), 6)
    for archive in (old, young):
        assert table.send("segmentUpload", table.consuming(0), 5, archive)["status"] == "UPLOAD_SUCCESS"
    assert len(table.copies()) == 3
    folder = table.folder / "deepstore" / TABLE
    uploaded = sorted(path for path in folder.iterdir() if not path.name.startswith(segment))
    for path, hours in zip([folder / table.copies()[0], *uploaded], (9, 1.1, 0.9), strict=True):
        os.utime(path, (table.clock.now_ms() / 1000 - hours * 3600,) * 2)
    table.role.realtime.validate(TABLE)
    assert table.copies() == sorted([table.records()[segment].download_url.rpartition("/")[2], uploaded[1].name])
    assert len(list((table.folder / "deepstore" / "Deleted_Segments" / TABLE).iterdir())) == 1
