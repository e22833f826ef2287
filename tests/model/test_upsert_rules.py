"""Every rule of upsertConfig, dedupConfig and their tasks, with the exact message for its violation.

upsert_rules.json has the cases: each changes one key of a valid config; `…+` appends, null removes.
"""

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest

from gamay.base.errors import InvalidConfigError
from gamay.model.rules.hybrid import hybrid_problems
from gamay.model.rules.upsert_changes import deprecated_keys, followed_late, forbidden_changes, migrated
from gamay.model.rules.validation import validate_table_config
from gamay.model.rules.without_effect import without_effect
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.sql.columns import columns_of, volatile_functions

SCHEMA: dict[str, Any] = {
    "schemaName": "orders",
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "STRING"},
        {"name": "city", "dataType": "STRING"},
        {"name": "version", "dataType": "LONG"},
        {"name": "other", "dataType": "INT"},
        {"name": "gone", "dataType": "BOOLEAN"},
        {"name": "late", "dataType": "BOOLEAN"},
        {"name": "doc", "dataType": "JSON"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
        {"name": "counts", "dataType": "INT", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"},
        {"name": "day", "dataType": "STRING", "format": "SIMPLE_DATE_FORMAT|yyyy-MM-dd", "granularity": "1:DAYS"},
    ],
    "primaryKeyColumns": ["id"],
}
STREAM = {"streamType": "log", "stream.log.topic.name": "t", "stream.log.decoder.class.name": "JSONMessageDecoder"}
PARTITIONED = {"columnPartitionMap": {"id": {"functionName": "Murmur", "numPartitions": 4}}}
GOOD: dict[str, Any] = {
    "tableName": "orders",
    "tableType": "REALTIME",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"nullHandlingEnabled": True},
    "routing": {"instanceSelectorType": "strictReplicaGroup"},
    "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [STREAM]}},
}
OFFLINE = {
    "tableType": "OFFLINE", "ingestionConfig": {}, "tableIndexConfig.segmentPartitionConfig": PARTITIONED,
}  # fmt: skip
RULES = orjson.loads(Path(__file__).with_name("upsert_rules.json").read_bytes())


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a document with values set at dotted places."""
    found = copy.deepcopy(document)
    for place, value in changes.items():
        *steps, last = place.split(".")
        target = found
        for step in steps:
            target = target.setdefault(step, {})
        if last.endswith("+"):
            target.setdefault(last[:-1], []).append(value)
        elif value is None:
            target.pop(last, None)
        else:
            target[last] = value
    return found


def check(section: str, changes: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the error of a config with these changes; empty if it is accepted."""
    document = changed({**GOOD, section: {}}, changes)
    subject = Schema.from_json(changed(SCHEMA, schema)).value
    try:
        parsed = TableConfig.from_json(document)
        assert not parsed.unrecognized
        config = migrated(parsed.value, subject)
        validate_table_config(config, subject, columns_of=columns_of, volatile_in=volatile_functions)
    except InvalidConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule['section']} {rule['rule']}")
def test_a_breach_is_named(rule: dict[str, Any]) -> None:
    assert check(rule["section"], rule["changes"], rule.get("schema", {})) == rule["error"]


@pytest.mark.parametrize("section", ["upsertConfig", "dedupConfig"])
def test_what_the_cases_change_is_accepted(section: str) -> None:
    assert check(section, {}, {}) == ""


