"""`MergeRollupTask`: the segments of a time bucket are merged into few, level by level, from short buckets to long ones.

The buckets of a level are merged in time order. The watermark of a level, written before its tasks are created, is the
start of the first bucket that they merge; the next run begins there, so a bucket whose tasks failed is tried again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from gamay.cluster.records.records import Lineage, LineageState, SegmentRecord
from gamay.cluster.records.retention import last_completed, retention_ms
from gamay.cluster.tasks.memory import TaskMemory, read_memory, write_memory
from gamay.controller.tasks.spi import GeneratorInput, TaskPlan
from gamay.model.merge_task_settings import MergeLevel, MergeRollupSettings
from gamay.model.rules.merge_tasks import check_merge_task
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.task_settings import MERGE_ROLLUP, known_task_keys

LEVEL_KEY = f"{MERGE_ROLLUP}.mergeLevel"
_KEPT_APART = "shouldNotMerge"
_PREFIX = "merged_"
_SEGMENTS_MAX = 4000  # per subtask, since its record lists their names
Partitions: TypeAlias = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A time bucket, and the segments with rows in it. spilled: whether one of them also has rows outside."""

    start_ms: int
    records: tuple[SegmentRecord, ...]
    spilled: bool


class MergeRollupGenerator:
    """Generator of the subtasks of all levels without unfinished ones."""

    task_type = MERGE_ROLLUP
    keys = known_task_keys(MERGE_ROLLUP)
    max_tasks = 0

    def plan(self, wanted: GeneratorInput) -> TaskPlan:
        """Return a subtask for each group of segments of the next buckets."""
        check_merge_task(wanted.config, wanted.schema(), MERGE_ROLLUP, wanted.given)
        settings = MergeRollupSettings.of(wanted.given)
        now_ms = wanted.clock.now_ms()
        records = candidates(wanted, settings, now_ms)
        if not records:
            return TaskPlan()
        memory = read_memory(wanted.registry.store, wanted.table, MERGE_ROLLUP)
        busy = {config.get("mergeLevel") for config in wanted.working}
        ranks = {level.name: rank for rank, level in enumerate(settings.levels)}
        subtasks: list[Mapping[str, str]] = []
        done_until: int | None = None  # the end of what the previous level has merged; None for the first level
        after = memory
        for rank, level in enumerate(settings.levels):
            start = _first_bucket(level, records, None if settings.process_all else memory.levels.get(level.name))
            if level.name in busy:
                done_until = start
                continue
            until = now_ms - level.form.buffer_ms
            if done_until is not None and not settings.process_all:
                until = min(until, done_until)
            every = list(_next_buckets(level, rank, ranks, records, start, until))
            buckets = _at_once(every, level.parallel_buckets)
            done_until = buckets[0].start_ms if buckets else max(start, until // level.form.bucket_ms * level.form.bucket_ms)
            watermark = buckets[0].start_ms if buckets else start
            delay = (min(now_ms - level.form.buffer_ms, records[-1].end_time_ms) - watermark) // level.form.bucket_ms
            after = after.with_level(level.name, watermark, max(delay, 0), len(every))
            subtasks += _subtasks(wanted.config, level, buckets, now_ms)
        _remember(wanted, memory, after)
        return TaskPlan(subtasks)


def candidates(wanted: GeneratorInput, settings: MergeRollupSettings, now_ms: int) -> list[SegmentRecord]:
    """Return the segments that may be merged, by time."""
    records = wanted.completed_segments()
    kept_ms = retention_ms(wanted.config)
    oldest_ms = 0
    if settings.retention_buffer_ms is not None and kept_ms is not None:
        oldest_ms = now_ms - kept_ms + settings.retention_buffer_ms
    last = last_completed(records) if wanted.config.table_type is TableType.REALTIME else set()
    taken = being_replaced(wanted.registry.get_lineage(wanted.table))
    found = [
        record
        for record in records
        if record.total_docs > 0
        and record.start_time_ms >= 0
        and record.end_time_ms >= oldest_ms
        and record.custom.get(_KEPT_APART, "").lower() != "true"
        and record.name not in last
        and record.name not in taken
    ]
    return sorted(found, key=lambda record: (record.start_time_ms, record.end_time_ms, record.name))


def being_replaced(lineage: Lineage) -> set[str]:
    """Return the segments that other clients are replacing; entries left open by failed merge attempts do not count."""
    return {
        name
        for entry in lineage.entries.values()
        if entry.state is LineageState.IN_PROGRESS
        and not (entry.segments_to and all(new.startswith(_PREFIX) for new in entry.segments_to))
        for name in entry.segments_from
    }


def _first_bucket(level: MergeLevel, records: Sequence[SegmentRecord], watermark_ms: int | None) -> int:
    bucket_ms = level.form.bucket_ms
    return (records[0].start_time_ms if watermark_ms is None else watermark_ms) // bucket_ms * bucket_ms


def _next_buckets(
    level: MergeLevel, rank: int, ranks: Mapping[str, int], records: Sequence[SegmentRecord], start_ms: int, until_ms: int
) -> Iterator[Bucket]:
    """Yield the buckets with something to merge."""
    bucket_ms = level.form.bucket_ms
    while start_ms + bucket_ms <= until_ms:
        end_ms = start_ms + bucket_ms
        inside = [r for r in records if r.start_time_ms < end_ms and r.end_time_ms >= start_ms]
        done = [ranks.get(record.custom.get(LEVEL_KEY, ""), -1) for record in inside]
        if inside and min(done) < rank and min(done) >= rank - 1:
            spilled = any(r.start_time_ms < start_ms or r.end_time_ms >= end_ms for r in inside)
            yield Bucket(start_ms, tuple(inside), spilled)
        later = [record.start_time_ms for record in records if record.end_time_ms >= end_ms]
        if not later:
            return
        start_ms = max(end_ms, min(later) // bucket_ms * bucket_ms)


def _at_once(buckets: Sequence[Bucket], most: int) -> Sequence[Bucket]:
    """Return the first buckets, up to the first spilled one, since the next bucket shares a segment with it."""
    spilled = next((n for n, bucket in enumerate(buckets) if bucket.spilled), len(buckets))
    return buckets[: min(most, spilled + 1)]


def _subtasks(config: TableConfig, level: MergeLevel, buckets: Sequence[Bucket], now_ms: int) -> Iterator[Mapping[str, str]]:
    number = 0
    for bucket in buckets:
        for partitions, group in by_partition(config, bucket.records).items():
            for records in _cut(group, level.task_rows):
                apart = "" if partitions is None else "_" + "_".join(map(str, partitions))
                yield {
                    **level.given,
                    "tableName": config.typed_name,
                    "segmentName": ",".join(record.name for record in records),
                    "crc": ",".join(str(record.crc) for record in records),
                    "mergeLevel": level.name,
                    "segmentNamePrefix": f"{_PREFIX}{level.name}_{now_ms}{apart}_{number}_{config.raw_name}",
                }
                number += 1


def by_partition(config: TableConfig, records: Sequence[SegmentRecord]) -> dict[Partitions, list[SegmentRecord]]:
    """Return segments by their single partition of each column; None for those with several or unknown partitions."""
    partitions = config.indexing.segment_partition
    columns = [] if partitions is None else sorted(partitions.columns)
    groups: dict[Partitions, list[SegmentRecord]] = {}
    for record in records:
        groups.setdefault(_partitions_of(record, columns), []).append(record)
    return groups


def _partitions_of(record: SegmentRecord, columns: Sequence[str]) -> Partitions:
    known = orjson.loads(record.partition_metadata or "{}").get("columnPartitionMap") or {}
    held: list[list[int]] = [known.get(column, {}).get("partitions") or [] for column in columns]
    return tuple(one[0] for one in held) if held and all(len(one) == 1 for one in held) else None


def _cut(records: Sequence[SegmentRecord], rows_max: int) -> Iterator[list[SegmentRecord]]:
    """Yield groups that end with the segment that reaches `rows_max` rows, or with the maximum of segments per
    subtask."""
    group: list[SegmentRecord] = []
    rows = 0
    for record in records:
        group.append(record)
        rows += record.total_docs
        if rows >= rows_max or len(group) == _SEGMENTS_MAX:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _remember(wanted: GeneratorInput, before: TaskMemory, after: TaskMemory) -> None:
    if after != before:
        write_memory(wanted.registry.store, MERGE_ROLLUP, after)


GENERATOR = MergeRollupGenerator()
