"""Selections: rows without grouping, the first ones found or the first ones in an order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Mask
from gamay.functions.expression import Column as ColumnExpression
from gamay.functions.expression import Expression, column_names
from gamay.functions.ranking import in_order
from gamay.functions.vector import EncodedVector, Scalar, Vector
from gamay.kernels.tuning import AGGREGATED_BLOCK_VALUES
from gamay.query.bind.binder import BoundQuery, SortKey
from gamay.query.columns.operations import concat_encoded, concat_vectors, take_rows
from gamay.query.columns.order import Bound, CommonBound, Indices, SortArray, bound_of, candidates, sort_array, top_rows
from gamay.query.filter.zoned import ZONE_MAP
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.memory_size import held_bytes
from gamay.query.view.match_spans import cut, of_runs, span_of
from gamay.query.view.matches import BLOCK_ROWS, AllDocs, Block, DocIds, DocList, DocMask, DocScan, Matches, max_block_rows
from gamay.query.view.read import as_vector, is_raw_text, raw_text_rows, read_values, segment_reader
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import Dictionary, Segment
from gamay.segment.zones import ZONE_ROWS, Zones

Rows: TypeAlias = tuple[Vector, ...]
Key: TypeAlias = Vector | EncodedVector

# minimum number of rows collected before the best are selected: selecting early tightens the bound
_PENDING_ROWS = 32

# rows of the first blocks of a selection with LIMIT, which usually suffice
_FIRST_BLOCK_ROWS = 1 << 12
# minimum number of texts sampled to set a bound for the others
_SAMPLED_TEXTS = 512
# up to this number of rows their bytes are not counted
_COUNTED_ROWS = 1 << 12
# bytes per row for its position and a key during sorting
_SORTED_BYTES = 24


def read_rows(segment: Segment, expressions: Sequence[Expression], block: Block) -> Rows:
    """Evaluate expressions at the rows of a block."""
    num_rows = len(block)
    operand = segment_reader(segment)(block)
    return tuple(as_vector(operand(expression), num_rows) for expression in expressions)


def first_rows(
    segment: Segment, matches: Matches, expressions: Sequence[Expression], limit: int, deadline: Deadline
) -> tuple[Rows | None, int]:
    """Return the first `limit` matching rows in segment order (None if there are none), and their number."""
    parts: list[Rows] = []
    found = 0
    held, holder = 0, guard.holder("rows")
    for block in _growing_blocks(matches, limit):
        if found >= limit:
            break
        deadline.check()
        wanted = limit - found
        if len(block) > wanted:
            block = DocList(block.docs()[:wanted])
        parts.append(read_rows(segment, expressions, block))
        found += len(block)
        if found > _COUNTED_ROWS:
            held += held_bytes(parts[-1])
            holder.hold(held)
    rows = concat_rows(parts) if parts else None
    holder.release()
    return rows, found


def _growing_blocks(matches: Matches, limit: int) -> Iterator[Block]:
    """Iterate over the matches in small blocks first, in full blocks once many rows turn out not to match."""
    rows = min(max(limit, _FIRST_BLOCK_ROWS), BLOCK_ROWS)
    if isinstance(matches, DocList) or rows == BLOCK_ROWS:
        yield from matches.blocks(rows)
        return
    for piece in matches.split(max(1, span_of(matches) // BLOCK_ROWS)):
        yield from piece.blocks(rows)
        rows = min(rows * 4, BLOCK_ROWS)


def _full_block_rows(segment: Segment, order_by: Sequence[SortKey]) -> int:
    """Return the number of rows per block for reading keys, as in `gamay.query.groupby.segment`."""
    names = {name for key in order_by for name in column_names(key.expression)}
    texts = [column for column in map(segment.column, names) if is_raw_text(column)]
    if texts:
        return raw_text_rows(lambda block: (read_values(column, block) for column in texts), segment.num_docs)
    return min(max_block_rows(), max(BLOCK_ROWS, AGGREGATED_BLOCK_VALUES // max(1, len(names))))


def _rising_blocks(matches: Matches, limit: int, full: int) -> Iterator[Block]:
    """Iterate over the matches in blocks of increasing size, up to full ones.

    A few rows set a bound that excludes most of the following ones from sorting. If a condition selects few of the rows it
    tests, the matches of several blocks are combined. full: rows of a full block.
    """
    few: list[DocIds] = []
    for block in _rising_spans(matches, limit, full):
        if isinstance(block, DocList):
            few.append(block.ids)
            if sum(map(len, few)) >= _FIRST_BLOCK_ROWS:
                yield _joined(few)
            continue
        if few:
            yield _joined(few)
        yield block
    if few:
        yield _joined(few)


def _joined(lists: list[DocIds]) -> DocList:
    """Concatenate several lists, and empty them."""
    docs = lists[0] if len(lists) == 1 else np.concatenate(lists)
    lists.clear()
    return DocList(docs)


def _rising_spans(matches: Matches, limit: int, full: int) -> Iterator[Block]:
    rows, rest = max(4 * limit, _FIRST_BLOCK_ROWS), matches
    while rows < full:
        part, rest = cut(rest, rows)
        yield from part.blocks()
        rows *= 8
    yield from rest.blocks(full, max_block_rows())


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Concatenate tables with the same columns; `parts` must not be empty."""
    if len(parts) > 1 and sum(len(part[0]) for part in parts if part) > _COUNTED_ROWS:
        guard.reserve("rows", sum(map(held_bytes, parts)))
    return tuple(concat_vectors(columns) for columns in zip(*parts, strict=True))


