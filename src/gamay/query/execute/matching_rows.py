"""The rows of a segment that match a selection, as a stream of batches: for readers of whole tables.

`execute` keeps its results until they can be merged; here nothing is kept, so that a segment of any size can be read in the
memory of one batch.
"""

from collections.abc import Iterator

import pyarrow as pa

from gamay.functions.arrow import arrow_type
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.answer.response import arrow_array
from gamay.query.bind.binder import BoundQuery
from gamay.query.filter.apply import apply_filter
from gamay.query.prune.by_segments import may_match
from gamay.query.view.read import as_vector, segment_reader
from gamay.query.view.scores import attach_scores
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import Segment

BATCH_ROWS = 65_536


def matching_schema(bound: BoundQuery) -> pa.Schema:
    """Return the Arrow schema of the batches: the query's result columns, with the types of `gamay.functions.arrow`."""
    return pa.schema([(name, arrow_type(*kind)) for name, kind in zip(bound.names, _kinds(bound), strict=True)])


def matching_rows(bound: BoundQuery, segment: Segment, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `matching_vectors` as Arrow batches."""
    schema = matching_schema(bound)
    for vectors in matching_vectors(bound, segment, batch_rows):
        columns = [arrow_array(vector) for vector in vectors]
        yield pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def matching_vectors(bound: BoundQuery, segment: Segment, batch_rows: int = BATCH_ROWS) -> Iterator[tuple[Vector, ...]]:
    """Yield the result columns of a segment's rows that match the WHERE of a selection, in row order.

    bound: a selection; its LIMIT and ORDER BY are ignored. segment: restricted to its valid rows if not all are valid
    (`VisibleSegment`), and with all columns of the query (`with_defaults`). Indexes, bounds and bloom filters are used as
    for any query; columns that are not filtered on are read at the matching rows only.
    Raises QueryError 200 or 700 when an expression fails.
    """
    view = QuerySegment(segment, bound.fields, "", null_handling=bound.null_handling)
    attach_scores(bound.scores, [view])
    if view.num_visible == 0 or not may_match(bound.filter, view):
        return
    reader = segment_reader(view)
    for block in apply_filter(bound.filter, view).matches().blocks(batch_rows):
        read, num_rows = reader(block), len(block)
        yield tuple(as_vector(read(output), num_rows) for output in bound.outputs)


def _kinds(bound: BoundQuery) -> list[tuple[DataType, bool]]:
    return [(data_type, not is_multi_value) for data_type, is_multi_value in bound.types]
