"""A few rows of many segments, read as one block.

A lookup that an index answers finds a handful of rows in each of several segments. Aggregating them segment by segment, each
with its own dictionaries, states and partials, would cost more than finding them. So they are concatenated, decoded, and
treated as the rows of one segment.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gamay.functions.expression import Expression
from gamay.functions.vector import EncodedVector, Operand, Vector, take_rows
from gamay.kernels.tuning import GATHERED_ROWS_MAX, GATHERED_SEGMENTS_MAX
from gamay.query.bind.binder import BoundQuery
from gamay.query.bind.predicate import EVERYTHING
from gamay.query.columns.operations import concat_vectors
from gamay.query.execute.context import ExecutionContext
from gamay.query.filter.apply import FilterResult
from gamay.query.filter.resolve import computes
from gamay.query.startree.choose import CuboidView
from gamay.query.view.matches import AllDocs, Block, DocList, as_block
from gamay.query.view.read import ColumnReader, compute
from gamay.query.view.virtual import QuerySegment

Unread: TypeAlias = tuple[QuerySegment, FilterResult | None]
"""A segment still to be read, with the result of its filter if that is known."""


@dataclass(frozen=True, slots=True)
class GatheredRows:
    """Rows of several segments: pairs of a segment and the block to read there, in order. num_rows: their total number."""

    pieces: Sequence[tuple[QuerySegment, Block]]
    num_rows: int

    def matches(self) -> AllDocs:
        """Return all rows, by their row numbers here."""
        return AllDocs(0, self.num_rows)

    def reader(self) -> Callable[[Block], Callable[[Expression], Operand]]:
        """Return what `gamay.query.view.read.segment_reader` returns for a segment."""
        reads_nulls = self.pieces[0][0].null_handling
        sources = [ColumnReader(segment, block) for segment, block in self.pieces]
        read: dict[str, Vector] = {}
        samples: dict[str, Vector] = {}

        def column(name: str) -> Operand:
            if name not in read:
                read[name] = concat_vectors([_decoded(source(name)) for source in sources])
            return read[name]

        def no_rows(name: str) -> Operand:
            if name not in samples:
                # only a column with null flags tells that there may be nulls, so prefer a segment that has them
                segment = next((one for one, _ in self.pieces if one.null_flags(name) is not None), self.pieces[0][0])
                samples[name] = _decoded(ColumnReader(segment, AllDocs(0, 0))(name))
            return samples[name]

        def reader(block: Block) -> Callable[[Expression], Operand]:
            num_rows = len(block)

            def part(name: str) -> Operand:
                return take_rows(column(name), block.docs())

            source = no_rows if num_rows == 0 else column if num_rows == self.num_rows else part
            return lambda expression: compute(expression, source, num_rows, reads_nulls)

        return reader


def _decoded(operand: Operand) -> Vector:
    if isinstance(operand, EncodedVector):
        return operand.decode()
    assert isinstance(operand, Vector)
    return operand


def unread(segments: Sequence[QuerySegment]) -> list[Unread]:
    """Return the segments as not yet filtered."""
    return [(segment, None) for segment in segments]


def gather(
    context: ExecutionContext, segments: Sequence[QuerySegment], rows_max: int = GATHERED_ROWS_MAX, segments_min: int = 2
) -> tuple[GatheredRows | None, list[Unread]]:
    """Filter the segments, if there are at least `segments_min`, and gather the rows of those in which indexes find few.

    Returns the rows (None if there are none to gather), already counted, and the segments still to be read, in order.
    """
    bound = context.bound
    if len(segments) < segments_min or not may_be_few(bound):
        return None, unread(segments)
    pieces: list[tuple[QuerySegment, Block]] = []
    rest: list[Unread] = []
    num_rows = 0
    columns_read = context.columns_read()
    for segment in segments[:GATHERED_SEGMENTS_MAX]:
        if isinstance(segment, CuboidView):  # its rows are pre-aggregated records
            rest.append((segment, None))
            continue
        filtered = context.filter(segment)
        count = filtered.count
        if count is None or filtered.matches_all or num_rows + count > rows_max:
            rest.append((segment, filtered))
            continue
        context.count(filtered, count, count * columns_read)
        if count:
            num_rows += count
            pieces.append((segment, as_block(filtered.matches())))
    rest.extend(unread(segments[GATHERED_SEGMENTS_MAX:]))
    return (GatheredRows(pieces, num_rows) if pieces else None), rest


def gather_first(
    context: ExecutionContext, segments: Sequence[QuerySegment], limit: int
) -> tuple[GatheredRows | None, Sequence[QuerySegment]]:
    """Gather the first `limit` rows of a selection, as long as indexes find few rows in each of the first segments.

    Returns the rows (None if there are none), already counted, and the segments after those; none once there are enough
    rows.
    """
    pieces: list[tuple[QuerySegment, Block]] = []
    num_rows = position = 0
    if len(segments) < 2 or not may_be_few(context.bound):
        return None, segments
    columns_read = context.columns_read()
    while position < len(segments) and num_rows < limit:
        filtered = context.filter(segments[position])
        count = filtered.count
        if count is None or num_rows + count > GATHERED_ROWS_MAX:
            break
        if count:
            block = as_block(filtered.matches())
            if num_rows + count > limit:
                block, count = DocList(block.docs()[: limit - num_rows]), limit - num_rows
            pieces.append((segments[position], block))
            num_rows += count
        context.count(filtered, count, count * columns_read)
        position += 1
    return (GatheredRows(pieces, num_rows) if pieces else None), segments[position:] if num_rows < limit else ()


def may_be_few(bound: BoundQuery) -> bool:
    """Return whether indexes may answer the filter directly: there is a WHERE, it computes no expression, and there is no
    FILTER.

    Aggregates that add up segments, such as SEGMENTPARTITIONEDDISTINCTCOUNT, cannot be computed over gathered rows.
    """
    if any(call.aggregate.traits.adds_up_segments for call in bound.aggregates):
        return False
    return bound.filter != EVERYTHING and not bound.filters and not computes(bound.filter)
