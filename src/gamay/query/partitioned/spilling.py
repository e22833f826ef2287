"""The groups of a server while its segments are grouped: in memory as far as that reaches, else on disk."""

import threading
from collections.abc import Sequence

from gamay.functions.aggregate.coding import CODES_MAX
from gamay.query.bind import BoundQuery
from gamay.query.group_limits import GroupLimits
from gamay.query.groupby.merge import merge_group_tables
from gamay.query.groupby.segment import Overflow
from gamay.query.groupby.table import GroupTable
from gamay.query.held import held_bytes
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.work import Work

# Shares of a query's memory: what all threads may hold while they group, and what is kept of segments that are done. Growing
# a hash table takes twice what it holds, and what is spilled is copied once; the other shares are for that.
_GROWING_SHARE = 4
_KEPT_SHARE = 4
# Merging takes the tables, the codes of their keys and the merged table, all at once.
_MERGED_FACTOR = 3
_NO_LIMIT = 1 << 62
# dividing less memory than this pays for nobody
_MEMORY_LEAST = 1 << 20


class FoundGroups:
    """The groups of the segments that are done; may be added to from several threads."""

    def __init__(self, work: Work, limits: GroupLimits) -> None:
        self._work = work
        self._limits = limits
        limit = work.deadline.memory_limit
        self._memory = None if limit is None else max(limit, _MEMORY_LEAST)
        self._kept_bytes = 0
        self._lock = threading.Lock()
        self._spilled: PartitionedGroups | None = None
        self.tables: list[GroupTable] = []
        budget = work.deadline.budget
        self._may_spill = budget is not None and not budget.process.space.is_off

    @property
    def overflow(self) -> Overflow | None:
        """What a segment does with more groups than it should hold; None where it has a limit of its own."""
        if self._memory is None or not self._may_spill or self._limits.num_groups < CODES_MAX:
            return None
        return Overflow(self._memory // (_GROWING_SHARE * self._work.pool.threads), self._spill)

    def kept(self, table: GroupTable) -> GroupTable | None:
        """Return a segment's table, to be given to `add` in the order of the segments; None where it had to be spilled."""
        if self._memory is not None and self._may_spill:
            size = held_bytes(table)
            with self._lock:
                fits = self._kept_bytes + size <= self._memory // _KEPT_SHARE
                self._kept_bytes += size if fits else 0
            if not fits:
                self._spill(table)
                return None
        self._work.keep_groups(table)
        return table

    def add(self, tables: Sequence[GroupTable | None]) -> None:
        """Add tables that are kept in memory."""
        self.tables += [table for table in tables if table is not None]

    def merge(self) -> None:
        """Merge the tables in memory into one, which the limits of a server may trim."""
        merged = merge_group_tables(self.tables, self._work.bound.aggregates)
        self.tables = [self._limits.of_server(self._work.bound, merged, self._work.stats)]
        self._work.drop()
        self._work.keep("groups", self.tables)
        self._kept_bytes = held_bytes(self.tables)

    def result(self, bound: BoundQuery) -> GroupTable | PartitionedGroups | None:
        """Return all groups: in one table where that fits the memory, else by partition; None where no segment was left."""
        if self._spilled is not None:
            return PartitionedGroups.joined([self._spilled, *self.tables], bound.aggregates)
        if not self.tables:
            return None
        memory = _NO_LIMIT if self._memory is None else self._memory
        if len(self.tables) > 1 and _MERGED_FACTOR * sum(map(held_bytes, self.tables)) > memory:
            return PartitionedGroups.joined(self.tables, bound.aggregates)
        merged = merge_group_tables(self.tables, bound.aggregates)
        return self._limits.of_server(bound, merged, self._work.stats)

    def _spill(self, table: GroupTable) -> None:
        budget = self._work.deadline.budget
        assert budget is not None
        with self._lock:
            if self._spilled is None:
                self._spilled = PartitionedGroups(self._work.bound.aggregates, budget.spill_file())
        self._spilled.store(table)
