"""Copies in the deep store that no record refers to: uploads that were never committed, and remains of a crash.

They are set aside like deleted segments, so that they can be recovered.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.retention import retention_ms
from gamay.controller.context import ControllerContext
from gamay.model.cluster_settings import UNTRACKED_DELETION
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.units import TimeUnit

_log = logging.getLogger(__name__)

_HOUR_MS = 3_600_000
_OFFLINE_MS = 3 * 24 * _HOUR_MS
_BATCH = 100


def set_aside_untracked(
    context: ControllerContext, config: TableConfig, until_ms: int | None, *, of_any_age: bool = False
) -> int:
    """Set aside the copies of a table that are older than `untracked_ms` and that no record refers to; return how many.

    until_ms: when they are to be removed; None for at once. of_any_age: all of them, because no upload can be running.
    Raises OSError if the deep store does not answer.
    """
    if not UNTRACKED_DELETION.flag(context.registry.cluster_config()):
        return 0
    table, store = config.typed_name, context.deep_store
    before_ms = context.clock.now_ms() - untracked_ms(config)
    most = config.segments.untracked_segments_deletion_batch_size or _BATCH
    done = 0
    for url in _untracked(context, table):
        if not of_any_age and not 0 < store.modified_ms(url) < before_ms:
            continue
        if not of_any_age and done == most:
            _log.info("table %s: more than %d copies belong to no segment; the next runs remove the rest", table, most)
            break
        _log.warning("table %s: the copy %s belongs to no segment, it is set aside", table, url)
        store.discard(url, until_ms)
        done += 1
    return done


def untracked_ms(config: TableConfig) -> int:
    """Return the minimum age of a copy: the table's setting, or else 3 days, or its retention if that is less.

    REALTIME tables, which upload continuously, default to an hour, which is also the minimum: a fresh upload may be
    about to be committed.
    """
    said = config.segments
    unit, value = said.untracked_segments_retention_time_unit, said.untracked_segments_retention_time_value
    wanted = _HOUR_MS if config.table_type is TableType.REALTIME else _OFFLINE_MS
    if unit and value:
        with suppress(InvalidConfigError, ValueError):  # stored without validation
            wanted = TimeUnit.parse(unit).to_millis(int(value))
    kept_ms = retention_ms(config)
    return max(_HOUR_MS, wanted if kept_ms is None else min(wanted, kept_ms))


def _untracked(context: ControllerContext, table: str) -> Iterator[str]:
    """Yield the copies without a record, and unfinished uploads.

    The copies are listed before the records are read, so that one committed meanwhile is not among them.
    """
    copies = list(context.deep_store.urls(table))
    unfinished = context.deep_store.unfinished(table)
    tracked = {record.download_url for record in context.registry.segments(table)} if copies else set()
    yield from (url for url in copies if url not in tracked)
    yield from unfinished
