"""`""` as an optional value means that it is not set; as a required value it is an error."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from tests.model.conftest import EVERY_SCHEMA_KEY, EVERY_TABLE_KEY

from gamay.base.errors import InvalidConfigError
from gamay.ingest.job.spec import JobSpec
from gamay.ingest.stream.config import StreamConfig
from gamay.model.parse import keys_of
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.task_settings import COMMON_KEYS, CompactionSettings, MergeSettings, TaskSettings, known_task_keys
from gamay.model.types import DataType

_FREE = {
    "functionConfig", "streamConfigs", "properties", "configs", "functionParameters", "prefixesToRename", "customConfigs",
    "expressionOverrideMap", "metadataManagerConfigs", "tierBackendProperties", "tierOverwrites", "jsonIndexConfigs",
    "multiColumnTextIndexConfig", "noDictionaryConfig", "schemaConformingTransformerConfig", "instancePartitionsMap",
    "taskTypeConfigsMap", "batchConfigMaps", "streamConfigMaps", "null", "fst", "ifst", "text", "json", "h3", "vector",
    "open_struct", "partialUpsertStrategies", "extraConfigs",
}  # fmt: skip
_OF_SECTIONS = {"columnPartitionMap", "bloomFilterConfigs", "instanceAssignmentConfigMap", "segmentAssignmentConfigMap"}
"""Maps whose keys are a user's: of values that are kept as they are, and of sections."""

EVERY_JOB_KEY: dict[str, Any] = {
    "jobType": "SegmentCreation", "inputDirURI": "in", "outputDirURI": "out", "searchRecursively": False,
    "includeFileNamePattern": "glob:*", "excludeFileNamePattern": "glob:x", "overwriteOutput": True,
    "cleanUpOutputDir": True, "segmentCreationJobParallelism": 3, "failOnEmptySegment": True, "createMetadataTarGz": True,
    "authToken": "Basic x",
    "executionFrameworkSpec": {
        "name": "spark", "segmentGenerationJobRunnerClassName": "a", "segmentTarPushJobRunnerClassName": "b",
        "segmentUriPushJobRunnerClassName": "c", "segmentMetadataPushJobRunnerClassName": "d", "extraConfigs": {"a": "b"},
    },
    "tableSpec": {"tableName": "t", "schemaURI": "s", "tableConfigURI": "c"},
    "pinotFSSpecs": [{"scheme": "file", "className": "x", "configs": {"a": "b"}}],
    "recordReaderSpec": {"dataFormat": "csv", "className": "x", "configClassName": "y", "configs": {"a": "b"}},
    "segmentNameGeneratorSpec": {"type": "simple", "configs": {"a": "b"}},
    "pinotClusterSpecs": [{"controllerURI": "http://c"}],
    "pushJobSpec": {
        "pushAttempts": 2, "pushParallelism": 3, "pushRetryIntervalMillis": 4, "segmentUriPrefix": "p",
        "segmentUriSuffix": "s", "pushFileNamePattern": "glob:*", "copyToDeepStoreForMetadataPush": True,
        "batchSegmentUpload": True, "segmentMetadataGenerationParallelism": 2, "preferMetadataTarGz": False,
    },
    "tlsSpec": {
        "keyStoreType": "PEM", "keyStorePath": "k", "keyStorePassword": "p", "trustStoreType": "PEM",
        "trustStorePath": "t", "trustStorePassword": "q", "connectTimeout": 1, "readTimeout": 2,
    },
}  # fmt: skip

READERS: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "table": (EVERY_TABLE_KEY, lambda document: TableConfig.from_json(document).value),
    "schema": (EVERY_SCHEMA_KEY, lambda document: Schema.from_json(document).value),
    "job": (EVERY_JOB_KEY, JobSpec.from_document),
}


