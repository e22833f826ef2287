"""Aggregation of the matching rows of one segment, with and without groups.

    aggregate_segment(aggregates, matches, reader, pool, options) -> (partial of each aggregate, one group each)
    group_segment(keys, aggregates, matches, reader, pool, options) -> GroupTable

`keys` are expressions (multi-value ones explode their rows), `aggregates` have `.aggregate` and `.arguments`.
`reader(block)` returns the function that evaluates an expression at the rows of a block. It is called from several threads,
and for keys also with the empty block `AllDocs(0, 0)`, to determine their types. Tables of several segments are merged by
`gamay.query.groupby.merge.merge_group_tables`, partials without groups by `merge_partials`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from gamay.base import guard
from gamay.functions.aggregate.distinct.coding import CODES_MAX
from gamay.functions.aggregate_spi import Partial
from gamay.functions.expression import Column, Expression, column_names
from gamay.functions.vector import Operand, Vector
from gamay.kernels.tuning import AGGREGATED_BLOCK_VALUES
from gamay.query.groupby.direct import DirectGroups, DirectPlan, are_scattered, plan_direct
from gamay.query.groupby.explode import is_list
from gamay.query.groupby.growing import GrowingGroups
from gamay.query.groupby.merge import merge_group_tables
from gamay.query.groupby.nullable import nullable_partials, plain_calls
from gamay.query.groupby.rows import RowGroups
from gamay.query.groupby.states import WIDE, Reader, States, plan_states
from gamay.query.groupby.table import AggregateCall, GroupTable, select_groups
from gamay.query.pool import WorkPool
from gamay.query.view.match_spans import cut, span_of
from gamay.query.view.matches import BLOCK_ROWS, AllDocs, Block, DocMask, DocScan, Matches, max_block_rows
from gamay.query.view.read import raw_text_rows

T = TypeVar("T")

# Fewer rows are not worth a second thread.
_ROWS_PER_THREAD = 1 << 17
# Block size for rows that are repeated for each value of their lists, which then become about as many as in other blocks.
_LISTED_BLOCK_ROWS = 1 << 16
# The number of rows after which memory is first counted; later again after as many, if it grew by more than a byte per row.
_FIRST_ROWS = 1 << 16
# Of this many tables set aside, one is created by looking up the group of each row.
_ROWS_BETWEEN = 8
# Each piece keeps this many times the limit of groups, so that pieces rarely have to be read again.
_ROOM_FACTOR = 16


Place: TypeAlias = tuple[int, ...]
"""The position of groups in the order in which rows are first seen; compared number by number."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """Handling of groups that exceed what one thread should hold at once.

    held_bytes_max: larger groups are set aside. scattered_bytes_max: so are groups larger than this if most rows start a new
    group, as a hash table that outgrows the processor's cache costs more than merging small ones. put: takes the groups and
    their place within the segment; thread-safe.
    """

    held_bytes_max: int
    scattered_bytes_max: int
    put: Callable[[Place, GroupTable], None]

    def takes(self, held_bytes: int, *, scattered: bool) -> bool:
        """Whether groups of this size should be set aside."""
        return held_bytes > (min(self.scattered_bytes_max, self.held_bytes_max) if scattered else self.held_bytes_max)

    def after(self, change: Callable[[GroupTable], GroupTable]) -> "Overflow":
        """Return an overflow that applies a change to each table first."""
        return replace(self, put=lambda place, table: self.put(place, change(table)))


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Options of grouping. num_groups_limit: groups kept for each segment. check: called before each block; raises to end
    the query.

    restart: called before all rows are read once more. what: the name of the groups in errors. overflow: None if all groups
    are returned, however many; not used with a limit of groups.
    """

    num_groups_limit: int = CODES_MAX
    check: Callable[[], None] = lambda: None
    restart: Callable[[], None] = lambda: None
    what: str = "groups"
    overflow: Overflow | None = None


DEFAULT_OPTIONS = GroupOptions()


