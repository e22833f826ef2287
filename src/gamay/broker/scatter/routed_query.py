"""A query of a known shape on the fast path."""

from dataclasses import dataclass

from gamay.broker.routes.route import TableRoute
from gamay.query.answer.response import BrokerResponse
from gamay.query.bind.predicate import Filter
from gamay.query.prepared.statements import LIGHT_NS_MAX, PreparedStatement


@dataclass(slots=True)
class RoutedQuery:
    """A prepared statement with a query's filter. kept: positions in the route of the segments that the filter does not
    prune."""

    statement: PreparedStatement
    route: TableRoute
    filter: Filter
    kept: list[int]

    def complete(self, response: BrokerResponse, number: int) -> BrokerResponse:
        """Complete the response of the only server asked with the broker's own fields."""
        route, stats = self.route, response.stats
        if stats.offline_thread_cpu_time_ns <= LIGHT_NS_MAX:
            self.statement.succeeded()
        stats.num_servers_queried = stats.num_servers_responded = 1
        stats.num_segments_pruned_by_broker = len(route.segments) - len(self.kept)
        stats.total_docs += route.pruning.total_docs - route.pruning.docs_in(self.kept)
        response.tables_queried = (route.raw_name,)
        response.request_id = str(number)
        return response
