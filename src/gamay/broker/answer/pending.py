"""A query and its state between arrival and response."""

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

# remote results up to this size are read and merged on the calling thread
_LIGHT_BYTES_MAX = 1 << 18
# processor time; longer queries spend most of it outside of Python
_TURN_NS_MAX = 10_000_000


@dataclass(slots=True)
class PendingQuery:
    """A query that has been compiled and routed, but not executed.

    failure: the response if compiling or routing failed; otherwise query, deadline and bound are set.
    routes, parts: of a query with a table; a hybrid table has two routes, and usually two parts. statement: of the first.
    database, principal: of the request. depth: nesting depth as a subquery.
    has_row_filters: whether row-level security hides rows from the principal.
    turn: the choice among replicas.
    routed: set for a query on the fast path; query and deadline are set, but bound is not. answered: the response of the
    remote server that was asked then; without it the query is compiled after all.
    gathered: the results of remote servers, if an event loop asked them. span: of OpenTelemetry.
    phases: their durations so far. warnings: about the query's options, for the response.
    application: the name that the client gave itself, or empty.
    frames: data frames that came with the query, by name.
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
        """Return a query that is a part of this one, with its principal and deadline."""
        inner = PendingQuery(
            sql, self.number, self.started_s, depth=self.depth + 1, database=self.database, principal=self.principal
        )
        inner.deadline, inner.routes = self.deadline, routes
        return inner

    @property
    def client_id(self) -> str | None:
        """The client's own id for a compiled query."""
        return self.query.options.get("clientQueryId")

    @property
    def is_light(self) -> bool:
        """Whether executing it takes about as long as passing it to another thread."""
        if self.failure is not None or self.statement is None:
            return self.failure is not None
        return self.statement.is_light(sum([part.num_docs for part in self.parts]))

    @property
    def is_short(self) -> bool:
        """Whether it is known to take little time."""
        return self.statement is not None and self.statement.is_short

    @property
    def takes_turns(self) -> bool:
        """Whether it is short and spends most of its time in Python, planning and assembling the answer."""
        took_ns = None if self.query.relational is None else self.query.relational.cost.took_ns
        return took_ns is not None and took_ns <= _TURN_NS_MAX

    @property
    def is_light_to_merge(self) -> bool:
        """Whether the results of remote servers can be merged on the calling thread, or no server was asked."""
        if self.answered is not None:
            return True
        if self.gathered is None or self.gathered.missing:  # another thread asks the servers, again if segments are missing
            return self.failure is not None
        sizes = [result.num_bytes for _, _, result in self.gathered.results if isinstance(result, Received)]
        return sum(sizes) <= _LIGHT_BYTES_MAX
