"""Manually fixed time boundaries of hybrid tables, which stay while OFFLINE segments are pushed one by one."""

from dataclasses import replace

from gamay.base.errors import NotFoundError
from gamay.cluster.records.records import ONLINE, Assignment
from gamay.cluster.records.registry import Registry
from gamay.cluster.records.time_boundary import IDEAL_STATE_KEY, TimeBoundary, boundary_of, fixed_boundary_ms, rounded_ms
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.model.table.table_name import TableType, raw_table_name, typed_table_name


def fix_boundary(registry: Registry, table: str) -> TimeBoundary:
    """Fix the boundary at its current value by the loaded segments. Raises NotFoundError if there is none."""
    offline = _offline_half(registry, table)
    boundary = _present_boundary(registry, offline)
    if boundary is None:
        raise NotFoundError(
            f"table '{offline}' has no loaded segment with rows and a time, or no time column: its boundary is unknown"
        )
    fixed = {IDEAL_STATE_KEY: str(boundary.millis)}
    registry.update_ideal_state(offline, lambda ideal: replace(ideal, simple={**ideal.simple, **fixed}))
    return boundary


def release_boundary(registry: Registry, table: str) -> None:
    """Let the boundary follow the segments again. Raises NotFoundError if the table is not hybrid."""
    offline = _offline_half(registry, table)

    def released(ideal: Assignment) -> Assignment:
        return replace(ideal, simple={key: value for key, value in ideal.simple.items() if key != IDEAL_STATE_KEY})

    registry.update_ideal_state(offline, released)


def present_boundary(registry: Registry, table: str) -> TimeBoundary | None:
    """Return the current time boundary of a hybrid table, or None if it has none."""
    raw = raw_table_name(table)
    offline = typed_table_name(raw, TableType.OFFLINE)
    ideal = registry.get_ideal_state(offline)
    if ideal is None or registry.get_table_config(offline) is None:
        return None
    return _present_boundary(registry, offline, fixed_boundary_ms(ideal.simple))


def boundary_ms(registry: Registry, table: str) -> int | None:
    """Return the current time boundary in milliseconds, or None."""
    boundary = present_boundary(registry, table)
    return None if boundary is None else boundary.millis


def _offline_half(registry: Registry, table: str) -> str:
    raw = raw_table_name(table)
    halves = [typed_table_name(raw, kind) for kind in (TableType.OFFLINE, TableType.REALTIME)]
    if any(registry.get_table_config(half) is None for half in halves):
        raise NotFoundError(f"table '{raw}' is not hybrid: it needs an OFFLINE and a REALTIME half to have a time boundary")
    return halves[0]


def _present_boundary(registry: Registry, offline: str, fixed_ms: int = 0) -> TimeBoundary | None:
    config, schema = registry.get_table_config(offline), registry.get_schema(raw_table_name(offline))
    view = registry.get_external_view(offline)
    if config is None or schema is None or view is None:
        return None
    hidden = registry.get_lineage(offline).hidden_segments()
    loaded = [name for name, states in view.states.items() if ONLINE in states.values() and name not in hidden]
    records = list(registry.get_segments(offline, loaded).values())
    ends_ms = [record.end_time_ms for record in records if record.total_docs != 0]
    rounded = [(record.end_time_ms, rounded_ms(record.custom)) for record in records]
    return boundary_of(stored_schema(schema), stored_table_config(config), ends_ms, fixed_ms, rounded)
