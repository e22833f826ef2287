"""Which table configs are refused, and why."""

import copy
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError
from gamay.model.rules.upsert_changes import deprecated_keys, forbidden_changes, migrated
from gamay.model.rules.validation import validate_schema, validate_table_config
from gamay.model.rules.without_effect import without_effect
from gamay.model.schema.datetime_format import DateTimeFormat, Granularity
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole
from gamay.sql import columns as sql_columns

SCHEMA = Schema(
    "rides",
    (
        FieldSpec("id", DataType.STRING),
        FieldSpec("city", DataType.STRING),
        FieldSpec("tags", DataType.STRING, single_value=False),
        FieldSpec("flag", DataType.BOOLEAN),
        FieldSpec("doc", DataType.JSON),
        FieldSpec("blob", DataType.BYTES),
        FieldSpec("fare", DataType.DOUBLE, FieldRole.METRIC),
        FieldSpec("ts", DataType.TIMESTAMP, FieldRole.DATE_TIME),
        FieldSpec(
            "days",
            DataType.INT,
            FieldRole.DATE_TIME,
            format=DateTimeFormat.parse("1:DAYS:EPOCH"),
            granularity=Granularity.parse("1:DAYS"),
        ),
    ),
    ("id",),
)
GOOD: dict[str, Any] = {
    "tableName": "rides",
    "tableType": "OFFLINE",
    "segmentsConfig": {
        "timeColumnName": "ts",
        "replication": "2",
        "retentionTimeUnit": "DAYS",
        "retentionTimeValue": "30",
        "deletedSegmentsRetentionPeriod": "0d",
    },
    "tenants": {},
    "tableIndexConfig": {
        "sortedColumn": ["city"],
        "invertedIndexColumns": ["city", "tags"],
        "rangeIndexColumns": ["fare", "ts"],
        "bloomFilterColumns": ["id"],
        "noDictionaryColumns": ["fare", "blob"],
        "jsonIndexColumns": ["doc"],
        "varLengthDictionaryColumns": ["id"],
        "segmentPartitionConfig": {"columnPartitionMap": {"id": {"functionName": "Murmur", "numPartitions": 4}}},
        "starTreeIndexConfigs": [
            {"dimensionsSplitOrder": ["city", "$ts$DAY"], "functionColumnPairs": ["SUM__fare", "COUNT__*"]}
        ],
    },
    "ingestionConfig": {
        "batchIngestionConfig": {"segmentIngestionType": "REFRESH", "consistentDataPush": True},
        "filterConfig": {"filterFunction": "f(x)"},
    },
    "fieldConfigList": [
        {"name": "ts", "timestampConfig": {"granularities": ["DAY"]}},
        {"name": "blob", "encodingType": "RAW", "compressionCodec": "SNAPPY"},
    ],
    "quota": {"storage": "10G", "maxQueriesPerSecond": "5"},
    "query": {"timeoutMs": 1000},
    "tierConfigs": [
        {
            "name": "cold",
            "segmentSelectorType": "time",
            "segmentAge": "30d",
            "storageType": "pinot_server",
            "serverTag": "cold_OFFLINE",
        }
    ],
}


def config_with(changes: dict[str, Any]) -> TableConfig:
    """Return the good config with values set at dotted places; `…+` appends to a list."""
    document = copy.deepcopy(GOOD)
    for place, value in changes.items():
        *steps, last = place.split(".")
        target = document
        for step in steps:
            target = target.setdefault(step, {})
        if last.endswith("+"):
            target.setdefault(last[:-1], []).append(value)
        else:
            target[last] = value
    parsed = TableConfig.from_json(document)
    assert not parsed.unrecognized
    return parsed.value


def refusal(changes: dict[str, Any], schema: Schema = SCHEMA, **options: Any) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        validate_table_config(config_with(changes), schema, **options)
    return str(caught.value)


def test_a_sensible_config_passes() -> None:
    validate_table_config(config_with({}), SCHEMA)
    validate_table_config(TableConfig.offline("rides"), SCHEMA)


