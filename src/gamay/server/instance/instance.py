"""A server of the cluster: reconciles its loaded segments with the ideal states, and reports its state."""

import logging
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gamay.base.clock import Clock
from gamay.base.errors import GamayError, InvalidConfigError
from gamay.cluster.records import messages
from gamay.cluster.records.records import CONSUMING, ONLINE, Assignment, SegmentRecord
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore, StoreUnavailableError
from gamay.cluster.store.znrecord import decode
from gamay.model.table.table_name import TableType, table_type_of
from gamay.model.table.upsert_defaults import DEFAULTS, ServerDefaults
from gamay.query.layout.rebuild import TableLayout
from gamay.server.instance.failures import Failure, SegmentFailures
from gamay.server.instance.pending_work import PendingWork, Reload, WorkQueue
from gamay.server.instance.reporting import CurrentStates
from gamay.server.loading.loader import SegmentLoader
from gamay.server.loading.table import LoadedSegment, TableData
from gamay.server.loading.upserts import UpsertTables
from gamay.server.query_counts import ServerCounts

if TYPE_CHECKING:
    from gamay.server.consuming.host import Resources
    from gamay.server.consuming.manager import ConsumerManager
    from gamay.server.instance.transitions import ConsumingTransitions
    from gamay.storage.deep_store import DeepStore

_log = logging.getLogger(__name__)


