"""The result of one server for a query, before it is merged with those of other servers."""

from dataclasses import dataclass, field

from gamay.query.execute.explain import SegmentPlans
from gamay.query.groupby.table import GroupTable, KeySet
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.selection import Rows
from gamay.query.stats import QueryStats
from gamay.query.trace import Trace


@dataclass(slots=True)
class ServerResult:
    """The result of one server.

    rows: of selections: a column for each of `BoundQuery.rows`, at most LIMIT + OFFSET rows, in order; None without rows.
    groups: of the other kinds: keys are `BoundQuery.rows`; an aggregation has one group without keys; partitioned if a GROUP
    BY
        has more groups than fit in memory; None if no segment is left.
    sets: of GROUPING SETS, instead of groups: by the positions of their keys in `BoundQuery.rows`.
    plans: of EXPLAIN: the execution plans.
    trace: of `trace=true`: the operators and their times.
    pruning_s: seconds spent on pruning segments.
    """

    stats: QueryStats = field(default_factory=QueryStats)
    rows: Rows | None = None
    groups: GroupTable | PartitionedGroups | None = None
    sets: dict[KeySet, GroupTable | PartitionedGroups] | None = None
    plans: SegmentPlans | None = None
    trace: Trace | None = None
    pruning_s: float = 0.0
