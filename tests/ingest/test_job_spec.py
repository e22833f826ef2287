"""Job specs: YAML, JSON, templates, properties files, errors."""

import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.base.properties import parse_properties
from gamay.ingest.job.spec import JobSpec, load_job_spec
from gamay.ingest.job.template import render

YAML = """
executionFrameworkSpec:
  name: spark
  segmentGenerationJobRunnerClassName: org.apache.pinot.SparkSegmentGenerationJobRunner
  extraConfigs: {stagingDir: /tmp/x, rowsPerSegment: 1000}
jobType: segmentcreationandtarpush
inputDirURI: '${base}/in/${today}'
includeFileNamePattern: 'glob:**/*.csv'
outputDirURI: '${base}/out'
overwriteOutput: true
pinotFSSpecs: [{scheme: file, className: org.apache.pinot.spi.filesystem.LocalPinotFS}]
recordReaderSpec: {dataFormat: csv, configs: {delimiter: "|", skipHeader: true}}
tableSpec: {tableName: trips, schemaURI: schema.json}
segmentNameGeneratorSpec:
  type: inputFile
  configs: {file.path.pattern: '.*/(.+)', segment.name.template: '${filePathPattern:\\1}', exclude.sequence.id: true}
pinotClusterSpecs: [{controllerURI: 'http://localhost:9000'}]
pushJobSpec: {pushAttempts: 2, pushRetryIntervalMillis: 5}
"""


def test_yaml(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(YAML)
    job = load_job_spec(path, values={"base": "/data"}, environment={}, clock=ManualClock(1714521600000))
    assert (job.job_type, job.push_mode, job.creates) == ("SegmentCreationAndTarPush", "tar", True)
    assert (job.input_dir_uri, job.output_dir_uri) == ("/data/in/2024-05-01", "/data/out")
    assert job.record_reader.configs == {"delimiter": "|", "skipHeader": True}
    assert job.segment_names.configs["segment.name.template"] == "${filePathPattern:\\1}"
    assert job.segment_names.configs["exclude.sequence.id"] == "true"
    assert (job.push.push_attempts, job.push.push_parallelism, job.push.prefer_metadata_tar_gz) == (2, 1, True)
    assert job.execution.extra_configs["rowsPerSegment"] == "1000"
    assert JobSpec.from_document(job.to_document()) == job


def test_json_and_precedence_of_values(tmp_path):
    path, properties = tmp_path / "job.json", tmp_path / "job.properties"
    path.write_text('{"jobType": "SegmentTarPush", "outputDirURI": "${a}/${b}/${c}/${yesterday}",'
                    '"tableSpec": {"tableName": "t"}, "pinotClusterSpecs": [{"controllerURI": "x"}]}')  # fmt: skip
    properties.write_text("a=file\nb=file\nc=file\n")
    job = load_job_spec(
        path,
        values={"a": "value"},
        property_file=properties,
        environment={"a": "env", "b": "env"},
        clock=ManualClock(1714521600000),
    )
    assert job.output_dir_uri == "value/env/file/2024-04-30"
    assert not job.creates


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputDirUri": "x"}, "/inputDirUri: unknown key. Did you mean 'inputDirURI'"),
        ({"recordReaderSpec": {"dataFormt": "csv"}}, "/recordReaderSpec/dataFormt: unknown key. Did you mean 'dataFormat'"),
        ({"jobType": "SegmentCreate"}, "Did you mean 'SegmentCreation'"),
        ({"jobType": None}, "'jobType' is missing"),
        ({"inputDirURI": None}, "/inputDirURI: missing"),
        ({"outputDirURI": None}, "/outputDirURI: missing"),
        ({"jobType": "SegmentCreationAndUriPush"}, "/pinotClusterSpecs: missing"),
        (
            {"jobType": "SegmentUriPush", "pinotClusterSpecs": [{"controllerURI": "http://c:9000"}]},
            "/outputDirURI: .* is a folder of this machine",
        ),
        ({"pushJobSpec": {"pushParallelism": 0}}, "0 is not at least 1"),
        ({"overwriteOutput": "perhaps"}, "is not true or false"),
        ({"tableSpec": {}}, "'tableName' is missing"),
    ],
)
def test_mistakes(changes, message):
    document = {"jobType": "SegmentCreation", "inputDirURI": "in", "outputDirURI": "out", "tableSpec": {"tableName": "t"}}
    with pytest.raises(InvalidConfigError, match=message):
        JobSpec.from_document({**document, **changes})


def test_templates():
    assert render(r"\${x} ${a}", {"a": "1"}) == "${x} 1"
    with pytest.raises(InvalidConfigError, match=r"has no value.* Did you mean 'today'"):
        render("${todya}", {"today": "x"})


def test_bad_yaml_and_missing_file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("a: [")
    with pytest.raises(InvalidConfigError, match="not valid YAML"):
        load_job_spec(path)
    with pytest.raises(NotFoundError):
        load_job_spec(tmp_path / "none.yaml")


def test_properties_file_of_old(tmp_path):
    path = tmp_path / "job.properties"
    path.write_text(
        "# === Index segment creation job config ===\n"
        "path.to.input=/user/pinot/input/data\npath.to.output=/user/pinot/output\npath.to.schema=flights-schema.json\n"
        "segment.table.name=flights\npush.to.hosts=controller_host_0,controller_host_1\npush.to.port=8888\n"
    )
    job = load_job_spec(path)
    assert job.job_type == "SegmentCreationAndTarPush"
    assert [c.controller_uri for c in job.clusters] == ["http://controller_host_0:8888", "http://controller_host_1:8888"]
    assert (job.input_dir_uri, job.table.schema_uri) == ("/user/pinot/input/data", "flights-schema.json")
    assert load_job_spec(path, job_type="SegmentTarPush").push_mode == "tar"
    path.write_text("path.to.inptu=x\n")
    with pytest.raises(InvalidConfigError, match=r"Did you mean 'path.to.input'"):
        load_job_spec(path)
    path.write_text("path.to.input=x\npath.to.output=y\n")
    with pytest.raises(InvalidConfigError, match=r"lack 'segment.table.name'"):
        load_job_spec(path)
    path.write_text("path.to.output=y\nsegment.table.name=flights\n")
    for job_type, lacking in ((None, "path.to.input"), ("SegmentTarPush", "push.to.hosts")):
        needs = f"lack '{lacking}', which {job_type or 'SegmentCreation'} needs"
        with pytest.raises(InvalidConfigError, match=needs):
            load_job_spec(path, job_type=job_type)


def test_properties_syntax():
    text = "a=1\nb : 2\nc 3\n! no\n  # no\nd=x\\\n   y\ne\\ f=\\u0041\\t\\\\\ng=\n"
    assert parse_properties(text) == {"a": "1", "b": "2", "c": "3", "d": "xy", "e f": "A\t\\", "g": ""}
