"""Routes of a broker's tables, as immutable snapshots that are rebuilt when the cluster's records change."""

import logging
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from gamay.base import collector
from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import GamayError
from gamay.broker.routes.route import KnownFacts, RouteBuilder, TableRoute
from gamay.broker.routes.selection import FIRST_TURN
from gamay.cluster.records.broker_resource import BrokerResource, BrokerStates
from gamay.cluster.records.quotas import quota_settings
from gamay.cluster.records.records import Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore, StoreUnavailableError
from gamay.model.cluster_settings import (
    BROKER_TRIM_SIZE,
    FIXED_REPLICA,
    HYPERLOGLOG_LOG2M,
    JOIN_MAX_ROWS,
    JOIN_OVERFLOW,
    NULL_HANDLING,
    NUM_GROUPS_LIMIT,
    NUM_GROUPS_WARNING,
    OPTION_VALIDATION,
    SEGMENT_TRIM_SIZE,
    SERVER_TRIM_SIZE,
    TRIM_THRESHOLD,
    WINDOW_MAX_ROWS,
    WINDOW_OVERFLOW,
    ClusterSetting,
)
from gamay.model.table.table_name import raw_table_name, table_type_of
from gamay.sql.options.row_limits import STANDARD_LIMITS, RowLimits

_log = logging.getLogger(__name__)

_FIRST_ATTEMPTS = 5
_TABLE_RECORDS = (paths.IDEAL_STATES, paths.EXTERNAL_VIEWS, paths.LINEAGES, paths.TABLE_CONFIGS, paths.SCHEMAS)


# cluster settings that are defaults of query options
_OPTION_SETTINGS = {
    NULL_HANDLING: "enableNullHandling",
    JOIN_MAX_ROWS: "maxRowsInJoin",
    JOIN_OVERFLOW: "joinOverflowMode",
    WINDOW_MAX_ROWS: "maxRowsInWindow",
    WINDOW_OVERFLOW: "windowOverflowMode",
}
# likewise, unless a table's config sets them
_GROUP_SETTINGS = {
    NUM_GROUPS_LIMIT: "numGroupsLimit",
    NUM_GROUPS_WARNING: "numGroupsWarningLimit",
    SEGMENT_TRIM_SIZE: "minSegmentGroupTrimSize",
    SERVER_TRIM_SIZE: "minServerGroupTrimSize",
    TRIM_THRESHOLD: "groupTrimThreshold",
    BROKER_TRIM_SIZE: "minBrokerGroupTrimSize",
}


def _named(options: Mapping[ClusterSetting, str], settings: Mapping[str, str]) -> dict[str, str]:
    return {option: setting.text(settings) for setting, option in options.items() if setting.name in settings}


class _Snapshot:
    """All routes at one moment, with a cache of resolved table names."""

    def __init__(self, routes: Mapping[str, TableRoute], elsewhere: Mapping[str, bool]) -> None:
        """elsewhere: the typed tables that this broker does not serve, and whether other brokers are known to."""
        self.routes = routes
        self.elsewhere = elsewhere
        self._found: dict[str, list[TableRoute]] = {}

    def find(self, name: str) -> list[TableRoute]:
        known = self._found.get(name)
        if known is None:
            tables = self.tables_of(name)
            # Half of a hybrid table would give a wrong answer; a half that was just created is not assigned to brokers yet.
            is_split = any(self.elsewhere.get(table) for table in tables)
            known = [] if is_split else [self.routes[table] for table in tables if table in self.routes]
            if known:  # unknown names would accumulate
                self._found[name] = known
        return known

    def is_elsewhere(self, name: str) -> bool:
        return any(table in self.elsewhere for table in self.tables_of(name))

    def tables_of(self, name: str) -> list[str]:
        """Return the typed tables that a name refers to, as written or else ignoring case."""
        exact = [table for table in _typed_names(name) if table in self.routes or table in self.elsewhere]
        if exact:
            return exact
        folded = name.lower()
        known = sorted({*self.routes, *self.elsewhere})
        found = [table for table in known if folded in (table.lower(), raw_table_name(table).lower())]
        return [table for table in found if raw_table_name(table) == raw_table_name(found[0])]