def aggregate_segment(
    aggregates: Sequence[AggregateCall],
    matches: Matches,
    reader: Reader,
    pool: WorkPool,
    options: GroupOptions = DEFAULT_OPTIONS,
) -> tuple[Partial, ...]:
    """Return the partial of each aggregate over all matching rows, as one group."""
    probe = reader(AllDocs(0, 0))
    plain = plain_calls(aggregates, probe)
    plan = plan_states(plain, count_rows=plain is not aggregates)
    rows = _block_rows(matches, plan.arguments, reader)
    only_adds, is_bounded = plan.only_adds, plan.is_bounded
    may_mask = only_adds and isinstance(matches, DocMask | DocScan)
    is_scattered = may_mask and are_scattered(plan.arguments, probe)

    holders: list[guard.Holder] = []

    def work(piece: Matches) -> States:
        states = States(plan, 1)
        held = guard.holder(WIDE)
        holders.append(held)

        def count_memory() -> int:
            num_bytes = states.held_bytes()
            held.hold(num_bytes)
            return num_bytes

        for block in piece.blocks(rows, max_block_rows()) if is_bounded else _paced(piece, rows, count_memory):
            options.check()
            if only_adds and isinstance(block, DocMask) and (block.keeps_most or not is_scattered):
                states.update_kept(block, reader(block.span))
            else:
                states.update(None, reader(block), len(block))
        return states

    states = _combined(_in_threads(work, matches, pool))
    partials = states.seal()
    _release(holders)
    if plain is aggregates:
        return partials
    return nullable_partials(partials, aggregates, plain, states.row_counts() > 0)


def group_segment(
    keys: Sequence[Expression],
    aggregates: Sequence[AggregateCall],
    matches: Matches,
    reader: Reader,
    pool: WorkPool,
    options: GroupOptions = DEFAULT_OPTIONS,
) -> GroupTable:
    """Return the groups of the matching rows; `limit_reached` if there were more than the limit, so that some are missing.

    Groups that do not fit went to the overflow; some of them may occur again in the result.
    """
    plain = plain_calls(aggregates, reader(AllDocs(0, 0)))
    if plain is aggregates:
        return _grouped(keys, aggregates, matches, reader, pool, options)

    def nullable(table: GroupTable) -> GroupTable:
        # every group has rows
        partials = nullable_partials(table.partials, aggregates, plain, np.ones(table.num_groups, np.bool_))
        return GroupTable(table.keys, partials, table.num_groups, table.limit_reached)

    if options.overflow is not None:
        options = replace(options, overflow=options.overflow.after(nullable))
    return nullable(_grouped(keys, plain, matches, reader, pool, options))


def _grouped(
    keys: Sequence[Expression],
    aggregates: Sequence[AggregateCall],
    matches: Matches,
    reader: Reader,
    pool: WorkPool,
    options: GroupOptions,
) -> GroupTable:
    direct = plan_direct(keys, reader(AllDocs(0, 0)), aggregates, matches)
    if direct is not None and (options.overflow is None or direct.num_bytes <= options.overflow.held_bytes_max):
        return _grouped_directly(direct, matches, reader, pool, options)
    return _grouped_as_they_appear(keys, aggregates, matches, reader, pool, options)


def _grouped_directly(
    direct: DirectPlan, matches: Matches, reader: Reader, pool: WorkPool, options: GroupOptions
) -> GroupTable:
    overflow = options.overflow
    rows = _block_rows(matches, direct.columns, reader)

    def add(number: int, piece: Matches) -> DirectGroups:
        groups, num_put = DirectGroups(direct), 0
        for block in piece.blocks(rows, max_block_rows()):
            options.check()
            groups.add(block, reader)
            held = groups.count_memory()
            if overflow is not None and not direct.states.is_narrow and overflow.takes(held, scattered=False):
                overflow.put((number, num_put), groups.table(CODES_MAX))
                groups.release()
                groups, num_put = DirectGroups(direct), num_put + 1
        return groups

    parts = pool.run([partial(add, number, piece) for number, piece in enumerate(_pieces(matches, pool))])
    combined = _combined(parts).table(options.num_groups_limit)
    for part in parts:
        part.release()
    return combined


