"""Limits on the groups of a query: none by default, Pinot's if a query, its table or the cluster sets them.

Without limits, answers are exact for any number of groups that fits in memory. The response reports each limit that cuts
groups off:

* `numGroupsLimit`: a segment keeps its first groups by appearance, with all their rows (`numGroupsLimitReached`, or an error
  with `errorOnNumGroupsLimit`);
`minServerGroupTrimSize`, `groupTrimThreshold`: a server with more groups than the threshold keeps the first ones in the
query's order: five times LIMIT + OFFSET, but at least the trim size (`groupsTrimmed`). Setting one of them gives the other
Pinot's default. `minSegmentGroupTrimSize` does the same for each segment, `minBrokerGroupTrimSize` at the broker.

If the order is by keys alone and there is no HAVING, only the first LIMIT groups of each part can be in the answer. The
others are dropped early, and the answer stays exact.
"""

from dataclasses import dataclass, replace

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.coding import CODES_MAX
from gamay.query.bind.binder import BoundQuery
from gamay.query.groupby.ordering import first_groups, is_ordered_by_keys
from gamay.query.groupby.table import GroupTable
from gamay.query.stats import QueryStats
from gamay.sql.options.option_values import flag, number

# Pinot's defaults, used if only one of two related limits is set
MIN_TRIM_SIZE = 5000
TRIM_THRESHOLD = 1_000_000
_TRIM_FACTOR = 5
_THRESHOLD_MAX = 1_000_000_000
# fewer groups are merged faster than they are sorted
_SAFE_TRIM_MIN = 4096


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The limits of one query; a size of 0 disables trimming.

    warning: the number of groups of a segment from which the response has a flag; 0: never.
    is_safe: dropping all but the first `safe_size` groups in the query's order cannot change the answer.
    """

    num_groups: int
    warning: int
    is_error: bool
    segment_size: int
    server_size: int
    broker_size: int
    threshold: int
    is_safe: bool
    safe_size: int

    @property
    def are_none(self) -> bool:
        """Whether all groups of all segments are needed, and no flag depends on a segment's number of groups."""
        return self.keep_all and not self.is_safe

    @property
    def keep_all(self) -> bool:
        """Whether no group that may be in the answer is dropped, and no flag depends on a segment's groups."""
        return self.num_groups >= CODES_MAX and not (self.warning or self.segment_size or self.server_size)

    def untrimmed(self) -> "GroupLimits":
        """Return the same limits on the groups of a segment, but without trimming."""
        return replace(self, segment_size=0, server_size=0, broker_size=0, is_safe=False)

    def note(self, table: GroupTable, stats: QueryStats) -> None:
        """Set the response flags for the groups of a segment; raises QueryError 245 if a limit is an error."""
        if table.limit_reached:
            if self.is_error:
                raise QueryError(
                    ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
                    f"A segment has more than {self.num_groups} groups (numGroupsLimit); "
                    "filter more, group by less, or set a larger numGroupsLimit",
                )
            stats.num_groups_limit_reached = True
        if 0 < self.warning <= table.num_groups:
            stats.num_groups_warning_limit_reached = True

    def of_segment(self, bound: BoundQuery, table: GroupTable, stats: QueryStats) -> GroupTable:
        """Return the groups of a segment to merge."""
        if self.is_safe and table.num_groups > max(self.safe_size, _SAFE_TRIM_MIN):
            return first_groups(bound, table, self.safe_size)
        return self._trimmed(bound, table, self.segment_size, self.segment_size, stats)

    def of_server(self, bound: BoundQuery, table: GroupTable, stats: QueryStats) -> GroupTable:
        """Return the groups of several segments to merge."""
        if self.is_safe and table.num_groups > max(self.safe_size, _SAFE_TRIM_MIN):
            return first_groups(bound, table, self.safe_size)
        return self._trimmed(bound, table, self.server_size, self.threshold, stats)

    def of_broker(self, bound: BoundQuery, table: GroupTable, stats: QueryStats) -> GroupTable:
        """Return the groups of all servers from which HAVING selects; without HAVING, trimming could not change the
        answer."""
        if bound.having is None:
            return table
        return self._trimmed(bound, table, self.broker_size, max(self.threshold, 2 * self.broker_size), stats)

    def _trimmed(self, bound: BoundQuery, table: GroupTable, size: int, threshold: int, stats: QueryStats) -> GroupTable:
        if not size or table.num_groups <= max(threshold, size):
            return table
        if not self.is_safe:
            stats.groups_trimmed = True
        return first_groups(bound, table, size)


def group_limits(bound: BoundQuery) -> GroupLimits:
    """Return the limits that a query's options set, which by now include those of its table and of the cluster."""
    options, wanted = bound.query.options, bound.limit_with_offset
    threshold = number(options, "groupTrimThreshold", TRIM_THRESHOLD)
    never = not 0 < threshold <= _THRESHOLD_MAX or (not bound.order_by and flag(options, "accurateGroupByWithoutOrderBy"))
    least = MIN_TRIM_SIZE if "groupTrimThreshold" in options else -1
    server_size = _size(wanted, number(options, "minServerGroupTrimSize", least))
    broker_size = _size(wanted, number(options, "minBrokerGroupTrimSize", least))
    return GroupLimits(
        num_groups=min(number(options, "numGroupsLimit", CODES_MAX), CODES_MAX),
        warning=number(options, "numGroupsWarningLimit", 0),
        is_error=flag(options, "errorOnNumGroupsLimit"),
        segment_size=_size(wanted, number(options, "minSegmentGroupTrimSize", -1)),
        server_size=0 if never else server_size,
        broker_size=0 if never else broker_size,
        threshold=max(threshold, 2 * server_size),
        is_safe=is_ordered_by_keys(bound) and bound.having is None,
        safe_size=wanted,
    )


def _size(wanted: int, least: int) -> int:
    return max(_TRIM_FACTOR * wanted, least) if least > 0 else 0
