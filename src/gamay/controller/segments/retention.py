"""Retention: deletion of segments past their table's retention, remains of replacements, and expired set-aside copies."""

import logging
from dataclasses import dataclass, replace

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.cluster.records.records import Lineage
from gamay.cluster.records.retention import expired, served_offline, stale_lineage
from gamay.controller.context import ControllerContext
from gamay.controller.segments.segments import SegmentManager
from gamay.controller.segments.untracked import set_aside_untracked
from gamay.controller.tables.hybrid_boundary import boundary_ms
from gamay.controller.tables.tables import TableManager
from gamay.model.cluster_settings import HYBRID_RETENTION, RETENTION_BY_CREATION_TIME
from gamay.model.table.table_name import TableType
from gamay.model.units import parse_period

_log = logging.getLogger(__name__)
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class RetentionManager:
    """Manager of the retention of all tables."""

    context: ControllerContext
    tables: TableManager
    segments: SegmentManager

    def run(self) -> None:
        """Apply the retention of every table once; a table with damaged records does not affect the others."""
        for table in self.tables.names():
            try:
                self.apply(table)
            except (GamayError, OSError) as error:
                _log.error("the retention of table %s could not be applied: %s", table, error)
        self.context.deep_store.purge(self.context.clock.now_ms())

    def apply(self, table: str) -> None:
        """Delete the segments of a typed table that are too old, and the remains of its replacements."""
        config, registry = self.tables.get(table), self.context.registry
        now_ms = self.context.clock.now_ms()
        settings, records = registry.cluster_config(), list(registry.segments(table))
        ideal, lineage = registry.must_get_ideal_state(table), registry.get_lineage(table)
        old = None
        if HYBRID_RETENTION.flag(settings):
            old = served_offline(config, records, lineage, boundary_ms(registry, table))
        if old is None:
            by_creation = RETENTION_BY_CREATION_TIME.flag(settings)
            old = expired(config, records, ideal.states, lineage, now_ms, by_creation_time=by_creation)
        replaced_ms = _period_ms(config.segments.replaced_segments_retention_period)
        if not config.replaces_all:
            replaced_ms = 0
        entry_ms = _period_ms(config.segments.lineage_entry_cleanup_retention_period)
        remains, entries = stale_lineage(lineage, ideal.states, now_ms, replaced_ms, entry_ms)
        gone = sorted({*old, *remains})
        if gone:
            _log.info("table %s: %d segments are past their retention, the first is %s", table, len(gone), gone[0])
            self.segments.delete_unchecked(table, gone, self.tables.kept_until(self.tables.document(table), None))
        if config.table_type is TableType.OFFLINE:  # for REALTIME tables, the more frequent repair of consumption does this
            set_aside_untracked(self.context, config, self.tables.kept_until(self.tables.document(table), None))
        if entries:
            registry.update_lineage(table, lambda current: _without(current, lineage, entries))


def _without(current: Lineage, seen: Lineage, entries: list[str]) -> Lineage:
    """Remove entries from the lineage, unless they were changed since they were read."""
    kept = {i: entry for i, entry in current.entries.items() if i not in entries or entry != seen.entries.get(i)}
    return replace(current, entries=kept)


def _period_ms(text: str | None) -> int:
    if text is None:
        return _DAY_MS
    try:
        return parse_period(text)
    except InvalidConfigError:
        return _DAY_MS
