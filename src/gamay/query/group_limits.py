"""How many groups a query may have, and what is kept when there are more.

Answers are exact as long as memory allows. Two things end that, and both say so in the response:

* a segment has more groups than `numGroupsLimit`: the first ones by appearance are kept, with all their rows
  (`numGroupsLimitReached`, or an error with `errorOnNumGroupsLimit`);
* a server has more groups than `groupTrimThreshold`: the first ones in the query's order are kept, five times as many as
  asked for, at least `minServerGroupTrimSize` (`groupsTrimmed`). With `minSegmentGroupTrimSize`, off by default, the same is
  done to each segment.

Where the order is by keys alone and there is no HAVING, the first LIMIT groups of each part are all that can be in the
answer, so that the others are dropped early and the answer stays exact.
"""

from dataclasses import dataclass

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.coding import CODES_MAX
from gamay.query.bind import BoundQuery
from gamay.query.group_order import first_groups, is_ordered_by_keys
from gamay.query.groupby.table import GroupTable
from gamay.query.stats import QueryStats
from gamay.sql.option_values import flag, number

NUM_GROUPS_LIMIT = 100_000
NUM_GROUPS_WARNING = 150_000
MIN_SERVER_TRIM_SIZE = 5000
TRIM_THRESHOLD = 1_000_000
_TRIM_FACTOR = 5
_THRESHOLD_MAX = 1_000_000_000
# fewer groups are merged faster than they are put in order
_SAFE_TRIM_MIN = 4096


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The limits of one query; sizes of 0 mean that nothing is trimmed.

    is_safe: dropping all but the first `safe_size` groups in the query's order cannot change the answer.
    """

    num_groups: int
    warning: int
    is_error: bool
    segment_size: int
    server_size: int
    threshold: int
    is_safe: bool
    safe_size: int

    def note(self, table: GroupTable, stats: QueryStats) -> None:
        """Set the flags that the groups of a segment call for; raises QueryError 245 where a limit is an error."""
        if table.limit_reached:
            if self.is_error:
                raise QueryError(
                    ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
                    f"A segment has more than {self.num_groups} groups (numGroupsLimit); "
                    "filter more, group by less, or set a larger numGroupsLimit",
                )
            stats.num_groups_limit_reached = True
        if table.num_groups >= self.warning:
            stats.num_groups_warning_limit_reached = True

    def of_segment(self, bound: BoundQuery, table: GroupTable, stats: QueryStats) -> GroupTable:
        """Return the groups of a segment that go on to be merged."""
        if self.is_safe and table.num_groups > max(self.safe_size, _SAFE_TRIM_MIN):
            return first_groups(bound, table, self.safe_size)
        return self._trimmed(bound, table, self.segment_size, self.segment_size, stats)

    def of_server(self, bound: BoundQuery, table: GroupTable, stats: QueryStats) -> GroupTable:
        """Return the groups of several segments that go on to be merged."""
        if self.is_safe and table.num_groups > max(self.safe_size, _SAFE_TRIM_MIN):
            return first_groups(bound, table, self.safe_size)
        return self._trimmed(bound, table, self.server_size, self.threshold, stats)

    def _trimmed(self, bound: BoundQuery, table: GroupTable, size: int, threshold: int, stats: QueryStats) -> GroupTable:
        if not size or table.num_groups <= max(threshold, size):
            return table
        if not self.is_safe:
            stats.groups_trimmed = True
        return first_groups(bound, table, size)


def group_limits(bound: BoundQuery) -> GroupLimits:
    """Return the limits that a query's options set, else the defaults."""
    options, wanted = bound.query.options, bound.limit_with_offset
    threshold = number(options, "groupTrimThreshold", TRIM_THRESHOLD)
    server_size = _size(wanted, number(options, "minServerGroupTrimSize", MIN_SERVER_TRIM_SIZE))
    keeps_all = not 0 < threshold <= _THRESHOLD_MAX or (
        not bound.order_by and flag(options, "accurateGroupByWithoutOrderBy")
    )
    return GroupLimits(
        num_groups=min(number(options, "numGroupsLimit", NUM_GROUPS_LIMIT), CODES_MAX),
        warning=number(options, "numGroupsWarningLimit", NUM_GROUPS_WARNING),
        is_error=flag(options, "errorOnNumGroupsLimit"),
        segment_size=_size(wanted, number(options, "minSegmentGroupTrimSize", -1)),
        server_size=0 if keeps_all else server_size,
        threshold=max(threshold, 2 * server_size),
        is_safe=is_ordered_by_keys(bound) and bound.having is None,
        safe_size=wanted,
    )


def _size(wanted: int, least: int) -> int:
    return max(_TRIM_FACTOR * wanted, least) if least > 0 else 0
