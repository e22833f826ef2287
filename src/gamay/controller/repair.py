"""Putting the cluster's records in order when the controller starts: whatever a crash interrupted is finished or undone."""

import logging
import shutil
from dataclasses import dataclass

from gamay.controller.context import ControllerContext
from gamay.controller.segments import SegmentManager
from gamay.controller.tables import TableManager

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RepairReport:
    """What was put in order, by kind."""

    unfinished_deletions: int = 0
    unacknowledged_segments: int = 0
    dangling_assignments: int = 0
    untracked_copies: int = 0


def repair(context: ControllerContext, tables: TableManager, segments: SegmentManager) -> RepairReport:
    """Remove what was never acknowledged or already deleted. Must run before the controller accepts requests."""
    report = RepairReport()
    if context.work_dir.exists():
        shutil.rmtree(context.work_dir)
    context.work_dir.mkdir(parents=True)
    for table in list(tables.remains()):
        _log.warning("finishing the interrupted creation or deletion of table %s", table)
        tables.delete_remains(table)
        report.unfinished_deletions += 1
    for table in tables.names():
        _repair_table(context, segments, table, report)
    context.deep_store.purge(context.clock.now_ms())
    return report


def _repair_table(context: ControllerContext, segments: SegmentManager, table: str, report: RepairReport) -> None:
    registry = context.registry
    assigned = set(registry.must_get_ideal_state(table).states)
    recorded = set(registry.segment_names(table))
    # Named in the ideal state without a record: a deletion that was interrupted.
    if dangling := sorted(assigned - recorded):
        _log.warning("table %s: dropping %d segments without a record", table, len(dangling))
        segments.delete_unchecked(table, dangling, None)
        report.dangling_assignments += len(dangling)
    # A record that the ideal state does not name: a push that was never acknowledged, or an interrupted deletion.
    if orphans := sorted(recorded - assigned):
        _log.warning("table %s: removing %d segments that were never acknowledged", table, len(orphans))
        segments.delete_unchecked(table, orphans, None)
        report.unacknowledged_segments += len(orphans)
    referenced = {record.download_url for record in registry.segments(table)}
    for url in list(context.deep_store.urls(table)):
        if url not in referenced:
            _log.warning("table %s: removing the copy %s, which no record refers to", table, url)
            context.deep_store.discard(url, None)
            report.untracked_copies += 1