def test_more_that_is_accepted() -> None:
    assert check("upsertConfig", OFFLINE, {}) == ""
    assert check("upsertConfig", {"routing.instanceSelectorType": "multiStageReplicaGroup"}, {}) == ""
    assert check("upsertConfig", {"upsertConfig.comparisonColumns": []}, {}) == ""
    assert check("upsertConfig", {"upsertConfig.comparisonColumns": ["day"]}, {}) == ""
    assert check("upsertConfig", {"segmentsConfig.timeColumnName": "day"}, {}) == ""
    assert check("upsertConfig", {"upsertConfig.preload": "ENABLE", "upsertConfig.snapshot": "DISABLE"}, {}) == ""
    cold = {
        "name": "cold", "segmentSelectorType": "time", "segmentAge": "1d", "storageType": "pinot_server",
        "serverTag": "cold_REALTIME",
    }  # fmt: skip
    for dedup in ({"dedupConfig.metadataTTL": 86_399_999}, {"dedupConfig.dedupTimeColumn": "version"}):
        assert check("dedupConfig", {**dedup, "tierConfigs": [cold]}, {}) == ""
    assert check("upsertConfig", {"upsertConfig.mode": "NONE", "routing": {}}, {"primaryKeyColumns": None}) == ""
    rolled_up = {"tableIndexConfig": {"aggregateMetrics": True, "noDictionaryColumns": ["fare"]}}
    plain = {"primaryKeyColumns": None, "dimensionFieldSpecs": SCHEMA["dimensionFieldSpecs"][:6]}  # single values only
    for section, off in (("upsertConfig", {"mode": "NONE"}), ("dedupConfig", {"dedupEnabled": False})):
        assert check(section, {**rolled_up, section: off, "routing": {}}, plain) == ""
    for column in ("gone", "city", "version", "fare"):
        assert check("upsertConfig", {"upsertConfig.deleteRecordColumn": column}, {}) == ""
    by_schema = {"upsertConfig.mode": "PARTIAL", "tableIndexConfig.nullHandlingEnabled": False}
    assert check("upsertConfig", by_schema, {"enableColumnBasedNullHandling": True}) == ""


SET = {
    "mode": "PARTIAL",
    "hashFunction": "MURMUR3",
    "comparisonColumns": ["version"],
    "dropOutOfOrderRecord": True,
    "outOfOrderRecordColumn": "late",
}
MERGED_BY = {
    "partialUpsertStrategies": {"fare": "MAX"},
    "defaultPartialUpsertStrategy": "IGNORE",
    "partialUpsertMergerClass": "a.Merger",
}


def config(changes: dict[str, Any], section: str = "upsertConfig") -> TableConfig:
    return TableConfig.from_json(changed({**GOOD, section: {}}, changes)).value


@pytest.mark.parametrize("key", SET)
def test_an_update_may_not_change_what_chose_the_rows(key: str) -> None:
    before, after = config({}), config({f"upsertConfig.{key}": SET[key]})
    assert forbidden_changes(before, after) == forbidden_changes(after, before) == [key]
    assert [sentence.partition(":")[0] for sentence in followed_late(before, after)] == [key]


@pytest.mark.parametrize("key", MERGED_BY)
def test_an_update_may_change_how_rows_are_merged_where_none_are(key: str) -> None:
    full, partial = {}, {"upsertConfig.mode": "PARTIAL"}
    strategy = {f"upsertConfig.{key}": MERGED_BY[key]}
    before, after = config(partial), config({**partial, **strategy})
    assert forbidden_changes(before, after) == forbidden_changes(after, before) == [key]
    before, after = config(full), config(strategy)
    assert forbidden_changes(before, after) == forbidden_changes(after, before) == followed_late(before, after) == []
    assert forbidden_changes(config(full), config({**partial, **strategy})) == ["mode"]


def test_a_table_without_upserts_has_the_mode_none() -> None:
    full, none, without = config({}), config({"upsertConfig.mode": "NONE"}), config({"upsertConfig": None})
    for other in (none, without):
        assert forbidden_changes(full, other) == forbidden_changes(other, full) == ["mode"]
        assert [sentence.partition(":")[0] for sentence in followed_late(full, other)] == ["mode"]
    hashed = config({"upsertConfig.mode": "NONE", "upsertConfig.hashFunction": "MD5"})
    for other in (without, hashed):
        assert forbidden_changes(none, other) == forbidden_changes(other, none) == followed_late(none, other) == []


