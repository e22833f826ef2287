"""One call: a selection of one table's segments, answered in batches.

Errors in a query are sent as Pinot's clients expect, as a table with an exception and Pinot's error code; errors in
the call itself, or in its authorization, as a gRPC status. Neither can be mistaken for the end of the rows.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import grpc
import numpy as np

from gamay.base import guard
from gamay.base.clock import Clock
from gamay.base.errors import CorruptSegmentError, ErrorCode, GamayError, InvalidConfigError, NotFoundError, QueryError
from gamay.cluster.access.logins import Logins, address_of_peer
from gamay.cluster.access.principals import AccessControl, ForbiddenError, Principal
from gamay.cluster.access.rights import Level, Right, Scope
from gamay.functions.vector import Vector
from gamay.model.table.search_settings import SearchSettings
from gamay.model.table.table_name import table_type_of
from gamay.query.bind.binder import BoundQuery, QueryKind
from gamay.query.columns.operations import take_rows
from gamay.query.execute.matching_rows import matching_vectors
from gamay.query.limits.deadline import CancellableDeadline
from gamay.query.limits.memory_size import held_bytes
from gamay.query.limits.queue import QueryQueue
from gamay.query.prepared.statements import Statements
from gamay.query.reduce.merge import no_matches
from gamay.query.selection import concat_rows
from gamay.segment.spi import Segment
from gamay.server.answering.executor import QueryExecutor
from gamay.server.answering.running import RunningQueries
from gamay.server.grpc.data_table import encode_counters, encode_failure, encode_rows
from gamay.server.grpc.messages import (
    AUTHORIZATION,
    DATA,
    METADATA,
    PAYLOAD_TYPE,
    REQUEST_ID,
    RESPONSE_TYPE,
    SQL,
    STREAMING,
    WHOLE,
    ServerResponse,
)
from gamay.server.instance.instance import ServerInstance
from gamay.sql.options.option_values import number
from gamay.sql.parser import parse_query
from gamay.sql.query import Query

_log = logging.getLogger(__name__)

INTERFACE = "the gRPC port"
# below gRPC's default limit on received messages
MESSAGE_BYTES_MAX = 3 << 20
# the limit of Pinot's client
WHOLE_BYTES_MAX = 128 << 20
_BATCH_ROWS = 16_384
_SHOWN_TEXT = 1000
# readers may be slow between batches
_TIMEOUT_MS = 300_000
_RIGHT = Right("Query", Level.READ, Scope.NAMED, (("table",),))
_STATUSES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


@dataclass(slots=True)
class _Scan:
    """State of one call. skip, left: rows to skip before the first one sent, and the number still to send."""

    table: str
    bound: BoundQuery
    segments: Sequence[Segment]
    deadline: CancellableDeadline
    skip: int
    left: int
    counters: dict[str, int] = field(default_factory=dict)


class Submissions:
    """Handler of the calls of a server's gRPC port. Calls wait on the port's threads; reads run on those of `queue`."""

    def __init__(
        self,
        instance: ServerInstance,
        executor: QueryExecutor,
        queue: QueryQueue,
        running: RunningQueries,
        access: AccessControl,
        clock: Clock,
    ) -> None:
        self._instance = instance
        self._executor = executor
        self._queue = queue
        self._clock = clock
        self._running = running
        self._numbers = count(1)
        self._logins = Logins(access, clock=clock)

    def submit(self, request: Any, context: Any) -> Iterator[Any]:
        """Yield the responses to a `ServerRequest`. context: of gRPC's call."""
        try:
            yield from self._answered(request, context)
        except QueryError as error:
            yield _response(DATA, encode_failure(error.code.code, error.client_message()))
        except GamayError as error:
            context.abort(_STATUSES.get(error.http_status, grpc.StatusCode.INTERNAL), str(error))
        except Exception:  # noqa: BLE001 - an error may only end its call, not the port
            _log.exception("a query by gRPC failed: %s", request.sql[:_SHOWN_TEXT])
            context.abort(grpc.StatusCode.INTERNAL, "The query failed for a reason that is a defect of Gamay; see the log")

    def _answered(self, request: Any, context: Any) -> Iterator[Any]:
        metadata = {key.lower(): value for key, value in request.metadata.items()}
        principal = self._sender(metadata, context)
        payload = metadata.get(PAYLOAD_TYPE.lower(), SQL)
        if payload.lower() != SQL:
            raise InvalidConfigError(f"the {PAYLOAD_TYPE} must be '{SQL}', not '{payload}'; brokers ask at the query port")
        scan = self._begun(_selection(request.sql), list(request.segments), principal, context)
        query_id = metadata.get(REQUEST_ID.lower()) or f"grpc_{next(self._numbers)}"
        with self._running.listed(query_id, scan.deadline.cancel, scan.deadline.budget):
            yield from self._responses(scan, is_streamed=metadata.get(STREAMING.lower(), "false").lower() == "true")

    def _responses(self, scan: _Scan, *, is_streamed: bool) -> Iterator[Any]:
        batches = self._batches(scan)
        if is_streamed:
            while (payloads := self._worked(scan, partial(_next_encoded, batches, scan))) is not None:
                for payload in payloads:
                    yield _response(DATA, payload)
            yield _response(METADATA, encode_counters(scan.counters))
        else:
            yield _response(WHOLE, self._worked(scan, partial(_all_encoded, batches, scan)))

    def _sender(self, metadata: "dict[str, str]", context: Any) -> Principal:
        """Return the principal of a call; Pinot's brokers and clients authenticate in the message, others in gRPC's
        headers."""
        headers = {key.lower(): value for key, value in context.invocation_metadata()}
        given = metadata.get(AUTHORIZATION) or headers.get(AUTHORIZATION)
        return self._logins.principal_of_call(given, address_of_peer(context.peer(), INTERFACE), INTERFACE)

    def _begun(self, query: Query, segments: Sequence[str], principal: Principal, context: Any) -> _Scan:
        """Find the segments, and bind the query. Raises GamayError."""
        table = query.table or ""
        _RIGHT.check(principal, "GET", {"table": table})
        if not principal.sees_rows_of(table):
            raise ForbiddenError(f"{principal.name} may not see all rows of table {table}; ask a broker, which filters them")
        layout = self._instance.layout_of(table)
        if layout is None or self._instance.table(table) is None:
            raise NotFoundError(f"Table not found: {table}{_type_hint(table)}")
        _, bound = Statements(layout.schema, SearchSettings.of(layout.config)).bind(query)
        if bound.kind is not QueryKind.SELECTION:
            raise QueryError(ErrorCode.QUERY_VALIDATION, f"{_ONLY_SELECTIONS}, not a query of the kind {bound.kind.value}")
        limit_ms = number(query.options, "timeoutMs", layout.config.query.timeout_ms or _TIMEOUT_MS)
        deadline = CancellableDeadline(self._clock, self._clock.monotonic_s() + limit_ms / 1000, limit_ms)
        context.add_callback(deadline.cancel)
        found, missing = self._executor.scan(table, bound, segments, deadline)
        if missing:
            names = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
            text = f"{len(missing)} segments of {table} are not on this server: {names}; ask a broker where they are"
            raise QueryError(ErrorCode.SERVER_SEGMENT_MISSING, text)
        total = sum(segment.num_docs for segment in found)
        counters = {"numDocsScanned": 0, "numSegmentsQueried": len(found), "numSegmentsProcessed": 0}
        counters |= {"numSegmentsMatched": 0, "totalDocs": total}
        return _Scan(table, bound, found, deadline, bound.offset, bound.limit, counters)

    def _worked(self, scan: _Scan, work: Any) -> Any:
        """Run some work for a scan in the queue, and wait for its result. Raises GamayError."""

        def watched() -> Any:
            before = guard.enter(scan.deadline)
            try:
                scan.deadline.check()
                return work()
            except CorruptSegmentError as error:
                raise self._executor.damaged(scan.table, error) from error
            finally:
                guard.enter(before)

        return self._queue.submit(watched, len(scan.segments)).result()

    def _batches(self, scan: _Scan) -> Iterator[tuple[Vector, ...]]:
        """Yield the rows of a scan, and count them."""
        counters = scan.counters
        for segment in scan.segments:
            if not scan.left:
                return
            counters["numSegmentsProcessed"] += 1
            is_matched = False
            for columns in matching_vectors(scan.bound, segment, _BATCH_ROWS):
                num_rows = len(columns[0])
                counters["numDocsScanned"] += num_rows
                counters["numSegmentsMatched"] += not is_matched
                is_matched = True
                window = np.arange(min(scan.skip, num_rows), min(scan.skip + scan.left, num_rows))
                scan.skip -= min(scan.skip, num_rows)
                scan.left -= len(window)
                if len(window):
                    yield columns if len(window) == num_rows else tuple(take_rows(c, window) for c in columns)
                if not scan.left:
                    return