class ServerInstance:
    """A server: loads, swaps and drops segments between `start` and `stop`, on its own thread, and consumes streams.

    consuming: creates the resources of consumers, when the first consuming table is assigned; without it, consuming
    segments are ignored. key_defaults: this server's defaults for tables with primary keys.
    """

    def __init__(
        self,
        instance_id: str,
        registry: Registry,
        loader: SegmentLoader,
        clock: Clock,
        threads: int = 2,
        consuming: "Callable[[], Resources] | None" = None,
        key_defaults: ServerDefaults = DEFAULTS,
    ) -> None:
        self.id = instance_id
        self._host_name = ""
        self._registry = registry
        self._loader = loader
        self._clock = clock
        self._threads = threads
        folder = loader.root.with_name(f"{loader.root.name}-upsert")
        self.upserts = UpsertTables(registry, folder, clock, key_defaults, loader.sources.store)
        self.counts = ServerCounts()
        self._tables: dict[str, TableData] = {}
        self._resting: set[str] = set()
        self._created: dict[str, str] = {}
        self._work = WorkQueue(clock, reloaded_at_once=threads)
        self._failures = SegmentFailures(self.counts, self._work, clock)
        self._states = CurrentStates(instance_id, registry, self._data_of, self._failures)
        self._ready = False
        self._thread: threading.Thread | None = None
        self._cancels: list[Callable[[], None]] = []
        self._consuming = consuming
        self._transitions: ConsumingTransitions | None = None
        self._transitions_run = False
        self._transitions_lock = threading.Lock()

    # what others ask

    @property
    def clock(self) -> Clock:
        """The server's clock."""
        return self._clock

    @property
    def store(self) -> MetadataStore:
        """The metadata store with the cluster's records."""
        return self._registry.store

    @property
    def ready(self) -> bool:
        """Whether all segments assigned at the start have been loaded, or have failed to load."""
        return self._ready and not self._work.is_stopped

    def tables(self) -> list[str]:
        """Return the typed names of the tables with loaded or consuming segments."""
        contents = {name: data.contents() for name, data in list(self._tables.items())}
        return sorted(name for name, has in contents.items() if has.loaded or has.consuming)

    @property
    def consumers(self) -> "ConsumerManager | None":
        """The manager of this server's consumers, None if it does not consume."""
        transitions = self._made_transitions()
        return None if transitions is None else transitions.manager

    def table(self, table: str) -> TableData | None:
        """Return the loaded segments of a typed table."""
        return self._tables.get(table)

    @property
    def peer_failures(self) -> Counter[str]:
        """The number of failed downloads from other servers, by typed table."""
        return self._loader.sources.peer_failures

    def failures(self, table: str) -> dict[str, Failure]:
        """Return the failures of a table's segments in the ERROR state."""
        return self._failures.of(table)

    def stale_segments(self, table: str) -> list[str]:
        """Return the loaded segments of a table that `reload` would store in another way."""
        data, layout = self._tables.get(table), self._loader.layout_of(table)
        if data is None or layout is None:
            return []
        loaded = data.snapshot()
        tiers = {record.name: record.tier for record in self._records(table, sorted(loaded))}
        layouts = {tier: layout.of_tier(tier) for tier in {"", *tiers.values()}}
        return sorted(n for n, one in loaded.items() if not layouts[tiers.get(n, "")].is_met_by(one.segment))

    def records(self, table: str, names: Iterable[str]) -> Mapping[str, SegmentRecord]:
        """Return the readable records of the named segments of a typed table."""
        return {record.name: record for record in self._records(table, sorted(names))}

    def missing_segments(self, table: str) -> list[str]:
        """Return the segments of a table that should be ONLINE here and are not."""
        ideal = self._registry.get_ideal_state(table)
        wanted = ideal.segments_of(self.id) if ideal is not None and ideal.enabled else {}
        loaded = self._data_of(table).snapshot()
        return sorted(name for name, state in wanted.items() if state == ONLINE and name not in loaded)

    def pools(self) -> Mapping[str, str]:
        """Return the pools of this instance, by tag."""
        found = self._registry.get_instance(self.id)
        return {} if found is None else found.pools

    @property
    def host_name(self) -> str:
        """The host of this instance, according to its record; empty until it has one."""
        if not self._host_name:
            found = self._registry.get_instance(self.id)
            self._host_name = "" if found is None else found.host
        return self._host_name

    @property
    def deep_store(self) -> "DeepStore | None":
        """The deep store; None if this server cannot access it."""
        return self._loader.sources.store

    @property
    def folder(self) -> Path:
        """The folder of the segments."""
        return self._loader.root

    def disk_usage(self) -> tuple[Path, int, int]:
        """Return the folder, the size of its disk in bytes, and the bytes in use."""
        folder = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        usage = shutil.disk_usage(folder)
        return folder, usage.total, usage.used

    def layout_of(self, table: str) -> TableLayout | None:
        """Return the current storage layout of a typed table, None if it does not exist."""
        return self._loader.layout_of(table)

    def hidden_segments(self, table: str) -> Collection[str]:
        """Return the segments of a typed table that are currently hidden by replacements."""
        return self._registry.get_lineage(table).hidden_segments()

    def recheck(self, table: str) -> None:
        """Schedule a verification of a table's checksums: damaged segments are withdrawn, and fetched again if possible."""
        self._work.note_suspect(table)

    # lifecycle

    def start(self) -> None:
        """Load the assigned segments, announce the instance, and follow changes."""
        store = self._registry.store
        self._cancels = [
            store.watch(paths.IDEAL_STATES, self._on_ideal_state),
            store.watch(paths.SEGMENTS, self._on_segment_record),
            store.watch(paths.messages(self.id), self._on_message),
            store.on_new_session(self._work.note_session),
        ]
        for table in sorted({*self._registry.assigned_tables(), *self._loader.tables_on_disk()}):
            self._guarded(table, partial(self._load_first, table))
            if (transitions := self._transitions_of(table)) is not None:
                self._guarded(table, partial(transitions.apply, table))
        self._announce()
        self._work.note_messages()
        self._thread = threading.Thread(target=self._run, name="server-segments", daemon=True)
        self._thread.start()
        with self._transitions_lock:
            self._transitions_run = True
            if self._transitions is not None:
                self._transitions.start()
        self._ready = True

    def _load_first(self, table: str) -> None:
        """Load the assigned segments of a table, and only then remove the others; if the assignment is unknown, keep all."""
        self._reconcile(table, None)
        if table in self._resting:
            return
        data = self._tables.get(table)
        used = {s.folder for s in data.snapshot().values()} if data else set()
        self._loader.remove_strays(table, used, self._failures.of(table))

    def stop(self) -> None:
        """Stop following changes; loaded segments stay readable for running queries."""
        for cancel in self._cancels:
            cancel()
        self._work.stop()
        if self._thread is not None:
            self._thread.join()
        with self._transitions_lock:
            self._transitions_run = False
        if self._transitions is not None:
            self._transitions.stop()
        self.upserts.close()

    def _transitions_of(self, table: str) -> "ConsumingTransitions | None":
        """Return the component that reconciles the consumers of a typed table; None if it has none."""
        return self._made_transitions() if table_type_of(table) is TableType.REALTIME else None

    def _made_transitions(self) -> "ConsumingTransitions | None":
        """Return the component that reconciles consumers, creating and importing it on first use."""
        if self._consuming is None:
            return None
        with self._transitions_lock:
            if self._transitions is None:
                from gamay.server.consuming.manager import ConsumerManager
                from gamay.server.instance.transitions import ConsumingTransitions

                manager = ConsumerManager(self._consuming(), self._serve, self._on_consumed, self.upserts)
                self._transitions = ConsumingTransitions(
                    self.id, self._registry, manager, self._loader.layout_of, self._data_of, self._states.report,
                    self._failures.note, self._failures.forget, self._resting,
                )  # fmt: skip
                if self._transitions_run:
                    self._transitions.start()
            return self._transitions

    # notifications: they only queue work

    def _on_ideal_state(self, path: str) -> None:
        if path == paths.IDEAL_STATES:
            self._work.note_everything()
        elif (table := path.rpartition("/")[2]) != paths.BROKER_RESOURCE:
            self._work.note_table(table)
            self._note_table(table)

    def _on_segment_record(self, path: str) -> None:
        table, _, segment = path.removeprefix(paths.SEGMENTS).strip("/").partition("/")
        if not table:  # the connection to the store was lost
            self._work.note_everything()
            return
        if segment:
            self._work.note_segment(table, segment)
        else:
            self._work.note_table(table)
        self._note_table(table)

    def _note_table(self, table: str) -> None:
        if (transitions := self._transitions_of(table)) is not None:
            transitions.note(table)

    def _on_consumed(self, table: str, segment: str) -> None:
        """Handle the end of a consumer: load its segment like any other, unless its build is already served."""
        self._work.note_segment(table, segment)

    def _on_message(self, path: str) -> None:
        self._work.note_messages()

    # the worker

    def _run(self) -> None:
        while (work := self._work.take()) is not None:
            if work.session:
                self._guarded("the announcement", self._begin_session)
            if work.everything:
                self._guarded("all tables", partial(self._look_again, work))
            for table in sorted({*work.tables, *work.changed}):
                self._guarded(table, partial(self._reconcile, table, work.changed.get(table, set())))
                self._note_table(table)  # consumers that could not start are retried with the rest
            for table in sorted(work.suspects):
                self._guarded(table, partial(self._recheck, table))
            if work.messages:
                self._guarded("messages", self._handle_messages)
            if work.reload is not None:
                self._guarded(f"the reload of {work.reload.table}", partial(self._reload, work.reload))

    def _begin_session(self) -> None:
        """Announce the instance again, and discard the states reported in the former session."""
        self._states.forget()
        try:
            self._announce()
        except StoreUnavailableError:
            self._work.announce_later()
            raise

    def _announce(self) -> None:
        announce(self._registry.store, self.id)

    def _look_again(self, work: PendingWork) -> None:
        """Queue a comparison of all records of all tables with the loaded segments."""
        for table in {*self._registry.assigned_tables(), *self._tables}:
            work.tables.add(table)
            work.note_segments(table, *self._registry.segment_names(table))

    def _guarded(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except GamayError as error:
            _log.error("%s: %s failed: %s", self.id, what, error)
        except Exception:  # noqa: BLE001 - a broken record of one table must not affect the others
            _log.exception("%s: %s failed", self.id, what)

    def _reconcile(self, table: str, changed: set[str] | None) -> None:
        """Load, swap and drop segments that differ from the ideal state; `changed` None compares every record."""
        ideal = self._registry.get_ideal_state(table)
        if ideal is None or self._is_another(ideal):
            self._drop(table)
        if ideal is None:
            self._states.report(table)
            return
        self._created[table] = ideal.created
        if not ideal.enabled:
            self._rest(table)
            return
        states = ideal.segments_of(self.id)
        wanted = {segment for segment, state in states.items() if state in (ONLINE, CONSUMING)}
        data = self._data_of(table)
        loaded = data.snapshot()
        consumed = {} if self._transitions is None else self._transitions.manager.consumers(table)
        suspects = wanted if changed is None else wanted & changed
        records: dict[str, SegmentRecord] = {}
        looked_at = sorted((wanted - loaded.keys()) | suspects)
        readable, damaged = self._registry.readable_segments(table, looked_at)
        for segment, error in damaged.items():
            self._failures.note(table, segment, error)
        for segment, record in readable.items():
            if not record.complete or (segment in loaded and loaded[segment].crc == record.crc):
                continue
            if segment in consumed:
                continue  # its consumer keeps its rows, or ends
            if (
                segment not in loaded
                and self._failures.has(table, segment)
                and changed is not None
                and segment not in changed
            ):
                continue  # its next attempt is scheduled
            records[segment] = record
        fresh = self._load_all(table, list(records.values()))
        self.counts.of(table).refresh_failures += len((records.keys() & loaded.keys()) - fresh.keys())
        dropped = loaded.keys() - wanted
        self._failures.forget_others(table, wanted)
        self._swap(data, fresh, dropped)
        self._states.report(table)
        self._resting.discard(table)

    def _rest(self, table: str) -> None:
        """Unload a disabled table; its files are kept, so that it is loaded later as after a restart of the server.

        If keys expire, valid docs cannot be derived from segments alone, so the snapshots must be kept; and the state in
        memory must be dropped together with the consumers, which continue from the snapshots.
        """
        with self._without_transitions():
            ideal, data = self._registry.get_ideal_state(table), self._data_of(table)
            if ideal is None or ideal.enabled:
                return  # it was enabled again meanwhile
            if self._transitions is not None:
                self._transitions.end(table)
            self._resting.add(table)
            data.swap({}, data.snapshot())
            self._failures.forget_others(table, ())
            self.upserts.rest(table)
        self._states.report(table)

    def _without_transitions(self) -> AbstractContextManager[object]:
        """Return a context that blocks starts and ends of consumers."""
        return nullcontext() if self._transitions is None else self._transitions.applying

    def _is_another(self, ideal: Assignment) -> bool:
        """Whether a table was deleted and created again unnoticed by this server."""
        known = self._created.get(ideal.resource, "")
        return bool(known and ideal.created) and known != ideal.created

    def _drop(self, table: str) -> None:
        """Remove a deleted table with its files; consumers of a new table with its name are started again later."""
        with self._without_transitions():
            ideal = self._registry.get_ideal_state(table)
            if ideal is not None and not self._is_another(ideal):
                return  # it was created meanwhile, and may be consumed already
            if self._transitions is not None:
                self._transitions.drop(table)
            if (data := self._tables.pop(table, None)) is not None:
                data.swap({}, data.snapshot())
            self._failures.forget_others(table, ())
            self._created.pop(table, None)
            self._resting.discard(table)
            self.counts.forget(table)
            self.upserts.forget(table)
            self._loader.remove_strays(table, set())

    def _data_of(self, table: str) -> TableData:
        return self._tables.setdefault(table, TableData(table))

    def _serve(self, table: str, segment: str, folder: Path) -> None:
        """Replace a consuming segment by the one that was built here."""
        self._swap(self._data_of(table), {segment: self._loader.adopt(table, segment, folder)})
        self._states.report(table)

    def _load_all(
        self,
        table: str,
        records: Sequence[SegmentRecord],
        *,
        force_download: bool = False,
        verify_on_use: bool | None = None,
    ) -> dict[str, LoadedSegment]:
        """Load segments in parallel; failures are recorded and retried later."""

        def load(record: SegmentRecord) -> LoadedSegment | None:
            try:
                loaded = self._loader.load(table, record, force_download=force_download, verify_on_use=verify_on_use)
            except (GamayError, OSError, ValueError) as error:
                self._failures.note(table, record.name, error)
                return None
            self._failures.forget(table, record.name)
            return loaded

        if len(records) <= 1:
            results = [load(record) for record in records]
        else:
            with ThreadPoolExecutor(self._threads, thread_name_prefix="segment-load") as pool:
                results = list(pool.map(load, records))
        return {record.name: loaded for record, loaded in zip(records, results, strict=True) if loaded is not None}

    # messages

    def _handle_messages(self) -> None:
        store = self._registry.store
        for name in store.children(paths.messages(self.id)):
            path = f"{paths.messages(self.id)}/{name}"
            node = store.get(path)
            if node is None:
                continue
            # A failing message is dropped: it would fail again, and block all later ones.
            self._guarded(f"message {name}", partial(self._handle_message, node.value))
            store.delete(path)

    def _handle_message(self, value: bytes) -> None:
        message = decode(value)
        subtype = message.simple.get("MSG_SUBTYPE")
        if subtype == messages.FORCE_COMMIT and (consumers := self.consumers) is not None:
            consumers.force_commit(message.simple["tableName"], message.lists.get("segments", []))
            return
        if subtype == messages.REPORT:
            self._states.report(message.simple["tableName"], anew=True)
            return
        if subtype != messages.RELOAD:
            _log.warning("%s: message %s of an unknown kind is ignored", self.id, message.simple)
            return
        table, segments = message.simple["tableName"], message.lists.get("segments", [])
        self.reload(table, segments, force_download=message.simple.get("forceDownload") == "true")

    def reload(self, table: str, segments: Sequence[str], *, force_download: bool = False) -> None:
        """Schedule a reload of segments, by default all of the table; the old ones stay visible until then.

        Failed segments are retried, too. See `reload_progress`.
        """
        data = self._tables.get(table)
        if data is not None:
            known = {*data.snapshot(), *self._failures.of(table)}
            wanted = [name for name in (segments or sorted(known)) if name in known]
            self._work.note_reload(table, wanted, force_download=force_download)

    def _reload(self, some: Reload) -> None:
        table = some.table
        data, ideal = self._tables.get(table), self._registry.get_ideal_state(table)
        if data is None or ideal is None:
            return
        known = {*data.snapshot(), *self._failures.of(table)}
        records = self._records(table, [name for name in some.segments if name in known])
        fresh = self._load_all(table, records, force_download=some.force_download)
        self.counts.of(table).reload_failures += len(records) - len(fresh)
        self._swap(data, fresh)
        self._states.report(table)

    def _recheck(self, table: str) -> None:
        data = self._tables.get(table)
        if data is None:
            return
        records = self._records(table, sorted(data.snapshot()))
        sound = self._load_all(table, records, verify_on_use=False)
        self._swap(data, sound, {record.name for record in records} - sound.keys())
        self._states.report(table)

    def _records(self, table: str, names: Sequence[str]) -> list[SegmentRecord]:
        return list(self._registry.readable_segments(table, names)[0].values())

    def _swap(self, data: TableData, fresh: Mapping[str, LoadedSegment], dropped: Iterable[str] = ()) -> None:
        layout = self._loader.layout_of(data.name)
        try:
            has_keys = layout is not None and self.upserts.of(data.name, layout) is not None
        except InvalidConfigError as refused:  # a class cannot be imported: without it the table would show invalid rows
            for name in fresh:
                self._failures.note(data.name, name, refused)
            fresh, has_keys = {}, False
        if layout is not None and has_keys:
            gone, failed = self.upserts.swap(data, layout, fresh, dropped)
            for name, error in failed.items():
                self._failures.note(data.name, name, error)
        else:
            gone = data.swap(fresh, dropped)
        in_use = {s.folder for s in data.snapshot().values()}
        for old in gone:
            if old.folder not in in_use:
                self._loader.remove(old)

    def reload_progress(self, table: str, segments: Sequence[str], since_ms: int) -> tuple[int, Mapping[str, str]]:
        """Return how many segments were loaded since a time, and the reasons of those that failed since then."""
        data = self._tables.get(table)
        loaded = data.snapshot() if data else {}
        done = sum(1 for name in segments if name in loaded and loaded[name].loaded_ms >= since_ms)
        failures = self._failures.of(table)
        return done, {
            name: failures[name].reason for name in segments if name in failures and failures[name].at_ms >= since_ms
        }
