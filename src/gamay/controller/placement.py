"""Placement of tables' segments on servers: instance partitions (stored, or derived from tags) and assignments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gamay.base.errors import InvalidConfigError
from gamay.cluster.place.instance_partitions import (
    MIRRORED,
    choose_partitions,
    default_partitions,
    partitions_by_pair,
    tagged_instances,
)
from gamay.cluster.place.placement import Strategy, place_new
from gamay.cluster.place.table_target import COMPLETED_KIND, CONSUMING_KIND, OFFLINE_KIND, TablePlan
from gamay.cluster.records.llc_name import partition_of
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import ONLINE, Assignment
from gamay.cluster.store import paths
from gamay.cluster.store.store import update
from gamay.cluster.store.znrecord import encode, read_record
from gamay.controller.context import ControllerContext, TableConfigs
from gamay.controller.present_servers import present_servers
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType, raw_table_name


@dataclass(frozen=True, slots=True)
class PlacementManager:
    """Manager of the instance partitions and placements of all tables."""

    context: ControllerContext
    tables: TableConfigs

    def stored(self, name: str) -> InstancePartitions | None:
        """Return the instance partitions stored under a name, or None. Raises CorruptRecordError."""
        path = paths.instance_partitions(name)
        node = self.context.registry.store.get(path)
        return None if node is None else read_record(path, node.value, InstancePartitions.from_record)

    def store(self, partitions: InstancePartitions) -> None:
        """Store instance partitions under their name."""
        value = encode(partitions.to_record())
        update(self.context.registry.store, paths.instance_partitions(partitions.name), lambda _: value)

    def remove(self, config: TableConfig, kind: str) -> None:
        """Delete the stored instance partitions of a kind; they follow from the config and tags again."""
        self.context.registry.store.delete(paths.instance_partitions(partitions_name(config, kind)))

    def parse(self, document: Mapping[str, object]) -> InstancePartitions:
        """Return the instance partitions that a document describes; every instance must exist. Raises InvalidConfigError."""
        name, groups = document.get("instancePartitionsName"), document.get("partitionToInstancesMap")
        if not isinstance(name, str) or not isinstance(groups, dict):
            raise InvalidConfigError("instance partitions need 'instancePartitionsName' and 'partitionToInstancesMap'")
        found = partitions_by_pair(groups, name)
        known = set(self.context.registry.instance_ids())
        if missing := [instance for instance in found.instances if instance not in known]:
            raise InvalidConfigError(f"instance partitions {name} name instances that do not exist: {', '.join(missing)}")
        return found

    def kinds(self, config: TableConfig) -> list[str]:
        """Return the kinds of instance partitions that a table uses, without tiers."""
        if config.table_type is TableType.OFFLINE:
            return [OFFLINE_KIND]
        override = config.tenants.tag_override
        moves = COMPLETED_KIND in config.effective_assignment or COMPLETED_KIND in config.instance_partitions
        moves = moves or (override is not None and override.realtime_completed is not None)
        return [CONSUMING_KIND, COMPLETED_KIND] if moves else [CONSUMING_KIND]

    def partitions(self, config: TableConfig, kind: str) -> InstancePartitions:
        """Return the instance partitions of a kind (or a tier): those that are stored, or else those that follow from
        tags.

        Raises InvalidConfigError if there are too few servers.
        """
        found = self.stored(partitions_name(config, kind))
        return self.computed(config, kind) if found is None else found

    def computed(self, config: TableConfig, kind: str, *, existing: InstancePartitions | None = None) -> InstancePartitions:
        """Compute instance partitions; with `existing`, as many instances as possible keep their places.

        Raises InvalidConfigError.
        """
        name, table = partitions_name(config, kind), config.typed_name
        instances = self.context.registry.instances()
        wanted = config.effective_assignment.get(kind)
        if wanted is None:
            return default_partitions(name, table, tagged_instances(instances, tag_of(config, kind)))
        streams, sets = self._num_stream_partitions(config), None
        if wanted.partition_selector == MIRRORED:
            sets = self.stored(config.instance_partitions.get(kind, ""))
        return choose_partitions(
            name, table, wanted, instances, existing=existing, num_stream_partitions=streams, server_sets=sets
        )

    def settle(self, config: TableConfig) -> None:
        """Store the instance partitions that a table's config demands, so that servers joining later change nothing."""
        for kind in [*self.kinds(config), *(tier.name for tier in config.tiers)]:
            if kind in config.effective_assignment and self.stored(partitions_name(config, kind)) is None:
                self.store(self.computed(config, kind))

    def plan(self, table: str, changed: Iterable[InstancePartitions] = ()) -> TablePlan:
        """Return the input for the placement of a table's segments. changed: instance partitions that override others
        by name."""
        config = self.tables.get(table)
        own = {partitions.name: partitions for partitions in changed}
        kinds = [*self.kinds(config), *(tier.name for tier in config.tiers)]
        partitions = {kind: own.get(partitions_name(config, kind)) or self.partitions(config, kind) for kind in kinds}
        records = {record.name: record for record in self.context.registry.segments(table)}
        return TablePlan(config, partitions, records, self.context.clock.now_ms())

    def assigned(self, table: str, names: Sequence[str], ideal: Assignment) -> dict[str, dict[str, str]]:
        """Return the assignment of those segments that the ideal state lacks. Raises InvalidConfigError."""
        new = [name for name in names if name not in ideal.states]
        config = self.tables.get(table)
        self.settle(config)
        kind = OFFLINE_KIND if config.table_type is TableType.OFFLINE else self.kinds(config)[-1]
        partitions = self.partitions(config, kind)
        records = {name: r for name in new if (r := self.context.registry.get_segment(table, name)) is not None}
        plan = TablePlan(config, {kind: partitions}, records, self.context.clock.now_ms())
        beside: dict[str, tuple[str, ...]] = {}
        if config.table_type is TableType.REALTIME and plan.is_strict:
            # rows with the same primary key belong on one server: a segment goes to the servers of its partition
            found = {name: present_servers(ideal, plan.partition_of(name)) for name in new}
            beside = {name: servers for name, servers in found.items() if servers}
            new = [name for name in new if name not in beside]
        strategy = plan.strategy(kind)
        if strategy is Strategy.BALANCED:
            partitions = self._enabled(partitions, config.replication)
        placed = place_new(new, strategy, partitions, config.replication, ideal.states, plan.place_of)
        return {segment: dict.fromkeys(sorted(at), ONLINE) for segment, at in {**beside, **placed}.items()}

    def _enabled(self, partitions: InstancePartitions, replication: int) -> InstancePartitions:
        """Return the partitions without disabled servers if the remaining ones can hold all replicas."""
        off = {i.id for i in self.context.registry.instances() if not i.enabled}
        kept = tuple(instance for instance in partitions.groups[0][0] if instance not in off)
        return partitions if len(kept) < replication else InstancePartitions(partitions.name, ((kept,),))

    def _num_stream_partitions(self, config: TableConfig) -> int:
        ideal = self.context.registry.get_ideal_state(config.typed_name)
        found = [p for name in ([] if ideal is None else ideal.states) if (p := partition_of(name)) is not None]
        return 1 + max(found, default=0)


