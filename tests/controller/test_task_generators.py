"""Which segments tasks select, when tasks are due, and their settings in table configs."""

from typing import Any

import fsspec
import pytest

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.records import DONE, SegmentRecord
from gamay.cluster.tasks.consensus import Refused, Replica, agreed
from gamay.controller.tasks.input_files import named_files
from gamay.controller.tasks.lead import TaskTimes
from gamay.controller.tasks.limits import limits_of
from gamay.controller.tasks.scheduling import _deletable
from gamay.controller.tasks.types.upsert_compact_merge import MERGED_KEY, already_merged, choose_groups
from gamay.controller.tasks.types.upsert_compaction import choose
from gamay.controller.tasks.valid_docs import DocCounts
from gamay.model.cron import CronSchedule
from gamay.model.rules.validation import validate_table_config
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.task_settings import MergeSettings
from gamay.storage.fetchers import Fetchers
from gamay.storage.settings import StorageSettings


def record(partition: int, sequence: int, **more: Any) -> SegmentRecord:
    name = f"t__{partition}__{sequence}__20260101T0000Z"
    return SegmentRecord(name, 1, 100, creation_time_ms=sequence, download_url="x", status=DONE, **more)


def test_compaction_takes_what_is_above_both_thresholds_most_first() -> None:
    records = [record(0, i) for i in range(5)]
    valid = [100, 90, 40, 0, 95]
    counts = {r.name: DocCounts(100, v) for r, v in zip(records, valid, strict=True)}
    chosen, deleted = choose(records, counts, 0.0, 1)
    assert [r.creation_time_ms for r in chosen] == [2, 1, 4]
    assert deleted == [records[3].name]
    assert [r.creation_time_ms for r in choose(records, counts, 10.0, 1)[0]] == [2, 1]
    assert [r.creation_time_ms for r in choose(records, counts, 0.0, 11)[0]] == [2]
    assert choose(records, {}, 0.0, 1) == ([], [])


def test_the_last_segment_of_a_partition_stays() -> None:
    names = [record(p, s).name for p in range(2) for s in (9, 10)]
    assert _deletable([*names, "other"], names) == [names[0], names[2], "other"]


def test_merging_packs_in_order_of_creation() -> None:
    records = [record(0, i) for i in (3, 1, 2, 0)] + [record(1, 0)]
    counts = {r.name: DocCounts(100, v, 1000) for r, v in zip(records, (50, 10, 90, 60, 1), strict=True)}

    def groups(**given: str) -> dict[int, list[int]]:
        found = choose_groups(records, counts, MergeSettings.of(given))
        return {p: [r.creation_time_ms for r in group.records] for p, group in found.items()}

    assert groups() == {0: [0, 1, 2, 3]}
    assert groups(minNumSegmentsPerTask="1") == {0: [0, 1, 2, 3], 1: [0]}
    assert groups(maxNumSegmentsPerTask="2") == {0: [0, 1]}  # 130 invalid rows, against 60
    assert groups(maxNumRecordsPerSegment="100") == {0: [0, 1]}
    assert groups(maxNumRecordsPerTask="300") == {0: [0, 1]}
    assert groups(outputSegmentMaxSize="710B") == {0: [0, 1]}
    assert groups(maxNumSegmentsPerTask="3", minNumSegmentsPerTask="4") == {}


def test_what_was_merged_is_not_merged_again() -> None:
    assert already_merged([record(0, 1, custom={MERGED_KEY: "a,b"}), record(0, 2)]) == {"a", "b"}


def replica(server: str, valid: int, docs: str = "x", status: str = "GOOD", crc: str = "1") -> Replica[str]:
    return Replica(server, status, crc, valid, docs)


def test_replicas_must_agree() -> None:
    same, other, less = replica("a", 5), replica("b", 5, "y"), replica("b", 4)
    starting, old = replica("b", 5, status="STARTING"), replica("b", 5, crc="2")
    assert agreed("EQUAL", [same, replica("b", 5)], ["a", "b"], "1") == same
    for wrong in (other, less, starting, old):
        assert isinstance(agreed("EQUAL", [same, wrong], ["a", "b"], "1"), Refused)
    refused = agreed("EQUAL", [same], ["a", "b"], "1")
    assert refused == Refused("no answer from b")
    assert agreed("EQUAL", [same, old], ["a", "b"], "1", ignore_crc=True) == same
    assert agreed("MOST_VALID_DOCS", [less, same], ["a", "b"], "1") == same
    assert isinstance(agreed("MOST_VALID_DOCS", [same, starting], ["a", "b"], "1"), Refused)
    assert agreed("UNSAFE", [starting, old, same], ["a", "b", "c"], "1") == same
    assert isinstance(agreed("UNSAFE", [], ["a"], "1"), Refused)


def test_tasks_are_due_once_each_time() -> None:
    times, key = TaskTimes(), ("t_REALTIME", "X")
    times.update({key: CronSchedule("0 * * * * ?")}, -1000, 0)
    assert times.next_ms() == 60_000
    assert times.take_due(59_999, None) == ([], False)
    assert times.take_due(60_000, None) == ([key], False)
    assert times.take_due(60_001, None) == ([], False)
    assert times.take_due(500_000, 10_000) == ([], False)  # too late
    assert times.take_due(540_000, 10_000) == ([key], False)
    times.update({}, 7_000, 540_000)
    assert times.take_due(547_000, None) == ([], True)
    assert times.next_ms() == 554_000