@dataclass(frozen=True, slots=True)
class Ordered:
    """The first rows of a segment or part of it, in order: their keys and docs (int32)."""

    keys: tuple[Key, ...]
    docs: DocIds
    num_scanned: int


def top_docs(
    segment: Segment,
    matches: Matches,
    order_by: Sequence[SortKey],
    limit: int,
    deadline: Deadline,
    common: CommonBound | None = None,
) -> Ordered:
    """Return the first `limit` matching rows in the order of the keys; reads only the keys.

    Keys that are columns with a sorted dictionary are compared and returned as ids. Ties keep doc order. If rows are stored
    in the order of the first key, they are read from the end that comes first, no further than necessary. common: bound
    shared between parts of the query; rows beyond it are skipped, and it is tightened by the rows found here.
    """
    dictionary = _sorted_dictionary(segment, order_by[0])
    best = _Best(order_by, limit, dictionary, common)
    scanned = 0
    is_in_order = lies_in_order(segment, order_by)
    for block in _ordered_blocks(segment, matches, best, is_in_order):
        deadline.check()
        scanned += len(block)
        # Ids are compared in place, even for rows excluded by the mask: copying the others takes longer than comparing all.
        looked_at = block.span if dictionary and best.is_bounded() and isinstance(block, DocMask) else block
        keys = _Keys(segment, looked_at, order_by)
        first = keys.at(0)
        rows = best.candidates(first)
        if rows is None:
            best.add(keys.all(), block)
        else:
            if looked_at is not block and isinstance(block, DocMask):
                rows = rows[block.mask[rows]]
            if len(rows):
                best.add(*_with_a_chance(segment, order_by, best, take_key(first, rows), _docs_at(looked_at, rows)))
        best.count_memory()
        if is_in_order and best.is_complete(first):
            break
    found, docs = best.rows()
    best.holder.release()
    return Ordered(found, docs, scanned)


def _with_a_chance(
    segment: Segment, order_by: Sequence[SortKey], best: "_Best", first: Key, docs: DocIds
) -> tuple[list[Key], DocList]:
    """Return the keys and docs of the rows that all keys admit; each key is read only for rows that the previous keys admit.

    first: the first key at `docs`.
    """
    keys, rows = [first], DocList(docs)
    for place in range(1, len(order_by)):
        keys.append(_Keys(segment, rows, order_by).at(place))
        kept = best.undecided(keys)
        if kept is not None:
            keys, rows = [take_key(key, kept) for key in keys], DocList(rows.ids[kept])
    return keys, rows


def _sorted_dictionary(segment: Segment, key: SortKey) -> Dictionary | None:
    """Return the dictionary of a sort key that is a plain column whose ids ascend with the values; None otherwise."""
    if not isinstance(key.expression, ColumnExpression):
        return None
    column = segment.column(key.expression.name)
    return column.dictionary if column.single_value and column.dictionary and column.dictionary.is_sorted else None


def _ordered_blocks(segment: Segment, matches: Matches, best: "_Best", is_in_order: bool) -> Iterator[Block]:
    first = best.order_by[0]
    if is_in_order:
        return _falling_blocks(matches, best.limit) if first.descending else _growing_blocks(matches, best.limit)
    full = _full_block_rows(segment, best.order_by)
    if isinstance(matches, DocList) or (zones := _zones_of_key(segment, first)) is None:
        return _rising_blocks(matches, best.limit, full)
    return _zoned_blocks(matches, zones, full, best)


