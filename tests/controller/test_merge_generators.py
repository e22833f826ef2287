"""The work that MergeRollupTask and RealtimeToOfflineSegmentsTask generate from records, and checks of their settings."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.cluster.records.records import DONE, Lineage, LineageEntry, LineageState, SegmentRecord
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.tasks.memory import TaskMemory, forget_table, read_memory, write_memory
from gamay.controller.tasks.generators import generators
from gamay.controller.tasks.types.merge_rollup import (
    LEVEL_KEY,
    _at_once,
    _cut,
    _next_buckets,
    being_replaced,
    by_partition,
    candidates,
)
from gamay.controller.tasks.types.realtime_to_offline_segments import next_window
from gamay.model.merge_task_settings import MergeRollupSettings, RealtimeToOfflineSettings
from gamay.model.rules.merge_tasks import check_merge_task
from gamay.model.rules.validation import validate_table_config
from gamay.model.rules.without_effect import without_effect
from gamay.model.schema.schema import Schema
from gamay.model.table.merging import MergeFunction, MergeType
from gamay.model.table.table_config import TableConfig

DAY = 86_400_000
LEVELS = {
    "day.bucketTimePeriod": "1d",
    "day.bufferTimePeriod": "1d",
    "week.bucketTimePeriod": "7d",
    "week.bufferTimePeriod": "1d",
    "week.mergeType": "rollup",
    "week.aggregationFunctionParameters.users.nominalEntries": "512",
    "users.aggregationType": "distinctCountThetaSketch",
}


def record(name: str, first_day: float, last_day: float, level: str = "", partitions: tuple[int, ...] = ()) -> SegmentRecord:
    held = {"columnPartitionMap": {"id": {"partitions": partitions}}}
    return SegmentRecord(
        name, 1, 10, int(first_day * DAY), int(last_day * DAY), status=DONE,
        partition_metadata=orjson.dumps(held).decode() if partitions else "", custom={LEVEL_KEY: level} if level else {},
    )  # fmt: skip


def buckets(level: int, records: list[SegmentRecord], start: float, until: float, parallel: int = 1) -> list[Any]:
    levels = MergeRollupSettings.of(LEVELS).levels
    ranks = {one.name: rank for rank, one in enumerate(levels)}
    found = _next_buckets(levels[level], level, ranks, records, int(start * DAY), int(until * DAY))
    chosen = _at_once(list(found), parallel)
    return [(one.start_ms / DAY, [r.name for r in one.records]) for one in chosen]


def test_buckets_are_merged_in_their_order_once_they_are_over() -> None:
    records = [record("a", 0, 0.5), record("b", 0.5, 0.9), record("c", 2, 2.5), record("d", 4, 4.2)]
    assert buckets(0, records, 0, 0.9) == []
    assert buckets(0, records, 0, 1) == [(0, ["a", "b"])]
    assert buckets(0, records, 0, 9, 2) == [(0, ["a", "b"]), (2, ["c"])]
    assert buckets(0, records, 3, 9, 5) == [(4, ["d"])]
    spilled = [record("a", 0, 1.5), record("b", 1.1, 1.9), record("c", 2, 2.1)]
    assert buckets(0, spilled, 0, 9, 5) == [(0, ["a"])]


def test_a_level_merges_what_the_one_before_has_merged() -> None:
    records = [record("a", 0, 0.5, "day"), record("b", 1, 1.5)]
    assert buckets(0, records, 0, 9) == [(1, ["b"])]
    assert buckets(1, records, 0, 9) == []
    assert buckets(1, [record("a", 0, 0.5, "day"), record("b", 1, 1.5, "week")], 0, 9) == [(0, ["a", "b"])]
    assert buckets(1, [record("b", 1, 1.5, "week")], 0, 9) == buckets(0, [record("b", 1, 1.5, "week")], 0, 9) == []


def test_tasks_are_cut_by_partition_and_rows() -> None:
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {
            "segmentPartitionConfig": {"columnPartitionMap": {"id": {"functionName": "Modulo", "numPartitions": 4}}}
        },
    }
    config = TableConfig.from_json(document).value
    records = [record("a", 0, 1, "", (1,)), record("b", 0, 1, "", (1, 2)), record("c", 0, 1), record("d", 0, 1, "", (1,))]
    assert {k: [r.name for r in group] for k, group in by_partition(config, records).items()} == {
        (1,): ["a", "d"],
        None: ["b", "c"],
    }
    assert [[r.name for r in group] for group in _cut(records, 20)] == [["a", "b"], ["c", "d"]]
    assert [[r.name for r in group] for group in _cut(records, 15)] == [["a", "b"], ["c", "d"]]
    assert [len(group) for group in _cut(records, 5)] == [1, 1, 1, 1]
    assert [len(group) for group in _cut(records, 30)] == [3, 1]
    assert [len(group) for group in _cut(records * 2000, 1 << 40)] == [4000, 4000]


def test_segments_that_somebody_replaces_are_left_alone() -> None:
    def entry(name: str, *after: str, state: LineageState = LineageState.IN_PROGRESS) -> LineageEntry:
        return LineageEntry(name, (f"of {name}",), after, state, 0)

    entries = [entry("a", "new"), entry("b"), entry("c", "merged_1"), entry("d", "merged_1", "new")]
    lineage = Lineage("t", {one.id: one for one in (*entries, entry("e", "new", state=LineageState.REVERTED))})
    assert being_replaced(lineage) == {"of a", "of b", "of d"}


def test_a_window_is_moved_once_its_rows_are_complete() -> None:
    def llc(sequence: int, first_day: float, last_day: float, partition: int = 0) -> SegmentRecord:
        return record(f"t__{partition}__{sequence}__20260101T0000Z", first_day, last_day)

    def window(records: list[SegmentRecord], start: float, until: float) -> Any:
        found = next_window(records, int(start * DAY), DAY, int(until * DAY))
        return None if found is None else (found[0] / DAY, [r.name.split("__")[2] for r in found[1]])

    records = [llc(0, 0, 0.6), llc(1, 0.6, 1.2), llc(2, 3.1, 3.4)]
    assert window(records, 0, 0.9) is None
    assert window(records, 0, 9) == (0, ["0", "1"])
    assert window(records, 1, 9) == (1, ["1"])
    assert window(records, 2, 9) is None  # day 3 goes on
    assert window([*records, llc(3, 3.5, 4.1)], 2, 9) == (3, ["2", "3"])
    assert window([*records, llc(0, 1.1, 1.3, partition=1)], 1, 9) is None
    assert window(records, 5, 9) is None


def test_what_is_remembered_is_written_by_version(tmp_path: Path) -> None:
    store = EmbeddedStore.open(tmp_path / "metadata.db", SYSTEM_CLOCK)
    assert read_memory(store, "t", "X") == TaskMemory("t")
    first = write_memory(store, "X", TaskMemory("t", 5).with_level("day", 7))
    assert read_memory(store, "t", "X") == first
    write_memory(store, "X", first)
    with pytest.raises(ConflictError):
        write_memory(store, "X", first)
    with pytest.raises(ConflictError):
        write_memory(store, "X", TaskMemory("t"))
    forget_table(store, "t")
    assert read_memory(store, "t", "X") == TaskMemory("t")


def test_settings_of_levels() -> None:
    settings = MergeRollupSettings.of({**LEVELS, "day.eraseDimensionValues": "a, b", "mode": "processAll"})
    assert [level.name for level in settings.levels] == ["day", "week"]
    day, week = (level.form for level in settings.levels)
    assert (day.erased, day.merge_type, week.merge_type) == (("a", "b"), MergeType.CONCAT, MergeType.ROLLUP)
    assert week.metrics["users"].function is MergeFunction.THETA
    assert (day.metrics["users"].parameters, week.metrics["users"].parameters) == ({}, {"nominalEntries": 512.0})
    for level in settings.levels:
        assert MergeRollupSettings.form_of(level.name, level.given) == level.form
    assert RealtimeToOfflineSettings.of({"collectorType": "dedup"}).form.merge_type is MergeType.DEDUP


SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "users", "dataType": "BYTES"}],
        "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
    }
).value


def table(task_type: str, given: dict[str, str], **parts: Any) -> TableConfig:
    document = {
        "tableName": "t",
        "tableType": "OFFLINE" if task_type == "MergeRollupTask" else "REALTIME",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "ingestionConfig": {},
        "task": {"taskTypeConfigsMap": {task_type: given}},
        **parts,
    }
    if document["tableType"] == "REALTIME":
        stream = {"streamType": "log", "stream.log.topic.name": "t", "stream.log.decoder.class.name": "JSONMessageDecoder"}
        document["ingestionConfig"] = {"streamIngestionConfig": {"streamConfigMaps": [stream]}}
    return TableConfig.from_json(document).value


REFRESH = {"ingestionConfig": {"batchIngestionConfig": {"segmentIngestionType": "REFRESH"}}}


@pytest.mark.parametrize(
    ("given", "parts", "problem"),
    [
        ({}, {}, "has no level: set LEVEL.bucketTimePeriod"),
        ({"day.bucketTimePeriod": "1d"}, {}, "day.bufferTimePeriod is missing"),
        ({"a day.bucketTimePeriod": "1d"}, {}, "the level 'a day' becomes part of segment names"),
        ({**LEVELS, "day.bucketTimePeriod": "0d"}, {}, "day.bucketTimePeriod must be greater than 0"),
        ({**LEVELS, "day.bucketTimePeriod": "7d"}, {}, "the levels day and week have buckets of the same length"),
        ({**LEVELS, "day.roundBucketTimePeriod": "5h"}, {}, "'5h' does not divide day.bucketTimePeriod '1d'"),
        ({**LEVELS, "day.mergeType": "SUM"}, {}, "one of CONCAT, ROLLUP, DEDUP"),
        ({**LEVELS, "mode": "sometimes"}, {}, "mode is 'sometimes'"),
        ({**LEVELS, "day.maxNumRecordsPerTask": "0"}, {}, "1 or more"),
        ({**LEVELS, "day.eraseDimensionValues": "citi"}, {}, "'citi' is not a dimension. Did you mean 'city'"),
        ({**LEVELS, "m.aggregationType": "SUM"}, {}, "'m' is not a metric of the schema"),
        ({**LEVELS, "users.aggregationType": "SUM"}, {}, "users.aggregationType: SUM has no parameters"),
        ({k: v for k, v in LEVELS.items() if "users" not in k}, {}, "users.aggregationType is SUM.*BYTES.*DISTINCTCOUNTHLL"),
        (LEVELS, {"segmentsConfig": {"replication": "1"}}, "needs segmentsConfig.timeColumnName"),
        (LEVELS, REFRESH, "not for those that a push replaces"),
    ],
)
def test_wrong_settings_of_merge_rollup_are_refused(given: dict[str, str], parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem):
        validate_table_config(table("MergeRollupTask", given, **parts), SCHEMA)


@pytest.mark.parametrize(
    ("given", "parts", "problem"),
    [
        ({"bucketTimePeriod": "x"}, {}, "not a period"),
        ({"segmentNamePrefix": "a/b"}, {}, "segmentNamePrefix 'a/b' becomes part"),
        ({"mergeType": "CONCAT", "collectorType": "CONCAT"}, {}, "set one of them"),
        ({}, {"tableType": "OFFLINE"}, "is set in the REALTIME table"),
    ],
)
def test_wrong_settings_of_realtime_to_offline_are_refused(
    given: dict[str, str], parts: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidConfigError, match=problem):
        validate_table_config(table("RealtimeToOfflineSegmentsTask", given, **parts), SCHEMA)


def test_keys_of_no_task_are_told() -> None:
    assert generators().keys() >= {"MergeRollupTask", "RealtimeToOfflineSegmentsTask"}
    validate_table_config(table("MergeRollupTask", LEVELS), SCHEMA)
    assert not [one for one in without_effect(table("MergeRollupTask", LEVELS)) if "taskTypeConfigsMap" in one]
    (told,) = without_effect(table("MergeRollupTask", {**LEVELS, "day.bucketTime": "1d"}))
    assert told.startswith("task.taskTypeConfigsMap.MergeRollupTask.day.bucketTime means nothing to this task.")


@dataclass
class Known:
    """The inputs of a generator."""

    config: TableConfig
    records: list[SegmentRecord]
    lineage: Lineage

    def completed_segments(self) -> list[SegmentRecord]:
        return self.records

    @property
    def table(self) -> str:
        return self.config.typed_name

    @property
    def registry(self) -> Any:
        return SimpleNamespace(get_lineage=lambda _: self.lineage)


def test_which_segments_may_be_merged() -> None:
    retention = {"retentionTimeUnit": "DAYS", "retentionTimeValue": "10"}
    segments = {"timeColumnName": "ts", "replication": "1", **retention}
    records = [
        record("late", 8, 9),
        record("early", 7, 8),
        record("old", 1, 2),
        replace(record("empty", 7, 8), total_docs=0),
        replace(record("timeless", 0, 0), start_time_ms=-1, end_time_ms=-1),
        replace(record("apart", 7, 8), custom={"shouldNotMerge": "True"}),
        record("t__0__0__20260101T0000Z", 7, 8),
        record("t__0__1__20260101T0000Z", 8, 9),
    ]

    def found(task_type: str, **given: str) -> list[str]:
        known: Any = Known(table(task_type, {}, segmentsConfig=segments), records, Lineage("t"))
        return [one.name for one in candidates(known, MergeRollupSettings.of({**LEVELS, **given}), 12 * DAY)]

    first, last = (f"t__0__{n}__20260101T0000Z" for n in range(2))
    assert found("MergeRollupTask") == ["old", "early", first, "late", last]
    assert found("RealtimeToOfflineSegmentsTask") == ["old", "early", first, "late"]  # of a REALTIME table
    assert found("MergeRollupTask", retentionExpiryBufferPeriod="1d") == ["early", first, "late", last]


def test_tasks_that_users_ask_for_are_held_to_the_same_rules() -> None:
    keyed = table("RealtimeToOfflineSegmentsTask", {}, upsertConfig={"mode": "FULL"})
    for task_type, given in (("MergeRollupTask", LEVELS), ("RealtimeToOfflineSegmentsTask", {})):
        with pytest.raises(InvalidConfigError, match="not for tables with upsertConfig"):
            check_merge_task(keyed, SCHEMA, task_type, given)
    check_merge_task(table("RealtimeToOfflineSegmentsTask", {}), SCHEMA, "MergeRollupTask", LEVELS)
