"""The target assignment of a table's segments by its config: tiers, completed and consuming segments. Pure functions."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from gamay.base.errors import InvalidConfigError
from gamay.cluster.place.placement import Placement, Strategy, place_all, place_all_consuming
from gamay.cluster.place.rebalance_steps import States
from gamay.cluster.records.llc_name import PARTITIONS_PER_TOPIC, LlcName
from gamay.cluster.records.llc_name import partition_of as named_partition
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import COMMITTING, CONSUMING, OFFLINE, ONLINE, SegmentRecord
from gamay.model.table.sections import TierConfig
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.units import parse_period

# kinds of instance partitions, besides the names of tiers
OFFLINE_KIND, CONSUMING_KIND, COMPLETED_KIND = "OFFLINE", "CONSUMING", "COMPLETED"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The input of the placement of a table's segments.

    partitions: instance partitions by kind: OFFLINE, or CONSUMING and optionally COMPLETED, and each tier's name.
    records: of all segments. now_ms: wall clock, for the age of segments.
    """

    config: TableConfig
    partitions: Mapping[str, InstancePartitions]
    records: Mapping[str, SegmentRecord]
    now_ms: int

    @property
    def is_strict(self) -> bool:
        """Whether all segments of a partition must stay together, because their rows replace each other."""
        return self.config.has_keys

    def partition_of(self, segment: str) -> int:
        """Return the partition of a segment. Raises InvalidConfigError for a strict table's segment without one."""
        found = segment_partition(segment, self.records.get(segment), _partition_column(self.config))
        if found is None and self.is_strict:
            raise InvalidConfigError(
                f"segment {segment} of {self.config.typed_name} has no partition, neither in its name nor by its rows; "
                "tables with upsert or dedup need one"
            )
        return zlib.crc32(segment.encode()) if found is None else found

    def place_of(self, segment: str) -> int:
        """Return the number that determines the placement of a segment; for one from a stream, the partition within
        its topic, as for its consumption.

        Raises as `partition_of`.
        """
        name = LlcName.parse(segment)
        if name is not None:
            return name.partition % PARTITIONS_PER_TOPIC
        partition = self.partition_of(segment)
        return partition if named_partition(segment) is None else partition % PARTITIONS_PER_TOPIC

    def strategy(self, kind: str) -> Strategy:
        """Return the strategy for the instance partitions of a kind."""
        chosen = self.config.segment_assignment.get(kind)
        configured = None if chosen is None else chosen.strategy
        return Strategy.of(configured, self.partitions[kind], is_dimension_table=self.config.is_dim_table)


def _partition_column(config: TableConfig) -> str | None:
    """Return the column that determines a segment's partition, or None if the table names none."""
    groups = config.segments.replica_group_strategy
    if groups is not None:
        return groups.partition_column
    assigned = (assignment.replica_group_partition for assignment in config.instance_assignment.values())
    return next((wanted.partition_column for wanted in assigned if wanted.partition_column is not None), None)


def segment_partition(name: str, record: SegmentRecord | None, column: str | None = None) -> int | None:
    """Return the only partition of a segment, by its name or its partition metadata, or None.

    column: the partition column to use if there are several.
    """
    named = named_partition(name)
    if named is not None or record is None or not record.partition_metadata:
        return named
    columns = orjson.loads(record.partition_metadata).get("columnPartitionMap", {})
    if column is not None:
        columns = {column: columns[column]} if column in columns else {}
    if len(columns) != 1:
        return None
    partitions = next(iter(columns.values()))["partitions"]
    return int(partitions[0]) if len(partitions) == 1 else None


def tier_of(record: SegmentRecord, tiers: Sequence[TierConfig], now_ms: int) -> str | None:
    """Return the tier where a segment belongs: the first that lists it, or else the one with the greatest age that it
    has reached."""
    for tier in tiers:
        if tier.segment_selector_type == "fixed" and record.name in tier.segment_list:
            return tier.name
    aged = [(parse_period(tier.segment_age or ""), tier.name) for tier in tiers if tier.segment_selector_type == "time"]
    for age_ms, name in sorted(aged, key=lambda pair: -pair[0]):
        if record.end_time_ms >= 0 and now_ms - record.end_time_ms >= age_ms:
            return name
    return None


def target_states(plan: TablePlan, present: States, *, include_consuming: bool, bootstrap: bool = False) -> States:
    """Return the ideal state that a table should have.

    Segments that are OFFLINE everywhere stay as they are, and so do consuming ones unless `include_consuming`.
    bootstrap: ignore the current placement, however much moves. Raises InvalidConfigError if there are too few
    servers.
    """
    result: dict[str, Mapping[str, str]] = {}
    completed: dict[str, tuple[str, ...]] = {}
    consuming: dict[str, tuple[str, ...]] = {}
    tiers: dict[str, dict[str, tuple[str, ...]]] = {}
    for segment, states in present.items():
        here = () if bootstrap else tuple(sorted(states))
        record = plan.records.get(segment)
        if set(states.values()) == {OFFLINE}:
            result[segment] = states
        elif CONSUMING in states.values() or (record is not None and record.status == COMMITTING):
            if include_consuming:
                consuming[segment] = here
            else:
                result[segment] = states
        elif record is not None and (tier := tier_of(record, plan.config.tiers, plan.now_ms)) is not None:
            tiers.setdefault(tier, {})[segment] = here
        else:
            completed[segment] = here
    for segment, instances in _place_consuming(plan, consuming).items():
        state = next(state for state in present[segment].values() if state != OFFLINE)
        result[segment] = dict.fromkeys(sorted(instances), state)
    for tier, segments in tiers.items():
        result |= _online(_place(plan, tier, segments))
    result |= _online(_place_completed(plan, completed))
    return result


def _place_completed(plan: TablePlan, segments: Placement) -> Placement:
    if plan.config.table_type is TableType.OFFLINE:
        return _place(plan, OFFLINE_KIND, segments)
    if COMPLETED_KIND in plan.partitions:
        return _place(plan, COMPLETED_KIND, segments)
    return _place_consuming(plan, segments)


def _place_consuming(plan: TablePlan, segments: Placement) -> Placement:
    if not segments:
        return {}
    return place_all_consuming(segments, plan.partitions[CONSUMING_KIND], plan.config.replication, plan.place_of)


def _place(plan: TablePlan, kind: str, segments: Placement) -> Placement:
    if plan.is_strict:  # they stay together, as they were consumed
        return place_all_consuming(segments, plan.partitions[kind], plan.config.replication, plan.place_of)
    ordered = {segment: segments[segment] for segment in sorted(segments)}
    seed = plan.config.typed_name
    return place_all(ordered, plan.strategy(kind), plan.partitions[kind], plan.config.replication, plan.place_of, seed)


def _online(placement: Placement) -> dict[str, Mapping[str, str]]:
    return {segment: dict.fromkeys(sorted(instances), ONLINE) for segment, instances in placement.items()}
