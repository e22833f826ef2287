"""What a broker keeps of a query of a known shape, and how the next one of the shape is answered."""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import ref

from gamay.broker.routes.route import TableRoute
from gamay.broker.scatter.connection import AnswersPrepared
from gamay.query.answer.response import BrokerResponse
from gamay.query.bind.binder import BoundQuery
from gamay.query.bind.plans import LIGHT_NS_MAX
from gamay.query.bind.predicate import Filter
from gamay.query.prepared.filters import PreparedFilter
from gamay.query.prepared.lookup import PreparedQuery
from gamay.sql.options.row_limits import RowLimits

if TYPE_CHECKING:
    from gamay.query.wire.shape import KnownShape


_CREDIT = 8


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """A server in this process that alone has the segments, with what it knows of the queries of one shape."""

    server: str
    connection: AnswersPrepared
    query: PreparedQuery


@dataclass(slots=True)
class Prepared:
    """What is known of the queries of one shape, as long as their table's route is the same.

    bound: one of them; filter: that of the others, None for all rows. answers: who does. route: not kept alive from here,
    for it may hold 100,000 segments, and the next query may never come. name: of the table, as written. credit: goes down
    with each query that did not take the fast path.
    """

    bound: BoundQuery
    filter: PreparedFilter | None
    answers: "LocalTarget | KnownShape"
    route: "ref[TableRoute]"
    name: str
    tables_queried: list[str]
    timeout_s: float
    limits: RowLimits
    log2m: int | None
    credit: int = _CREDIT


@dataclass(slots=True)
class RoutedQuery:
    """A query of a known shape. kept: the places of the segments, in the route, that its filter leaves."""

    prepared: Prepared
    route: TableRoute
    filter: Filter
    kept: list[int]

    def complete(self, response: BrokerResponse, number: int) -> BrokerResponse:
        """Add to the response of the one server that was asked what only the broker knows."""
        route, stats = self.route, response.stats
        if stats.offline_thread_cpu_time_ns <= LIGHT_NS_MAX:
            self.prepared.credit = _CREDIT
        stats.num_servers_queried = stats.num_servers_responded = 1
        stats.num_segments_pruned_by_broker = len(route.segments) - len(self.kept)
        stats.total_docs += route.pruning.total_docs - route.pruning.docs_in(self.kept)
        response.tables_queried = self.prepared.tables_queried
        response.request_id = str(number)
        return response
