"""Tables of groups by partition: tables in any order and with repeats go in, merged partitions come out one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.functions.aggregate_spi import Aggregate, Partial
from gamay.query.buffers.tables import TableShape, groups_of, put_groups
from gamay.query.groupby.merge import merge_group_tables, regroup
from gamay.query.groupby.states import is_narrow
from gamay.query.groupby.table import AggregateCall, GroupTable, KeySet, select_groups, slice_key
from gamay.query.limits.memory_size import held_bytes
from gamay.query.limits.spill_files import SpillFile
from gamay.query.partitioned.dictionaries import CommonDictionaries
from gamay.query.partitioned.hashing import LEVELS, NUM_PARTITIONS, partitions_of
from gamay.query.pool import WorkPool

# The number of groups of partitions that are merged at once: each merge costs 0.3 ms, whatever its size, and its lookup
# table stays in the second-level cache (a million groups take 59 ms in 16 merges, 73 in 64).
_MERGED_GROUPS = 1 << 16
# a partition with a larger share of the memory is divided again: merging needs its tables and the merged one
_PARTITION_SHARE = 8


class Piece(Protocol):
    """Some groups of one partition. num_bytes: their approximate size in memory. are_distinct: whether none occurs twice."""

    @property
    def are_distinct(self) -> bool: ...

    @property
    def num_bytes(self) -> int: ...

    @property
    def num_groups(self) -> int: ...

    def load(self, aggregates: Sequence[AggregateCall]) -> GroupTable:
        """Return the groups."""
        ...


@dataclass(frozen=True, slots=True)
class _Held:
    """Groups of a table in memory, from `start` on."""

    table: GroupTable
    start: int
    num_groups: int
    num_bytes: int
    are_distinct: bool

    def with_next(self, other: "_Held") -> "_Held":
        """Return these groups and those that follow them in the table."""
        num_groups, num_bytes = self.num_groups + other.num_groups, self.num_bytes + other.num_bytes
        return _Held(self.table, self.start, num_groups, num_bytes, self.are_distinct)

    def load(self, aggregates: Sequence[AggregateCall]) -> GroupTable:
        start, stop = self.start, self.start + self.num_groups
        calls = zip(aggregates, self.table.partials, strict=True)
        partials = tuple(_slice_partial(call.aggregate, partial, start, stop) for call, partial in calls)
        keys = tuple(slice_key(key, start, stop) for key in self.table.keys)
        return GroupTable(keys, partials, self.num_groups, self.table.limit_reached)


def _slice_partial(aggregate: Aggregate, partial: Partial, start: int, stop: int) -> Partial:
    """Return the partial of the groups in [start, stop); arrays with a number for each group are not copied."""
    groups: Any = slice(start, stop) if is_narrow(aggregate) else np.arange(start, stop)
    return aggregate.select(partial, groups)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces of adjacent partitions, with adjacent pieces of one table in memory joined."""
    held: dict[int, _Held] = {}
    others: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, _Held):
            before = held.get(id(piece.table))
            held[id(piece.table)] = piece if before is None else before.with_next(piece)
        else:
            others.append(piece)
    return [*held.values(), *others]


@dataclass(frozen=True, slots=True)
class _Whole:
    """All groups of a table in memory."""

    table: GroupTable
    num_bytes: int
    are_distinct: bool

    @property
    def num_groups(self) -> int:
        return self.table.num_groups

    def load(self, aggregates: Sequence[AggregateCall]) -> GroupTable:
        return self.table


@dataclass(frozen=True, slots=True)
class _Stored:
    """Groups in a file. sizes: of the buffers from `start` on."""

    file: SpillFile
    start: int
    sizes: tuple[int, ...]
    shape: TableShape
    are_distinct = False

    @property
    def num_bytes(self) -> int:
        return sum(self.sizes)

    @property
    def num_groups(self) -> int:
        return self.shape.num_groups

    def load(self, aggregates: Sequence[AggregateCall]) -> GroupTable:
        return groups_of(aggregates, self.shape, self.file.read(self.start, self.sizes))


@dataclass(frozen=True, slots=True)
class _Sent:
    """Groups as received from another process."""

    shape: TableShape
    buffers: Sequence[memoryview]
    are_distinct = True

    @property
    def num_bytes(self) -> int:
        return sum(buffer.nbytes for buffer in self.buffers)

    @property
    def num_groups(self) -> int:
        return self.shape.num_groups

    def load(self, aggregates: Sequence[AggregateCall]) -> GroupTable:
        return groups_of(aggregates, self.shape, self.buffers)


