"""`UpsertCompactMergeTask`: merges the valid rows of several small segments of a partition into one.

The new segment has a later creation time than its inputs, so it wins every tie; the inputs then have no valid rows, and a
later run deletes them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gamay.cluster.records.llc_name import partition_of
from gamay.cluster.records.records import SegmentRecord
from gamay.controller.tasks.spi import GeneratorInput, TaskPlan
from gamay.controller.tasks.valid_docs import DocCounts, doc_counts
from gamay.model.table.table_config import TableConfig
from gamay.model.task_settings import UPSERT_COMPACT_MERGE, MergeSettings, known_task_keys
from gamay.model.units import TimeUnit

MERGED_KEY = f"{UPSERT_COMPACT_MERGE}.mergedSegments"
_KIND = "SNAPSHOT"
_PREFIX = "compacted"


@dataclass(frozen=True, slots=True)
class Group:
    """Segments of one partition to be merged. invalid: their invalid rows."""

    records: tuple[SegmentRecord, ...]
    invalid: int


class UpsertMergeGenerator:
    """Generator of at most one subtask for each partition."""

    task_type = UPSERT_COMPACT_MERGE
    keys = known_task_keys(UPSERT_COMPACT_MERGE)
    max_tasks = 1

    def plan(self, wanted: GeneratorInput) -> TaskPlan:
        """Return the partitions with the most invalid rows first; nothing while a task of the table is unfinished."""
        settings = MergeSettings.of(wanted.given)
        if wanted.working:
            return TaskPlan()
        now_ms = wanted.clock.now_ms()
        records = wanted.completed_segments()
        merged = already_merged(records)
        oldest_ms = _retained_from(wanted.config, settings, now_ms)
        candidates = [
            record
            for record in records
            if record.end_time_ms <= now_ms - settings.buffer_ms and record.end_time_ms >= oldest_ms and record.total_docs
        ]
        counts = doc_counts(wanted, candidates, _KIND, settings.consensus)
        deleted = sorted(name for name, found in counts.items() if found.valid == 0)
        mergeable = [r for r in candidates if r.name not in merged and r.download_url]
        groups = choose_groups(mergeable, counts, settings)
        ordered = sorted(groups.items(), key=lambda entry: (-entry[1].invalid, entry[0]))
        configs = [_config(wanted.config, partition, group, settings, now_ms) for partition, group in ordered]
        return TaskPlan(configs, deleted)


def already_merged(records: Collection[SegmentRecord]) -> set[str]:
    """Return the segments whose rows are already in another one."""
    return {name for record in records for name in record.custom.get(MERGED_KEY, "").split(",") if name}


def choose_groups(
    records: Sequence[SegmentRecord], counts: Mapping[str, DocCounts], settings: MergeSettings
) -> dict[int, Group]:
    """Return the best group of each partition: the one with the most invalid rows, then the most segments."""
    partitions: dict[int, list[SegmentRecord]] = {}
    for record in records:
        partition, found = partition_of(record.name), counts.get(record.name)
        if partition is not None and found is not None and found.valid:
            partitions.setdefault(partition, []).append(record)
    chosen: dict[int, Group] = {}
    for partition, mine in partitions.items():
        mine.sort(key=lambda record: (record.creation_time_ms, record.name))
        groups = [g for g in _packed(mine, counts, settings) if len(g.records) >= settings.segments_min]
        if groups:
            chosen[partition] = max(groups, key=lambda group: (group.invalid, len(group.records)))
    return chosen


def _packed(records: Sequence[SegmentRecord], counts: Mapping[str, DocCounts], settings: MergeSettings) -> list[Group]:
    """Cut the segments of a partition, in their order, into groups that fit an output segment and a task."""
    groups: list[Group] = []
    group: list[SegmentRecord] = []
    valid = total = invalid = 0
    size = 0.0

    def close() -> None:
        if group:
            groups.append(Group(tuple(group), invalid))

    for record in records:
        found = counts[record.name]
        expected = max(found.size_bytes, 0) * found.valid / found.total
        fits = (
            valid + found.valid <= settings.segment_rows
            and total + found.total < settings.task_rows
            and len(group) < settings.segments_max
            and (settings.size_max is None or size + expected < settings.size_max)
        )
        if not fits:
            close()
            group, valid, total, invalid, size = [], 0, 0, 0, 0.0
        group.append(record)
        valid, total, invalid = valid + found.valid, total + found.total, invalid + found.invalid
        size += expected
    close()
    return groups


def _retained_from(config: TableConfig, settings: MergeSettings, now_ms: int) -> int:
    """Return the time before which segments are left to retention, -1 for none."""
    unit, value = config.segments.retention_time_unit, config.segments.retention_time_value
    if settings.retention_buffer_ms is None or not unit or not value:
        return -1
    return now_ms - TimeUnit.parse(unit).to_millis(int(value)) + settings.retention_buffer_ms


def _config(config: TableConfig, partition: int, group: Group, settings: MergeSettings, now_ms: int) -> Mapping[str, str]:
    time = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%MZ")
    names = [record.name for record in group.records]
    return {
        "tableName": config.typed_name,
        "segmentName": ",".join(names),
        "crc": ",".join(str(record.crc) for record in group.records),
        "outputSegmentName": f"{_PREFIX}__{config.raw_name}__{partition}__{time}__{now_ms}",
        # later than all inputs, so that the output wins every tie
        "creationTime": str(max(record.creation_time_ms for record in group.records) + 1),
        "validDocIdsConsensusMode": settings.consensus.mode,
        "ignoreCrcMismatch": str(settings.consensus.ignore_crc).lower(),
    }


GENERATOR = UpsertMergeGenerator()
