"""Pushing segments by their metadata from an object store, checked by the requests it receives."""

import pytest

from gamay.spark import LocalEngine, run_job
from gamay.spark.building import push

pytest.importorskip("moto.server")
from benchmarks.cluster.counted_s3 import CountedS3

pytestmark = pytest.mark.spark
SEGMENTS = 60
BYTES_MAX = 10_000_000 * SEGMENTS // 1000  # of a push of 1,000 segments through the driver
BUILDER, PUSHER = "builder", "pusher"


@pytest.fixture(scope="module")
def store():
    pytest.importorskip("s3fs")
    service = CountedS3()
    yield service
    service.stop()


@pytest.fixture
def on_s3(job, store, tmp_path):
    """Make jobs of many small segments whose output is on S3, reached with a key."""
    (tmp_path / "many").mkdir()
    for number in range(SEGMENTS):
        rows = "".join(f"{19000 + number},city{row},{row},t\n" for row in range(20))
        (tmp_path / "many" / f"{number:03d}.csv").write_text(f"day,city,fare,tags\n{rows}")

    def make(job_type, key, **options):
        access = {"accessKey": key, "secretKey": store.secret, "endpoint": store.endpoint, "region": "us-east-1"}
        return job(
            job_type,
            inputDirURI=str(tmp_path / "many"),
            includeFileNamePattern="glob:**/*.csv",
            outputDirURI=f"s3://{store.bucket}/{tmp_path.name}",
            pinotFSSpecs=[{"scheme": "s3", "configs": access}],
            createMetadataTarGz=True,
            pushJobSpec=options,
        )

    return make


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("threads", {"pushParallelism": 2}),
        ("executors", {"pushParallelism": 2}),
        ("executors", {"batchSegmentUpload": "true"}),
    ],
)
def test_no_archive_is_fetched(spark, on_s3, store, controller, monkeypatch, engine, options):
    monkeypatch.setattr(push, "_is_for_executors", lambda spark, *_: not isinstance(spark, LocalEngine))
    run_job(on_s3("SegmentCreation", BUILDER), LocalEngine())
    assert len(store.asked_by(BUILDER, "PUT", ".tar.zst")) == SEGMENTS
    store.asked.clear()
    report = run_job(on_s3("SegmentMetadataPush", PUSHER, **options), spark if engine == "executors" else LocalEngine())
    assert len(report.push.segments) == SEGMENTS
    assert store.asked_by(PUSHER, "GET", ".tar.zst") == []
    assert len(store.asked_by(PUSHER, "GET", ".metadata.tar.gz")) == SEGMENTS
    fetched = sum(one.sent for one in store.asked_by(PUSHER, "GET", ""))
    sent = sum(len(body) for _, _, body in controller.uploads)
    assert fetched + sent < BYTES_MAX, "so is what goes through the driver, whoever pushes"
    assert {one.key for one in store.asked} == {PUSHER}
