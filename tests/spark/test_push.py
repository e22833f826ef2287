"""Pushing archives: the three modes, retries, atomic replacement, from the driver and from executors."""

import io
import json
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark.cluster import Cluster

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.client import ControllerClient
from gamay.client.http import ServiceError
from gamay.ingest.job.spec import PushJobSpec
from gamay.spark.building import push
from gamay.spark.building.archive_push import Destination, segment_name_of
from gamay.spark.building.execute import LocalEngine
from gamay.spark.building.push import list_archives, push_segments
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


def test_a_replacement_left_open_is_given_up_by_the_next_one(schema, table_config, files, tmp_path, monkeypatch):
    """Also if the table was empty; open replacements of other users stay."""
    config = table_config({"batchIngestionConfig": {"segmentIngestionType": "REFRESH", "consistentDataPush": True}})

    def built(attempt):
        out = str(tmp_path / attempt)
        target = replace(SegmentTarget.of(schema, config, out), name_configs={"segment.name.postfix": attempt})
        for number, name in enumerate(["a.csv", "b.csv"]):
            build_segment([FileTask(str(files / name), number, "", "csv", {})], target)
        return list_archives(out)

    cluster = Cluster(tmp_path)
    try:
        cluster.create(schema.to_json(), config.to_json())
        to = Destination((cluster.url,), "trips", replaces=True)
        other = cluster.client.start_replace("trips", [], ["trips_job-x_0"])
        first, second = built("100"), built("200")
        with monkeypatch.context() as patch:
            patch.setattr(ControllerClient, "end_replace", lambda *_: sys.exit(1))
            patch.setattr(ControllerClient, "revert_replace", lambda *_: None)  # as one that has died
            with pytest.raises(SystemExit):
                push_segments(first, to)
        assert cluster.count("trips") == 0
        left = set(cluster.client.list_segments("trips"))
        names = set(push_segments(second, to).segments)
        cluster.wait_for("trips", 400)
        assert (left, set(cluster.client.list_segments("trips"))) == ({segment_name_of(one) for one in first}, names)
        states = {entry["segmentsTo"][0]: entry["state"] for entry in cluster.client.lineage("trips").values()}
        assert states == {min(left): "REVERTED", min(names): "COMPLETED", "trips_job-x_0": "IN_PROGRESS"}
        cluster.client.revert_replace("trips", other)
    finally:
        cluster.stop()


@pytest.mark.spark
class TestExecutors:
    """Tests that Spark tasks push like threads, and report the outcome in the same way."""

    @pytest.fixture(autouse=True)
    def _here_too(self, monkeypatch):
        monkeypatch.setattr(push, "_is_for_executors", lambda spark, *_: spark is not None)

    @pytest.mark.parametrize("mode", ["tar", "uri", "metadata"])
    def test_what_comes(self, spark, controller, archives, mode):
        def pushed(**how):
            controller.uploads.clear()
            to = destination(controller, custom={"trips_OFFLINE_19000_19059_1": {"a": "b"}})
            push_segments(archives, to, mode=mode, **how)
            told = ("download_uri", "upload_type", "pinot-segmentzkmetadatacustommapmodifier")
            sent = [(params, [headers.get(name) for name in told], body) for params, headers, body in controller.uploads]
            return sorted(sent, key=repr)

        here, there = pushed(), pushed(spark=spark, options=PushJobSpec(push_parallelism=2))
        if mode == "metadata":  # packed at another second
            here, there = ([one[:2] for one in found] for found in (here, there))
        assert len(there) == 2
        assert there == here

    def test_in_one_batch(self, spark, controller, archives):
        options = PushJobSpec(batch_segment_upload=True, push_parallelism=2)
        report = push_segments(archives, destination(controller), spark=spark, mode="metadata", options=options)
        assert (len(controller.uploads), report.attempts) == (1, 1)

    def test_attempts(self, spark, controller, archives):
        controller.failures = 3
        options = PushJobSpec(push_attempts=4, push_retry_interval_ms=1)
        report = push_segments(archives, destination(controller), spark=spark, options=options)
        assert (len(controller.uploads), report.attempts) == (2, 5)

    @pytest.mark.parametrize(("failures", "refusal", "error"), [(0, "quota", InvalidConfigError), (9, None, ServiceError)])
    def test_failures_end_a_replacement(self, spark, controller, archives, failures, refusal, error):
        controller.failures, controller.refusal = failures, refusal
        with pytest.raises(error, match=r"quota|try again") as raised:
            push_segments(archives, destination(controller, replaces=True), spark=spark)
        assert getattr(raised.value, "status", None) == (503 if failures else None)
        assert controller.requests[-1][1].endswith("/revertReplaceSegments")

    def test_an_archive_that_executors_do_not_have(self, spark, controller, archives, tmp_path):
        gone = [*archives, str(tmp_path / "trips_gone.tar.zst")]
        with pytest.raises(NotFoundError, match=r"there is no .*trips_gone\.tar\.zst on the machine that is to push it"):
            push_segments(gone, destination(controller), spark=spark)


def test_what_is_worth_a_job_of_spark(archives, monkeypatch):
    """Few archives are not, unless they are large and sent; none are if the executors are threads of this machine."""

    class Session:
        _jsc = None

        def __init__(self, master):
            self.sparkContext = self
            self.master = master

    def asks(master="spark://host:7077", count=2, mode="tar"):
        return push._is_for_executors(Session(master), archives[:1] * count, mode, Destination((), "trips"))

    assert (asks(), asks(count=push.FEWEST_FOR_EXECUTORS)) == (False, True)
    assert not any(asks(master=master, count=1000) for master in ("local", "local[4]", "local[*]"))
    assert asks(master="local-cluster[2,1,700]", count=1000)
    monkeypatch.setattr(push, "BYTES_FOR_EXECUTORS", 2 * Path(archives[0]).stat().st_size)
    assert [asks(count=1), asks(), asks(mode="metadata")] == [False, True, False]
    assert not push._is_for_executors(LocalEngine(), archives * 1000, "tar", Destination((), "trips"))


def test_several_controllers_in_parallel(controller, archives):
    push_segments(
        archives * 3, Destination((controller.url, controller.url), "trips"), options=PushJobSpec(push_parallelism=4)
    )
    assert len(controller.uploads) == 12
