"""A query on its way through the broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gamay.broker.metrics import Phases
from gamay.broker.routes.route import TableRoute
from gamay.broker.routes.selection import Turn
from gamay.broker.scatter.gather import Result
from gamay.broker.scatter.routed_query import RoutedQuery
from gamay.broker.scatter.state import GatheredAnswers, Part
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.query.answer.response import BrokerResponse
from gamay.query.bind.binder import BoundQuery
from gamay.query.limits.deadline import CancellableDeadline
from gamay.query.prepared.statements import PreparedStatement
from gamay.query.wire.result import Received
from gamay.relational.names import Frame
from gamay.sql.query import Query

# results of servers in other processes that are read and merged at once, without another thread
_LIGHT_BYTES_MAX = 1 << 18
# of the processor: what takes longer spends most of it outside of Python
_TURN_NS_MAX = 10_000_000


@dataclass(slots=True)
class PendingQuery:
    """A query that has been compiled and routed, but not executed.

    failure: the response when that was not possible; query, deadline and bound are set otherwise.
    routes, parts: of a query with a table; a hybrid table has two routes, and mostly two parts. statement: of the first.
    database, principal: of the request. depth: how many queries this one stands in, as a subquery.
    has_row_filters: whether rows are kept from the principal.
    turn: what decides among replicas.
    routed: it is of a known shape; query and deadline are set, but bound is not. answered: the response of the server in
    another process that was asked then; without it the query is compiled after all.
    gathered: what servers in other processes answered, where they were asked from an event loop. span: of OpenTelemetry.
    phases: what they took so far. warnings: sentences about the query's options, for the response.
    application: what asked names itself, empty without a name.
    frames: rows that came with the query, by the names that it has for them.
    """

    sql: str
    number: int
    started_s: float
    failure: BrokerResponse | None = None
    query: Query = field(init=False)
    deadline: CancellableDeadline = field(init=False)
    bound: BoundQuery = field(init=False)
    routes: Sequence[TableRoute] = ()
    parts: Sequence[Part] = ()
    database: str | None = None
    principal: Principal = ANYONE
    depth: int = 0
    has_row_filters: bool = False
    statement: PreparedStatement | None = None
    turn: Turn = field(init=False)
    routed: RoutedQuery | None = None
    answered: BrokerResponse | None = None
    gathered: GatheredAnswers[Result] | None = None
    span: Any = None
    phases: Phases = field(default_factory=Phases)
    warnings: Sequence[str] = ()
    application: str = ""
    frames: Mapping[str, Frame] | None = None

    def subquery(self, sql: str, routes: Sequence[TableRoute]) -> "PendingQuery":
        """Return a query that is a part of this one: of the same principal, with the same deadline."""
        inner = PendingQuery(
            sql, self.number, self.started_s, depth=self.depth + 1, database=self.database, principal=self.principal
        )
        inner.deadline, inner.routes = self.deadline, routes
        return inner

    @property
    def client_id(self) -> str | None:
        """The client's own name for the query; of one that was compiled."""
        return self.query.options.get("clientQueryId")

    @property
    def is_light(self) -> bool:
        """Whether executing it takes about as long as handing it to another thread."""
        if self.failure is not None or self.statement is None:
            return self.failure is not None
        return self.statement.is_light(sum([part.num_docs for part in self.parts]))

    @property
    def is_short(self) -> bool:
        """Whether it takes little time, as far as is known."""
        return self.statement is not None and self.statement.is_short

    @property
    def takes_turns(self) -> bool:
        """Whether it is planned and put together in Python for the most part, and takes little time."""
        took_ns = None if self.query.relational is None else self.query.relational.cost.took_ns
        return took_ns is not None and took_ns <= _TURN_NS_MAX

    @property
    def is_light_to_merge(self) -> bool:
        """Whether what servers in other processes found can be merged at once, or nothing was asked of them."""
        if self.answered is not None:
            return True
        if self.gathered is None or self.gathered.missing:  # servers are asked, or asked again, from another thread
            return self.failure is not None
        sizes = [result.num_bytes for _, _, result in self.gathered.results if isinstance(result, Received)]
        return sum(sizes) <= _LIGHT_BYTES_MAX
