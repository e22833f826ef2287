"""Putting the cluster's records in order: whatever the crash of a controller interrupted is finished or undone."""

import logging
import shutil
from dataclasses import dataclass

from gamay.base.errors import InvalidConfigError
from gamay.cluster.store import paths
from gamay.cluster.store.znrecord import CorruptRecordError
from gamay.controller.context import ControllerContext
from gamay.controller.segments.segments import SegmentManager
from gamay.controller.segments.untracked import set_aside_untracked
from gamay.controller.tables.tables import TableManager

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RepairReport:
    """What was put in order, by kind."""

    unfinished_deletions: int = 0
    unacknowledged_segments: int = 0
    dangling_assignments: int = 0
    untracked_copies: int = 0


def empty_work_dir(context: ControllerContext) -> None:
    """Remove what uploads and builds left behind when this controller ended; before it accepts requests."""
    if context.work_dir.exists():
        shutil.rmtree(context.work_dir)
    context.work_dir.mkdir(parents=True)


def repair(
    context: ControllerContext, tables: TableManager, segments: SegmentManager, settled_ms: int | None = None
) -> RepairReport:
    """Remove what was never acknowledged or already deleted.

    settled_ms: leave alone what was changed since then, for another controller may be at work on it; None when none can be,
    as before this one, the only one, accepts requests.
    """
    report = RepairReport()
    for table in list(tables.remains()):
        if _changed_since(context, settled_ms, paths.ideal_state(table), paths.segments(table)):
            continue
        _log.warning("finishing the interrupted creation or deletion of table %s", table)
        tables.delete_remains(table)
        report.unfinished_deletions += 1
    for table in tables.names():
        try:
            _repair_table(context, segments, table, report, settled_ms)
            if settled_ms is None:
                report.untracked_copies += _set_aside_copies(context, tables, table)
        except CorruptRecordError as error:
            _log.error("table %s is left as it is: %s", table, error)
    context.deep_store.purge(context.clock.now_ms())
    return report


def _repair_table(
    context: ControllerContext, segments: SegmentManager, table: str, report: RepairReport, settled_ms: int | None
) -> None:
    registry = context.registry
    # Records first: what is recorded and assigned later is then neither.
    recorded = set(registry.segment_names(table))
    ideal = registry.get_ideal_state(table)
    if ideal is None:
        return
    assigned = set(ideal.states)
    # Named in the ideal state without a record: a deletion that was interrupted.
    dangling = sorted(assigned - recorded - set(registry.segment_names(table)))
    if dangling:
        _log.warning("table %s: dropping %d segments without a record", table, len(dangling))
        segments.delete_unchecked(table, dangling, None)
        report.dangling_assignments += len(dangling)
    # A record that the ideal state does not name: a push that was never acknowledged, or an interrupted deletion.
    orphans = [
        name for name in sorted(recorded - assigned) if not _changed_since(context, settled_ms, paths.segment(table, name))
    ]
    if orphans:
        _log.warning("table %s: removing %d segments that were never acknowledged", table, len(orphans))
        segments.delete_unchecked(table, orphans, None)
        report.unacknowledged_segments += len(orphans)


def _set_aside_copies(context: ControllerContext, tables: TableManager, table: str) -> int:
    try:
        config = tables.get(table)
    except InvalidConfigError as error:
        _log.error("the deep store's copies of table %s are not looked at, its config cannot be read: %s", table, error)
        return 0
    return set_aside_untracked(context, config, tables.kept_until(tables.document(table), None), of_any_age=True)


def _changed_since(context: ControllerContext, settled_ms: int | None, *nodes: str) -> bool:
    if settled_ms is None:
        return False
    found = context.registry.store.get_many(nodes)
    return any(node is not None and node.modified_ms >= settled_ms for node in found)