def partitions_name(config: TableConfig, kind: str) -> str:
    """Return the name under which instance partitions of a table are stored, or the name of shared ones."""
    shared, own = config.instance_partitions.get(kind), config.effective_assignment.get(kind)
    if shared is not None and (own is None or own.partition_selector != MIRRORED):
        return shared
    raw = raw_table_name(config.typed_name)
    return f"{raw}_{kind}" if kind in (OFFLINE_KIND, CONSUMING_KIND, COMPLETED_KIND) else f"{raw}__TIER__{kind}"


def tag_of(config: TableConfig, kind: str) -> str:
    """Return the tag of the servers that hold segments of a kind."""
    tier = next((tier for tier in config.tiers if tier.name == kind), None)
    if tier is not None:
        if tier.server_tag is None:
            raise InvalidConfigError(f"tier '{kind}' of table {config.typed_name} has no serverTag")
        return tier.server_tag
    override, tenant = config.tenants.tag_override, config.tenants.server
    if kind == CONSUMING_KIND and override is not None and override.realtime_consuming:
        return override.realtime_consuming
    if kind == COMPLETED_KIND and override is not None and override.realtime_completed:
        return override.realtime_completed
    return f"{tenant}_OFFLINE" if kind == OFFLINE_KIND else f"{tenant}_REALTIME"