def test_limits_are_those_of_the_tag_before_those_of_the_type() -> None:
    settings = {
        "X.timeoutMs": "5",
        "X.gpu.timeoutMs": "7",
        "X.maxAttemptsPerTask": "3",
        "X.numConcurrentTasksPerInstance": "no",
    }
    found = limits_of("X", "gpu", settings)
    assert (found.timeout_ms, found.attempts, found.per_minion, found.tag) == (7, 3, 1, "gpu")
    assert limits_of("X", "cpu", settings).timeout_ms == 5


SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "id", "dataType": "STRING"}, {"name": "gone", "dataType": "BOOLEAN"}],
        "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
        "primaryKeyColumns": ["id"],
    }
).value


def check(tasks: dict[str, dict[str, str]], **upsert: Any) -> None:
    stream = {"streamType": "log", "stream.log.topic.name": "t", "stream.log.decoder.class.name": "JSONMessageDecoder"}
    document = {
        "tableName": "t",
        "tableType": "REALTIME",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "routing": {"instanceSelectorType": "strictReplicaGroup"},
        "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [stream]}},
        "task": {"taskTypeConfigsMap": tasks},
        **({"upsertConfig": {"mode": "FULL", **upsert}} if upsert.pop("is_upsert", True) else {}),
    }
    validate_table_config(TableConfig.from_json(document).value, SCHEMA)


COMPACT = {"invalidRecordsThresholdCount": "10"}


@pytest.mark.parametrize(
    ("tasks", "upsert", "problem"),
    [
        ({"UpsertCompactionTask": {}}, {}, "needs invalidRecordsThresholdPercent or"),
        ({"UpsertCompactionTask": COMPACT}, {"is_upsert": False}, "is for REALTIME tables with upsertConfig"),
        ({"UpsertCompactionTask": COMPACT}, {"metadataTTL": 5}, "metadataTTL exclude each other"),
        ({"UpsertCompactionTask": COMPACT}, {"snapshot": "DISABLE"}, "needs snapshots"),
        ({"UpsertCompactionTask": {**COMPACT, "validDocIdsType": "IN_MEMORY_WITH_DELETE"}}, {}, "deleteRecordColumn"),
        ({"UpsertCompactionTask": {**COMPACT, "validDocIdsType": "ALL"}}, {}, "one of SNAPSHOT"),
        ({"UpsertCompactionTask": {"invalidRecordsThresholdPercent": "101"}}, {}, "from 0 to 100"),
        ({"UpsertCompactionTask": {"invalidRecordsThresholdCount": "0"}}, {}, "1 or more"),
        ({"UpsertCompactionTask": {**COMPACT, "bufferTimePeriod": "soon"}}, {}, "not a period"),
        ({"UpsertCompactionTask": {**COMPACT, "schedule": "daily"}}, {}, "not a schedule"),
        ({"UpsertCompactMergeTask": {}}, {"snapshot": "DISABLE"}, "needs snapshots"),
        ({"UpsertCompactMergeTask": {"outputSegmentMaxSize": "big"}}, {}, "not a data size"),
        (
            {"UpsertCompactMergeTask": {"minNumSegmentsPerTask": "1"}, "UpsertCompactionTask": COMPACT},
            {},
            "must be 2 or more beside",
        ),
    ],
)
def test_wrong_task_configs_are_refused(tasks: dict[str, dict[str, str]], upsert: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem):
        check(tasks, **upsert)


def test_right_task_configs_are_taken() -> None:
    check({"UpsertCompactionTask": COMPACT, "UpsertCompactMergeTask": {}, "OtherTask": {"any": "thing"}})


def test_files_in_a_bucket_are_found_while_they_come(s3: Any) -> None:
    fetchers = Fetchers(StorageSettings({"s3": s3.options}))
    writer = fsspec.filesystem("s3", skip_instance_cache=True, **s3.options)  # of another process, as it were
    folder = f"s3://{s3.bucket}/task-files/"
    for name in ("a.csv", "2024/b.csv", "_SUCCESS", "c.json", "drop.csv"):
        writer.pipe_file(folder + name, b"x")

    def found() -> list[str]:
        files = named_files(fetchers, "inputDirURI", folder, "glob:**/*.csv", "glob:**/d*")
        return [file.uri.removeprefix(folder) for file in files]

    assert found() == ["2024/b.csv", "a.csv"]
    writer.pipe_file(folder + "later.csv", b"x")
    assert found() == ["2024/b.csv", "a.csv", "later.csv"]
    with pytest.raises(
        InvalidConfigError, match=r"inputDirURI: Unsupported URI: gs://other/in/ .* gamay.ingest.allowed_uris"
    ):
        named_files(fetchers, "inputDirURI", "gs://other/in/")
    with pytest.raises(InvalidConfigError, match="must name the host"):
        named_files(Fetchers(StorageSettings(allowed_uris=("https",))), "inputDirURI", "https://example.com/a.csv")