SEGMENTS, INDEX, INGEST = "segmentsConfig.", "tableIndexConfig.", "ingestionConfig."
PARTITION = INDEX + "segmentPartitionConfig.columnPartitionMap."


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tableName": "a b"}, "white space"),
        ({"tableName": "a__b"}, "'__'"),
        ({"tableName": "a.b.c"}, "one dot"),
        ({"tableName": "other"}, "the schema is named 'rides'"),
        ({SEGMENTS + "timeColumnName": "t"}, "names the column 't', which the schema does not have"),
        ({SEGMENTS + "timeColumnName": "fare"}, "a METRIC column; it must be a date-time column (ts, days)"),
        ({"tableType": "REALTIME", SEGMENTS + "timeColumnName": None}, "a REALTIME table needs one"),
        ({SEGMENTS + "replication": 0}, "replication is 0"),
        ({SEGMENTS + "replicasPerPartition": -1}, "replicasPerPartition is -1"),
        ({SEGMENTS + "retentionTimeUnit": "DAY"}, "Did you mean 'DAYS'"),
        ({SEGMENTS + "retentionTimeValue": "0"}, "retentionTimeValue is '0'"),
        ({SEGMENTS + "retentionTimeValue": "many"}, "retentionTimeValue is 'many'"),
        ({SEGMENTS + "deletedSegmentsRetentionPeriod": "7 days"}, "is not a period"),
        ({SEGMENTS + "untrackedSegmentsRetentionTimeUnit": "DAYS"}, "both or neither"),
        ({SEGMENTS + "untrackedSegmentsDeletionBatchSize": 0}, "at least 1"),
        ({SEGMENTS + "peerSegmentDownloadScheme": "ftp"}, "http or https"),
        ({SEGMENTS + "peerSegmentDownloadScheme": "http", SEGMENTS + "replication": 1}, "there is no peer"),
        ({SEGMENTS + "crypterClassName": "x"}, "encryption"),
        ({SEGMENTS + "replicaGroupStrategyConfig": {"numInstancesPerPartition": 0}}, "numInstancesPerPartition"),
        (
            {"isDimTable": True, INGEST + "batchIngestionConfig": {"segmentIngestionType": "APPEND"}},
            "must be REFRESH, or not be given",
        ),
        (
            {"isDimTable": True, INGEST + "batchIngestionConfig": None, SEGMENTS + "segmentPushType": "APPEND"},
            "must be REFRESH, or not be given",
        ),
        (
            {"isDimTable": True, "segmentAssignmentConfigMap": {"OFFLINE": {"segmentAssignmentStrategy": "balanced"}}},
            "allservers",
        ),
        ({"isMaterializedView": True}, "definedSQL"),
        ({"quota.storage": "10 G"}, "quota.storage: '10 G' is not a data size"),
        ({"quota.maxQueriesPerSecond": "-1"}, "a number above 0"),
        ({"quota.maxQueriesPerSecond": "inf"}, "a number above 0"),
        ({"quota.maxQueriesPerSecond": "x"}, "a number above 0"),
        ({"query.timeoutMs": 0}, "query.timeoutMs is 0"),
        ({"tenants.tagOverrideConfig": {"realtimeConsuming": "tag"}}, "ends in _OFFLINE or _REALTIME"),
        ({"tierConfigs+": GOOD["tierConfigs"][0]}, "'cold' more than once"),
        (
            {
                "tierConfigs": [
                    {"name": "c", "segmentSelectorType": "time", "storageType": "pinot_server", "serverTag": "x_OFFLINE"}
                ]
            },
            "segmentAge",
        ),
        (
            {
                "tierConfigs": [
                    {"name": "c", "segmentSelectorType": "fixed", "storageType": "pinot_server", "serverTag": "x"}
                ]
            },
            "segmentList",
        ),
        ({"instancePartitionsMap": {"OFLINE": "x"}}, "Did you mean 'OFFLINE'"),
        ({"upsertConfig": {"mode": "PARTIAL"}}, "an OFFLINE table supports FULL only"),
        ({"dedupConfig": {}}, "REALTIME tables only"),
        ({INGEST + "batchIngestionConfig": {"consistentDataPush": True}}, "REFRESH"),
        ({INGEST + "batchIngestionConfig": {"batchConfigMaps": [{"inputFormat": "parque"}]}}, "Did you mean 'PARQUET'"),
        ({INGEST + "batchIngestionConfig": {"batchConfigMaps": [{"push.mode": "TARR"}]}}, "Did you mean 'TAR'"),
        ({INGEST + "streamIngestionConfig": {"streamConfigMaps": []}}, "streamConfigMaps is empty"),
        ({INGEST + "enrichmentConfigs": [{"enricherType": "generateColum"}]}, "Did you mean 'generateColumn'"),
        ({INGEST + "complexTypeConfig": {"prefixesToRename": {"ci": ""}}}, "with which the column 'city' begins"),
        ({INGEST + "transformConfigs": [{"columnName": "id", "transformFunction": "f(x)"}] * 2}, "'id' more than once"),
        ({INGEST + "aggregationConfigs": [{"columnName": "id", "aggregationFunction": "SUM(x)"}]}, "not a metric"),
        ({INDEX + "aggregateMetrics": True}, "multi-value column 'tags'"),
        ({INDEX + "sortedColumn": ["tags"]}, "rows cannot be sorted by lists"),
        ({INDEX + "sortedColumn": ["citi"]}, "Did you mean 'city'"),
        ({INDEX + "invertedIndexColumns": ["city", "city"]}, "more than once"),
        ({INDEX + "noDictionaryColumns+": "city"}, "inverted index, which needs the dictionary"),
        (
            {"fieldConfigList+": {"name": "city", "indexes": {"dictionary": {"disabled": True}}}},
            "inverted index, which needs the dictionary",
        ),
        ({"fieldConfigList+": {"name": "fare", "encodingType": "DICTIONARY"}}, "keep one"),
        ({INDEX + "onHeapDictionaryColumns": ["fare"]}, "both noDictionaryColumns and onHeapDictionaryColumns"),
        ({INDEX + "varLengthDictionaryColumns": ["days"]}, "equally long"),
        ({"fieldConfigList+": {"name": "id", "indexes": {"dictionary": {"intern": {"capacity": 5}}}}}, "onHeap true"),
        ({INDEX + "rangeIndexColumns": ["blob"]}, "needs a number or a dictionary"),
        ({INDEX + "rangeIndexVersion": 3}, "must be 1 or 2"),
        ({INDEX + "bloomFilterColumns": ["flag"]}, "BOOLEAN"),
        ({INDEX + "bloomFilterConfigs": {"id": {"fpp": 1.0}}}, "between 0 and 1"),
        ({INDEX + "bloomFilterConfigs": {"id": {"maxSizeInBytes": -1}}}, "must not be negative"),
        ({INDEX + "jsonIndexColumns": ["tags"]}, "needs a single-value column"),
        ({INDEX + "jsonIndexColumns": ["fare"]}, "needs STRING or JSON"),
        (
            {INDEX + "jsonIndexConfigs": {"doc": {"includePaths": ["$.a"], "excludePaths": ["$.b"]}}},
            "json index of 'doc' has invalid settings: it has includePaths and excludePaths; keep one",
        ),
        (
            {INDEX + "jsonIndexConfigs": {"doc": {"includePaths": ["$.a[0]"]}}},
            r"'$.a[0]' in includePaths is not one such as",
        ),
        (
            {INDEX + "jsonIndexConfigs": {"doc": {"indexPaths": ["$.a"]}}},
            "the pattern '$.a' in indexPaths is not one such as",
        ),
        ({INDEX + "jsonIndexConfigs": {"doc": {"maxValueLength": -1}}}, "maxValueLength is -1; it must not be negative"),
        (
            {"fieldConfigList+": {"name": "city", "indexTypes": ["JSON"], "properties": {"maxLevels": "deep"}}},
            "the properties of the column 'city' are not valid for a JSON index",
        ),
        ({"fieldConfigList+": {"name": "fare", "indexType": "TEXT"}}, "needs STRING"),
        ({"fieldConfigList+": {"name": "tags", "indexType": "FST"}}, "fst index, which needs a single-value"),
        ({"fieldConfigList+": {"name": "fare", "indexType": "H3"}}, "has a h3 index, which needs BYTES or STRING"),
        (
            {"fieldConfigList+": {"name": "id", "indexType": "H3", "properties": {"resolutions": "5, 16"}}},
            '"5, 16" is not a list',
        ),
        ({"fieldConfigList+": {"name": "id", "indexes": {"h3": {"latitudeColumn": "fare"}}}}, "which needs DOUBLE or FLOAT"),
        ({"fieldConfigList+": {"name": "fare", "indexes": {"h3": {"latitudeColumn": "city"}}}}, "'city', which must be a"),
        ({"fieldConfigList+": {"name": "fare", "indexes": {"h3": {"latitudeColumn": "fares"}}}}, "Did you mean 'fare'"),
        ({"fieldConfigList+": {"name": "fare", "indexes": {"h3": {"latitudeColumn": "fare"}}}}, "the column itself"),
        ({"fieldConfigList+": {"name": "fare", "indexes": {"vector": {}}}}, "needs FLOAT"),
        ({"fieldConfigList+": {"name": "days", "timestampConfig": {}}}, "needs LONG or TIMESTAMP"),
        (
            {"fieldConfigList+": {"name": "tags", "timestampConfig": {}}},
            "timestamp index, which needs a single-value column",
        ),
        ({"fieldConfigList+": {"name": "city", "indexes": {"inverted": {}}}}, "declared twice"),
        ({"fieldConfigList+": {"name": "fare", "indexes": {"range": {}}}}, "declared twice"),
        ({"fieldConfigList+": {"name": "id", "indexes": {"bloom": {}}}}, "declared twice"),
        ({"fieldConfigList+": {"name": "doc", "indexes": {"json": {}}}}, "declared twice"),
        ({"fieldConfigList+": {"name": "id", "indexType": "TEXT", "indexes": {"text": {}}}}, "declared twice"),
        ({"fieldConfigList+": {"name": "ts"}}, "'ts' more than once"),
        ({"fieldConfigList+": {"name": "x"}}, "fieldConfigList names the column 'x'"),
        ({"fieldConfigList+": {"name": "id", "encodingType": "RAW", "compressionCodec": "LZ5"}}, "Did you mean 'LZ4'"),
        ({"fieldConfigList+": {"name": "id", "encodingType": "RAW", "compressionCodec": "DELTA"}}, "is not one of"),
        (
            {"fieldConfigList+": {"name": "city", "compressionCodec": "LZ4"}},
            "does not work with its encodingType DICTIONARY",
        ),
        ({"fieldConfigList+": {"name": "id", "indexes": {"forward": {"codecSpec": "x"}}}}, "codecSpec"),
        ({"fieldConfigList+": {"name": "id", "indexes": {"forward": {"targetMaxChunkSize": "x"}}}}, "is not a data size"),
        ({"fieldConfigList+": {"name": "id", "indexes": {"forward": {"targetDocsPerChunk": 0}}}}, "at least 1"),
        (
            {
                "fieldConfigList+": {"name": "id", "properties": {"forwardIndexDisabled": "true"}},
                INDEX + "optimizeDictionary": True,
            },
            "optimizeDictionary",
        ),
        ({PARTITION + "tags": {"functionName": "Murmur", "numPartitions": 2}}, "multi-value"),
        ({PARTITION + "id": {"functionName": "Murmur", "numPartitions": 0}}, "numPartitions is 0"),
        ({PARTITION + "x": {"functionName": "Murmur", "numPartitions": 2}}, "names the column 'x'"),
        ({PARTITION + "id": {"functionName": "BoundedColumnValue", "numPartitions": 3}}, "columnValuesDelimiter"),
        (
            {
                PARTITION + "id": {
                    "functionName": "BoundedColumnValue",
                    "numPartitions": 2,
                    "functionConfig": {"columnValues": "a|b", "columnValuesDelimiter": "|"},
                }
            },
            "it must be 3",
        ),
        (
            {PARTITION + "id": {"functionName": "Murmur3", "numPartitions": 2, "functionConfig": {"variant": "x86"}}},
            "Did you mean 'x86_32'",
        ),
        (
            {PARTITION + "id": {"functionName": "Murmur3", "numPartitions": 2, "functionConfig": {"seed": "x"}}},
            "not a whole number",
        ),
        (
            {PARTITION + "id": {"functionName": "Murmur3", "numPartitions": 2, "functionConfig": {"seed": "2147483648"}}},
            "whole number of 32 bits",
        ),
        (
            {PARTITION + "id": {"functionName": "Murmur", "numPartitions": 2, "functionConfig": {"useRawByte": "true"}}},
            "is unknown to Murmur. Did you mean 'useRawBytes'?",
        ),
        (
            {PARTITION + "id": {"functionName": "Murmur", "numPartitions": 2, "functionConfig": {"useRawBytes": "yes"}}},
            "useRawBytes must be true or false",
        ),
        (
            {PARTITION + "id": {"functionName": "HashCode", "numPartitions": 2, "functionConfig": {"useRawBytes": "true"}}},
            "is unknown to HashCode",
        ),
        (
            {
                PARTITION + "id": {
                    "functionName": "BoundedColumnValue",
                    "numPartitions": 2,
                    "functionConfig": {"columnValues": "|a, b|", "columnValuesDelimiter": "|, "},
                }
            },
            "it must be 3",
        ),
        (
            {
                PARTITION + "id": {
                    "functionName": "Fnv",
                    "numPartitions": 2,
                    "functionConfig": {"partitionIdNormalizer": "MASKED"},
                }
            },
            "Did you mean 'MASK'",
        ),
        (
            {
                PARTITION + "id": {
                    "functionName": "FNV",
                    "numPartitions": 2,
                    "functionConfig": {"negativePartitionHandling": "zero"},
                }
            },
            "mask or abs",
        ),
    ],
)
def test_refusals(changes: dict[str, Any], reason: str) -> None:
    assert reason in refusal(changes)


