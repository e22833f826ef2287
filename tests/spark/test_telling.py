"""Reports of jobs and writes: progress, summaries, OpenLineage events."""

import json
import logging
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.functions import expr
from tests.spark.cluster import Cluster

import gamay.spark
from gamay.base.errors import ConflictError, InvalidConfigError, RecordError
from gamay.minion.context import MinionAccess
from gamay.minion.lineage import with_events
from gamay.spark import LocalEngine, lineage, run_job
from gamay.spark.building import progress as displays
from gamay.spark.building.progress import NotebookProgress
from gamay.spark.source import GamayDataSource
from gamay.spark.writing.hidden import upload_hidden
from gamay.spark.writing.segment_writer import TaskWriter
from gamay.spark.writing.sink import Written

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster(spark, tmp_path_factory):
    gamay.spark.register(spark)
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


@pytest.fixture
def events(monkeypatch, tmp_path):
    """Make OpenLineage's client write to a file; return a function that reads its events."""
    path = tmp_path / "events.jsonl"
    for name, value in {"TYPE": "file", "LOG_FILE_PATH": str(path), "APPEND": "true"}.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "nightly")
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


COLUMNS = [("city", "STRING"), ("tags", "STRING[]"), ("fare", "DOUBLE"), ("day", "INT")]


def rows(spark: Any, count: int) -> Any:
    return spark.range(count).select(expr("id AS n"), expr("timestamp_millis(1700000000000 + id) AS ts"))


def test_events_of_a_job(job, controller, files, tmp_path, events, monkeypatch):
    tells = {"executionFrameworkSpec": {"extraConfigs": {"openLineage": "true"}}}
    report = run_job(job("SegmentCreationAndTarPush", **tells), LocalEngine())
    start, end = events()
    assert [start["eventType"], end["eventType"]] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert (end["job"]["namespace"], end["job"]["name"]) == ("nightly", "gamay.ingest.trips_OFFLINE")
    (read,), (written,) = end["inputs"], end["outputs"]
    assert (read["namespace"], read["name"]) == ("file", str(files))
    counts = {name: read["inputFacets"]["inputStatistics"][name] for name in ("rowCount", "size", "fileCount")}
    size = sum((files / name).stat().st_size for name in ("a.csv", "b.csv"))
    assert counts == {"rowCount": 400, "size": size, "fileCount": 2}
    assert (written["namespace"], written["name"]) == (controller.url.replace("http", "gamay"), "trips_OFFLINE")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == report.build.rows_written == 400
    fields = written["facets"]["schema"]["fields"]
    assert sorted((field["name"], field["type"]) for field in fields) == sorted(COLUMNS)
    run_job(job("SegmentTarPush", **tells))
    last = events()[-1]
    assert (last["inputs"][0]["name"], last["outputs"][0]["name"]) == (str(tmp_path / "out"), "trips_OFFLINE")
    (files / "a.csv").write_text("day,city\nx,y\n")
    with pytest.raises(RecordError):
        run_job(job("SegmentCreation", **tells), LocalEngine())
    assert [event["eventType"] for event in events()[4:]] == ["START", "FAIL"]
    assert "'x' is not a valid INT" in events()[-1]["run"]["facets"]["errorMessage"]["message"]
    assert events()[-1]["outputs"][0]["namespace"] == "file"
    monkeypatch.setattr(lineage.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InvalidConfigError, match=re.escape("pip install 'gamay[openlineage]'")):
        run_job(job("SegmentCreation", **tells), LocalEngine())


def test_an_event_that_cannot_be_sent_fails_nothing(job, monkeypatch, caplog):
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "nowhere")
    tells = {"executionFrameworkSpec": {"extraConfigs": {"openLineage": "true"}}}
    assert run_job(job("SegmentCreation", **tells), LocalEngine()).build.rows_written == 400
    assert "the OpenLineage event COMPLETE of gamay.ingest.trips_OFFLINE could not be sent" in caplog.text


