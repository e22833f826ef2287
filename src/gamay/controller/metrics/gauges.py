"""What a controller measures: whether the segments of tables are where they should be."""

from collections.abc import Iterator

from gamay.base.clock import Clock
from gamay.base.errors import GamayError
from gamay.base.history import MetricsHistory, Reading, Series
from gamay.base.metrics import Measured
from gamay.cluster.records.records import CONSUMING, ERROR, OFFLINE, ONLINE, Assignment, Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store.election import leader_of
from gamay.cluster.store.store_metrics import measure_store
from gamay.controller.context import ControllerContext
from gamay.controller.counts import measure_failures
from gamay.controller.metrics.jobs import measure_rebalances
from gamay.controller.metrics.streams import measure_consumption, measure_pauseless, newest_two
from gamay.controller.tables.tables import TableManager
from gamay.model.table.table_name import TableType

_READY = (ONLINE, CONSUMING)
_ROLES = (Role.SERVER, Role.BROKER, Role.CONTROLLER)
_SERIES = tuple(
    Series(f"{role.value.lower()}sDown", f"pinot_controller_{role.value.lower()}sDown", Reading.SUM) for role in _ROLES
)


def controller_history(registry: Registry, clock: Clock) -> MetricsHistory:
    """Return the memory of a controller's numbers, still empty: few, for what it tells of tables takes all their records."""
    return MetricsHistory([lambda: measure_members(registry)], _SERIES, clock)


def measure_controller(context: ControllerContext, tables: TableManager) -> Iterator[Measured]:
    """Yield what the records of the cluster tell."""
    registry = context.registry
    yield from measure_store("controller", registry.store)
    if not registry.store.connected:
        return  # Prometheus would not wait, and lose what can be told
    leads = leader_of(registry.store) in (None, context.instance_id)  # a controller that is alone is not elected
    yield Measured("pinot_controller_pinotControllerLeader", leads, "1 at the controller that leads")
    yield from measure_members(registry)
    for table in tables.names():
        try:
            config, ideal = tables.get(table), registry.must_get_ideal_state(table)
        except GamayError:
            continue  # it was deleted meanwhile
        is_realtime = config.table_type is TableType.REALTIME
        yield from measure_failures(table, registry.failed, is_realtime=is_realtime)
        yield from measure_table(table, config.replication, ideal, registry.get_external_view(table))
        if is_realtime:
            yield from context.counts.measure(table)
            records = registry.get_segments(table, newest_two(ideal))
            yield from measure_consumption(table, ideal, records, context.clock.now_ms())
            yield from measure_pauseless(config, ideal, registry.get_external_view(table))
    yield from measure_rebalances(registry)


def measure_members(registry: Registry) -> Iterator[Measured]:
    """Yield how many instances are there, and how many should be; nothing while the metadata store is away."""
    if not registry.store.connected:
        return
    live, instances = set(registry.live_instance_ids()), registry.instances()
    for role in _ROLES:
        members = [i.id for i in instances if i.role is role and i.enabled]
        dead = sum(name not in live for name in members)
        name = role.value.lower()
        yield Measured(f"pinot_controller_{name}sUp", len(members) - dead, f"{role.value}s that are alive")
        yield Measured(f"pinot_controller_{name}sDown", dead, f"{role.value}s that should be alive and are not")


def measure_table(table: str, replication: int, ideal: Assignment, view: Assignment | None) -> Iterator[Measured]:
    """Yield how a table's segments lie. Segments that are switched off on all servers do not count."""
    actual = {} if view is None else view.states
    wanted = {s: states for s, states in ideal.states.items() if set(states.values()) != {OFFLINE}}
    ready = {s: sum(state in _READY for state in actual.get(s, {}).values()) for s in wanted}
    failed = sum(ERROR in actual.get(s, {}).values() for s in wanted)
    available = sum(count > 0 for count in ready.values())
    fewest = min(ready.values(), default=replication)
    numbers = {
        "segmentCount": (len(ideal.states), "Segments"),
        "tableDisabled": (not ideal.enabled, "1 when the table is switched off"),
        "percentSegmentsAvailable": (100 * available / len(wanted) if wanted else 100, "Segments that a server has"),
        "segmentsInErrorState": (failed, "Segments that a server cannot load"),
        "segmentsWithLessReplicas": (
            sum(count < len(wanted[s]) for s, count in ready.items()),
            "Segments that fewer servers have than should",
        ),
        "numberOfReplicas": (fewest, "Replicas of the segment that has fewest"),
        "percentOfReplicas": (100 * fewest / max(1, replication), "The same, of all that there should be"),
    }
    for name, (value, text) in numbers.items():
        yield Measured(f"pinot_controller_{name}", value, text, {"table": table})
