"""What a broker keeps of the queries of one shape, so that it need not send, or find out, all of it again for the next."""

from collections.abc import Sequence

from gamay.query.bind.binder import BoundQuery
from gamay.query.bind.predicate import Filter
from gamay.query.few.rows import ROWS_MAX
from gamay.query.prepared.lookup import COLUMNS_MAX
from gamay.query.wire.known import KnownQuery, digest_of, packed
from gamay.query.wire.request import RequestHeader, encode_header, encode_query


class KnownShape:
    """What a broker sends of the queries of one shape. bound: one of them."""

    def __init__(self, bound: BoundQuery) -> None:
        self.bound = bound
        self._digest = digest_of(encode_query(bound)[0])

    @classmethod
    def of(cls, bound: BoundQuery) -> "KnownShape | None":
        """Return what is known of the queries that differ from this one in WHERE's literals; None for the ordinary way.

        That is the way of those with options, and of those whose answers may have many rows.
        """
        query = bound.query
        if query.options or query.explain or query.gapfill is not None or bound.filters or bound.null_handling:
            return None
        is_small = 0 < bound.limit_with_offset <= ROWS_MAX and len(bound.outputs) <= COLUMNS_MAX
        return cls(bound) if is_small and query.varies_only_in_where else None

    def request(
        self, query_id: str, table: str, filter_: Filter, segments: Sequence[str], timeout_ms: float, memory: int | None
    ) -> list[bytes]:
        """Return the buffers of a query of segments of a typed table. memory: in bytes; None leaves it to the server.

        The rows are wanted as the text that clients read: then the broker need not read and write them again.
        """
        known = KnownQuery(self._digest, self.bound.limit, self.bound.offset, packed(filter_), as_text=True)
        return [encode_header(RequestHeader(query_id, table, tuple(segments), timeout_ms, memory, None, known))]