def test_a_bounded_partition_function_passes() -> None:
    partition = {
        "functionName": "boundedcolumnvalue",
        "numPartitions": 3,
        "functionConfig": {"columnValues": "a|b", "columnValuesDelimiter": "|"},
    }
    validate_table_config(config_with({PARTITION + "id": partition}), SCHEMA)


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ({"dimensionsSplitOrder": []}, "is empty"),
        ({"dimensionsSplitOrder": ["city", "city"]}, "more than once"),
        ({"dimensionsSplitOrder": ["tags"]}, "multi-value"),
        ({"dimensionsSplitOrder": ["upper(citi)"]}, "does not have. Did you mean 'city'?"),
        ({"dimensionsSplitOrder": ["upper(city"]}, "neither a column nor an expression"),
        ({"dimensionsSplitOrder": ["now()"]}, "reads no column"),
        ({"dimensionsSplitOrder": ["plus(fare, now())"]}, "a different value each time"),
        ({"dimensionsSplitOrder": ["$ts$WEEK"]}, "does not have"),
        ({"skipStarNodeCreationForDimensions": ["id"]}, "not in dimensionsSplitOrder"),
        ({"maxSizeRatio": 0}, "must be greater than 0"),
        ({"functionColumnPairs": []}, "exactly one of"),
        ({"aggregationConfigs": [{"columnName": "fare", "aggregationFunction": "MAX"}]}, "exactly one of"),
        ({"functionColumnPairs": ["SUM_fare"]}, "not written like"),
        ({"functionColumnPairs": ["SUM__*"]}, "only for COUNT"),
        ({"functionColumnPairs": ["SUM__far"]}, "Did you mean 'fare'"),
        ({"functionColumnPairs": ["SUMM__fare"]}, "Did you mean 'SUM"),
        ({"functionColumnPairs": ["SUM__fare", "sum__fare"]}, "more than once"),
    ],
)
def test_star_trees(tree: dict[str, Any], reason: str) -> None:
    assert reason in refusal(
        {INDEX + "starTreeIndexConfigs": [{**GOOD["tableIndexConfig"]["starTreeIndexConfigs"][0], **tree}]},
        columns_of=sql_columns.columns_of, volatile_in=sql_columns.volatile_functions,
    )  # fmt: skip


