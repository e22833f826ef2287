"""Complete jobs from their specs."""

import json

import pytest

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError, RecordError
from gamay.spark import LocalEngine, run_job
from gamay.spark.building import archive_push
from gamay.storage.files import fetch

pytestmark = pytest.mark.spark


def test_create_and_push(spark, job, controller, tmp_path):
    report = run_job(job("SegmentCreationAndTarPush", cleanUpOutputDir=True, createMetadataTarGz=True), spark)
    assert report.push.segments == ("trips_OFFLINE_19000_19059_0", "trips_OFFLINE_19000_19059_1")
    assert len(controller.uploads) == 2
    assert [p for p in (tmp_path / "out").rglob("*") if p.is_file()] == []
    assert "2 segments pushed" in report.lines()[-1]


def test_create_then_push_by_metadata(spark, job, controller, tmp_path):
    run_job(job("SegmentCreation", createMetadataTarGz=True), spark)
    assert controller.uploads == []
    assert len(list((tmp_path / "out").glob("*.metadata.tar.gz"))) == 2
    report = run_job(job("SegmentMetadataPush", pushJobSpec={"pushFileNamePattern": "glob:**/*_1.tar.zst"}))
    assert report.push.segments == ("trips_OFFLINE_19000_19059_1",)
    assert controller.uploads[0][1]["upload_type"] == "METADATA"


def test_consistent_push(spark, job, controller, table_config):
    ingestion = {"batchIngestionConfig": {"segmentIngestionType": "REFRESH", "consistentDataPush": True}}
    controller.documents["/tables/trips"] = {"OFFLINE": table_config(ingestion).to_json()}
    reached = {"segmentUriPrefix": "http://archives.example"}
    report = run_job(job("SegmentCreationAndUriPush", pushJobSpec=reached), spark)
    start = next(json.loads(body) for _, path, _, body in controller.requests if path.endswith("startReplaceSegments"))
    assert start == {"segmentsFrom": ["old_1"], "segmentsTo": list(report.push.segments)}
    assert report.push.segments[0].startswith("trips_OFFLINE_19000_19059_1")


def test_documents_from_files_and_global_order(spark, job, controller, schema, table_config, tmp_path):
    (tmp_path / "schema.json").write_text(json.dumps(schema.to_json()))
    (tmp_path / "table.json").write_text(json.dumps(table_config().to_json()))
    spec = job(
        "SegmentCreation",
        pinotClusterSpecs=[],
        tableSpec={
            "tableName": "trips",
            "schemaURI": str(tmp_path / "schema.json"),
            "tableConfigURI": f"file://{tmp_path}/table.json",
        },
        executionFrameworkSpec={"name": "spark", "extraConfigs": {"partitionAndSort": "true", "rowsPerSegment": "100"}},
    )
    report = run_job(spec, spark)
    assert len(report.build.segments) == 4
    assert controller.requests == []


def test_the_half_that_the_name_says_is_pushed_to(job, controller, table_config):
    stream = {"streamType": "log", "stream.log.topic.name": "t", "stream.log.decoder.class.name": "json"}
    ingestion = {"streamIngestionConfig": {"streamConfigMaps": [stream]}}
    offline = table_config().to_json()
    realtime = table_config(ingestion).to_json() | {"tableName": "trips_REALTIME", "tableType": "REALTIME"}
    controller.documents["/tables/trips_REALTIME/schema"] = controller.documents["/tables/trips/schema"]
    names = {"segmentNameGeneratorSpec": {"type": "uploadedRealtime", "configs": {"segment.partitionId": "0"}}}
    for name, told, pushed in (
        ("trips", {"REALTIME": realtime}, "REALTIME"),
        ("trips", {"REALTIME": realtime, "OFFLINE": offline}, "OFFLINE"),
        ("trips_REALTIME", {"REALTIME": realtime, "OFFLINE": offline}, "REALTIME"),
    ):
        controller.documents[f"/tables/{name}"] = told
        controller.uploads.clear()
        spec = job("SegmentCreationAndTarPush", overwriteOutput=True, tableSpec={"tableName": name}, **names)
        run_job(spec, LocalEngine())
        assert {(query["tableName"], query["tableType"]) for query, _, _ in controller.uploads} == {("trips", pushed)}
    controller.documents["/tables/trips_REALTIME"] = {"OFFLINE": offline}
    with pytest.raises(InvalidConfigError, match=r"has no REALTIME table, which .* 'trips_REALTIME' names"):
        run_job(spec, LocalEngine())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"inputDirURI": "/nowhere"}, NotFoundError, "/nowhere does not exist"),
        ({"includeFileNamePattern": "glob:**/*.avro"}, InvalidConfigError, "no file in"),
        ({"recordReaderSpec": {"dataFormat": "thrift"}}, InvalidConfigError, "unknown data format 'thrift'"),
        ({"recordReaderSpec": {"dataFormat": "Delta"}}, InvalidConfigError, "package io.delta:delta-spark_2.13"),
        ({"tableSpec": {"tableName": "other"}}, NotFoundError, "no /tables/other"),
        ({"pinotClusterSpecs": []}, InvalidConfigError, "schemaURI is missing"),
        ({"executionFrameworkSpec": {"extraConfigs": {"rowsPerSegmnt": "5"}}}, InvalidConfigError, "Did you mean"),
        ({"segmentNameGeneratorSpec": {"type": "simpl"}}, InvalidConfigError, "Did you mean 'simple'"),
    ],
)
def test_mistakes(spark, job, changes, error, message):
    with pytest.raises(error, match=message):
        run_job(job("SegmentCreation", **changes), spark)