def test_what_rows_are_compared_by_may_be_said_in_either_way() -> None:
    unnamed, named = config({}), config({"upsertConfig.comparisonColumns": ["ts"]})
    assert forbidden_changes(unnamed, named) == forbidden_changes(named, unnamed) == followed_late(unnamed, named) == []
    other_time = {"segmentsConfig.timeColumnName": "version"}
    assert forbidden_changes(named, config(other_time)) == ["comparisonColumns"]
    assert forbidden_changes(named, config({**other_time, "upsertConfig.comparisonColumns": ["ts"]})) == []
    first = config({}, "dedupConfig")
    assert forbidden_changes(first, config({"dedupConfig.dedupTimeColumn": "ts"}, "dedupConfig")) == []


def test_a_delete_column_may_be_added_but_not_exchanged() -> None:
    none, gone, left = (config({"upsertConfig.deleteRecordColumn": name}) for name in (None, "gone", "left"))
    assert forbidden_changes(none, gone) == []
    assert forbidden_changes(gone, left) == forbidden_changes(gone, none) == ["deleteRecordColumn"]
    assert [sentence.partition(":")[0] for sentence in followed_late(none, gone)] == ["deleteRecordColumn"]
    assert followed_late(gone, gone) == []


def test_an_update_may_change_the_rest() -> None:
    free = {
        "snapshot": "ENABLE", "preload": "ENABLE", "metadataTTL": 5, "deletedKeysTTL": 5, "consistencyMode": "SYNC",
        "upsertViewRefreshIntervalMs": 5, "newSegmentTrackingTimeMs": 5, "enableCommitTimeCompaction": True,
    }  # fmt: skip
    assert forbidden_changes(config({}), config({f"upsertConfig.{key}": value for key, value in free.items()})) == []
    # the time column chooses rows only while nothing else does
    other = {"segmentsConfig.timeColumnName": "day"}
    named = {"upsertConfig.comparisonColumns": ["version"]}
    assert forbidden_changes(config({}), config(other)) == ["timeColumnName"]
    assert forbidden_changes(config(named), config({**named, **other})) == []


def test_an_update_may_not_change_what_chose_the_rows_of_dedup() -> None:
    section, time = "dedupConfig", {"segmentsConfig.timeColumnName": "day"}
    plain, named = config({}, section), {"dedupConfig.dedupTimeColumn": "version"}
    assert forbidden_changes(plain, config({"dedupConfig.hashFunction": "MD5"}, section)) == ["hashFunction"]
    assert forbidden_changes(plain, config(named, section)) == ["dedupTimeColumn"]
    assert forbidden_changes(plain, config(time, section)) == ["timeColumnName"]
    assert forbidden_changes(config(named, section), config({**named, **time}, section)) == []


@pytest.mark.parametrize("section", ["upsertConfig", "dedupConfig"])
def test_the_number_of_partitions_stays(section: str) -> None:
    of_4 = {"tableIndexConfig.segmentPartitionConfig": PARTITIONED}
    of_8 = {"tableIndexConfig.segmentPartitionConfig": changed(PARTITIONED, {"columnPartitionMap.id.numPartitions": 8})}
    assert forbidden_changes(config(of_4, section), config(of_8, section)) == ["segmentPartitionConfig.id.numPartitions"]
    assert forbidden_changes(config({}, section), config(of_4, section)) == []


