"""A server of the cluster: brings what it has loaded in line with the ideal states that name it, and reports it."""

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
    """Loads, swaps and drops segments between `start` and `stop`, on a thread of its own, and consumes streams.

    consuming: makes what consumers need, when the first table comes that consumes; a server without it leaves consuming
    segments alone. key_defaults: what this server decides about tables with primary keys.
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
        """What tells the time here."""
        return self._clock

    @property
    def store(self) -> MetadataStore:
        """Where the cluster's records are."""
        return self._registry.store

    @property
    def ready(self) -> bool:
        """Whether everything that was assigned at the start has been loaded, or has failed to load."""
        return self._ready and not self._work.is_stopped

    def tables(self) -> list[str]:
        """Return the typed names of the tables with loaded or consuming segments."""
        contents = {name: data.contents() for name, data in list(self._tables.items())}
        return sorted(name for name, has in contents.items() if has.loaded or has.consuming)

    @property
    def consumers(self) -> "ConsumerManager | None":
        """What consumes on this server, None when it is not to."""
        transitions = self._made_transitions()
        return None if transitions is None else transitions.manager

    def table(self, table: str) -> TableData | None:
        """Return the loaded segments of a typed table."""
        return self._tables.get(table)

    @property
    def peer_failures(self) -> Counter[str]:
        """How often other servers did not give a segment, by typed table."""
        return self._loader.sources.peer_failures

    def failures(self, table: str) -> dict[str, Failure]:
        """Return why segments of a table are in the ERROR state."""
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
        """The machine that this instance runs on, as its record says; empty until it has one."""
        if not self._host_name:
            found = self._registry.get_instance(self.id)
            self._host_name = "" if found is None else found.host
        return self._host_name

    @property
    def deep_store(self) -> "DeepStore | None":
        """Where copies of segments are; None where this server does not reach it."""
        return self._loader.sources.store

    @property
    def folder(self) -> Path:
        """Where the segments are."""
        return self._loader.root

    def disk_usage(self) -> tuple[Path, int, int]:
        """Return the folder, the bytes of the disk on which it is, and how many of them are in use."""
        folder = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        usage = shutil.disk_usage(folder)
        return folder, usage.total, usage.used

    def layout_of(self, table: str) -> TableLayout | None:
        """Return how a typed table is stored now, None when it is gone."""
        return self._loader.layout_of(table)

    def hidden_segments(self, table: str) -> Collection[str]:
        """Return the segments of a typed table that replacements hide at this moment."""
        return self._registry.get_lineage(table).hidden_segments()

    def recheck(self, table: str) -> None:
        """Compare all checksums of a table soon: what is damaged is no longer served, and fetched again where possible."""
        self._work.note_suspect(table)

    # life

    def start(self) -> None:
        """Load what is assigned, announce the instance, and follow changes."""
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
        """Load what is assigned of a table, and only then remove what no longer is: where nobody can tell, all stays."""
        self._reconcile(table, None)
        if table in self._resting:
            return
        data = self._tables.get(table)
        used = {s.folder for s in data.snapshot().values()} if data else set()
        self._loader.remove_strays(table, used, self._failures.of(table))

    def stop(self) -> None:
        """Stop following changes; what is loaded stays readable for queries that run."""
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
        """Return what brings the consumers of a typed table in line with its ideal state; None where there are none."""
        return self._made_transitions() if table_type_of(table) is TableType.REALTIME else None

    def _made_transitions(self) -> "ConsumingTransitions | None":
        """Return the same of any table, made now and imported now: a process without streams has no use for it."""
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

    # notifications: they only note what to look at

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
        """A consumer has left: the segment is now loaded like any other, unless what it built is there already."""
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
                self._note_table(table)  # consumers that could not start are tried again with the rest
            for table in sorted(work.suspects):
                self._guarded(table, partial(self._recheck, table))
            if work.messages:
                self._guarded("messages", self._handle_messages)
            if work.reload is not None:
                self._guarded(f"the reload of {work.reload.table}", partial(self._reload, work.reload))

    def _begin_session(self) -> None:
        """Announce the instance again, and forget what it reported in the session that ended."""
        self._states.forget()
        try:
            self._announce()
        except StoreUnavailableError:
            self._work.announce_later()
            raise

    def _announce(self) -> None:
        announce(self._registry.store, self.id)

    def _look_again(self, work: PendingWork) -> None:
        """Compare every record of every table with what is loaded."""
        for table in {*self._registry.assigned_tables(), *self._tables}:
            work.tables.add(table)
            work.note_segments(table, *self._registry.segment_names(table))

    def _guarded(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except GamayError as error:
            _log.error("%s: %s failed: %s", self.id, what, error)
        except Exception:  # noqa: BLE001 - one table's broken record must not keep the others from being served
            _log.exception("%s: %s failed", self.id, what)

    def _reconcile(self, table: str, changed: set[str] | None) -> None:
        """Load, swap and drop what differs from the ideal state; `changed` None compares every record."""
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
                continue  # its consumer keeps its rows, or leaves
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
        """Let go of a table that is switched off; its files stay, so that it comes back as after a start of the server.

        Which rows of a key are valid cannot be told of segments alone where keys expire, so snapshots must not go with what
        is in memory; and what is in memory must not outlive the consumers that go on from the snapshots.
        """
        with self._without_transitions():
            ideal, data = self._registry.get_ideal_state(table), self._data_of(table)
            if ideal is None or ideal.enabled:
                return  # it was switched on again meanwhile
            if self._transitions is not None:
                self._transitions.end(table)
            self._resting.add(table)
            data.swap({}, data.snapshot())
            self._failures.forget_others(table, ())
            self.upserts.rest(table)
        self._states.report(table)

    def _without_transitions(self) -> AbstractContextManager[object]:
        """Return what holds off the consumers that are to begin or end."""
        return nullcontext() if self._transitions is None else self._transitions.applying

    def _is_another(self, ideal: Assignment) -> bool:
        """Whether a table was deleted and made anew while this server did not look."""
        known = self._created.get(ideal.resource, "")
        return bool(known and ideal.created) and known != ideal.created

    def _drop(self, table: str) -> None:
        """Let go of a table that is gone, with its files; consumers of one that has its name now begin again later."""
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
        """Let queries see a segment that was built here, in place of the consuming one."""
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
        """Load segments in parallel; those that fail are noted and tried again later."""

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
            # A message that fails is not kept: it would fail again, and all that come after it would wait.
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
        """Have segments loaded again, all of the table's when none is named; the old ones are visible until then.

        Those that could not be loaded are tried again, too. `reload_progress` tells how far it is.
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
        except InvalidConfigError as refused:  # a class that cannot be imported: the table would show invalid rows
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
        """Return how many segments were loaded since then, and the reasons of those that failed since then."""
        data = self._tables.get(table)
        loaded = data.snapshot() if data else {}
        done = sum(1 for name in segments if name in loaded and loaded[name].loaded_ms >= since_ms)
        failures = self._failures.of(table)
        return done, {
            name: failures[name].reason for name in segments if name in failures and failures[name].at_ms >= since_ms
        }