def test_raw_with_an_inverted_index_is_legal_when_the_dictionary_is_not_switched_off() -> None:
    validate_table_config(config_with({"fieldConfigList+": {"name": "city", "encodingType": "RAW"}}), SCHEMA)


def test_realtime_tables_need_one_stream() -> None:
    realtime = {"tableType": "REALTIME", INGEST + "streamIngestionConfig": {"streamConfigMaps": [{"streamType": "kafka"}]}}
    validate_table_config(config_with(realtime), SCHEMA)
    assert "needs ingestionConfig.streamIngestionConfig" in refusal({"tableType": "REALTIME"})
    assert "exclude each other" in refusal({**realtime, INDEX + "streamConfigs": {"streamType": "kafka"}})
    assert "exclude each other" in refusal({**realtime, "upsertConfig": {}, "dedupConfig": {}, "tierConfigs": []})


def test_dimension_tables_need_a_key() -> None:
    keyless = Schema("rides", SCHEMA.fields)
    validate_table_config(config_with({"isDimTable": True}), SCHEMA)
    assert "primaryKeyColumns" in refusal({"isDimTable": True}, keyless)


@pytest.mark.parametrize("batch", [None, {}, {"segmentIngestionFrequency": "DAILY"}, {"consistentDataPush": True}])
def test_dimension_tables_are_refreshed_where_nothing_is_said(batch: dict[str, Any] | None) -> None:
    config = config_with({"isDimTable": True, INGEST + "batchIngestionConfig": batch})
    validate_table_config(config, SCHEMA)
    assert config.replaces_all
    assert not config_with({INGEST + "batchIngestionConfig": {}}).replaces_all