class PartitionedGroups:
    """Groups of one query, partitioned by the hash of their keys.

    file: stores groups, and must stay open as long as they are read; None if all are in memory. level: how many times the
    groups were divided before. width: how many partitions are stored together, at the position of the first of them.
    limit_reached: see `GroupTable`.
    """

    def __init__(
        self, aggregates: Sequence[AggregateCall], file: SpillFile | None = None, level: int = 0, width: int = 1
    ) -> None:
        self._aggregates = aggregates
        self._file = file
        self._level = level
        self._width = width
        self._pieces: list[list[Piece]] = [[] for _ in range(NUM_PARTITIONS)]
        self.limit_reached = False

    @classmethod
    def joined(
        cls, parts: "Sequence[GroupTable | PartitionedGroups]", aggregates: Sequence[AggregateCall]
    ) -> "PartitionedGroups":
        """Return the groups of several parts of a query; tables are held as they are."""
        divided = [part for part in parts if isinstance(part, PartitionedGroups)]
        file = next((part._file for part in divided if part._file is not None), None)
        whole = cls(aggregates, file, width=max((part._width for part in divided), default=1))
        for part in parts:
            whole.limit_reached |= part.limit_reached
            if isinstance(part, PartitionedGroups):
                for partition, pieces in enumerate(part._pieces):
                    whole._among(partition).extend(pieces)
            else:
                whole.hold(part)
        return whole

    @classmethod
    def received(
        cls, aggregates: Sequence[AggregateCall], tables: Iterator[tuple[TableShape, Sequence[memoryview]]]
    ) -> "PartitionedGroups":
        """Return the groups that another process `encoded`; they are read when needed."""
        parts = cls(aggregates)
        for shape, buffers in tables:
            parts._pieces[shape.positions[-1]].append(_Sent(shape, buffers))
            parts.limit_reached |= shape.limit_reached
        return parts

    @property
    def num_groups(self) -> int:
        """The maximum number of groups: those that occur several times count each time."""
        return sum(piece.num_groups for pieces in self._pieces for piece in pieces)

    def hold(self, table: GroupTable, *, are_distinct: bool = False) -> None:
        """Add the groups of a table, keeping them in memory in the order of their partitions."""
        if not table.num_groups:
            return
        order, partitions = self._divided(table)
        divided = select_groups(table, self._aggregates, order)
        size = held_bytes(divided)
        for partition, start, end in partitions:
            piece = _Held(divided, start, end - start, size * (end - start) // table.num_groups, are_distinct)
            self._among(partition).append(piece)

    def store(self, table: GroupTable) -> None:
        """Add the groups of a table by writing them to the file; thread-safe. Raises QueryError 245."""
        assert self._file is not None
        order, partitions = self._divided(table)
        for partition, start, end in partitions:
            guard.check()
            part = select_groups(table, self._aggregates, order[start:end])
            self._among(partition).append(self._stored(self._file, part, ()))

    def settled(self, pool: WorkPool) -> "PartitionedGroups":
        """Return the same groups, each in one table, merged by the threads of a pool; unchanged if some are stored on
        disk."""
        if self._file is not None:
            return self
        width = self._merged_width(pool.threads)
        merged = PartitionedGroups(self._aggregates, None, self._level, width)
        merged.limit_reached = self.limit_reached
        held = {id(piece.table): piece.table for pieces in self._pieces for piece in pieces if isinstance(piece, _Held)}
        dictionaries = CommonDictionaries(list(held.values()))
        firsts = range(0, NUM_PARTITIONS, width)
        found = pool.run([partial(self._taken, first, first + width, dictionaries) for first in firsts])
        for first, tables in zip(firsts, found, strict=True):
            merged._pieces[first] += [_Whole(table, held_bytes(table), True) for table in tables]
        return merged

    def _merged_width(self, threads: int) -> int:
        """Return how many partitions to merge at once: some for each thread, and not too many groups."""
        width, num_groups = self._width, self.num_groups
        while 2 * threads * width < NUM_PARTITIONS and 2 * width * num_groups <= NUM_PARTITIONS * _MERGED_GROUPS:
            width *= 2
        return width

    def encoded(self, keys: KeySet = ()) -> tuple[list[TableShape], list[memoryview]]:
        """Return the tables of all partitions, for sending; buffers of stored groups are in the file.

        keys: of a grouping set. The positions of each table are these, followed by the number of its partition.
        """
        if self._width > 1:  # the receiver expects single partitions
            single = PartitionedGroups(self._aggregates, self._file, self._level)
            for _, table in self.partitions():
                single.hold(table, are_distinct=True)
            return single.encoded(keys)
        shapes: list[TableShape] = []
        if self._file is None:
            buffers: list[bytes | memoryview] = []
            for partition, table in self.partitions():
                shapes.append(put_groups(self._aggregates, table, (*keys, partition), buffers))
            return shapes, [memoryview(buffer) for buffer in buffers]
        stored = [self._stored(self._file, table, (*keys, partition)) for partition, table in self.partitions()]
        return [one.shape for one in stored], self._file.mapped([(one.start, one.sizes) for one in stored])

    def merged(self) -> GroupTable:
        """Return all groups in one table. Raises QueryError 245 if they do not fit in memory."""
        return merge_group_tables([table for _, table in self.partitions()], self._aggregates)

    def partitions(self) -> Iterator[tuple[int, GroupTable]]:
        """Yield (partition, table): each group in one table, the tables of a partition consecutively."""
        for partition in range(NUM_PARTITIONS):
            for table in self._merged(self._pieces[partition]):
                yield partition, table

    def _among(self, partition: int) -> list[Piece]:
        """Return the pieces of a partition that is stored together with others."""
        return self._pieces[partition // self._width * self._width]

    def _taken(self, start: int, stop: int, dictionaries: CommonDictionaries) -> list[GroupTable]:
        """Merge the partitions [start, stop) of tables in memory, and release these."""
        pieces = _joined([piece for partition in range(start, stop) for piece in self._pieces[partition]])
        self._pieces[start:stop] = [[] for _ in range(start, stop)]
        return list(self._merged([self._recoded(piece, dictionaries) for piece in pieces]))

    def _recoded(self, piece: Piece, dictionaries: CommonDictionaries) -> _Whole:
        table = dictionaries.recoded(piece.load(self._aggregates))
        return _Whole(table, piece.num_bytes, piece.are_distinct)

    def _divided(self, table: GroupTable) -> tuple[Array, list[tuple[int, int, int]]]:
        """Return the groups sorted by partition, and (partition, start, end) for each nonempty partition."""
        self.limit_reached |= table.limit_reached
        numbers = partitions_of(table.keys, table.num_groups, self._level)
        order = np.argsort(numbers, kind="stable")  # of 8 bits: a radix sort
        ends = np.cumsum(np.bincount(numbers, minlength=NUM_PARTITIONS)).tolist()
        return order, [(i, start, end) for i, (start, end) in enumerate(pairwise([0, *ends])) if start < end]

    def _merged(self, pieces: Sequence[Piece]) -> Iterator[GroupTable]:
        if not pieces:
            return
        guard.check()
        limit = guard.memory_limit()
        if (
            limit is not None
            and len(pieces) > 1
            and self._level + 1 < LEVELS
            and sum(piece.num_groups for piece in pieces) > NUM_PARTITIONS
            and sum(piece.num_bytes for piece in pieces) > limit // _PARTITION_SHARE
        ):
            finer = PartitionedGroups(self._aggregates, self._file, self._level + 1)
            for piece in pieces:
                table = piece.load(self._aggregates)
                if self._file is None:
                    finer.hold(table)
                else:
                    finer.store(table)
            for _, table in finer.partitions():
                yield table
            return
        tables = [piece.load(self._aggregates) for piece in pieces]
        if len(pieces) == 1 and not pieces[0].are_distinct:
            yield regroup(tables[0], range(len(tables[0].keys)), self._aggregates)
        else:
            yield merge_group_tables(tables, self._aggregates)

    def _stored(self, file: SpillFile, table: GroupTable, positions: tuple[int, ...]) -> _Stored:
        buffers: list[bytes | memoryview] = []
        shape = put_groups(self._aggregates, table, positions, buffers)
        flat = [memoryview(buffer).cast("B") for buffer in buffers]
        return _Stored(file, file.append(flat), tuple(map(len, flat)), shape)
