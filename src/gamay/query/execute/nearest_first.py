"""ORDER BY the distance to a vector with LIMIT, through a vector index, which finds the nearest rows first."""

from gamay.query.bind.binder import BoundQuery, QueryKind
from gamay.query.bind.predicate import Near, conjunction
from gamay.query.bind.searches import nearest_first
from gamay.query.execute.context import ExecutionContext
from gamay.query.filter.apply import FilterResult
from gamay.query.view.virtual import QuerySegment

_KIND = "vector"


def nearest_rows(context: ExecutionContext, segment: QuerySegment) -> FilterResult | None:
    """Return the rows of a segment that match WHERE and are nearest to the vector, as many as the query asks for.

    None for another order, without a usable index, or if too few rows have a vector: then all rows must be sorted.
    """
    bound = context.asked(segment)
    search = indexed_search(bound, segment)
    if search is None:
        return None
    found = context.filter(segment, conjunction([bound.filter, search]))
    return found if found.count == search.count else None


def indexed_search(bound: BoundQuery, segment: QuerySegment) -> Near | None:
    """Return the vector search equivalent to the order of a query; None if there is none, or no index for it."""
    if len(bound.order_by) != 1 or bound.kind is not QueryKind.SELECTION_ORDER_BY:
        return None
    (key,) = bound.order_by
    search = nearest_first(key.expression, bound.limit_with_offset, descending=key.descending)
    if search is None or _KIND in segment.skipped_indexes.get(search.column, ()):
        return None
    return search if any(index.kind == _KIND for index in segment.column(search.column).indexes) else None
