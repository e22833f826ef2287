"""Tasks in the configs of OFFLINE tables: what is refused, and what is reported as without effect."""

import re
from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.model.rules.validation import validate_table_config
from gamay.model.rules.without_effect import without_effect
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.task_settings import unknown_task_keys

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "id", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    }
).value
FILES, PURGE, RAW = "SegmentGenerationAndPushTask", "PurgeTask", "ConvertToRawIndexTask"
CSV = {"inputDirURI": "s3://b/in/", "inputFormat": "csv"}


def config(tasks: dict[str, dict[str, str]], *maps: dict[str, str], **indexing: Any) -> TableConfig:
    document = TableConfig.offline("t").to_json()
    batch = {"segmentIngestionType": "APPEND", "batchConfigMaps": list(maps)}
    document |= {"ingestionConfig": {"batchIngestionConfig": batch}, "task": {"taskTypeConfigsMap": tasks}}
    document["tableIndexConfig"] |= indexing
    return TableConfig.from_json(document).value


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (config({FILES: {}}), r"needs ingestionConfig.batchIngestionConfig.batchConfigMaps, a map for each folder"),
        (
            config({FILES: {}}, CSV, {"inputFormat": "csv"}),
            r"batchConfigMaps\[1\] needs inputDirURI: the folder",
        ),
        (
            config({FILES: {}}, CSV | {"excludeFileNamePattern": "*"}),
            r"excludeFileNamePattern is '\*'; it must begin with",
        ),
        (
            config({FILES: {}}, CSV | {"overwriteOutput": "perhaps"}),
            r"overwriteOutput is 'perhaps'; it must be true or",
        ),
        (config({FILES: {}}, CSV | {"segmentNameGenerator.type": "fixed"}), r"must be simple, normalizedDate or inputFile"),
        (config({FILES: {}}, CSV | {"segment.name": "x"}), r"gives all segments the same name"),
        (config({FILES: {"tableMaxNumTasks": "many"}}, CSV), r"tableMaxNumTasks is 'many'; it must be a whole number"),
        (config({PURGE: {"purgeColumn": "nobody", "purgeValues": "1"}}), r"purgeColumn names the column 'nobody'"),
        (config({PURGE: {"purgeColumn": "id", "purgeValues": "1", "purgeValuesURI": "s3://x"}}), r"either purgeValues, by"),
        (config({PURGE: {"lastPurgeTimeThresholdPeriod": "-1d"}}), r"a period"),
        (config({RAW: {}}), r"no metric is stored without dictionary; add columns to tableIndexConfig.noDictionaryColumns"),
        (config({RAW: {"columnsToConvert": "x"}}), r"names the column 'x', which the schema does not have"),
    ],
)
def test_wrong_settings_are_refused(wrong: TableConfig, problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem):
        validate_table_config(wrong, SCHEMA)


def test_right_settings_are_taken() -> None:
    tasks = {FILES: {"schedule": "0 0 * * * ?"}, PURGE: {}, RAW: {}, "RefreshSegmentTask": {}}
    found = config(tasks, CSV | {"push.mode": "metadata", "outputDirURI": "s3://b/out/"}, noDictionaryColumns=["n"])
    validate_table_config(found, SCHEMA)
    assert without_effect(found) == []


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"1day.mergeTyp": "rollup", "1hour.bucketTimePeriod": "1h"}, "'1day.mergeType'"),
        ({"1day.bucketTimePeriod": "1d", "mergeTyp": "rollup"}, "'1day.mergeType'"),
        ({"mergeTyp": "rollup"}, r"'\*.mergeType'"),
        ({"fare.agregationType": "sum"}, "'fare.aggregationType'"),
        ({"1day.aggregationFunctionParameter.fare.x": "1"}, "'1day.aggregationFunctionParameters.fare.x'"),
        ({"schedul": "0 * * * * ?"}, "'schedule'"),
    ],
)
def test_a_misspelt_key_is_named_with_its_level(given: dict[str, str], meant: str) -> None:
    (said,) = unknown_task_keys("MergeRollupTask", given)
    assert re.search(rf"means nothing to this task\. Did you mean {meant}\?", said), said


def test_settings_without_effect_are_told() -> None:
    (said,) = without_effect(config({}, CSV))
    assert "nothing reads them unless task.taskTypeConfigsMap has SegmentGenerationAndPushTask" in said
    unused = {"input.fs.prop.region": "x", "push.controllerUri": "http://x", "push.mode": "URI"}
    told = without_effect(config({FILES: {"bucket": "1"}}, CSV | unused | {"includeFileNamePatern": "glob:*"}))
    expected = (
        "bucket means nothing",
        "input.fs.prop.region: ",
        "push.controllerUri: minions",
        "Did you mean",
        "by TAR",
    )
    assert [text in sentence for text, sentence in zip(expected, told, strict=True)] == [True] * 5, told
