"""`UpsertCompactionTask`: rebuilds segments with many invalid rows without these."""

from collections.abc import Mapping, Sequence

from gamay.cluster.records.records import SegmentRecord
from gamay.controller.tasks.spi import GeneratorInput, TaskPlan
from gamay.controller.tasks.valid_docs import DocCounts, doc_counts
from gamay.model.task_settings import UPSERT_COMPACTION, CompactionSettings, known_task_keys


class UpsertCompactionGenerator:
    """Generator of a subtask for each segment with enough invalid rows."""

    task_type = UPSERT_COMPACTION
    keys = known_task_keys(UPSERT_COMPACTION)
    max_tasks = 0

    def plan(self, wanted: GeneratorInput) -> TaskPlan:
        """Return the segments with the most invalid rows first; nothing while a task of the table is unfinished."""
        settings = CompactionSettings.of(wanted.given)
        if wanted.working:
            return TaskPlan()
        latest_ms = wanted.clock.now_ms() - settings.buffer_ms
        records = [record for record in wanted.completed_segments() if record.total_docs and record.end_time_ms <= latest_ms]
        counts = doc_counts(wanted, records, settings.kind, settings.consensus)
        chosen, deleted = choose(records, counts, settings.percent, settings.count)
        configs = [_config(wanted.table, record, settings) for record in chosen if record.download_url]
        return TaskPlan(configs, deleted)


def choose(
    records: Sequence[SegmentRecord], counts: Mapping[str, DocCounts], percent: float, count: int
) -> tuple[list[SegmentRecord], list[str]]:
    """Return the segments to compact, most invalid rows first, and the segments without valid rows."""
    deleted = [name for name, found in counts.items() if found.valid == 0]
    worth = [
        record
        for record in records
        if (found := counts.get(record.name)) is not None
        and found.valid
        and found.invalid >= count
        and 100 * found.invalid >= percent * found.total
    ]
    return sorted(worth, key=lambda record: (-counts[record.name].invalid, record.name)), sorted(deleted)


def _config(table: str, record: SegmentRecord, settings: CompactionSettings) -> Mapping[str, str]:
    return {
        "tableName": table,
        "segmentName": record.name,
        "downloadURL": record.download_url,
        "crc": str(record.crc),
        "validDocIdsType": settings.kind,
        "validDocIdsConsensusMode": settings.consensus.mode,
        "ignoreCrcMismatch": str(settings.consensus.ignore_crc).lower(),
    }


GENERATOR = UpsertCompactionGenerator()
