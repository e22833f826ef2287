"""What one server found for a query, before it is merged with what others found."""

from dataclasses import dataclass, field

from gamay.query.execute.explain import SegmentPlans
from gamay.query.groupby.table import GroupTable, KeySet
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.selection import Rows
from gamay.query.stats import QueryStats
from gamay.query.trace import Trace


@dataclass(slots=True)
class ServerResult:
    """What a server found.

    rows: of selections: a column for each of `BoundQuery.rows`, at most LIMIT + OFFSET rows, in order; None without rows.
    groups: of the other kinds: keys are `BoundQuery.rows`; an aggregation has one group without keys; by partition where a
        GROUP BY has more than fit the memory; None when no segment was left to look at.
    sets: of GROUPING SETS, instead of groups: by the positions of their keys in `BoundQuery.rows`.
    plans: of EXPLAIN: how the query would be executed.
    trace: of `trace=true`: which operators took how long.
    pruning_s: seconds until the segments were chosen.
    """

    stats: QueryStats = field(default_factory=QueryStats)
    rows: Rows | None = None
    groups: GroupTable | PartitionedGroups | None = None
    sets: dict[KeySet, GroupTable | PartitionedGroups] | None = None
    plans: SegmentPlans | None = None
    trace: Trace | None = None
    pruning_s: float = 0.0
