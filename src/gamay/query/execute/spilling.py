"""The groups of a server while its segments are grouped: in memory as long as they fit, else on disk."""

import threading
from collections.abc import Sequence

from gamay.functions.aggregate.distinct.coding import CODES_MAX
from gamay.query.bind.binder import BoundQuery
from gamay.query.execute.context import ExecutionContext
from gamay.query.groupby.limits import GroupLimits
from gamay.query.groupby.merge import merge_group_tables
from gamay.query.groupby.segment import Overflow, Place
from gamay.query.groupby.states import is_narrow
from gamay.query.groupby.table import GroupTable
from gamay.query.limits.memory_size import held_bytes
from gamay.query.partitioned.groups import PartitionedGroups

# Shares of a query's memory: for all threads while they group, and for the tables of finished segments. Growing a hash table
# takes twice its size, and spilling copies a table once; the rest of the memory is for that.
_GROWING_SHARE = 4
_KEPT_SHARE = 4
# Merging needs the tables, the codes of their keys and the merged table at the same time.
_MERGED_FACTOR = 3
# Merging all partitions at once needs the tables and the merged tables; the same amount is left for later steps.
_SETTLED_FACTOR = 4
# Above this size, groups that rarely repeat are set aside. It is several times the second-level cache, as a lookup reads
# only a few bytes of each group (`benchmarks.top_groups`: 2 MB and 32 MB are up to a quarter slower).
_SCATTERED_BYTES = 1 << 23
_NO_LIMIT = 1 << 62
# a smaller share of memory is not worth dividing
_MEMORY_LEAST = 1 << 20


class FoundGroups:
    """The groups of finished segments; thread-safe, in any order of their places.

    shares: the number of such objects that share the query's memory.
    """

    def __init__(self, context: ExecutionContext, limits: GroupLimits, shares: int = 1) -> None:
        self._context = context
        self._limits = limits
        limit = context.deadline.memory_limit
        self._memory = _NO_LIMIT if limit is None else max(limit // shares, _MEMORY_LEAST)
        self._lock = threading.Lock()
        self._tables: list[tuple[Place, GroupTable]] = []
        self._aside: list[tuple[Place, PartitionedGroups]] = []
        self._aside_bytes = 0
        self._aside_holder = context.deadline.holder("groups")
        self._kept_bytes = 0
        budget = context.deadline.budget
        self._may_spill = limit is not None and budget is not None and not budget.process.space.is_off

    @property
    def num_groups(self) -> int:
        """The number of groups of the tables in memory that are not partitioned."""
        return sum(table.num_groups for _, table in self._tables)

    def overflow(self, segment: int) -> Overflow | None:
        """Return how a segment handles more groups than it may hold; None if it holds all of them."""
        held, scattered = _NO_LIMIT, _NO_LIMIT
        if self._may_spill and self._limits.num_groups >= CODES_MAX:
            held = self._memory // (_GROWING_SHARE * self._context.pool.threads)
        if self._limits.are_none and all(is_narrow(call.aggregate) for call in self._context.bound.aggregates):
            scattered = _SCATTERED_BYTES
        if held == scattered == _NO_LIMIT:
            return None
        return Overflow(held, scattered, lambda place, table: self._put_aside((segment, *place), table))

    def add(self, place: Place, table: GroupTable) -> None:
        """Add a table, in memory if it fits, else on disk. Raises QueryError 245 if neither has room."""
        if not self._fits(held_bytes(table)):
            self._store(place, table)
            return
        self._context.keep_groups(table)
        with self._lock:
            self._tables.append((place, table))

    def merge(self) -> None:
        """Merge the tables that are not partitioned into one, which server limits may trim."""
        merged = merge_group_tables(self._in_order(), self._context.bound.aggregates)
        before = held_bytes(self._in_order())
        self._tables = [((0,), self._limits.of_server(self._context.bound, merged, self._context.stats))]
        self._context.drop()
        self._context.keep("groups", self._in_order())
        self._kept_bytes += held_bytes(self._in_order()) - before

    def result(self, bound: BoundQuery) -> GroupTable | PartitionedGroups | None:
        """Return all groups, in one table if it fits, else partitioned; None if no segment is left."""
        if not self._tables and not self._aside:
            return None
        tables = self._in_order()
        if self._aside or (len(tables) > 1 and _MERGED_FACTOR * sum(map(held_bytes, tables)) > self._memory):
            parts: list[tuple[Place, GroupTable | PartitionedGroups]] = [*self._tables, *self._aside]
            parts.sort(key=lambda found: found[0])
            whole = PartitionedGroups.joined([part for _, part in parts], bound.aggregates)
            return self._settled(whole) if bound.order_by or bound.having is not None else whole
        return self._limits.of_server(bound, merge_group_tables(tables, bound.aggregates), self._context.stats)

    def _settled(self, groups: PartitionedGroups) -> PartitionedGroups:
        """Merge the partitions with all threads, if the merged tables fit in memory beside the partitions.

        Not used for a query without an order, for which the first partitions may be enough.
        """
        if _SETTLED_FACTOR * self._kept_bytes > self._memory:
            return groups
        self._aside_holder.hold(self._aside_bytes + self._kept_bytes)
        return groups.settled(self._context.pool)

    def _in_order(self) -> Sequence[GroupTable]:
        return [table for _, table in sorted(self._tables, key=lambda found: found[0])]

    def _fits(self, num_bytes: int) -> bool:
        """Return whether so many bytes fit in memory, and count them if they do."""
        with self._lock:
            fits = not self._may_spill or self._kept_bytes + num_bytes <= self._memory // _KEPT_SHARE
            self._kept_bytes += num_bytes if fits else 0
        return fits

    def _put_aside(self, place: Place, table: GroupTable) -> None:
        num_bytes = held_bytes(table)
        if not self._fits(num_bytes):
            self._store(place, table)
            return
        part = PartitionedGroups(self._context.bound.aggregates)
        part.hold(table)
        with self._lock:
            self._aside_bytes += num_bytes
            self._aside_holder.hold(self._aside_bytes)
            self._aside.append((place, part))

    def _store(self, place: Place, table: GroupTable) -> None:
        budget = self._context.deadline.budget
        assert budget is not None
        part = PartitionedGroups(self._context.bound.aggregates, budget.spill_file())
        part.store(table)
        with self._lock:
            self._aside.append((place, part))
