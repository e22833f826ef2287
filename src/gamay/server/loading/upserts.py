"""The upsert and dedup tables of a server; all additions and removals of their segments use this module."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gamay.base.clock import Clock
from gamay.base.errors import GamayError
from gamay.cluster.records.records import COMMITTING, IN_PROGRESS
from gamay.cluster.records.registry import Registry
from gamay.model.cluster_settings import CONSUMING_SEGMENT_CONSISTENCY
from gamay.model.table.table_name import TableType
from gamay.model.table.upsert_defaults import DEFAULTS, ServerDefaults
from gamay.query.layout.rebuild import TableLayout
from gamay.segment.read.defaults import with_defaults
from gamay.server.loading.table import LoadedSegment, TableData
from gamay.storage.deep_store import DeepStore
from gamay.upsert.persist.shared_snapshots import SharedSnapshots
from gamay.upsert.persist.snapshots import SnapshotFolder
from gamay.upsert.rows.ranking import partition_of, sequence_of
from gamay.upsert.rows.valid_docs import SegmentDocs
from gamay.upsert.spi import KeyedTable, SegmentSource

if TYPE_CHECKING:
    from gamay.upsert.tables.table import TableUpsert

_log = logging.getLogger(__name__)
_SCRATCH = ".scratch"


class UpsertTables:
    """The primary keys of all upsert and dedup tables.

    folder: for snapshots; store: the deep store for shared snapshots, None if not accessible. A table's settings
    are read with its first segment; a change takes effect only after a restart of the server, as it would change which rows
    are valid.
    """

    def __init__(
        self, registry: Registry, folder: Path, clock: Clock, defaults: ServerDefaults = DEFAULTS,
        store: DeepStore | None = None,
    ) -> None:  # fmt: skip
        self._registry = registry
        self._folder = folder
        self._clock = clock
        self._defaults = defaults
        self._store = store
        self._later = ThreadPoolExecutor(1, thread_name_prefix="upsert-store")
        self._lock = threading.Lock()
        self._tables: dict[str, KeyedTable | None] = {}

    def of(self, table: str, layout: TableLayout | None) -> KeyedTable | None:
        """Return the keys of a typed table, None if it does not need them. Raises InvalidConfigError."""
        with self._lock:
            if table not in self._tables and layout is not None:
                self._tables[table] = self._new(table, layout)
            return self._tables.get(table)

    def upsert(self, table: str) -> "TableUpsert | None":
        """Return the keys of a typed upsert table, None for others."""
        found = self._tables.get(table)
        if found is None:
            return None
        from gamay.server.loading.keyed_tables import upsert_of

        return upsert_of(found)

    def _new(self, table: str, layout: TableLayout) -> KeyedTable | None:
        if not layout.config.has_keys:
            return None
        from gamay.server.loading.keyed_tables import keyed_table  # not needed in a process without such tables
        from gamay.upsert.persist.host import Host

        shared = None if self._store is None else SharedSnapshots(self._store, table, self._folder / _SCRATCH)
        host = Host(self._protects, self._do_later, shared, partial(self._first_unsealed, table))
        return keyed_table(layout, self._folder / table, self._clock, self._defaults, host)

    def _do_later(self, job: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # closed: the next start works without the snapshot
            self._later.submit(job).add_done_callback(_tell)

    def _first_unsealed(self, table: str, partition_id: int) -> int | None:
        mine = {
            name: sequence_of(name) for name in self._registry.segment_names(table) if partition_of(name) == partition_id
        }
        records = self._registry.get_segments(table, list(mine)).values()
        numbers = [mine[record.name] for record in records if record.status in (IN_PROGRESS, COMMITTING)]
        return min((number for number in numbers if number is not None), default=None)

    def close(self) -> None:
        """Finish the pending writes, and reject new ones."""
        self._later.shutdown()

    def _protects(self) -> bool:
        return CONSUMING_SEGMENT_CONSISTENCY.text(self._registry.cluster_config()).upper() == "PROTECTED"

    def rest(self, table: str) -> None:
        """Drop the keys of an unloaded table from memory, and keep their stored state."""
        with self._lock:
            self._tables.pop(table, None)

    def forget(self, table: str) -> None:
        """Remove all state of a deleted table."""
        self.rest(table)
        SnapshotFolder(self._folder / table).remove_all()

    def swap(
        self, data: TableData, layout: TableLayout, fresh: Mapping[str, LoadedSegment], dropped: Iterable[str]
    ) -> tuple[list[LoadedSegment], dict[str, GamayError]]:
        """Swap segments like `TableData.swap`, one by one, atomically with the changes of their valid docs.

        Return the segments that are no longer visible, and the errors of those that could not be added. Segments with a
        snapshot come first; partitions are loaded in parallel.
        """
        keys = self.of(data.name, layout)
        assert keys is not None
        upsert = self.upsert(data.name)
        preloads = upsert is None or upsert.settings.preload
        gone: list[LoadedSegment] = []
        failed: dict[str, GamayError] = {}
        for name in dropped:
            keys.remove(name, lambda name=name: gone.extend(data.swap({}, [name])))  # type: ignore[misc]
        if not fresh:
            return gone, failed
        is_offline = layout.config.table_type is TableType.OFFLINE
        records = self._registry.get_segments(data.name, list(fresh))
        partitions: dict[int, list[tuple[SegmentSource, LoadedSegment]]] = {}
        for name, loaded in fresh.items():
            record = records.get(name)
            created_ms = 0 if record is None else record.push_time_ms if is_offline else record.creation_time_ms
            complete = with_defaults(loaded.segment, layout.schema, layout.config)
            source = SegmentSource(complete, loaded.crc, created_ms, "" if record is None else record.tier)
            try:
                partitions.setdefault(keys.partition_id(complete), []).append((source, loaded))
            except GamayError as error:
                failed[name] = error

        def load(partition_id: int) -> None:
            entries = partitions[partition_id]

            def turn(entry: tuple[SegmentSource, LoadedSegment]) -> tuple[bool, int, str]:
                source = entry[0]
                return preloads and not keys.has_snapshot(source), source.created_ms, source.segment.name

            keys.expect([source for source, _ in entries])
            entries.sort(key=turn)
            for source, loaded in entries:

                def install(docs: SegmentDocs | None, loaded: LoadedSegment = loaded) -> None:
                    gone.extend(data.swap({loaded.segment.name: replace(loaded, docs=docs)}))

                keys.load(source, install)
            if is_offline:
                keys.settle(partition_id)

        with ThreadPoolExecutor(max(1, self._defaults.preload_threads), thread_name_prefix="upsert-load") as pool:
            list(pool.map(load, partitions))
        return gone, failed


def _tell(job: "Future[None]") -> None:
    error = job.exception()
    if error is not None:
        _log.error("snapshots of a table with primary keys could not be stored", exc_info=error)