_ONLY_SELECTIONS = "The gRPC port of a server answers selections of one table without ORDER BY; ask a broker"


def _selection(sql: str) -> Query:
    """Parse a selection of one table. Raises QueryError for other queries."""
    query = parse_query(sql)
    if (
        query.table is None
        or query.relational is not None
        or query.gapfill is not None
        or query.explain
        or query.asks_broker
    ):
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"{_ONLY_SELECTIONS} for: {sql[:200]}")
    return query


def _type_hint(table: str) -> str:
    return "; its name must end in _OFFLINE or _REALTIME" if table_type_of(table) is None else " is not on this server"


def _next_encoded(batches: Iterator[tuple[Vector, ...]], scan: _Scan) -> list[bytes] | None:
    """Return the next batch as messages within the size limit, None at the end."""
    columns = next(batches, None)
    return None if columns is None else list(_encoded(columns, scan.bound))


def _encoded(columns: tuple[Vector, ...], bound: BoundQuery) -> Iterator[bytes]:
    encoded = encode_rows(bound.names, columns, null_handling=bound.null_handling)
    num_rows = len(columns[0])
    parts = min(-(-len(encoded) // MESSAGE_BYTES_MAX), num_rows)
    if parts <= 1:
        yield encoded
        return
    for rows in np.array_split(np.arange(num_rows), parts):
        yield from _encoded(tuple(take_rows(column, rows) for column in columns), bound)


def _all_encoded(batches: Iterator[tuple[Vector, ...]], scan: _Scan) -> bytes:
    """Return all rows in one message. Raises QueryError 245 if they exceed its size."""
    parts, num_bytes = [], 0
    for columns in batches:
        parts.append(columns)
        num_bytes += held_bytes(columns)
        if num_bytes > WHOLE_BYTES_MAX:
            text = f"The rows take more than the {WHOLE_BYTES_MAX >> 20} MB of one message; ask with {STREAMING}=true"
            raise QueryError(ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED, text)
        guard.check()
    columns = concat_rows(parts) if parts else no_matches(scan.bound)
    return encode_rows(scan.bound.names, columns, scan.counters, null_handling=scan.bound.null_handling)


def _response(kind: str, payload: bytes) -> Any:
    return ServerResponse(metadata={RESPONSE_TYPE: kind}, payload=payload)
