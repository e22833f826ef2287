"""`RealtimeToOfflineSegmentsTask`: moves the rows of a hybrid table to its OFFLINE half, one time bucket after the
other."""

from collections.abc import Sequence

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.records import SegmentRecord
from gamay.cluster.records.retention import last_completed
from gamay.cluster.tasks.memory import TaskMemory, read_memory, write_memory
from gamay.controller.tasks.spi import GeneratorInput, TaskPlan
from gamay.model.merge_task_settings import RealtimeToOfflineSettings
from gamay.model.rules.merge_tasks import check_merge_task
from gamay.model.table.table_name import TableType, typed_table_name
from gamay.model.task_settings import REALTIME_TO_OFFLINE, known_task_keys


class RealtimeToOfflineGenerator:
    """Generator of one subtask for the bucket after a table's watermark; none while one is unfinished."""

    task_type = REALTIME_TO_OFFLINE
    keys = known_task_keys(REALTIME_TO_OFFLINE)
    max_tasks = 1

    def plan(self, wanted: GeneratorInput) -> TaskPlan:
        """Return the next bucket with rows, once all of them are in completed segments."""
        check_merge_task(wanted.config, wanted.schema(), REALTIME_TO_OFFLINE, wanted.given)
        settings = RealtimeToOfflineSettings.of(wanted.given)
        if wanted.working:
            return TaskPlan()
        offline = typed_table_name(wanted.config.raw_name, TableType.OFFLINE)
        if wanted.registry.get_table_config(offline) is None:
            raise InvalidConfigError(f"{REALTIME_TO_OFFLINE} needs the table {offline} for the rows: create it")
        records = [record for record in wanted.completed_segments() if record.total_docs > 0 and record.start_time_ms >= 0]
        if not records:
            return TaskPlan()
        bucket_ms = settings.form.bucket_ms
        until_ms = wanted.clock.now_ms() - settings.form.buffer_ms
        found = next_window(records, _watermark(wanted, offline, records, bucket_ms), bucket_ms, until_ms)
        if found is None:
            return TaskPlan()
        start_ms, inside = found
        config = {
            **wanted.given,
            "tableName": wanted.table,
            "segmentName": ",".join(record.name for record in inside),
            "crc": ",".join(str(record.crc) for record in inside),
            "windowStartMs": str(start_ms),
            "windowEndMs": str(start_ms + bucket_ms),
        }
        return TaskPlan([config])


def next_window(
    records: Sequence[SegmentRecord], start_ms: int, bucket_ms: int, until_ms: int
) -> tuple[int, list[SegmentRecord]] | None:
    """Return start and segments of the first bucket with rows from `start_ms` on; None if it is not complete yet.

    until_ms: the bucket must end by then. It is incomplete while it overlaps the last completed segment of a stream
    partition and this segment ends before the bucket: more of its rows may still be consumed.
    """
    last = last_completed(records)
    while start_ms + bucket_ms <= until_ms:
        end_ms = start_ms + bucket_ms
        inside = [record for record in records if record.start_time_ms < end_ms and record.end_time_ms >= start_ms]
        if any(record.name in last and record.end_time_ms < end_ms for record in inside):
            return None
        if inside:
            return start_ms, sorted(inside, key=lambda record: (record.start_time_ms, record.end_time_ms, record.name))
        later = [record.start_time_ms for record in records if record.start_time_ms >= end_ms]
        if not later:
            return None
        start_ms += (min(later) - start_ms) // bucket_ms * bucket_ms
    return None


def _watermark(wanted: GeneratorInput, offline: str, records: Sequence[SegmentRecord], bucket_ms: int) -> int:
    """Return the watermark; initially the start of the rows, or the end of those that the OFFLINE half already has."""
    store = wanted.registry.store
    known = read_memory(store, wanted.table, REALTIME_TO_OFFLINE)
    if known.whole is not None:
        return known.whole
    shown = wanted.registry.get_lineage(offline).writers.get(REALTIME_TO_OFFLINE)
    first_ms = min(record.start_time_ms for record in records) // bucket_ms * bucket_ms
    start_ms = first_ms if shown is None else max(first_ms, shown.number)
    write_memory(store, REALTIME_TO_OFFLINE, TaskMemory(wanted.table, start_ms, version=known.version))
    return start_ms


GENERATOR = RealtimeToOfflineGenerator()
