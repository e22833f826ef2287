"""What a broker keeps of the queries of one shape, so that it need not send, or find out, all of it again for the next."""

from collections.abc import Sequence

from gamay.query.bind import BoundQuery
from gamay.query.plans import Shape
from gamay.query.predicate import Filter
from gamay.query.prepared import COLUMNS_MAX, ROWS_MAX
from gamay.query.prepared_filter import PreparedFilter
from gamay.query.wire.known import KnownQuery, digest_of, packed
from gamay.query.wire.request import RequestHeader, encode_header, encode_query
from gamay.sql.template import Template


class KnownShape:
    """What a broker sends of the queries of one shape. bound: one of them. filter: that of the others; None for all rows."""

    def __init__(self, bound: BoundQuery, filter_: PreparedFilter | None) -> None:
        self.bound = bound
        self.filter = filter_
        self._digest = digest_of(encode_query(bound)[0])

    @classmethod
    def of(cls, shape: Shape, template: Template) -> "KnownShape | None":
        """Return what is known of the queries of a template; None where they are to be sent the ordinary way.

        So are those with options, and those whose answers may have many rows.
        """
        bound, pattern = shape.bound, shape.pattern
        query = bound.query
        if query.options or query.explain or query.gapfill is not None or bound.filters or bound.null_handling:
            return None
        if not query.varies_only_in_where or len(bound.outputs) > COLUMNS_MAX:
            return None
        if not 0 < bound.limit_with_offset <= ROWS_MAX:
            return None
        if query.where is None:
            return cls(bound, None)
        filter_ = None if template.where is None or pattern is None else PreparedFilter.of(template.where, pattern)
        return None if filter_ is None else cls(bound, filter_)

    def request(
        self, query_id: str, table: str, filter_: Filter, segments: Sequence[str], timeout_ms: float, memory: int | None
    ) -> list[bytes]:
        """Return the buffers of a query of segments of a typed table. memory: in bytes; None leaves it to the server."""
        known = KnownQuery(self._digest, self.bound.limit, self.bound.offset, packed(filter_))
        return [encode_header(RequestHeader(query_id, table, tuple(segments), timeout_ms, memory, None, known))]
