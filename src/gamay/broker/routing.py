"""What the broker knows of each table, as immutable snapshots that are rebuilt when the cluster's records change."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import GamayError
from gamay.broker.limits import TableLimits
from gamay.broker.quota import rate_of
from gamay.broker.segment_stats import stats_of
from gamay.cluster import paths
from gamay.cluster.records import ERROR, Assignment, Role, SegmentRecord
from gamay.cluster.registry import Registry
from gamay.cluster.views import servers_of
from gamay.model.cluster_settings import NULL_HANDLING
from gamay.model.schema import Schema
from gamay.model.table_config import TableConfig
from gamay.model.table_name import raw_table_name, table_type_of
from gamay.query.plans import BoundPlans
from gamay.query.prune import PruningTable, SegmentRecordStats
from gamay.sql.row_limits import STANDARD_LIMITS, RowLimits

_log = logging.getLogger(__name__)

_NEW_SEGMENT_MS = 300_000
_TABLE_RECORDS = (paths.IDEAL_STATES, paths.EXTERNAL_VIEWS, paths.LINEAGES, paths.TABLE_CONFIGS, paths.SCHEMAS)


@dataclass(frozen=True, slots=True)
class TableRoute:
    """One typed table at one moment.

    segments: those that queries must read, ascending; servers: for each of them the instances that can answer, ascending.
    unavailable: segments that queries should read but no server can answer for. A new segment is given time to be loaded: it
    counts only from the moment, in milliseconds, that stands beside it (0: at once, because it could not be loaded).
    plans: what queries of this table were bound to, until the route changes.
    limits: of memory, and of what is read. queries_per_s: the table's quota at this broker; None is no quota.
    """

    table: str
    enabled: bool
    schema: Schema
    config: TableConfig
    segments: tuple[str, ...]
    servers: tuple[tuple[str, ...], ...]
    unavailable: tuple[tuple[str, int], ...]
    pruning: PruningTable
    plans: BoundPlans
    limits: TableLimits
    queries_per_s: float | None

    def by_server(self, request: int = 0) -> dict[str, list[str]]:
        """Return server -> segments, choosing among replicas by the number of the request."""
        chosen: dict[str, list[str]] = {}
        for segment, candidates in zip(self.segments, self.servers, strict=True):
            chosen.setdefault(candidates[request % len(candidates)], []).append(segment)
        return chosen


# settings of the cluster that are the defaults of query options
_OPTION_SETTINGS = {NULL_HANDLING: "enableNullHandling"}


class _Snapshot:
    """All routes at one moment, and what the names that queries used were found to mean."""

    def __init__(self, routes: Mapping[str, TableRoute]) -> None:
        self.routes = routes
        self._found: dict[str, list[TableRoute]] = {}

    def find(self, name: str) -> list[TableRoute]:
        known = self._found.get(name)
        if known is None:
            known = [route for table in _typed_names(name) if (route := self.routes.get(table)) is not None]
            if not known:
                folded = name.lower()
                ordered = sorted(self.routes.items())
                known = [route for table, route in ordered if folded in (table.lower(), raw_table_name(table).lower())]
            if known:  # names that no table has would pile up
                self._found[name] = known
        return known


class RoutingTables:
    """The routes of all tables; between `start` and `stop` they follow the records, on a thread of their own.

    default_options: the query options that the cluster's settings give to queries which do not say otherwise.
    row_limits: what the settings say of LIMIT.
    """

    def __init__(self, registry: Registry) -> None:
        self.default_options: Mapping[str, str] = {}
        self.row_limits = STANDARD_LIMITS
        self._registry = registry
        self._snapshot = _Snapshot({})
        self._stats: dict[str, dict[str, SegmentRecordStats]] = {}
        self._condition = threading.Condition()
        self._rebuilding = threading.Lock()
        self._dirty: set[str] = set()
        self._settings_changed = False
        self._all_changed = False
        self._changed_segments: dict[str, set[str]] = {}
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._cancels: list[Callable[[], None]] = []
        self._followers: list[Callable[[Mapping[str, str]], None]] = []
        self._settings: Mapping[str, str] | None = None

    def start(self) -> None:
        """Build all routes, then follow changes."""
        store = self._registry.store
        for path in _TABLE_RECORDS:
            self._cancels.append(store.watch(path, self._on_table_change))
        self._cancels.append(store.watch(paths.SEGMENTS, self._on_segment_change))
        self._cancels.append(store.watch(paths.PARTICIPANT_CONFIGS, self._on_instance_change))
        self._cancels.append(store.watch(paths.CLUSTER_CONFIG, self._on_settings_change))
        self._read_settings()
        for table in self._registry.table_names():
            self._rebuild(table, None)
        self._thread = threading.Thread(target=self._run, name="broker-routing", daemon=True)
        self._thread.start()

    def follow_settings(self, follow: Callable[[Mapping[str, str]], None]) -> None:
        """Let a function know of the cluster's settings, now if they are known, and whenever they change."""
        with self._condition:
            self._followers.append(follow)
            if self._settings is not None:
                follow(self._settings)

    def stop(self) -> None:
        """Stop following changes."""
        for cancel in self._cancels:
            cancel()
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()

    def find(self, name: str) -> list[TableRoute]:
        """Return the routes of the table that a query names, raw or typed, in any case; OFFLINE first."""
        return self._snapshot.find(name)

    def table_names(self) -> list[str]:
        """Return the raw names of all tables."""
        return sorted({raw_table_name(table) for table in self._snapshot.routes})

    def refresh(self, table: str) -> None:
        """Rebuild a typed table's route now, from what the records say at this moment."""
        self._rebuild(table, set())

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition on the routes holds; return whether it does."""
        with self._condition:
            return self._condition.wait_for(condition, timeout_s)

    def _on_table_change(self, path: str) -> None:
        name = path.rpartition("/")[2]
        tables = _typed_names(name) if path.startswith(paths.SCHEMAS) else (name,)
        if path in _TABLE_RECORDS:
            self._on_any_change()
            return
        with self._condition:
            self._dirty.update(tables)
            self._condition.notify_all()

    def _on_instance_change(self, _: str) -> None:
        with self._condition:
            self._dirty.update(self._snapshot.routes)
            self._condition.notify_all()

    def _on_settings_change(self, _: str) -> None:
        with self._condition:
            self._settings_changed = True
            self._condition.notify_all()

    def _read_settings(self) -> None:
        settings = self._registry.cluster_config()
        named = {option: setting.text(settings) for setting, option in _OPTION_SETTINGS.items() if setting.name in settings}
        limits = RowLimits.of(settings)
        with self._condition:
            self._settings = settings
            for follow in self._followers:
                follow(settings)
            self.default_options = named
            self.row_limits = STANDARD_LIMITS if limits == STANDARD_LIMITS else limits
            self._condition.notify_all()

    def _on_any_change(self) -> None:
        """Look at everything again: the connection to the store was lost."""
        with self._condition:
            self._all_changed = self._settings_changed = True
            self._condition.notify_all()

    def _on_segment_change(self, path: str) -> None:
        if path == paths.SEGMENTS:
            self._on_any_change()
            return
        parent, _, segment = path.rpartition("/")
        table = parent.rpartition("/")[2]
        with self._condition:
            self._dirty.add(table)
            self._changed_segments.setdefault(table, set()).add(segment)
            self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._dirty or self._settings_changed or self._stopping)
                if self._stopping:
                    return
                settings_changed, self._settings_changed = self._settings_changed, False
                dirty, self._dirty = self._dirty, set()
                changed, self._changed_segments = self._changed_segments, {}
                all_changed, self._all_changed = self._all_changed, False
            try:
                if settings_changed:
                    self._read_settings()
                if all_changed:
                    dirty |= {*self._snapshot.routes, *self._registry.table_names()}
            except GamayError:
                _log.exception("cannot read the cluster's settings or tables; the previous ones hold")
            for table in sorted(dirty):
                try:
                    self._rebuild(table, None if all_changed else changed.get(table, set()))
                except Exception:  # noqa: BLE001 - one table's broken record must not freeze the routes of the others
                    _log.exception("cannot rebuild the route of %s; queries use the previous one", table)

    def _rebuild(self, table: str, changed: set[str] | None) -> None:
        """Replace a table's route; `changed` None forgets what was known of its segments."""
        with self._rebuilding:
            self._rebuild_alone(table, changed)

    def _rebuild_alone(self, table: str, changed: set[str] | None) -> None:
        cache = {} if changed is None else self._stats.get(table, {})
        for segment in changed or ():
            cache.pop(segment, None)
        route = self._build(table, cache)
        routes = {name: known for name, known in self._snapshot.routes.items() if name != table}
        if route is None:
            self._stats.pop(table, None)
        else:
            routes[table] = route
            self._stats[table] = {segment: cache[segment] for segment in route.segments}
        with self._condition:
            self._snapshot = _Snapshot(routes)
            self._condition.notify_all()

    def _build(self, table: str, cache: dict[str, SegmentRecordStats]) -> TableRoute | None:
        registry = self._registry
        config = registry.get_table_config(table)
        ideal = registry.get_ideal_state(table)
        schema = registry.get_schema(raw_table_name(table))
        if config is None or ideal is None or schema is None:
            return None
        view = registry.get_external_view(table)
        hidden = registry.get_lineage(table).hidden_segments()
        segments, servers, unready = _split(ideal, view, hidden, self._not_asked())
        unknown = [segment for segment in segments if segment not in cache]
        records = registry.get_segments(table, [*unknown, *unready])
        for segment in unknown:
            if segment not in records:
                raise GamayError(f"segment '{segment}' of table '{table}' has no record")
            cache[segment] = stats_of(records[segment])
        parsed_schema = Schema.from_json(schema).value
        parsed = TableConfig.from_json(config).value
        return TableRoute(
            table,
            ideal.enabled,
            parsed_schema,
            parsed,
            tuple(segments),
            tuple(servers),
            tuple((segment, _missed_from(segment, records.get(segment), view)) for segment in unready),
            PruningTable.build([cache[segment] for segment in segments]),
            BoundPlans(parsed_schema),
            TableLimits.of(parsed.query),
            self._quota(parsed),
        )

    def _quota(self, config: TableConfig) -> float | None:
        """Return what this broker may let pass of a table's quota: all brokers that serve the table have the same share."""
        rate = rate_of(config.quota.max_queries_per_second)
        if rate is None:
            return None
        tag = f"{config.tenants.broker}_BROKER"
        live = [self._registry.get_instance(name) for name in self._registry.live_instance_ids()]
        brokers = [i for i in live if i is not None and i.role is Role.BROKER and i.enabled and tag in i.tags]
        return rate / max(1, len(brokers))

    def _not_asked(self) -> frozenset[str]:
        """Return the instances that are switched off, wholly or for queries."""
        return frozenset(i.id for i in self._registry.instances() if not i.enabled or i.queries_disabled)