def test_a_write_tells_what_it_did(spark, cluster, tmp_path, caplog):
    summary = tmp_path / "summary.json"
    options = {"controller": cluster.url, "table": "told", "createTable": "true", "timeColumn": "ts", "jobId": "one"}
    options |= {"summary": str(summary), "rowsPerSegment": "30"}
    before = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    with caplog.at_level(logging.INFO, "gamay.spark"), gamay.spark.progress(spark, "writing"):
        rows(spark, 100).repartition(2).write.format("gamay").mode("append").options(**options).save()
    shown = [message for message in caplog.messages if message.startswith("writing: ")]
    done, total = re.fullmatch(r"writing: (\d+) of (\d+)", shown[-1]).groups()
    assert int(done) == int(total) >= 4  # tasks of both stages
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == before
    told = json.loads(summary.read_text())
    build = told["build"]
    assert (told["state"], build["rowsRead"], build["rowsWritten"], build["errors"]) == ("COMPLETED", 100, 100, 0)
    assert sorted(one["rows"] for one in build["segments"]) == [20, 20, 30, 30]
    assert build["bytes"] == sum(one["bytes"] for one in build["segments"]) > 0
    assert all(build["taskSeconds"][phase] > 0 for phase in ("read", "build", "publish"))
    rows(spark, 100).write.format("gamay").mode("append").options(**options).save()
    assert json.loads(summary.read_text()) == {"state": "KEPT"}
    broken = rows(spark, 1).withColumn("n", expr("if(n = 0, raise_error('broken'), n)").cast("bigint"))
    with pytest.raises(Exception, match="broken"):
        broken.write.format("gamay").mode("append").options(**{**options, "jobId": "two"}).save()
    assert json.loads(summary.read_text())["state"] == "FAILED"


def test_events_of_a_write(spark, cluster, events):
    options = {"controller": cluster.url, "table": "traced", "createTable": "true", "openLineage": "true", "jobId": "one"}
    frame = rows(spark, 10)
    for is_aborted in (True, False):
        writer = GamayDataSource(options).writer(frame.schema, False)
        put = partial(upload_hidden, cluster.client, writer._options)
        task = TaskWriter(writer._options, *writer._read_documents(), put, f"traced_job-one_00000_{int(is_aborted)}")
        written = Written(tuple(task.write(iter(frame.toArrow().to_batches()))), tuple(task.reports), (task.reading,))
        (writer.abort if is_aborted else writer.commit)([written])
    assert [event["eventType"] for event in events()] == ["START", "FAIL", "START", "COMPLETE"]
    (table,) = events()[-1]["outputs"]
    counts = table["outputFacets"]["outputStatistics"]
    assert (table["name"], counts["rowCount"], counts["fileCount"]) == ("traced_OFFLINE", 10, 1)
    assert {field["name"] for field in table["facets"]["schema"]["fields"]} == {"n", "ts"}


def test_events_of_a_task(cluster, events):
    cluster.create({"schemaName": "kept", "dimensionFieldSpecs": [{"name": "n", "dataType": "LONG"}]})
    registry = cluster.cluster.core.registry

    def fail():
        raise ConflictError("an input has changed")

    subtask = SimpleNamespace(table="kept_REALTIME")
    leased = SimpleNamespace(subtask=subtask, job=SimpleNamespace(task_type="RealtimeToOfflineSegmentsTask"))
    access = MinionAccess(registry)
    assert with_events(leased, access, lambda: "done") == "done"
    with pytest.raises(ConflictError):
        with_events(leased, access, fail)
    assert [event["eventType"] for event in events()] == ["START", "COMPLETE", "START", "FAIL"]
    last = events()[-1]
    assert last["job"]["name"] == "gamay.RealtimeToOfflineSegmentsTask.kept_REALTIME"
    assert [one["name"] for one in (*last["inputs"], *last["outputs"])] == ["kept_REALTIME", "kept_OFFLINE"]
    assert last["outputs"][0]["facets"]["schema"]["fields"][0]["name"] == "n"


def test_java_is_told_how_much_to_log(spark):
    options = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions")
    settings = re.search(r"-Dlog4j2.configurationFile=file://(\S+)", options)
    assert Path(settings[1]).is_file()


def test_bars_of_a_notebook(monkeypatch):
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html.data)

    def display(html, display_id):
        shown.append(html.data)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    bars = NotebookProgress()
    for done in (0, 1, 1, 2):
        bars.update("reading <a>", done, 2)
    bars.update("building", 0, 3)
    assert len(shown) == 4, "what has not changed is not sent again"
    assert "reading &lt;a&gt;: 2 of 2" in shown[-1]
    assert '<progress value="0" max="3"' in shown[-1]
    monkeypatch.setattr(displays, "_is_notebook", lambda: True)
    with displays.shown_progress() as chosen:
        assert isinstance(chosen, NotebookProgress)
