"""JSON Schemas agree with the readers of the documents: they accept exactly what is read without a warning."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.ingest.json_schemas import DOCUMENTS, NAMES, schema_text
from gamay.model.parse import read_document

ROOT = Path(__file__).parents[2]
VALIDATORS = {name: Draft202012Validator(json.loads(schema_text(name))) for name in DOCUMENTS}
SCHEMA = {
    "schemaName": "t", "description": "of flights", "enableColumnBasedNullHandling": "TRUE",
    "dimensionFieldSpecs": [
        {"name": "a", "dataType": "string", "maxLength": "20", "maxLengthExceedStrategy": "ERROR", "tags": ["x", ""]},
        {"name": "b", "dataType": "INT", "singleValueField": False, "defaultNullValue": 7, "metadata": {"unit": "m"}},
    ],
    "metricFieldSpecs": [{"name": "m", "dataType": "DOUBLE", "notNull": True}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:DAYS", "sampleValue": 5}],
    "timeFieldSpec": {"incomingGranularitySpec": {"name": "d", "dataType": "INT", "timeType": "DAYS"}},
    "complexFieldSpecs": [
        {"name": "c", "dataType": "MAP", "childFieldSpecs": {"key": {"dataType": "STRING"}, "value": {"dataType": "LONG"}}}
    ],
    "primaryKeyColumns": ["a"],
}  # fmt: skip
TABLE = {
    "tableName": "t", "tableType": "realtime",
    "segmentsConfig": {"replication": "2", "timeColumnName": "ts", "retentionTimeValue": "", "retentionTimeUnit": None},
    "tenants": {"broker": "b", "tagOverrideConfig": {"realtimeCompleted": "x"}},
    "tableIndexConfig": {
        "loadMode": "mmap", "sortedColumn": "a", "invertedIndexColumns": ["a", "b"], "nullHandlingEnabled": "true",
        "noDictionarySizeRatioThreshold": "0.5", "streamConfigs": {"streamType": "log"},
        "segmentPartitionConfig": {"columnPartitionMap": {"a": {"functionName": "Murmur", "numPartitions": 4}}},
        "starTreeIndexConfigs": [{"dimensionsSplitOrder": ["a"], "functionColumnPairs": ["SUM__m"], "maxLeafRecords": 10}],
    },
    "fieldConfigList": [{"name": "a", "encodingType": "RAW", "indexTypes": ["text"], "indexes": {"text": {}}}],
    "ingestionConfig": {"transformConfigs": [{"columnName": "x", "transformFunction": "a + 1"}]},
    "upsertConfig": {"mode": "PARTIAL", "partialUpsertStrategies": {"m": "increment"}, "metadataTTL": 3.5},
    "quota": {"maxQueriesPerSecond": "10"}, "metadata": {"customConfigs": {"k": "v"}},
}  # fmt: skip
JOB = {
    "jobType": "SegmentCreation", "inputDirURI": "in", "outputDirURI": "out", "overwriteOutput": True,
    "tableSpec": {"tableName": "t"}, "recordReaderSpec": {"dataFormat": "csv", "configs": {"delimiter": ";"}},
    "pinotFSSpecs": [{"scheme": "file"}], "pushJobSpec": {"pushAttempts": "2"},
}  # fmt: skip
SAMPLES = {"schema": SCHEMA, "table-config": TABLE, "job-spec": JOB}
VALUES = [None, "", " ", "x", "true", "7", "7.5", 7, 7.5, True, [], ["a"], [{}], {}, {"a": 1}, {"name": "a"}]


def is_read(name: str, document: Any) -> bool:
    try:
        return not read_document(DOCUMENTS[name], document, name).unrecognized
    except InvalidConfigError:
        return False


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    steps = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for step, value in steps:
        yield from places(value, (*path, step))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    new = copy.deepcopy(document)
    holder = new
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return new


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_valid_and_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(VALIDATORS[name].schema)
    assert is_read(name, SAMPLES[name])
    assert [error.message for error in VALIDATORS[name].iter_errors(SAMPLES[name])] == []


# what is read by more than its form
BEYOND = {
    "resolution", "timeType", "childFieldSpecs", "incomingGranularitySpec", "outgoingGranularitySpec", "defaultNullValue",
    "format", "granularity", "fieldType", "name", "dataType",
}  # fmt: skip


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_changed_documents_are_valid_just_where_they_are_read(name: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(places(SAMPLES[name]))))
    document = changed(SAMPLES[name], path, data.draw(st.sampled_from(VALUES)))
    if data.draw(st.booleans()) and path and isinstance(path[-1], str):
        document = changed(document, (*path[:-1], f"{path[-1]}_"), "more")
    valid, read = VALIDATORS[name].is_valid(document), is_read(name, document)
    assert valid or not read, document
    assert read or not valid or BEYOND & set(path), document


def test_documents_of_the_examples_are_valid() -> None:
    folder = ROOT / "examples" / "airline"
    for name, file in (("schema", "schema.json"), ("table-config", "table.json"), ("job-spec", "job.yaml")):
        document = yaml.safe_load((folder / file).read_text())
        assert [error.message for error in VALIDATORS[name].iter_errors(document)] == []


def test_a_slip_is_found_where_it_is() -> None:
    slip = changed(TABLE, ("tableIndexConfig", "invertedIndexColumn"), ["a"])
    (error,) = VALIDATORS["table-config"].iter_errors(slip)
    assert list(error.path) == ["tableIndexConfig"]
    assert "invertedIndexColumn" in error.message


def test_unknown_schemas_are_told() -> None:
    with pytest.raises(NotFoundError, match=r"no JSON Schema 'tabel-config'.*Did you mean 'table-config'"):
        schema_text("tabel-config")


def test_the_controller_and_the_command_give_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gamay.cli.app import app
    from gamay.embedded.cluster import EmbeddedCluster

    with EmbeddedCluster(tmp_path, 0, 0, 0, threads=1, warm_up=False) as cluster, httpx.Client() as client:
        assert client.get(f"{cluster.controller_url}/jsonSchemas").json() == list(NAMES)
        given = client.get(f"{cluster.controller_url}/jsonSchemas/schema")
        assert (given.status_code, given.text) == (200, schema_text("schema"))
        assert client.get(f"{cluster.controller_url}/jsonSchemas/x").status_code == 404
    app(["admin", "json-schema", "schema"], standalone_mode=False)
    assert capsys.readouterr().out == schema_text("schema")