def _grouped_as_they_appear(
    keys: Sequence[Expression],
    aggregates: Sequence[AggregateCall],
    matches: Matches,
    reader: Reader,
    pool: WorkPool,
    options: GroupOptions,
) -> GroupTable:
    probe, overflow = reader(AllDocs(0, 0)), options.overflow
    samples = [probe(key) for key in keys]
    plan = plan_states(aggregates, count_rows=False)
    rows = _block_rows(matches, (*keys, *plan.arguments), reader)
    if any(map(is_list, samples)):
        rows = min(rows, _LISTED_BLOCK_ROWS)

    holders: list[guard.Holder] = []

    def add(number: int, piece: Matches, limit: int) -> GroupTable:
        def grown(expected: int = 0) -> GrowingGroups:
            return GrowingGroups(keys, samples, plan, limit, options.what, expected)

        groups: GrowingGroups | RowGroups = grown()
        num_put = 0

        def put(overflow: Overflow) -> None:
            nonlocal groups, num_put
            overflow.put((number, num_put), groups.table())
            _release(list(groups.holders))
            num_put += 1
            # from time to time, groups are looked up again, as later rows may repeat more
            as_rows = groups.hardly_repeat and num_put % _ROWS_BETWEEN != 0
            groups = RowGroups(keys, plan, options.what) if as_rows else grown(groups.num_groups)

        def count_memory() -> int:
            held = groups.count_memory()
            if overflow is None or not overflow.takes(held, scattered=groups.are_scattered):
                return held
            put(overflow)
            return 0

        for block in _paced(piece, rows, count_memory):
            options.check()
            groups.add(reader(block), len(block))
        if overflow is not None and num_put:  # the places of a piece's groups must be of the same kind
            if groups.num_groups:
                put(overflow)
            groups = grown()
        holders.extend(groups.holders)
        return groups.table()

    limit = options.num_groups_limit
    pieces = _pieces(matches, pool)
    roomy = limit if len(pieces) == 1 else min(_ROOM_FACTOR * limit, CODES_MAX)
    tables = pool.run([partial(add, number, piece, roomy) for number, piece in enumerate(pieces)])
    if len(tables) > 1 and any(table.limit_reached for table in tables):
        # only then do the first groups depend on the pieces, so read the rows as one piece
        options.restart()
        _release(holders)
        tables = [add(0, matches, limit)]
    table = _first(merge_group_tables(tables, aggregates), aggregates, limit)
    _release(holders)
    return table


def _release(holders: list[guard.Holder]) -> None:
    while holders:
        holders.pop().release()


def _first(table: GroupTable, aggregates: Sequence[AggregateCall], limit: int) -> GroupTable:
    """Return the first groups by appearance, those of the first piece before those of the second, and so on."""
    if table.num_groups <= limit:
        return table
    first = select_groups(table, aggregates, np.arange(limit))
    return GroupTable(first.keys, first.partials, limit, True)


def _block_rows(matches: Matches, expressions: Sequence[Expression], reader: Reader) -> int:
    """Return the block size: large, but smaller if many columns are copied or computed, and fitting the cache if texts
    are read."""
    names = {name for expression in expressions for name in column_names(expression)}
    probe = reader(AllDocs(0, 0))
    texts = [Column(name) for name in names if _is_raw_text(probe(Column(name)))]
    if texts:
        return raw_text_rows(lambda block: map(reader(block), texts), _rows_at_most(matches))
    if isinstance(matches, AllDocs) and all(isinstance(expression, Column) for expression in expressions):
        return max_block_rows()  # columns are read in place
    return min(max_block_rows(), max(BLOCK_ROWS, AGGREGATED_BLOCK_VALUES // max(1, len(names))))


def _paced(matches: Matches, rows: int, count_memory: Callable[[], int]) -> Iterator[Block]:
    """Yield blocks of at most `rows` rows, small ones at first and while memory grows fast.

    count_memory: called after each block, returns the bytes held, without the temporary memory of a block.
    """
    most, rest, before, held = max_block_rows(), matches, 0, 0
    looked_at = min(most, BLOCK_ROWS if span_of(matches) <= BLOCK_ROWS else _FIRST_ROWS)
    while span_of(rest):
        part, rest = cut(rest, looked_at)
        for block in part.blocks(min(rows, looked_at), looked_at):
            yield block
            held = count_memory()
        looked_at, before = most if held - before <= looked_at else min(BLOCK_ROWS, most), held


def _is_raw_text(operand: Operand) -> bool:
    return isinstance(operand, Vector) and not operand.type.is_fixed_width


def _in_threads(work: Callable[[Matches], T], matches: Matches, pool: WorkPool) -> list[T]:
    """Run `work` on pieces of the matches."""
    return pool.run([_task(work, piece) for piece in _pieces(matches, pool)])


def _pieces(matches: Matches, pool: WorkPool) -> Sequence[Matches]:
    """Split the matches into one piece per thread if there are enough rows; at least one piece."""
    parts = min(pool.usable_threads, _rows_at_most(matches) // _ROWS_PER_THREAD)
    return matches.split(parts) if parts > 1 else [matches]


def _task(work: Callable[[Matches], T], piece: Matches) -> Callable[[], T]:
    return lambda: work(piece)


def _rows_at_most(matches: Matches) -> int:
    """The number of rows that have to be read, without running a scan."""
    if isinstance(matches, DocScan):
        return matches.stop - matches.start
    return len(matches.mask) if isinstance(matches, DocMask) else len(matches)


class _Combinable(Protocol):
    def combine(self, other: Any, /) -> None: ...


C = TypeVar("C", bound=_Combinable)


def _combined(parts: list[C]) -> C:
    first, *others = parts
    for other in others:
        first.combine(other)
    return first