def test_all_problems_are_named_at_once() -> None:
    text = refusal(
        {
            SEGMENTS + "replication": 0,
            INDEX + "sortedColumn": ["tags"],
            "quota.storage": "x",
            INDEX + "rangeIndexColumns": ["nope"],
        }
    )
    assert text.startswith("the table config of 'rides_OFFLINE' has 4 problems:")


def columns_of(text: str) -> Collection[str]:
    """Enough of a parser for these tests."""
    if text.count("(") != text.count(")"):
        raise QueryError(ErrorCode.SQL_PARSING, f"cannot parse {text}")
    return re.findall(r"\b[a-z]+\b(?!\()", text)


def transforms(**functions: str) -> dict[str, Any]:
    return {INGEST + "transformConfigs": [{"columnName": c, "transformFunction": f} for c, f in functions.items()]}


def test_expressions_are_looked_into_with_a_parser() -> None:
    validate_table_config(config_with(transforms(id="f(between)", between="f(x)")), SCHEMA, columns_of=columns_of)
    assert "reads the column itself" in refusal(transforms(id="f(id)"), columns_of=columns_of)
    assert "nothing reads. Did you mean 'city'" in refusal(transforms(citi="f(x)"), columns_of=columns_of)
    assert "in a cycle: city, id" in refusal(
        transforms(id="f(city)", city="f(id)", blob="f(id)") | {}, columns_of=columns_of
    ).replace("blob, ", "")
    assert "is not an expression: cannot parse" in refusal(transforms(id="f("), columns_of=columns_of)
    assert "filterFunction is not an expression" in refusal(
        {INGEST + "filterConfig": {"filterFunction": "f("}}, columns_of=columns_of
    )
    validate_table_config(config_with(transforms(id="f(")), SCHEMA)


def test_rows_of_a_stream_come_out_the_same_at_every_replica() -> None:
    def checked(changes: dict[str, Any], stored: dict[str, Any] | None = None) -> str:
        options = {"columns_of": columns_of, "volatile_in": lambda text: re.findall(r"\b(?:now|rand)\b", text)}
        try:
            validate_table_config(
                config_with(changes), SCHEMA, stored=None if stored is None else config_with(stored), **options
            )  # fmt: skip
        except InvalidConfigError as error:
            return str(error)
        return ""

    realtime = {"tableType": "REALTIME", INGEST + "streamIngestionConfig": {"streamConfigMaps": [{"streamType": "kafka"}]}}
    volatile, sound = realtime | transforms(id="f(now(), x)"), realtime | transforms(id="f(x)")
    assert checked(transforms(id="f(now(), x)")) == ""
    assert checked(sound) == ""
    assert (
        "the transformFunction of 'id' in ingestionConfig calls now, which returns a different value on every replica"
        in checked(volatile)
    )
    assert "calls now, rand" in checked(realtime | transforms(id="f(now(), rand())"), volatile)
    assert checked(volatile, volatile) == ""  # it was stored before this was asked for
    assert "calls now" in checked(volatile, sound)


def test_settings_of_ingestion_without_effect_are_named() -> None:
    def told(**ingestion: Any) -> list[str]:
        document = {
            "tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {},
            "tableIndexConfig": {}, "ingestionConfig": ingestion,
        }  # fmt: skip
        return [sentence.partition(":")[0] for sentence in without_effect(TableConfig.from_json(document).value)]

    unused = {
        "retryOnSegmentBuildPrecheckFailure": True, "maxConsecutiveRecordFetchFailuresAllowed": 3,
        "ingestionExceptionLogRateLimitPerMin": 0,
    }  # fmt: skip
    assert told(**unused) == [f"ingestionConfig.{key}" for key in unused]
    stream = {"streamConfigMaps": [{"streamType": "kafka"}]}
    assert told(streamIngestionConfig=stream) == ["ingestionConfig.streamIngestionConfig"]
    assert told(continueOnError=True, ingestionExceptionLogRateLimitPerMin=5) == []


@pytest.mark.parametrize(
    ("replication", "scheme", "topics", "problems"),
    [
        ("1", None, 1, []),
        ("2", "http", 1, []),
        ("2", None, 1, ["needs segmentsConfig.peerSegmentDownloadScheme"]),
        ("2", "https", 2, ["needs one topic; streamConfigMaps has 2"]),
        ("3", None, 3, ["needs one topic; streamConfigMaps has 3", "needs segmentsConfig.peerSegmentDownloadScheme"]),
    ],
)
def test_pauseless_tables(replication: str, scheme: str | None, topics: int, problems: list[str]) -> None:
    stream = {"streamConfigMaps": [{"streamType": "log"}] * topics, "pauselessConsumptionEnabled": True}
    segments = {"replication": replication} | ({"peerSegmentDownloadScheme": scheme} if scheme else {})
    config = TableConfig.offline("t").to_json() | {
        "tableName": "t", "tableType": "REALTIME", "segmentsConfig": segments,
        "ingestionConfig": {"streamIngestionConfig": stream},
    }  # fmt: skip
    found = _pauseless_problems(TableConfig.from_json(config).value)
    assert len(found) == len(problems)
    assert all(part in sentence for part, sentence in zip(problems, found, strict=True))


