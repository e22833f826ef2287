"""Table configs: reading, writing, defaults, older forms."""

import dataclasses
import json
import random
import typing
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.model.parse import keys_of
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import IndexingConfig, SegmentsConfig, TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.types import DataType

Json: typing.TypeAlias = Any


def read(document: Json) -> TableConfig:
    parsed = TableConfig.from_json(document)
    assert not parsed.unrecognized
    return parsed.value


def leaves(document: Json, pointer: str = "") -> Iterator[tuple[str, Json]]:
    """Yield every scalar with its place."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from leaves(value, f"{pointer}/{name}")
    elif isinstance(document, list):
        for position, value in enumerate(document):
            yield from leaves(value, f"{pointer}/{position}")
    else:
        yield pointer, document


def test_every_key_is_kept(every_table_key: Json) -> None:
    assert read(every_table_key).to_json() == every_table_key


def sections_of(annotation: Any) -> Iterator[type]:
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        yield annotation
    for inner in typing.get_args(annotation):
        if inner not in (NoneType, ...):
            yield from sections_of(inner)
    assert not isinstance(annotation, str | UnionType) or typing.get_args(annotation)


def test_the_document_with_every_key_has_every_key(every_table_key: Json) -> None:
    """Keeps `test_every_key_is_kept` complete when keys are added."""
    present = {step for pointer, _ in leaves(every_table_key) for step in pointer.split("/")}
    present |= {name for name in ("fst", "json", "properties") if name in json.dumps(every_table_key)}
    todo, seen = [TableConfig], set()
    while todo:
        cls = todo.pop()
        if cls in seen:
            continue
        seen.add(cls)
        hints = typing.get_type_hints(cls)
        for attribute, described in keys_of(cls).items():
            assert described.name in present, f"{cls.__name__}.{described.name}"
            todo.extend(sections_of(hints[attribute]))
    assert len(seen) > 30


REQUIRED_SOMEWHERE = (
    "tableName", "tableType", "segmentsConfig", "tenants", "tableIndexConfig", "name", "columnName", "transformFunction",
    "aggregationFunction", "dataType", "enricherType", "functionName", "numPartitions", "dimensionsSplitOrder", "tag",
    "tagPoolConfig", "replicaGroupPartitionConfig", "segmentSelectorType", "storageType", "columns",
)  # fmt: skip


def prune(rng: random.Random, document: Json) -> Json:
    """Return the document without some of its optional keys and of its list entries."""
    if isinstance(document, dict):
        return {n: prune(rng, value) for n, value in document.items() if n in REQUIRED_SOMEWHERE or rng.random() < 0.7}
    if isinstance(document, list):
        return [prune(rng, value) for value in document if rng.random() < 0.7]
    return document


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 2**32))
def test_what_was_given_is_in_what_is_written(every_table_key: Json, seed: int) -> None:
    document = prune(random.Random(seed), every_table_key)
    config = read(document)
    written = config.to_json()
    assert set(leaves(document)) - set(leaves(written)) == set()
    assert read(json.loads(json.dumps(written))) == config


@pytest.mark.parametrize(
    "pointer",
    [
        "",
        "/segmentsConfig/completionConfig",
        "/tenants/tagOverrideConfig",
        "/tableIndexConfig/segmentPartitionConfig/columnPartitionMap/rideId",
        "/tableIndexConfig/starTreeIndexConfigs/0/aggregationConfigs/0",
        "/tableIndexConfig/bloomFilterConfigs/tags",
        "/ingestionConfig/batchIngestionConfig",
        "/ingestionConfig/transformConfigs/0",
        "/fieldConfigList/0/indexes/dictionary/intern",
        "/fieldConfigList/0/timestampConfig",
        "/quota",
        "/routing",
        "/query",
        "/task",
        "/instanceAssignmentConfigMap/OFFLINE/tagPoolConfig",
        "/upsertConfig/postPartialUpsertTransformConfigs/0",
        "/dedupConfig",
        "/tierConfigs/0",
        "/metadata",
    ],
)
def test_an_unknown_key_anywhere_is_reported_by_its_place(every_table_key: Json, pointer: str) -> None:
    place = every_table_key
    for step in pointer.split("/")[1:]:
        place = place[int(step) if isinstance(place, list) else step]
    place["zzz/~"] = {"a": 1}
    assert TableConfig.from_json(every_table_key).unrecognized == {f"{pointer}/zzz~1~0": {"a": 1}}


def minimal(**more: Json) -> Json:
    return {
        "tableName": "rides",
        "tableType": "OFFLINE",
        "segmentsConfig": {},
        "tenants": {},
        "tableIndexConfig": {},
        **more,
    }


def test_names_and_types() -> None:
    config = read(minimal(tableType="offline"))
    assert (config.typed_name, config.raw_name, config.table_type) == ("rides_OFFLINE", "rides", TableType.OFFLINE)
    assert config.to_json()["tableName"] == "rides_OFFLINE"
    assert read(minimal(tableName="rides_OFFLINE")).raw_name == "rides"
    with pytest.raises(InvalidConfigError, match="other type"):
        read(minimal(tableName="rides_REALTIME"))
    with pytest.raises(InvalidConfigError, match="Did you mean 'REALTIME'"):
        read(minimal(tableType="REALTME"))


@pytest.mark.parametrize("missing", ["tableName", "tableType", "segmentsConfig", "tenants", "tableIndexConfig"])
def test_required_keys(missing: str) -> None:
    document = minimal()
    del document[missing]
    with pytest.raises(InvalidConfigError, match=f"the key '{missing}' is missing"):
        read(document)


def test_defaults() -> None:
    config = read(minimal())
    assert (config.tenants.broker, config.tenants.server, config.replication) == ("DefaultTenant", "DefaultTenant", 1)
    assert (config.time_column, config.sorted_column) == (None, None)
    assert config.ingestion.segment_time_value_check
    assert not config.ingestion.continue_on_error
    assert read(config.to_json()) == config
    plain = TableConfig.offline("rides")
    assert plain.replication == 1
    assert read(plain.to_json()) == plain


def test_parts_can_be_given_to_the_plain_config() -> None:
    config = TableConfig.offline(
        "rides", segments=SegmentsConfig(time_column_name="ts"), indexing=IndexingConfig(sorted_columns=("a", "b"))
    )
    assert (config.time_column, config.sorted_column) == ("ts", "a")


def test_older_forms() -> None:
    config = read(
        minimal(
            segmentsConfig={
                "replication": 3, "pushFrequency": "daily", "segmentPushType": "append",
                "timeType": "DAYS",
                "segmentAssignmentStrategy": "BalanceNumSegmentAssignmentStrategy", "retentionTimeValue": 700,
            },
            tableIndexConfig={"sortedColumn": "a", "noDictionaryConfig": {"b": "SNAPPY"}, "loadMode": "mmap"},
        )
    )  # fmt: skip
    assert (config.replication, config.sorted_column) == (3, "a")
    written = config.to_json()
    assert written["segmentsConfig"]["segmentPushFrequency"] == "daily"
    assert written["segmentsConfig"]["retentionTimeValue"] == "700"
    assert written["tableIndexConfig"]["loadMode"] == "MMAP"
    forgotten = TableConfig.from_json(minimal(tableIndexConfig={"lazyLoad": "true", "starTreeIndexSpec": {"x": 1}}))
    assert set(forgotten.unrecognized) == {"/tableIndexConfig/lazyLoad", "/tableIndexConfig/starTreeIndexSpec"}


def test_replicas_per_partition_wins_for_realtime_only() -> None:
    segments = {"replication": "1", "replicasPerPartition": "2"}
    assert read(minimal(segmentsConfig=segments)).replication == 1
    assert read(minimal(segmentsConfig=segments, tableType="REALTIME")).replication == 2


def test_an_empty_section_that_switches_something_on_stays() -> None:
    config = read(
        minimal(
            upsertConfig={},
            dedupConfig={},
            dimensionTableConfig={},
            fieldConfigList=[{"name": "a", "indexes": {"text": {}, "inverted": {}}}],
        )
    )
    written = config.to_json()
    assert written["upsertConfig"]["mode"] == "FULL"
    assert written["dedupConfig"]["dedupEnabled"] is True
    written_indexes = written["fieldConfigList"][0]["indexes"]
    assert {name: index["disabled"] for name, index in written_indexes.items()} == {"text": False, "inverted": False}


def test_null_handling() -> None:
    fields = (FieldSpec("a", DataType.INT), FieldSpec("b", DataType.INT, not_null=True))
    by_table, by_column = Schema("t", fields), Schema("t", fields, enable_column_based_null_handling=True)
    off, on = TableConfig.offline("t"), TableConfig.offline("t", indexing=IndexingConfig(null_handling_enabled=True))
    assert [c.null_handling(by_table, n) for c in (off, on) for n in "ab"] == [False, False, True, True]
    assert [c.null_handling(by_column, n) for c in (off, on) for n in "ab"] == [True, False, True, False]


UPSERT_TABLE_OF_THE_SEED: Mapping[str, Json] = {
    "tableName": "upsertMeetupRsvp",
    "tableType": "REALTIME",
    "tenants": {},
    "segmentsConfig": {
        "timeColumnName": "mtime",
        "retentionTimeUnit": "DAYS",
        "retentionTimeValue": "1",
        "replication": "1",
    },
    "tableIndexConfig": {
        "segmentPartitionConfig": {"columnPartitionMap": {"event_id": {"functionName": "Hashcode", "numPartitions": 2}}}
    },
    "instanceAssignmentConfigMap": {
        "CONSUMING": {
            "tagPoolConfig": {"tag": "DefaultTenant_REALTIME"},
            "replicaGroupPartitionConfig": {"replicaGroupBased": True, "numReplicaGroups": 1, "partitionColumn": "event_id"},
        }
    },
    "routing": {"segmentPrunerTypes": ["partition"], "instanceSelectorType": "strictReplicaGroup"},
    "ingestionConfig": {
        "streamIngestionConfig": {
            "streamConfigMaps": [{"streamType": "kafka", "stream.kafka.topic.name": "upsertMeetupRSVPEvents"}]
        }
    },
    "upsertConfig": {"mode": "FULL", "snapshot": "ENABLE", "preload": "ENABLE"},
    "fieldConfigList": [{"name": "location", "encodingType": "RAW", "indexType": "H3", "properties": {"resolutions": "5"}}],
    "metadata": {"customConfigs": {}},
}


def test_a_realtime_table_of_the_seed() -> None:
    config = read(UPSERT_TABLE_OF_THE_SEED)
    assert config.upsert is not None
    assert config.indexing.segment_partition is not None
    assert config.indexing.segment_partition.columns["event_id"].function_name == "HashCode"
    assert read(config.to_json()) == config
    assert config.to_json()["metadata"] == {"customConfigs": {}}