class RoutingTables:
    """The routes of the tables that a broker serves; from `start` to `stop` a thread keeps them up to date.

    default_options: cluster-wide defaults of query options.
    group_options: likewise for limits on groups, which a table's config can override.
    row_limits: cluster-wide limits of LIMIT. log2m: of HyperLogLog, None if not set. fixed_replica: the default for tables
    that do not set it. option_validation: the treatment of unknown options.
    is_enabled: whether new queries are accepted; the broker's instance config can disable that.
    """

    def __init__(self, registry: Registry, clock: Clock = SYSTEM_CLOCK, broker_id: str | None = None) -> None:
        """broker_id: tables are served if `brokerResource` assigns them to this instance; None serves all tables."""
        self.is_enabled = True
        self.default_options: Mapping[str, str] = {}
        self.group_options: Mapping[str, str] = {}
        self.row_limits = STANDARD_LIMITS
        self.log2m: int | None = None
        self.option_validation = "NONE"
        self.fixed_replica = False
        self._registry = registry
        self._clock = clock
        self._broker_id = broker_id
        self._resource = BrokerResource(registry)
        self._assigned: BrokerStates | None = None
        self._builder = RouteBuilder(registry)
        self._snapshot = _Snapshot({}, {})
        self._unreadable: dict[str, str] = {}  # typed table -> why its route cannot be built
        self._facts: dict[str, KnownFacts] = {}
        self.update_s: dict[str, float] = {}
        """Seconds spent so far on building the routes of each typed table."""
        self._condition = threading.Condition()
        self._rebuilding = threading.Lock()
        self._dirty: set[str] = set()
        self._settings_changed = False
        self._assigned_changed = False
        self._all_changed = False
        self._changed_segments: dict[str, set[str]] = {}
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._cancels: list[Callable[[], None]] = []
        self._followers: list[Callable[[Mapping[str, str]], None]] = []
        self._settings: Mapping[str, str] | None = None

    @property
    def store(self) -> MetadataStore:
        """The metadata store with the records."""
        return self._registry.store

    def start(self) -> None:
        """Build all routes, then follow changes."""
        store = self._registry.store
        for path in _TABLE_RECORDS:
            self._cancels.append(store.watch(path, self._on_table_change))
        self._cancels.append(store.watch(paths.SEGMENTS, self._on_segment_change))
        for path in (paths.PARTICIPANT_CONFIGS, paths.LIVE_INSTANCES):
            self._cancels.append(store.watch(path, self._on_instance_change))
        for path in (paths.CLUSTER_CONFIG, paths.DATABASES, paths.APPLICATION_QUOTAS):
            self._cancels.append(store.watch(path, self._on_settings_change))
        self._read_settings()
        self._read_assigned()
        for table in self._registry.table_names():
            self._build_first(table)
        self._thread = threading.Thread(target=self._run, name="broker-routing", daemon=True)
        self._thread.start()

    def _build_first(self, table: str) -> None:
        """Build the route of a table, with retries: records that change while they are read may be inconsistent."""
        for attempt in range(_FIRST_ATTEMPTS):
            try:
                self._rebuild(table, None)
            except StoreUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - one table's broken record must not keep the others from being asked
                _log.exception("cannot build the route of %s, attempt %d", table, attempt + 1)
                self._unreadable[table] = _reason(error)
            else:
                return

    def follow_settings(self, follow: Callable[[Mapping[str, str]], None]) -> None:
        """Call a function with the cluster's settings, now if they are known, and on each change."""
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

    def address_of(self, instance_id: str) -> tuple[str, int]:
        """Return the host and port of an instance, ("", 0) without a record."""
        found = self._registry.get_instance(instance_id)
        return ("", 0) if found is None else (found.host, found.port)

    def known_address(self, instance_id: str) -> tuple[str, int] | None:
        """Return an instance's address as of the last build of routes, without reading the metadata store; None if
        unknown."""
        return self._builder.addresses.get(instance_id)

    def find(self, name: str) -> list[TableRoute]:
        """Return the routes of the table that a query names, raw or typed, ignoring case; OFFLINE first.

        Empty for a table that other brokers serve.
        """
        return self._snapshot.find(name)

    def is_elsewhere(self, name: str) -> bool:
        """Whether a name refers to a table that this broker does not serve."""
        return self._snapshot.is_elsewhere(name)

    def why_unreadable(self, name: str) -> str | None:
        """Return why a table has no route, or None: the error in its records."""
        found = (self._unreadable.get(table) for table in _typed_names(name))
        return next((reason for reason in found if reason is not None), None)

    def routes(self) -> list[TableRoute]:
        """Return the routes of all tables that are served."""
        return list(self._snapshot.routes.values())

    def table_names(self) -> list[str]:
        """Return the raw names of all tables that are served."""
        return sorted({raw_table_name(table) for table in self._snapshot.routes})

    def tables_of(self, name: str) -> list[str]:
        """Return the typed tables that a name refers to, served by this broker or not; OFFLINE first."""
        return self._snapshot.tables_of(name)

    def drop(self, table: str) -> None:
        """Stop serving a typed table until its route is rebuilt."""
        with self._rebuilding:
            self._facts.pop(table, None)
            self._replace(table, None, elsewhere={table: False})

    def refresh(self, table: str) -> None:
        """Rebuild a typed table's route now, from the current records."""
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
            if name == paths.BROKER_RESOURCE:
                self._assigned_changed = True
            else:
                self._dirty.update(tables)
            self._condition.notify_all()

    def _on_instance_change(self, path: str) -> None:
        with self._condition:
            self._dirty.update(self._snapshot.routes)
            self._settings_changed |= path.startswith(paths.participant_config(Role.BROKER.value))
            self._condition.notify_all()

    def _on_settings_change(self, _: str) -> None:
        with self._condition:
            self._settings_changed = True
            self._condition.notify_all()

    def _read_settings(self) -> None:
        settings = self._registry.cluster_config() | quota_settings(self._registry)
        named = _named(_OPTION_SETTINGS, settings)
        limits = RowLimits.of(settings)
        log2m = HYPERLOGLOG_LOG2M.whole(settings) if HYPERLOGLOG_LOG2M.name in settings else None
        own = None if self._broker_id is None else self._registry.get_instance(self._broker_id)
        with self._condition:
            self._settings = settings
            for follow in self._followers:
                follow(settings)
            self.is_enabled = own is None or own.enabled
            self.default_options = named
            self.group_options = _named(_GROUP_SETTINGS, settings)
            self.fixed_replica = FIXED_REPLICA.flag(settings)
            self.log2m = log2m
            self.option_validation = OPTION_VALIDATION.text(settings).upper()
            self.row_limits = STANDARD_LIMITS if limits == STANDARD_LIMITS else limits
            self._condition.notify_all()

    def _read_assigned(self) -> set[str]:
        """Read which brokers serve which tables; return the typed tables whose assignment changed."""
        before, after = self._assigned, self._resource.ideal()
        self._assigned = after
        if before is None or after is None:
            return set() if before is after else {*self._snapshot.routes, *self._registry.table_names()}
        return {table for table in {*before, *after} if before.get(table) != after.get(table)}

    def _is_served(self, table: str) -> bool:
        assigned = self._assigned
        return assigned is None or self._broker_id is None or self._broker_id in assigned.get(table, {})

    def _on_any_change(self) -> None:
        """Rebuild everything: the connection to the store was lost."""
        with self._condition:
            self._all_changed = self._settings_changed = self._assigned_changed = True
            self._condition.notify_all()

    def _on_segment_change(self, path: str) -> None:
        table, _, segment = path.removeprefix(paths.SEGMENTS).strip("/").partition("/")
        if not table:
            self._on_any_change()
            return
        with self._condition:
            self._dirty.add(table)
            self._changed_segments.setdefault(table, set()).add(segment)
            self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(self._has_work, self._aging_s())
                if self._stopping:
                    return
                self._dirty |= self._aged()
                settings_changed, self._settings_changed = self._settings_changed, False
                assigned_changed, self._assigned_changed = self._assigned_changed, False
                dirty, self._dirty = self._dirty, set()
                changed, self._changed_segments = self._changed_segments, {}
                all_changed, self._all_changed = self._all_changed, False
            try:
                if settings_changed:
                    self._read_settings()
                if assigned_changed:
                    dirty |= self._read_assigned()
                if all_changed:
                    dirty |= {*self._snapshot.routes, *self._registry.table_names()}
            except GamayError:
                _log.exception("cannot read the cluster's settings or tables; keeping the previous ones")
            for table in sorted(dirty):
                try:
                    self._rebuild(table, None if all_changed else changed.get(table, set()))
                except Exception as error:  # noqa: BLE001 - one table's broken record must not freeze the other routes
                    _log.exception("cannot rebuild the route of %s; keeping the previous one", table)
                    self._unreadable[table] = _reason(error)

    def _has_work(self) -> bool:
        return bool(self._dirty) or self._settings_changed or self._assigned_changed or self._stopping

    def _rebuild(self, table: str, changed: set[str] | None) -> None:
        """Replace a table's route; with `changed` None the known facts of its segments are discarded."""
        with self._rebuilding:
            begun_s = self._clock.monotonic_s()
            self._rebuild_alone(table, changed)
            self._unreadable.pop(table, None)
            if table in self._snapshot.routes:
                self.update_s[table] = self.update_s.get(table, 0.0) + self._clock.monotonic_s() - begun_s
            else:
                self.update_s.pop(table, None)

    def _rebuild_alone(self, table: str, changed: set[str] | None) -> None:
        if self._is_served(table):
            self._replace(table, self._built(table, changed))
            return
        self._facts.pop(table, None)
        if self._registry.get_table_config(table) is None:
            self._replace(table, None)
        else:
            self._replace(table, None, elsewhere={table: table in (self._assigned or {})})

    def _built(self, table: str, changed: set[str] | None) -> TableRoute | None:
        before = self._facts.get(table)
        known = {} if changed is None or before is None else before
        served = None if before is None else {name: facts.is_held for name, facts in before.items() if facts.was_served}
        for segment in changed or ():
            known.pop(segment, None)
        with collector.paused():  # a route of 100,000 segments is a million long-lived objects
            brokers = None if self._assigned is None else self._assigned.get(table, {})
            route = self._builder.build(table, known, self._clock.now_ms(), served, brokers)
        if route is None:
            self._facts.pop(table, None)
        else:
            self._facts[table] = known
        return route

    def _replace(self, table: str, route: TableRoute | None, elsewhere: Mapping[str, bool] = MappingProxyType({})) -> None:
        """Publish a new route of a table, or none."""
        routes = {name: other for name, other in self._snapshot.routes.items() if name != table}
        if route is not None:
            routes[table] = route
        others = {name: is_known for name, is_known in self._snapshot.elsewhere.items() if name != table}
        with self._condition:
            self._snapshot = _Snapshot(routes, {**others, **elsewhere})
            self._condition.notify_all()

    def _aging_s(self) -> float | None:
        """Return the seconds until segments of some route are no longer new."""
        stale = [route.stale_ms for route in self._snapshot.routes.values() if route.stale_ms is not None]
        return max(0.0, (min(stale) - self._clock.now_ms()) / 1000) + 0.001 if stale else None

    def _aged(self) -> set[str]:
        now_ms = self._clock.now_ms()
        routes = self._snapshot.routes.items()
        return {table for table, route in routes if route.stale_ms is not None and route.stale_ms <= now_ms}


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, GamayError) else f"{type(error).__name__}: {error}"


def _typed_names(name: str) -> tuple[str, ...]:
    return (name,) if table_type_of(name) is not None else (f"{name}_OFFLINE", f"{name}_REALTIME")


def describe(routes: list[TableRoute]) -> dict[str, Any]:
    """Return routes in the form of the debug endpoints: typed table -> server -> segments."""
    return {route.table: route.by_server(FIRST_TURN) for route in routes}