def test_nothing_to_push(job, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(NotFoundError, match="no segment archive to push"):
        run_job(job("SegmentTarPush"))


def test_what_is_pushed_is_what_the_last_job_built(spark, job, controller, tmp_path):
    run_job(job("SegmentCreation"), spark)
    run_job(job("SegmentCreation", includeFileNamePattern="glob:**/a.csv"), spark)
    assert len(list((tmp_path / "out").rglob("*.tar.zst"))) == 2, "what an earlier job has built may be in use"
    report = run_job(job("SegmentTarPush"))
    assert report.push.segments == ("trips_OFFLINE_19000_19059_0",)


def test_a_second_run_is_pushed_once(spark, job, controller, table_config):
    """Archives of a table that is replaced as a whole have other names in each run."""
    ingestion = {"batchIngestionConfig": {"segmentIngestionType": "REFRESH", "consistentDataPush": True}}
    controller.documents["/tables/trips"] = {"OFFLINE": table_config(ingestion).to_json()}
    for _ in range(2):
        run_job(job("SegmentCreation"), spark)
    assert len(run_job(job("SegmentTarPush")).push.segments) == 2


def test_nothing_is_pushed_of_a_job_that_failed(spark, job, controller, files):
    (files / "b.csv").open("a").write("19000,x,notanumber,t\n")
    with pytest.raises(RecordError):
        run_job(job("SegmentCreation"), spark)
    with pytest.raises(ConflictError, match="has not ended, or has failed"):
        run_job(job("SegmentTarPush"))
    assert controller.uploads == []


def test_output_on_s3_is_reached_as_the_job_says(spark, job, controller, s3, monkeypatch):
    access = {"accessKey": s3.key, "secretKey": s3.secret, "endpoint": s3.endpoint, "region": "us-east-1"}
    on_s3 = {"outputDirURI": f"s3://{s3.bucket}/jobs", "pinotFSSpecs": [{"scheme": "s3", "configs": access}]}
    report = run_job(job("SegmentCreation", createMetadataTarGz=True, **on_s3), spark)
    assert [segment.outcome for segment in report.build.segments] == ["BUILT", "BUILT"]
    assert [segment.outcome for segment in run_job(job("SegmentCreation", **on_s3), spark).build.segments] == ["KEPT"] * 2
    fetched = []
    monkeypatch.setattr(archive_push, "fetch", lambda uri, *more: (fetched.append(uri), fetch(uri, *more)))
    assert len(run_job(job("SegmentMetadataPush", **on_s3)).push.segments) == 2
    assert [uri.endswith(".metadata.tar.gz") for uri in fetched] == [True, True], "no archive is fetched"
    on_s3["pinotFSSpecs"] = [{"scheme": "s3", "configs": {"acessKey": "x"}}]
    with pytest.raises(InvalidConfigError, match="pinotFSSpecs: the file system s3 has no key 'acessKey'"):
        run_job(job("SegmentTarPush", **on_s3))
