"""Gauges of a controller: instances, and the availability of tables' segments."""

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
    """Return an empty metrics history of a controller. It covers few metrics, since those of tables read all their
    records."""
    return MetricsHistory([lambda: measure_members(registry)], _SERIES, clock)


def measure_controller(context: ControllerContext, tables: TableManager) -> Iterator[Measured]:
    """Yield the metrics that follow from the cluster's records."""
    registry = context.registry
    yield from measure_store("controller", registry.store)
    if not registry.store.connected:
        return  # the scrape would time out and lose the other metrics
    leads = leader_of(registry.store) in (None, context.instance_id)  # a single controller is not elected
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
    """Yield the numbers of live and of missing instances by role; nothing while the metadata store is unavailable."""
    if not registry.store.connected:
        return
    live, instances = set(registry.live_instance_ids()), registry.instances()
    for role in _ROLES:
        members = [i.id for i in instances if i.role is role and i.enabled]
        dead = sum(name not in live for name in members)
        name = role.value.lower()
        yield Measured(f"pinot_controller_{name}sUp", len(members) - dead, f"{role.value}s that are live")
        yield Measured(f"pinot_controller_{name}sDown", dead, f"{role.value}s that are enabled but not live")


def measure_table(table: str, replication: int, ideal: Assignment, view: Assignment | None) -> Iterator[Measured]:
    """Yield the availability of a table's segments. Segments that are OFFLINE on all servers are left out."""
    actual = {} if view is None else view.states
    wanted = {s: states for s, states in ideal.states.items() if set(states.values()) != {OFFLINE}}
    ready = {s: sum(state in _READY for state in actual.get(s, {}).values()) for s in wanted}
    failed = sum(ERROR in actual.get(s, {}).values() for s in wanted)
    available = sum(count > 0 for count in ready.values())
    fewest = min(ready.values(), default=replication)
    numbers = {
        "segmentCount": (len(ideal.states), "Segments"),
        "tableDisabled": (not ideal.enabled, "1 when the table is disabled"),
        "percentSegmentsAvailable": (
            100 * available / len(wanted) if wanted else 100,
            "Percentage of segments that are available on at least one server",
        ),
        "segmentsInErrorState": (failed, "Segments that at least one server cannot load"),
        "segmentsWithLessReplicas": (
            sum(count < len(wanted[s]) for s, count in ready.items()),
            "Segments with fewer replicas than the ideal state demands",
        ),
        "numberOfReplicas": (fewest, "Replicas of the segment with the fewest"),
        "percentOfReplicas": (
            100 * fewest / max(1, replication),
            "Replicas of the segment with the fewest, as a percentage of the replication",
        ),
    }
    for name, (value, text) in numbers.items():
        yield Measured(f"pinot_controller_{name}", value, text, {"table": table})
