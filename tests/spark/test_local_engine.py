"""Jobs whose segments are built in threads of this process."""

import os
import subprocess
import sys

import orjson
import pytest
from tests.spark.conftest import SCHEMA
from tests.waiting import PATIENCE_S

from gamay.base.errors import InvalidConfigError, RecordError
from gamay.segment.encode.metadata import read_metadata
from gamay.spark import LocalEngine, run_job
from gamay.storage.archive import unpack
from gamay.storage.files import local_path

pytestmark = pytest.mark.spark


@pytest.fixture
def creation(job, tmp_path):
    """Make jobs that create segments of all files."""

    def make(name, **extra):
        return job(
            "SegmentCreation",
            includeFileNamePattern="glob:**/*.csv",
            outputDirURI=str(tmp_path / name),
            segmentNameGeneratorSpec={"configs": {"use.global.directory.sequence.id": "true"}},
            executionFrameworkSpec={"name": "spark", "extraConfigs": extra},
        )

    return make


@pytest.mark.parametrize("extra", [{}, {"bytesPerTask": "3000"}, {"bytesPerTask": "1000000"}])
def test_segments_are_those_of_spark(spark, creation, tmp_path, extra):
    def crcs(name, engine):
        segments = run_job(creation(name, **extra), engine).build.segments
        assert sum(segment.num_docs for segment in segments) == 600
        folders = [unpack(local_path(segment.uri), tmp_path / f"{name} opened" / segment.name) for segment in segments]
        return {segment.name: read_metadata(folder).crc for segment, folder in zip(segments, folders, strict=True)}

    local = crcs("local", LocalEngine())
    assert local == crcs("spark", spark)
    assert len(local) == {None: 3, "3000": 6, "1000000": 2}[extra.get("bytesPerTask")]


def test_failures_are_told_and_refused_jobs_leave_nothing(creation, files, tmp_path):
    (files / "a.csv").write_text("day,city\nx,y\n")
    with pytest.raises(RecordError, match="record 1: column 'day': 'x' is not a valid INT"):
        run_job(creation("out"), LocalEngine())
    with pytest.raises(InvalidConfigError, match="partitionAndSort needs Spark"):
        run_job(creation("sorted", partitionAndSort="true"), LocalEngine())
    with pytest.raises(InvalidConfigError, match="unknown key 'rowsPerSegmnt'"):
        run_job(creation("misspelt", rowsPerSegmnt="7"), LocalEngine())
    assert not (tmp_path / "sorted").exists()
    assert not (tmp_path / "misspelt").exists()


def test_the_command_needs_no_java(files, table_config, tmp_path):
    for name, document in (("schema", SCHEMA), ("table", table_config().to_json())):
        (tmp_path / f"{name}.json").write_bytes(orjson.dumps(document))
    spec = tmp_path / "job.yaml"
    spec.write_text(
        f"jobType: SegmentCreation\ninputDirURI: {files}\noutputDirURI: {tmp_path}/out\n"
        f"tableSpec: {{tableName: trips, schemaURI: {tmp_path}/schema.json, tableConfigURI: {tmp_path}/table.json}}\n"
        "segmentNameGeneratorSpec: {configs: {use.global.directory.sequence.id: true}}\n"
    )
    command = [sys.executable, "-m", "gamay.cli", "ingest", str(spec), "--engine", "local"]
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "600 rows" in ran.stdout
    assert len(list((tmp_path / "out").rglob("*.tar.zst"))) == 3