def _pauseless_problems(config: TableConfig) -> list[str]:
    try:
        validate_table_config(config, Schema("t", (FieldSpec("s", DataType.STRING),)))
    except InvalidConfigError as error:
        return [line for line in str(error).split("\n") if "pauseless" in line]
    return []


def test_ingestion_aggregates() -> None:
    fields = (
        FieldSpec("city", DataType.STRING),
        FieldSpec("fare", DataType.DOUBLE, FieldRole.METRIC),
        FieldSpec("tip", DataType.DOUBLE, FieldRole.METRIC),
    )
    schema, plain = Schema("rides", fields), TableConfig.offline("rides").to_json()

    def problems(aggregations: list[tuple[str, str]], **indexing: Any) -> str:
        document = copy.deepcopy(plain)
        document["tableIndexConfig"].update(indexing)
        document["ingestionConfig"]["aggregationConfigs"] = [
            {"columnName": c, "aggregationFunction": f} for c, f in aggregations
        ]
        with pytest.raises(InvalidConfigError) as caught:
            validate_table_config(TableConfig.from_json(document).value, schema, columns_of=columns_of)
        return str(caught.value)

    assert "omits the metric 'tip'" in problems([("fare", "SUM(price)")], noDictionaryColumns=["fare", "tip"])
    assert "must be in noDictionaryColumns" in problems([("fare", "SUM(price)"), ("tip", "SUM(tip)")])
    assert "exclude each other" in problems([("fare", "SUM(price)")], aggregateMetrics=True)
    assert "aggregationFunction of 'fare' is not an expression" in problems([("fare", "SUM(")])
    assert "'SUM(a + b)' of 'fare' must be a function of one column" in problems([("fare", "SUM(a + b)")])
    assert "'AVG(a)' of 'fare' cannot be kept up while rows come; use SUM, MIN, MAX, COUNT" in problems([("fare", "AVG(a)")])
    assert "'MIN(*)' of 'fare' must name a column" in problems([("fare", "MIN(*)")])
    raw_city = problems([("fare", "SUM(x)"), ("tip", "COUNT(*)")], noDictionaryColumns=["fare", "tip", "city"])
    assert "the column 'city' must have a dictionary" in raw_city
    assert "'fare' more than once" in problems([("fare", "SUM(x)"), ("fare", "MAX(x)")])
    assert "by SUMPRECISION and must be one of BIG_DECIMAL, BYTES, not DOUBLE" in problems([("fare", "SUMPRECISION(x, 9)")])
    assert "by DISTINCTCOUNTHLL and must be one of BYTES, not DOUBLE" in problems([("fare", "DISTINCTCOUNTHLL(x)")])
    assert "'SUM(x, 2)' of 'fare' has too many arguments; SUM takes the column" in problems([("fare", "SUM(x, 2)")])
    assert "'SUMPRECISION(x)' of 'fare' needs its precision" in problems([("fare", "SUMPRECISION(x)")])
    for text, message in (
        ("SUMPRECISION(x, 0)", "precision must be a whole number from 1 to 1000, not '0'"),
        ("SUMPRECISION(x, 5, y)", "scale must be a whole number from -1000 to 1000, not 'y'"),
        ("DISTINCTCOUNTHLL(x, 17)", "log2m must be a whole number from 2 to 16, not '17'"),
        ("DISTINCTCOUNTHLL(x, 8, 8)", "DISTINCTCOUNTHLL takes the column, log2m"),
        ("DISTINCTCOUNTHLLPLUS(x, 3)", "p must be a whole number from 4 to 18"),
        ("DISTINCTCOUNTHLLPLUS(x, 12, 11)", "sp must be 0 or at least p, not 11 with p 12"),
        ("DISTINCTCOUNTHLL(*)", "must name a column"),
    ):
        assert message in problems([("fare", text)])


REALTIME = {
    "tableType": "REALTIME",
    "tierConfigs": [],
    "routing": {"instanceSelectorType": "strictReplicaGroup"},
    "tableIndexConfig": {"nullHandlingEnabled": True},
    "instanceAssignmentConfigMap": {},
    "instancePartitionsMap": {},
}


