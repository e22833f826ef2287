"""Repair of the cluster's records: operations that the crash of a controller interrupted are completed or rolled back."""

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
    """The numbers of repairs, by kind."""

    unfinished_deletions: int = 0
    unacknowledged_segments: int = 0
    dangling_assignments: int = 0
    untracked_copies: int = 0


def empty_work_dir(context: ControllerContext) -> None:
    """Remove the remains of uploads and builds of an earlier run; to be called before the controller accepts requests."""
    if context.work_dir.exists():
        shutil.rmtree(context.work_dir)
    context.work_dir.mkdir(parents=True)


def repair(
    context: ControllerContext, tables: TableManager, segments: SegmentManager, settled_ms: int | None = None
) -> RepairReport:
    """Remove segments that were never acknowledged, and complete interrupted deletions.

    settled_ms: skip records changed since then, because another controller may be working on them; None if none can
    be, as before the only controller accepts requests.
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
    # records first: a segment that is recorded and assigned afterwards is then in neither set
    recorded = set(registry.segment_names(table))
    ideal = registry.get_ideal_state(table)
    if ideal is None:
        return
    assigned = set(ideal.states)
    # in the ideal state without a record: an interrupted deletion
    dangling = sorted(assigned - recorded - set(registry.segment_names(table)))
    if dangling:
        _log.warning("table %s: dropping %d segments without a record", table, len(dangling))
        segments.delete_unchecked(table, dangling, None)
        report.dangling_assignments += len(dangling)
    # a record that is not in the ideal state: a push that was never acknowledged, or an interrupted deletion
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
        _log.error("the deep store's copies of table %s are not checked, its config cannot be read: %s", table, error)
        return 0
    return set_aside_untracked(context, config, tables.kept_until(tables.document(table), None), of_any_age=True)


def _changed_since(context: ControllerContext, settled_ms: int | None, *nodes: str) -> bool:
    if settled_ms is None:
        return False
    found = context.registry.store.get_many(nodes)
    return any(node is not None and node.modified_ms >= settled_ms for node in found)
