"""The metadata of a response: statistics, missing segments, errors."""

import logging
from collections.abc import Iterator, Sequence

from gamay.base import spans
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, GamayError, QueryError, forget_traceback
from gamay.base.logs import about
from gamay.broker.answer.pending import PendingQuery
from gamay.broker.scatter.connection import UnreachableServerError
from gamay.broker.scatter.gather import Result
from gamay.broker.scatter.state import GatheredAnswers
from gamay.model.table.table_name import raw_table_name
from gamay.query.answer.response import BrokerResponse
from gamay.query.stats import QueryStats
from gamay.sql.options.option_values import flag

_log = logging.getLogger(__name__)

_UNAVAILABLE_SHOWN = 5


def of_failure(pending: PendingQuery, error: Exception) -> BrokerResponse:
    """Return the response to a failed query: a user's error is reported, a defect also logged."""
    if isinstance(error, GamayError | MemoryError):
        forget_traceback(error)
    if isinstance(error, QueryError):
        return BrokerResponse.of_error(error)
    if isinstance(error, GamayError):
        return BrokerResponse.of_error(QueryError(ErrorCode.QUERY_EXECUTION, str(error)))
    lines_about = about(pending.number, pending.routes[0].table if pending.routes else None)
    if isinstance(error, MemoryError):
        _log.warning("query %d ran out of memory: %s", pending.number, pending.sql, extra=lines_about)
        return BrokerResponse.of_error(
            QueryError(
                ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
                "The query needs more memory than the process can get; filter more, or group by less",
            )
        )
    _log.error("query %d failed: %s", pending.number, pending.sql, exc_info=error, extra=lines_about)
    return BrokerResponse.of_error(
        QueryError(ErrorCode.INTERNAL, f"The query failed for a reason that is a defect of Gamay: {error!r}")
    )


def annotate(response: BrokerResponse, pending: PendingQuery, gathered: GatheredAnswers[Result], clock: Clock) -> None:
    """Add the statistics, the errors of servers and the missing segments to a response."""
    response.exceptions = list(_told_once(gathered.problems))
    stats = response.stats
    stats.num_servers_queried = gathered.num_queried
    stats.num_servers_responded = len(gathered.responded)
    response.tables_queried = [raw_table_name(pending.routes[0].table)]
    stats.num_segments_pruned_by_broker = sum(part.num_pruned for part in pending.parts)
    if gathered.results or not gathered.num_queried:  # where servers failed, the totals of the others are unknown too
        stats.total_docs += sum(part.docs_pruned for part in pending.parts)
    unavailable = list(gathered.missing)
    for route in (part.route for part in pending.parts):
        if route.unavailable:
            now_ms = clock.now_ms()
            unavailable[:0] = [segment for segment, since_ms in route.unavailable if since_ms <= now_ms]
    if unavailable and not flag(pending.query.options, "ignoreMissingSegments"):
        response.exceptions.append(_unavailable(unavailable))


def _told_once(problems: Sequence[QueryError]) -> Iterator[tuple[int, str]]:
    """Yield (code, message): one per unreachable server, and one per code of all other errors."""
    told: set[int] = set()
    for problem in problems:
        code = problem.code.code
        if isinstance(problem, UnreachableServerError) or code not in told:
            yield code, problem.client_message()
        told.add(code)


def _unavailable(segments: Sequence[str]) -> tuple[int, str]:
    shown = ", ".join(segments[:_UNAVAILABLE_SHOWN])
    more = f", … ({len(segments)} in total)" if len(segments) > _UNAVAILABLE_SHOWN else ""
    error = QueryError(ErrorCode.SEGMENTS_UNAVAILABLE, f"{len(segments)} segments unavailable: [{shown}{more}]")
    return error.code.code, error.client_message()


def add_done(response: BrokerResponse, done: QueryStats) -> None:
    """Add the work done to the statistics of a response without a result."""
    for name in ("num_docs_scanned", "num_entries_scanned_in_filter", "num_entries_scanned_post_filter", "total_docs"):
        setattr(response.stats, name, max(getattr(response.stats, name), getattr(done, name)))
    for name in ("num_segments_queried", "num_segments_processed", "num_segments_matched"):
        setattr(response.stats, name, max(getattr(response.stats, name), getattr(done, name)))


def processor_ns(response: BrokerResponse, elapsed_s: float) -> int:
    """Return an upper bound of a query's processor time, without a system call, which takes longer than reading a clock.

    It is at most the elapsed time; when other threads kept the processor busy meanwhile, the sum of its parts is less.
    """
    elapsed_ns = int(elapsed_s * 1e9)
    if response.exceptions:
        return elapsed_ns
    stats = response.stats
    parts_ns = stats.offline_thread_cpu_time_ns + stats.realtime_thread_cpu_time_ns + response.reduce_time_ms * 1_000_000
    return min(elapsed_ns, parts_ns)


def end_span(pending: PendingQuery, response: BrokerResponse) -> None:
    """End the span of a query and attach its text, whose literals are data like the rows of the answer."""
    spans.end(
        pending.span,
        "; ".join(message for _, message in response.exceptions) or None,
        request_id=response.request_id,
        table=pending.routes[0].table if pending.routes else None,
        statement=pending.sql,
    )