@pytest.mark.parametrize(
    ("upsert", "reason"),
    [
        ({"comparisonColumns": ["nope"]}, "names the column 'nope'"),
        ({"comparisonColumns": ["city"]}, "the comparison column 'city' is STRING"),
        ({"comparisonColumns": ["tags"]}, "the comparison column 'tags' is multi-value"),
        ({"comparisonColumns": ["ts", "fare"], "metadataTTL": 5}, "metadataTTL does not work with several"),
        ({"comparisonColumns": ["ts", "ts"]}, "names 'ts' more than once"),
        ({"metadataTTL": 5, "snapshot": "DISABLE"}, "metadataTTL needs snapshots"),
        ({"metadataTTL": 5, "metadataManagerConfigs": {"ttlRemoval": "NEVER"}}, "must be 'COMMIT' or 'GENERATIONS'"),
        ({"deletedKeysTTL": 5}, "deletedKeysTTL needs a deleteRecordColumn"),
        ({"deleteRecordColumn": "tags"}, "must be a single BOOLEAN, STRING or number"),
        ({"deleteRecordColumn": "nope"}, "upsertConfig.deleteRecordColumn"),
        ({"outOfOrderRecordColumn": "city"}, "must be a single BOOLEAN"),
        ({"outOfOrderRecordColumn": "flag", "dropOutOfOrderRecord": True}, "exclude each other"),
        ({"dropOutOfOrderRecord": True, "consistencyMode": "SYNC"}, "need consistencyMode NONE"),
        ({"consistencyMode": "SNAPSHOT", "newSegmentTrackingTimeMs": 0}, "needs newSegmentTrackingTimeMs above 0"),
        ({"deleteRecordColumn": "flag", "enableDeletedKeysCompactionConsistency": True}, "needs deletedKeysTTL"),
        ({"postPartialUpsertTransformConfigs": [{"columnName": "fare", "transformFunction": "1"}]}, "mode PARTIAL only"),
        ({"mode": "PARTIAL", "partialUpsertStrategies": {"id": "MAX"}}, "which is not merged"),
        ({"mode": "PARTIAL", "partialUpsertStrategies": {"city": "INCREMENT"}}, "INCREMENT is for single numbers"),
        ({"mode": "PARTIAL", "partialUpsertStrategies": {"city": "UNION"}}, "UNION is for multi-value columns"),
        ({"mode": "PARTIAL", "partialUpsertStrategies": {"nope": "MAX"}}, "names the column 'nope'"),
        ({"mode": "PARTIAL", "defaultPartialUpsertStrategy": "SOME"}, "the strategies are"),
        ({"mode": "PARTIAL", "defaultPartialUpsertStrategy": "INCREMENT"}, "INCREMENT is for single numbers"),
        (
            {"mode": "PARTIAL", "partialUpsertMergerClass": "a.B", "partialUpsertStrategies": {"fare": "MAX"}},
            "exclude each other",
        ),
        (
            {"mode": "PARTIAL", "postPartialUpsertTransformConfigs": [{"columnName": "id", "transformFunction": "city"}]},
            "cannot be computed",
        ),
        (
            {"mode": "PARTIAL", "postPartialUpsertTransformConfigs": [{"columnName": "zip", "transformFunction": "city"}]},
            "names the column 'zip'",
        ),
        (
            {
                "mode": "PARTIAL",
                "postPartialUpsertTransformConfigs": 2 * [{"columnName": "city", "transformFunction": "id"}],
            },
            "more than once",
        ),
    ],
)
def test_upsert_refusals(upsert: dict[str, Any], reason: str) -> None:
    assert reason in refusal({**REALTIME, "upsertConfig": upsert})


def test_a_missing_time_column_is_named_where_the_schema_tells_it() -> None:
    fields = (*SCHEMA.fields[:-1], replace(SCHEMA.field("days"), date_time_type="PRIMARY"))
    document = {**GOOD, **REALTIME, "segmentsConfig": {"replication": "1"}, "tableIndexConfig": GOOD["tableIndexConfig"]}
    with pytest.raises(InvalidConfigError, match=r"timeColumnName is missing; .* such as 'days', the schema's PRIMARY"):
        validate_table_config(TableConfig.from_json(document).value, replace(SCHEMA, fields=fields))


def test_upsert_needs_one_server_for_a_partition() -> None:
    assert "strictReplicaGroup" in refusal({**REALTIME, "routing": {}, "upsertConfig": {}})
    nulls = {**REALTIME, "tableIndexConfig": {}, "upsertConfig": {"mode": "PARTIAL"}}
    assert "nullHandlingEnabled" in refusal(nulls)
    dedup = {"dedupTimeColumn": "city", "metadataTTL": 3}
    assert "numeric dedupTimeColumn" in refusal({**REALTIME, "dedupConfig": dedup})


def test_older_upsert_keys_are_read_as_todays() -> None:
    document = {
        **GOOD, **REALTIME, "segmentsConfig": {"timeColumnName": "days", "replication": "1"},
        "upsertConfig": {
            "comparisonColumn": "days", "enableSnapshot": True, "enablePreload": False, "TtlUnit": "HOURS", "TtlValue": "48",
        },
        "dedupConfig": {"dedupEnabled": False, "enablePreload": True},
    }  # fmt: skip
    config = TableConfig.from_json(document).value
    found = migrated(config, SCHEMA)
    assert found.upsert is not None
    assert found.dedup is not None
    assert found.upsert.comparison_columns == ("days",)
    assert (found.upsert.snapshot, found.upsert.preload, found.dedup.preload) == ("ENABLE", "DEFAULT", "ENABLE")
    assert found.upsert.metadata_ttl == 2
    assert len(deprecated_keys(config)) == 5
    assert deprecated_keys(found) == []
    assert migrated(found, SCHEMA) == found
    both = {**document, "upsertConfig": {"comparisonColumn": "days", "comparisonColumns": ["ts"]}}
    with pytest.raises(InvalidConfigError, match="contradict"):
        migrated(TableConfig.from_json(both).value, SCHEMA)