def _zones_of_key(segment: Segment, key: SortKey) -> Zones | None:
    """Return the zones of a sort key that is a column; None for others, and for columns with nulls."""
    if not isinstance(key.expression, ColumnExpression):
        return None
    name = key.expression.name
    if isinstance(segment, QuerySegment) and (
        ZONE_MAP in segment.skipped_indexes.get(name, ()) or segment.null_flags(name) is not None
    ):
        return None
    return segment.column(name).zones


def _zoned_blocks(matches: AllDocs | DocMask | DocScan, zones: Zones, full: int, best: "_Best") -> Iterator[Block]:
    """Iterate over the matches zone by zone: first those with the first keys, then those that the current bound admits.

    full: maximum number of rows per block.
    """
    span = matches.span if isinstance(matches, DocMask) else matches
    order = zones.from_the_first(best.order_by[0].descending)
    order = order[(order >= span.start // ZONE_ROWS) & (order * ZONE_ROWS < span.stop)]
    firsts = zones.high if best.order_by[0].descending else zones.low
    count = max(1, 4 * best.limit // ZONE_ROWS)
    while len(order := order[best.admits(firsts[order])]):
        for part in of_runs(matches, np.sort(order[:count]), ZONE_ROWS):
            yield from part.blocks(full, full)
        order = order[count:]
        count *= 4


def _falling_blocks(matches: Matches, limit: int) -> Iterator[Block]:
    """Iterate over the matches from the end, in small blocks first, each in doc order."""
    rows, rest = min(max(limit, _FIRST_BLOCK_ROWS), BLOCK_ROWS), matches
    while span := span_of(rest):
        rest, last = cut(rest, max(0, span - rows))
        yield from last.blocks()
        rows = min(rows * 4, BLOCK_ROWS)


def lies_in_order(segment: Segment, order_by: Sequence[SortKey]) -> bool:
    """Whether the segment's rows are stored in the order of the first key, or in the opposite one."""
    key = order_by[0]
    if not isinstance(key.expression, ColumnExpression):
        return False
    if isinstance(segment, QuerySegment) and segment.null_flags(key.expression.name) is not None:
        return False  # nulls are stored at the position of the default value
    return segment.column(key.expression.name).stats.is_sorted


def merge_ordered(parts: Sequence[Ordered], order_by: Sequence[SortKey], limit: int) -> Ordered:
    """Merge the first rows of several parts of one segment, given in doc order."""
    if len(parts) == 1:
        return parts[0]
    best = _Best(order_by, limit)
    for part in parts:
        best.add(part.keys, DocList(part.docs))
    keys, docs = best.rows()
    best.holder.release()
    return Ordered(keys, docs, sum(part.num_scanned for part in parts))


class _Keys:
    """The sort keys at the rows of a block; a column used by several keys is read once."""

    def __init__(self, segment: Segment, block: Block, order_by: Sequence[SortKey]) -> None:
        self._operand = segment_reader(segment)(block)
        self._num_rows = len(block)
        self._order_by = order_by

    def all(self) -> list[Key]:
        """Return all keys."""
        return [self.at(place) for place in range(len(self._order_by))]

    def at(self, place: int) -> Key:
        """Return one of the keys."""
        expression = self._order_by[place].expression
        operand = self._operand(expression)
        if isinstance(operand, Scalar):
            return as_vector(operand, self._num_rows)
        if isinstance(operand, EncodedVector) and not isinstance(expression, ColumnExpression):
            return operand.decode()  # other blocks may have a different encoding, or none
        if isinstance(operand, EncodedVector) and not operand.dictionary.ascends:
            return operand.decode() if operand.type.is_fixed_width else in_order(operand)
        return operand


class _Best:
    """Collector that keeps the first `limit` rows."""

    def __init__(
        self,
        order_by: Sequence[SortKey],
        limit: int,
        dictionary: Dictionary | None = None,
        common: CommonBound | None = None,
    ) -> None:
        self.order_by = order_by
        self.limit = limit
        self._dictionary = dictionary
        self._common = common
        self._keys: list[list[Key]] = []
        self._docs: list[DocIds] = []
        self._pending = 0
        self._bound: Bound | None = None
        self._bounds: list[Bound] = []
        self.holder = guard.holder("rows")

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._pending >= self.limit

    def is_complete(self, first: Key) -> bool:
        """Whether no row after this block can qualify, if rows come in the order of the first key. first: the block's
        keys."""
        sort = self.order_by[0]
        if not sort.descending and len(self.order_by) == 1:
            return self.is_full  # later rows with equal keys rank behind
        values = first.ids if isinstance(first, EncodedVector) else first.values
        return self._bound is not None and len(first) > 0 and self._bound.excludes(values[0 if sort.descending else -1])

    def is_bounded(self) -> bool:
        """Whether `candidates` excludes rows; takes the shared bound into account."""
        if self._common is not None and self._dictionary is not None:
            self._bound = self._common.tightened(self._bound, self._dictionary, self.order_by[0].nulls_last)
        return self._bound is not None

    def admits(self, firsts: "np.ndarray[Any, np.dtype[Any]]") -> Mask:
        """Return which ids or numbers may still be first keys; takes the shared bound into account."""
        if self.is_bounded() and self._bound is not None:
            return self._bound.admits(firsts)
        return np.ones(len(firsts), np.bool_)

    def count_memory(self, *, to_sort: bool = False) -> None:
        """Report the memory of the rows, and of sorting them, to the guard; raises QueryError 245 beyond the limit."""
        if self._pending > _COUNTED_ROWS:
            held = sum(map(held_bytes, self._keys)) + held_bytes(self._docs)
            sorting = 2 * held + _SORTED_BYTES * self._pending * (1 + len(self.order_by))  # by docs, then by keys
            self.holder.hold(held + sorting if to_sort else held)

    def candidates(self, first: Key) -> Indices | None:
        """Return the rows of a block that may be among the first, by its first key; None if most may."""
        if self._bound is not None:
            return self._bound.candidates(first)
        return leading_rows(first, self.order_by[0], self.limit) if len(self.order_by) > 1 else None

    def undecided(self, keys: Sequence[Key]) -> Indices | None:
        """Return the rows that may be among the first, by a prefix of the keys; None if most may.

        The last of these keys decides for rows that equal the last kept row in the previous ones.
        """
        place = len(keys) - 1
        if place >= len(self._bounds) or len(keys[0]) <= _PENDING_ROWS:
            return None
        inside = ~np.logical_and.reduce([bound.equals(key) for bound, key in zip(self._bounds, keys[:-1], strict=False)])
        inside[self._bounds[place].candidates(keys[-1])] = True
        return np.flatnonzero(inside)

    def add(self, keys: Sequence[Key], block: Block) -> None:
        """Add the rows of a block; blocks arrive in doc order."""
        rows = np.arange(len(block))
        is_cut = len(rows) > self.limit
        if is_cut:
            first = self._first(keys)
            keys, rows = [take_key(key, first) for key in keys], rows[first]
        self._keys.append(list(keys))
        self._docs.append(_docs_at(block, rows))
        self._pending += len(rows)
        # a bound that has just admitted more rows than the limit can be tightened immediately for the next block
        if self._pending > max(_PENDING_ROWS, 2 * self.limit) or (self.is_full and (is_cut or self._bound is None)):
            self._compact()

    def rows(self) -> tuple[tuple[Key, ...], DocIds]:
        """Return the keys and docs of the first rows, in order."""
        if not self._keys:
            return (), np.empty(0, np.int32)
        self._compact()
        return tuple(self._keys[0]), self._docs[0]

    def _compact(self) -> None:
        self.count_memory(to_sort=True)
        keys, docs = self._keys[0], self._docs[0]
        if len(self._keys) > 1:
            keys = [concat_keys(parts) for parts in zip(*self._keys, strict=True)]
            docs = np.concatenate(self._docs)
            # equal keys keep doc order: candidates are sorted by doc first
            by_doc = np.argsort(docs, kind="stable")
            keys, docs = [take_key(key, by_doc) for key in keys], docs[by_doc]
        rows = self._first(keys)
        self._keys = [[take_key(key, rows) for key in keys]]
        self._docs = [docs[rows]]
        self._pending = len(rows)
        if self.limit and self.is_full:
            self._bounds = []
            for key, sort in zip(self._keys[0], self.order_by, strict=True):
                bound = bound_of(key, sort.descending, sort.nulls_last)
                if bound is None:
                    break
                self._bounds.append(bound)
            self._bound, first = next(iter(self._bounds), None), self._keys[0][0]
            # without a shared dictionary, ids are valid for this part only
            is_shared = self._dictionary is not None or isinstance(first, Vector)
            if self._bound is not None and self._common is not None and is_shared:
                self._common.offer(self._bound, first.type, self._dictionary)

    def _first(self, keys: Sequence[Key]) -> Indices:
        return _first_of(keys, self.order_by, self.limit)


def _first_of(keys: Sequence[Key], order_by: Sequence[SortKey], limit: int) -> Indices:
    """Return the positions of the first `limit` rows; other keys are compared only where the first key does not decide."""
    chosen = leading_rows(keys[0], order_by[0], limit)
    if chosen is not None:
        keys = [take_key(key, chosen) for key in keys]
    first = top_rows([_sortable(key, sort) for key, sort in zip(keys, order_by, strict=True)], limit)
    return first if chosen is None else chosen[first]


def leading_rows(first: Key, sort: SortKey, limit: int) -> Indices | None:
    """Return the positions of the rows that may be among the first `limit` by their first key; None if most may.

    Ranking texts is slow, so a sample sets a bound, and only the texts within it are ranked.
    """
    if not 0 < limit < len(first) // 4:
        return None
    sample = max(_SAMPLED_TEXTS, 8 * limit)
    if isinstance(first, EncodedVector) or isinstance(first.values, np.ndarray) or len(first) < 4 * sample:
        return candidates(_sortable(first, sort), limit)
    some = take_key(first, np.arange(sample) * (len(first) // sample))
    bound = bound_of(take_key(some, top_rows([_sortable(some, sort)], limit)), sort.descending, sort.nulls_last)
    if bound is None:
        return candidates(_sortable(first, sort), limit)
    inside = bound.candidates(first)
    ranked = candidates(_sortable(take_key(first, inside), sort), limit)
    return inside if ranked is None else inside[ranked]


def _docs_at(block: Block, rows: Indices) -> DocIds:
    if isinstance(block, AllDocs):
        return (rows + block.start).astype(np.int32)
    return block.docs()[rows]


def _sortable(key: Key, sort: SortKey) -> SortArray:
    return sort_array(key, sort.descending, sort.nulls_last)


def take_key(key: Key, rows: "np.ndarray[Any, np.dtype[Any]]") -> Key:
    """Return rows of a key, in this order."""
    if isinstance(key, EncodedVector):
        return EncodedVector(key.ids[rows], key.dictionary, None, None if key.nulls is None else key.nulls[rows])
    return take_rows(key, rows)


def concat_keys(parts: Sequence[Key]) -> Key:
    """Concatenate parts of one key: all encoded with one dictionary, or decoded."""
    encoded = [part for part in parts if isinstance(part, EncodedVector)]
    if len(encoded) == len(parts):
        return concat_encoded(encoded)
    return concat_vectors([as_vector(part, len(part)) for part in parts])


def read_ordered(segment: Segment, bound: BoundQuery, ordered: Ordered) -> Rows:
    """Evaluate all expressions of the query at the kept rows, in order; the keys are not read again."""
    known = {
        key.expression: as_vector(values, len(ordered.docs))
        for key, values in zip(bound.order_by, ordered.keys, strict=True)
    }
    by_doc = np.argsort(ordered.docs, kind="stable")
    rest = [expression for expression in bound.rows if expression not in known]
    values = read_rows(segment, rest, DocList(ordered.docs[by_doc]))
    holder = guard.holder("rows")
    if len(by_doc) > _COUNTED_ROWS:
        holder.hold(2 * held_bytes(values) + held_bytes(ordered))
    back = np.empty_like(by_doc)
    back[by_doc] = np.arange(len(by_doc))
    known |= {expression: take_rows(vector, back) for expression, vector in zip(rest, values, strict=True)}
    holder.release()
    return tuple(known[expression] for expression in bound.rows)


def sort_rows(bound: BoundQuery, rows: Rows, limit: int) -> Rows:
    """Return the first `limit` rows in the query's order; ties keep the input order."""
    positions = {expression: i for i, expression in enumerate(bound.rows)}
    if len(rows[0]) > _COUNTED_ROWS:
        guard.reserve("rows", _SORTED_BYTES * len(rows[0]) * len(bound.order_by) + held_bytes(rows))
    kept = _first_of([rows[positions[key.expression]] for key in bound.order_by], bound.order_by, limit)
    return tuple(take_rows(column, kept) for column in rows)
