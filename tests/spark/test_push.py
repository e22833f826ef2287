"""Pushing archives: the three modes, attempts, replacement as a whole. Needs no Spark."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.client.http import ServiceError
from gamay.ingest.job.spec import PushJobSpec
from gamay.spark.building.push import Destination, list_archives, push_segments
from gamay.spark.building.segment_task import FileTask, build_segment
from gamay.spark.building.target import SegmentTarget


@pytest.fixture
def archives(schema, table_config, files, tmp_path):
    target = SegmentTarget.of(schema, table_config(), str(tmp_path / "out"))
    for number, name in enumerate(["a.csv", "b.csv"]):
        report = build_segment([FileTask(str(files / name), number, "", "csv", {})], target)
        assert report.outcome == "BUILT", report
    return list_archives(str(tmp_path / "out"))


def destination(controller, **options):
    return Destination((controller.url,), "trips", **options)


def test_tar(controller, archives):
    report = push_segments(archives, destination(controller))
    assert report.segments == ("trips_OFFLINE_19000_19059_0", "trips_OFFLINE_19000_19059_1")
    assert sorted(body for _, _, body in controller.uploads) == sorted(Path(a).read_bytes() for a in archives)
    assert controller.uploads[0][0]["tableName"] == "trips"


def test_uri(controller, archives):
    options = PushJobSpec(segment_uri_prefix="https://store", segment_uri_suffix="?v=1")
    push_segments(archives, destination(controller), mode="uri", options=options)
    headers = [h for _, h, _ in controller.uploads]
    assert [h["download_uri"] for h in headers] == [f"https://store{a}?v=1" for a in archives]
    assert {h["upload_type"] for h in headers} == {"URI"}


def test_metadata(controller, archives):
    push_segments(archives, destination(controller), mode="metadata", options=PushJobSpec(copy_to_deep_store=True))
    _, headers, body = controller.uploads[0]
    assert headers["download_uri"] == f"file://{archives[0]}"
    assert (headers["upload_type"], headers["copy_segment_to_deep_store"]) == ("METADATA", "true")
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        file = tar.extractfile("trips_OFFLINE_19000_19059_0/metadata.json")
        assert json.load(file)["name"] == "trips_OFFLINE_19000_19059_0"


def test_metadata_in_one_batch(controller, archives):
    push_segments(archives, destination(controller), mode="metadata", options=PushJobSpec(batch_segment_upload=True))
    assert len(controller.uploads) == 1
    with tarfile.open(fileobj=io.BytesIO(controller.uploads[0][2])) as tar:
        names = {name.rpartition("/")[2] for name in tar.getnames()}
        listed = tar.extractfile("batch/all_segments_metadata").read().decode().split()
    assert "trips_OFFLINE_19000_19059_1.metadata.json" in names
    assert listed[:2] == ["trips_OFFLINE_19000_19059_0", f"file://{archives[0]}"]


def test_attempts_grow_apart(controller, archives):
    controller.failures = 3
    waits = []
    options = PushJobSpec(push_attempts=4, push_retry_interval_ms=1000)
    report = push_segments(archives[:1], destination(controller), options=options, sleep=waits.append)
    assert waits == [1.0, 5.0, 25.0]
    assert report.attempts == 4


def test_attempts_end(controller, archives):
    controller.failures = 10
    with pytest.raises(ServiceError, match="try again"):
        push_segments(archives[:1], destination(controller), options=PushJobSpec(push_attempts=2), sleep=lambda _: None)
    assert controller.failures == 8


def test_a_refusal_is_not_tried_again(controller, archives):
    controller.refusal = "no such table"
    with pytest.raises(InvalidConfigError, match="no such table"):
        push_segments(archives[:1], destination(controller), options=PushJobSpec(push_attempts=5), sleep=pytest.fail)


def test_replacement_as_a_whole(controller, archives):
    push_segments(archives, destination(controller, replaces=True))
    paths = [(p, json.loads(b) if b else None) for _, p, _, b in controller.requests]
    assert paths[1] == (
        "/segments/trips/startReplaceSegments",
        {"segmentsFrom": ["old_1"], "segmentsTo": ["trips_OFFLINE_19000_19059_0", "trips_OFFLINE_19000_19059_1"]},
    )
    assert paths[2][0] == "/segments/trips/endReplaceSegments"
    assert controller.requests[0][2]["excludeReplacedSegments"] == "true"  # what was replaced before is there for a while


def test_a_failed_replacement_is_taken_back(controller, archives):
    controller.refusal = "quota"
    with pytest.raises(InvalidConfigError, match="quota"):
        push_segments(archives, destination(controller, replaces=True))
    assert [p.rpartition("/")[2] for _, p, _, _ in controller.requests][1:] == [
        "startReplaceSegments",
        "revertReplaceSegments",
    ]


def test_a_replacement_that_ended_unheard_is_done(controller, archives):
    controller.loses_ends = True
    options = PushJobSpec(push_attempts=2)
    report = push_segments(archives, destination(controller, replaces=True), options=options, sleep=lambda _: None)
    assert len(report.segments) == 2
    asked = [(path.rpartition("/")[2], params) for _, path, params, _ in controller.requests]
    assert [path for path, _ in asked][2:] == ["endReplaceSegments", "endReplaceSegments", "revertReplaceSegments"]
    assert asked[-1][1]["unlessEnded"] == "true"


def test_several_controllers_in_parallel(controller, archives):
    push_segments(
        archives * 3, Destination((controller.url, controller.url), "trips"), options=PushJobSpec(push_parallelism=4)
    )
    assert len(controller.uploads) == 12
