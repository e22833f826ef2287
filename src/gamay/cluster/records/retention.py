"""Selection of segments that are past their table's retention. Pure functions."""

from collections.abc import Collection, Iterable, Mapping

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import DONE, IN_PROGRESS, OFFLINE, UPLOADED, Lineage, LineageState, SegmentRecord
from gamay.model.schema.datetime_format import sane_time
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.units import TimeUnit

# consuming segments that were not completed for this long are abandoned
_ABANDONED_MS = 5 * 86_400_000


def retention_ms(config: TableConfig) -> int | None:
    """Return the retention of a table's rows; None for no limit, as for tables that are replaced as a whole."""
    if config.replaces_all:
        return None
    unit, value = config.segments.retention_time_unit, config.segments.retention_time_value
    if not unit or not value:
        return None
    try:
        return TimeUnit.parse(unit).to_millis(int(value))
    except (InvalidConfigError, ValueError):
        return None


def expired(
    config: TableConfig,
    records: Iterable[SegmentRecord],
    ideal: Mapping[str, Mapping[str, str]],
    lineage: Lineage,
    now_ms: int,
    *,
    by_creation_time: bool = False,
) -> list[str]:
    """Return the names of the segments that are older than the table's retention, ascending.

    Kept are: segments without a plausible end time (unless `by_creation_time` uses the creation time instead),
    segments that a replacement needs, and the last completed segment of each stream partition, whose end offset is
    needed.
    ideal: segment -> instance -> state.
    """
    kept_ms = retention_ms(config)
    if kept_ms is None:
        return []
    known = list(records)
    chosen = {r.name for r in known if r.status in (DONE, UPLOADED) and _is_older(r, now_ms - kept_ms, by_creation_time)}
    if config.table_type is TableType.REALTIME:
        chosen |= {r.name for r in known if _is_abandoned(r, ideal, now_ms)}
        chosen -= last_completed(known)
    return sorted(chosen - locked_segments(lineage))


def served_offline(
    config: TableConfig, records: Iterable[SegmentRecord], lineage: Lineage, boundary_ms: int | None
) -> list[str] | None:
    """Return the completed segments of a hybrid table's REALTIME half that end before its time boundary, ascending.

    No query reads them. None if this does not apply: for other tables, and for those without a retention. Unlike
    `expired`, this includes the last completed segment of a partition.
    """
    if config.table_type is not TableType.REALTIME or boundary_ms is None or retention_ms(config) is None:
        return None
    chosen = {r.name for r in records if r.status in (DONE, UPLOADED) and _is_older(r, boundary_ms, by_creation_time=False)}
    return sorted(chosen - locked_segments(lineage))


def last_completed(records: Iterable[SegmentRecord]) -> set[str]:
    """Return the name of the last completed segment of every partition of a stream."""
    last: dict[int, LlcName] = {}
    for record in records:
        name = LlcName.parse(record.name)
        if name is not None and record.status == DONE:
            before = last.get(name.partition)
            if before is None or name.sequence > before.sequence:
                last[name.partition] = name
    return {str(name) for name in last.values()}


def locked_segments(lineage: Lineage) -> set[str]:
    """Return the segments that a replacement needs: both sides of an open one, the replaced ones of a completed one."""
    locked: set[str] = set()
    for entry in lineage.entries.values():
        if entry.state is LineageState.IN_PROGRESS:
            locked.update((*entry.segments_from, *entry.segments_to))
        elif entry.state is LineageState.COMPLETED:
            locked.update(entry.segments_from)
    return locked


def stale_lineage(
    lineage: Lineage, existing: Collection[str], now_ms: int, replaced_ms: int, entry_ms: int
) -> tuple[list[str], list[str]]:
    """Return (segments to delete, ids of entries to remove) of a table's lineage.

    Replaced segments are deleted `replaced_ms` after the replacement was completed. The new segments of a replacement
    that was reverted, or not ended for `entry_ms`, are deleted, too. An entry is removed once none of the segments that
    it hides exists.
    """
    segments: list[str] = []
    entries: list[str] = []
    for entry in lineage.entries.values():
        age_ms = now_ms - entry.timestamp_ms
        if entry.state is LineageState.COMPLETED:
            hidden, is_due = entry.segments_from, age_ms >= replaced_ms
        else:
            hidden, is_due = entry.segments_to, entry.state is LineageState.REVERTED or age_ms >= entry_ms
        left = [name for name in hidden if name in existing]
        if is_due and left:
            segments += left
        elif not left and (entry.state is LineageState.COMPLETED or age_ms >= entry_ms):
            entries.append(entry.id)
    return segments, entries


def _is_older(record: SegmentRecord, limit_ms: int, by_creation_time: bool) -> bool:
    if sane_time(record.end_time_ms):
        return record.end_time_ms < limit_ms
    return by_creation_time and 0 <= record.creation_time_ms < limit_ms


def _is_abandoned(record: SegmentRecord, ideal: Mapping[str, Mapping[str, str]], now_ms: int) -> bool:
    if record.status != IN_PROGRESS or now_ms - record.creation_time_ms < _ABANDONED_MS:
        return False
    return set(ideal.get(record.name, {}).values()) <= {OFFLINE}