@pytest.mark.parametrize(
    ("older", "newer", "notice"),
    [
        ({"comparisonColumn": "version"}, {"comparisonColumns": ["version"]}, "comparisonColumn is deprecated"),
        ({"enableSnapshot": True}, {"snapshot": "ENABLE"}, "enableSnapshot is deprecated"),
        ({"enableSnapshot": False}, {"snapshot": "DEFAULT"}, "enableSnapshot is deprecated"),
        ({"enablePreload": True}, {"preload": "ENABLE"}, "enablePreload is deprecated"),
        ({"enablePreload": False}, {"preload": "DEFAULT"}, "enablePreload is deprecated"),
        ({"enableSnapshot": True, "snapshot": "DISABLE"}, {"snapshot": "DISABLE"}, "enableSnapshot is deprecated"),
        ({"TtlUnit": "DAYS", "TtlValue": "2"}, {"metadataTTL": 172_800_000.0}, "TtlUnit and TtlValue are deprecated"),
    ],
)
def test_older_keys_become_todays(older: dict[str, Any], newer: dict[str, Any], notice: str) -> None:
    given = TableConfig.from_json({**GOOD, "upsertConfig": older}).value
    stored = migrated(given, Schema.from_json(SCHEMA).value).to_json()["upsertConfig"]
    assert {key: stored[key] for key in newer} == newer
    assert not (older.keys() - newer.keys()) & stored.keys()
    notices = deprecated_keys(given)
    assert [notice in sentence for sentence in notices] == [True]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"comparisonColumn": "ts", "comparisonColumns": ["version"]}, "comparisonColumn and comparisonColumns contradict"),
        ({"TtlUnit": "DAYS"}, "TtlUnit and TtlValue belong together"),
        ({"TtlUnit": "DAY", "TtlValue": 1}, r"^upsertConfig\.TtlUnit: 'DAY' is not a time unit.* Did you mean 'DAYS'\?$"),
        ({"TtlUnit": "SECONDS", "TtlValue": 2, "metadataTTL": 7}, "which are a metadataTTL of 2000, contradict metadataTTL"),
    ],
)
def test_older_keys_that_are_wrong_or_contradict_todays(keys: dict[str, Any], problem: str) -> None:
    given = TableConfig.from_json({**GOOD, "upsertConfig": keys}).value
    with pytest.raises(InvalidConfigError, match=problem):
        migrated(given, Schema.from_json(SCHEMA).value)
    if "metadataTTL" in keys:
        same = {**GOOD, "upsertConfig": {**keys, "metadataTTL": 2000}}
        assert migrated(TableConfig.from_json(same).value, Schema.from_json(SCHEMA).value).upsert.metadata_ttl == 2000


def test_what_has_no_effect_is_named() -> None:
    late = {"upsertConfig.isSkipLateEvent": True}
    assert [text.partition(":")[0] for text in without_effect(config(late))] == list(late)
    assert without_effect(config({**late, "upsertConfig.metadataTTL": 5})) == []
    unused = {"upsertConfig.preload": "ENABLE", "upsertConfig.snapshot": "DISABLE"}
    assert [text.partition(":")[0] for text in without_effect(config(unused))] == ["upsertConfig.preload"]
    assert without_effect(config({"upsertConfig.preload": "ENABLE"})) == []
    merging = {"upsertConfig.partialUpsertStrategies": {"n": "MAX"}, "upsertConfig.defaultPartialUpsertStrategy": "IGNORE"}
    told = [text.partition(":")[0] for text in without_effect(config({"upsertConfig.mode": "FULL", **merging}))]
    assert told == list(merging)
    assert without_effect(config({"upsertConfig.mode": "PARTIAL", **merging})) == []
    preloads = config({"dedupConfig.preload": "ENABLE"}, "dedupConfig")
    assert [text.partition(":")[0] for text in without_effect(preloads)] == ["dedupConfig.preload"]


def test_halves_of_a_hybrid_table() -> None:
    offline, realtime = config(OFFLINE), config({})
    assert list(hybrid_problems(offline, realtime)) == []
    assert list(hybrid_problems(offline, config({"upsertConfig.mode": "PARTIAL"}))) == [
        "upsertConfig.mode is PARTIAL; a table with both types supports FULL only: rows are not merged with those of the "
        "OFFLINE half"
    ]
    assert list(hybrid_problems(config({**OFFLINE, "segmentsConfig.timeColumnName": "day"}), realtime)) == [
        "a table with both types needs one segmentsConfig.timeColumnName: the OFFLINE half has 'day', the REALTIME half 'ts'"
    ]
    assert list(hybrid_problems(config({**OFFLINE, "segmentsConfig.timeColumnName": None}), realtime)) == [
        "a table with both types needs one segmentsConfig.timeColumnName: the OFFLINE half has none, the REALTIME half 'ts'"
    ]
    assert list(hybrid_problems(config({**OFFLINE, "tenants": {"broker": "other"}}), realtime)) == [
        "a table with both types needs one broker tenant: the OFFLINE half has 'other', the REALTIME half 'DefaultTenant'"
    ]