def _pointers(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each declared key of a document."""
    if at and at[-1] in _FREE:
        return
    if isinstance(value, list):
        for i, element in enumerate(value):
            yield from _pointers(element, (*at, i))
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not at or at[-1] not in _OF_SECTIONS:
                yield (*at, key)
            yield from _pointers(inner, (*at, key))


_CASES = [
    (name, way) for name, (document, _) in READERS.items() for way in _pointers(document) if "metadata" not in way[:-1]
]


def _result(read: Callable[[Any], Any], document: Any) -> Any:
    try:
        return read(document)
    except InvalidConfigError as error:
        return error


@pytest.mark.parametrize(
    ("name", "way"), _CASES, ids=lambda part: part if isinstance(part, str) else ".".join(map(str, part))
)
def test_an_empty_string_is_a_value_that_is_not_set(name: str, way: tuple[Any, ...]) -> None:
    whole, read = READERS[name]
    empty, without = deepcopy(whole), deepcopy(whole)
    inner_empty, inner_without = empty, without
    for step in way[:-1]:
        inner_empty, inner_without = inner_empty[step], inner_without[step]
    inner_empty[way[-1]] = ""
    del inner_without[way[-1]]
    found, expected = _result(read, empty), _result(read, without)
    if isinstance(expected, InvalidConfigError):  # a required key
        assert isinstance(found, InvalidConfigError)
        assert str(found).replace(f"'{way[-1]}' is empty", f"'{way[-1]}' is missing") == str(expected)
    elif way[-1] == "defaultNullValue" and "dimensionFieldSpecs" in way:
        assert found.field("rideId").default_null_value == ""
    else:
        assert found == expected


def test_every_key_of_a_job_spec_is_tried() -> None:
    def names(cls: type, document: dict[str, Any]) -> Iterator[str]:
        yield from (key.name for key in keys_of(cls).values() if key.name not in document)

    assert list(names(JobSpec, EVERY_JOB_KEY)) == []


def test_lists_leave_empty_names_out() -> None:
    document = deepcopy(EVERY_TABLE_KEY)
    document["upsertConfig"] |= {"comparisonColumns": ["", "day"], "partialUpsertStrategies": {"fare": "", "tip": "MAX"}}
    document["routing"] |= {"segmentPrunerTypes": [""]}
    config = TableConfig.from_json(document).value
    assert config.upsert is not None
    assert config.upsert.comparison_columns == ("day",)
    assert config.upsert.partial_upsert_strategies == {"tip": "MAX"}
    assert config.routing.segment_pruner_types == ()


@pytest.mark.parametrize("settings", [CompactionSettings, MergeSettings])
def test_empty_task_settings_are_not_set(settings: Any) -> None:
    needed = {"invalidRecordsThresholdCount": "5"} if settings is CompactionSettings else {}
    task_type = "UpsertCompactionTask" if settings is CompactionSettings else "UpsertCompactMergeTask"
    for key in {*COMMON_KEYS, *known_task_keys(task_type)} - set(needed):
        given = {**needed, key: ""}
        assert settings.of(given) == settings.of(needed), key
        read = TaskSettings(task_type, given)
        assert (read.schedule, read.tag) == (None, "minion_untagged")
    if needed:
        with pytest.raises(InvalidConfigError, match="needs invalidRecordsThresholdPercent or"):
            settings.of({"invalidRecordsThresholdCount": ""})


def test_empty_stream_settings_are_not_set() -> None:
    keys = [
        "stream.kafka.decoder.class.name", "stream.kafka.consumer.factory.class.name", "stream.kafka.consumer.type",
        "stream.kafka.consumer.prop.auto.offset.reset", "stream.kafka.fetch.timeout.millis",
        "stream.kafka.connection.timeout.millis", "stream.kafka.idle.timeout.millis", "stream.kafka.metadata.populate",
        "topic.consumption.rate.limit", "partition.consumption.rate.limit", "realtime.segment.flush.threshold.rows",
        "realtime.segment.flush.threshold.segment.rows", "realtime.segment.flush.threshold.segment.size",
        "realtime.segment.flush.threshold.time", "realtime.segment.flush.threshold.variance.fraction",
        "realtime.segment.flush.autotune.initialRows", "realtime.segment.commit.timeoutSeconds",
        "realtime.segment.serverUploadToDeepStore", "realtime.segment.pauseless.download.timeoutSeconds",
        "realtime.segment.offsetAutoReset.enable", "realtime.segment.isBackfillTopic", "stream.kafka.isolation.level",
        "stream.kafka.partition.ids", "stream.kafka.buffer.size", "stream.kafka.decoder.prop.stopOnDecodeError",
    ]  # fmt: skip
    needed = {"streamType": "kafka", "stream.kafka.topic.name": "t"}
    plain = StreamConfig.parse(needed)
    for key in keys:
        found = StreamConfig.parse({**needed, key: ""})
        assert {**vars_of(found), "decoder_properties": {}} == vars_of(plain), key
    with pytest.raises(InvalidConfigError, match=r"topic\.name: is required"):
        StreamConfig.parse({**needed, "stream.kafka.topic.name": ""})


def vars_of(config: StreamConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in StreamConfig.__slots__}


def test_an_empty_default_of_a_number_is_that_of_its_type() -> None:
    document = deepcopy(EVERY_SCHEMA_KEY)
    document["metricFieldSpecs"][0]["defaultNullValue"] = ""
    assert Schema.from_json(document).value.field("fare") == FieldSpec(
        "fare", DataType.DOUBLE, Schema.from_json(document).value.field("fare").role
    )