def test_keys_that_chose_rows_may_not_change() -> None:
    def config(**upsert: Any) -> TableConfig:
        return TableConfig.from_json({**GOOD, **REALTIME, "upsertConfig": upsert}).value

    assert forbidden_changes(config(), config(snapshot="ENABLE", metadataTTL=3)) == []
    assert forbidden_changes(config(), config(mode="PARTIAL", hashFunction="MD5")) == ["mode", "hashFunction"]
    other_time = {**GOOD, **REALTIME, "segmentsConfig": {"timeColumnName": "days"}, "upsertConfig": {}}
    assert forbidden_changes(config(), TableConfig.from_json(other_time).value) == ["timeColumnName"]
    none = TableConfig.from_json({**GOOD, **REALTIME}).value
    assert forbidden_changes(none, config()) == forbidden_changes(config(), none) == ["mode"]


@pytest.mark.parametrize(
    ("kind", "groups", "reasons"),
    [
        ("CONSUMING", {"replicaGroupBased": True, "numReplicaGroups": 1}, []),
        ("CONSUMING", {"replicaGroupBased": True, "numReplicaGroups": 1, "numInstancesPerPartition": 1}, []),
        ("COMPLETED", {"replicaGroupBased": True, "numReplicaGroups": 1}, ["is for CONSUMING of REALTIME tables only"]),
        ("CONSUMING", {}, ["needs replicaGroupBased: true"]),
        (
            "CONSUMING",
            {"replicaGroupBased": True, "numPartitions": 4, "numInstancesPerPartition": 2},
            ["remove numPartitions", "remove numInstancesPerPartition"],
        ),
    ],
)
def test_implicit_partitions_are_those_of_a_stream(kind: str, groups: dict[str, Any], reasons: list[str]) -> None:
    assignment = {
        "tagPoolConfig": {"tag": "DefaultTenant_REALTIME"},
        "replicaGroupPartitionConfig": groups,
        "partitionSelector": "IMPLICIT_REALTIME_TABLE_PARTITION_SELECTOR",
    }
    document = {**TableConfig.offline("rides").to_json(), "tableName": "rides", "tableType": "REALTIME"}
    config = TableConfig.from_json({**document, "instanceAssignmentConfigMap": {kind: assignment}}).value
    with pytest.raises(InvalidConfigError) as caught:  # it has no stream, either
        validate_table_config(config, SCHEMA)
    found = [problem for problem in str(caught.value).splitlines() if "IMPLICIT" in problem]
    assert [reason for reason in reasons if not any(reason in problem for problem in found)] == []
    assert len(found) == len(reasons)


_CHILDREN = {"key": FieldSpec("key", DataType.STRING), "value": FieldSpec("value", DataType.INT)}
WITH_MAP = Schema(
    "rides", (*SCHEMA.fields, FieldSpec("m", DataType.MAP, FieldRole.COMPLEX, child_fields=_CHILDREN)), ("id",)
)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({INDEX + "invertedIndexColumns+": "m"}, "an inverted index"),
        ({INDEX + "rangeIndexColumns+": "m"}, "a range index"),
        ({INDEX + "bloomFilterColumns+": "m"}, "a bloom filter"),
        ({INDEX + "sortedColumn+": "m"}, "the order of the rows"),
        ({INDEX + "varLengthDictionaryColumns+": "m"}, "a dictionary"),
        ({PARTITION + "m": {"functionName": "Murmur", "numPartitions": 2}}, "partitions"),
        ({"fieldConfigList+": {"name": "m", "encodingType": "DICTIONARY"}}, "a dictionary"),
        ({"fieldConfigList+": {"name": "m", "indexes": {"dictionary": {}}}}, "a dictionary"),
        ({"fieldConfigList+": {"name": "m", "indexes": {"inverted": {}}}}, "an inverted index"),
        ({"fieldConfigList+": {"name": "m", "indexType": "RANGE"}}, "a range index"),
    ],
)
def test_a_map_has_no_index_but_that_of_json(changes: dict[str, Any], what: str) -> None:
    assert f"the MAP column 'm' cannot have {what}" in refusal(changes, WITH_MAP)


@pytest.mark.parametrize("index", ["text", "fst", "ifst", "h3", "vector"])
def test_a_map_has_no_special_index(index: str) -> None:
    told = refusal({"fieldConfigList+": {"name": "m", "indexes": {index: {}}}}, WITH_MAP)
    assert f"the column 'm' of type MAP has a {index} index, which needs" in told


def test_star_trees_have_no_maps() -> None:
    trees = INDEX + "starTreeIndexConfigs"
    tree = {"dimensionsSplitOrder": ["city", "m"], "functionColumnPairs": ["COUNT__m"]}
    told = refusal({trees: [tree]}, WITH_MAP)
    assert "dimensionsSplitOrder names 'm', a MAP, which a star-tree cannot have" in told
    assert "starTreeIndexConfigs[0] aggregates 'm', a MAP" in told


def test_what_a_map_may_have() -> None:
    changes = {
        INDEX + "jsonIndexColumns+": "m",
        INDEX + "noDictionaryColumns+": "m",
        "fieldConfigList+": {"name": "m", "encodingType": "RAW", "compressionCodec": "LZ4"},
    }
    config = config_with(changes)
    validate_table_config(config, WITH_MAP)
    assert (config.column_index(WITH_MAP, "m").dictionary, config.column_index(WITH_MAP, "m").codec) == (False, "LZ4")
    assert TableConfig.offline("rides").column_index(WITH_MAP, "m").dictionary is False


def test_a_map_is_no_primary_key() -> None:
    with pytest.raises(InvalidConfigError, match="primaryKeyColumns names 'm', a MAP"):
        validate_schema(Schema("rides", WITH_MAP.fields, ("m",)))
