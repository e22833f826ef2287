"""Atomic replacement of a table's rows, schema and config: queries see either the old table or the new one.

The new segments are hidden by an entry of the table's lineage until the server has loaded them. The entry is then completed
in one transaction with the schema and the config. A replacement that a crashed process left is completed or rolled back by
the next process that opens the folder (`finish_replacements`).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gamay.cluster.access.principals import ANYONE
from gamay.cluster.records.records import LineageState
from gamay.controller.segments.verify import VerifiedSegment
from gamay.controller.segments.writer import Rows, TableWriter
from gamay.embedded.core import LocalCluster
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import raw_table_name

_LOADED_WITHIN_S = 600.0


def _prefix(table: str) -> str:
    """Return the prefix of the new segments' names; no others have it, so those with it may be removed."""
    return f"{raw_table_name(table)}_replacement_"


def replace_table(
    cluster: LocalCluster,
    writer: TableWriter,
    table: str,
    schema: Mapping[str, Any],
    config: Mapping[str, Any],
    rows: Rows | None,
) -> None:
    """Replace all rows of a typed table that exists. schema, config: JSON documents; rows: None for none.

    Raises what creating such a table raises, and then keeps the old table.
    """
    new_schema = cluster.schemas.parse(schema).value
    new_config = cluster.tables.parse(config, new_schema, by=ANYONE).value
    prefix = f"{_prefix(table)}{cluster.clock.now_ms()}_{cluster.context.ids.new()[:8]}"
    name_of = "{}_{}".format
    with writer.built(new_schema, new_config, rows or (lambda _: ()), partial(name_of, prefix)) as built:
        _switch(cluster, table, new_schema, new_config, built)
    names = [segment.info.name for segment in built]
    cluster.routing.wait_until(lambda: _is_seen(cluster, table, names), _LOADED_WITHIN_S)
    finish_replacements(cluster, table)


def _switch(
    cluster: LocalCluster, table: str, schema: Schema, config: TableConfig, built: Sequence[VerifiedSegment]
) -> None:
    # a concurrent append is either replaced, or happens after the replacement
    with cluster.schemas.lock:
        _switch_alone(cluster, table, schema, config, built)


def _switch_alone(
    cluster: LocalCluster, table: str, schema: Schema, config: TableConfig, built: Sequence[VerifiedSegment]
) -> None:
    registry, replacements = cluster.registry, cluster.replacements
    before = cluster.segments.names(table, exclude_replaced=True)
    names = [segment.info.name for segment in built]

    def declare() -> None:
        registry.put_schema(schema.name, schema.to_json())
        registry.put_table_config(table, config.to_json())

    if not names:
        with cluster.in_one_step():
            declare()
            registry.update_ideal_state(table, lambda ideal: ideal.with_segments({}, frozenset(before)))
        cluster.segments.delete_unchecked(table, before, None)
        return
    entry = replacements.start(table, before, names)
    try:
        cluster.segments.add_all(table, built, schema)
        cluster.wait_until_loaded(table, names, _LOADED_WITHIN_S)
        with cluster.in_one_step():
            replacements.end(table, entry, names, 0, lambda _: None)
            declare()
    except BaseException:
        finish_replacements(cluster, table)
        raise


def finish_replacements(cluster: LocalCluster, table: str) -> None:
    """Remove the new segments of unfinished replacements, and the replaced segments of completed ones."""
    prefix, present = _prefix(table), set(cluster.segments.names(table))
    lineage = cluster.registry.get_lineage(table)
    own = [entry for entry in lineage.entries.values() if entry.segments_to and _all_begin(entry.segments_to, prefix)]
    for entry in own:
        is_done = entry.state is LineageState.COMPLETED
        gone = [name for name in (entry.segments_from if is_done else entry.segments_to) if name in present]
        cluster.segments.delete_unchecked(table, gone, None)
    ended = frozenset(entry.id for entry in own)
    if ended:
        cluster.registry.update_lineage(table, lambda current: current.without(ended))


def _all_begin(names: Sequence[str], prefix: str) -> bool:
    return all(name.startswith(prefix) for name in names)


def _is_seen(cluster: LocalCluster, table: str, names: Sequence[str]) -> bool:
    """Whether queries see these segments and no others."""
    return any(set(route.segments) == set(names) for route in cluster.routing.find(table))