def _missed_from(segment: str, record: SegmentRecord | None, view: Assignment | None) -> int:
    """Return when the absence of a segment begins to be a failure: milliseconds, 0 for at once."""
    if view is not None and ERROR in view.states.get(segment, {}).values():
        return 0
    return 0 if record is None else record.push_time_ms + _NEW_SEGMENT_MS


def _split(
    ideal: Assignment, view: Assignment | None, hidden: frozenset[str], excluded: frozenset[str]
) -> tuple[list[str], list[tuple[str, ...]], list[str]]:
    segments: list[str] = []
    servers: list[tuple[str, ...]] = []
    unready: list[str] = []
    for segment in sorted(ideal.states):
        if segment in hidden:
            continue
        candidates = tuple(servers_of(segment, ideal, view, excluded))
        if candidates:
            segments.append(segment)
            servers.append(candidates)
        elif not _is_switched_off(ideal.states[segment]):
            unready.append(segment)
    return segments, servers, unready


def _is_switched_off(states: Mapping[str, str]) -> bool:
    return all(state == "OFFLINE" for state in states.values())


def _typed_names(name: str) -> tuple[str, ...]:
    return (name,) if table_type_of(name) is not None else (f"{name}_OFFLINE", f"{name}_REALTIME")


def describe(routes: list[TableRoute]) -> dict[str, Any]:
    """Return routes as the debug endpoints show them: typed table -> server -> segments."""
    return {route.table: route.by_server() for route in routes}
