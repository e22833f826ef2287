"""State of scattering one query: which servers to ask, and which ones instead of those that fail. Pure: callers report
outcomes.

A server that does not answer, or no longer has a segment, is replaced by another replica. Segments that no server can serve
are reported; a partial answer is always marked as such.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gamay.base.errors import ErrorCode, QueryError
from gamay.broker.routes.route import TableRoute
from gamay.broker.routes.selection import Candidates, SelectorKind, Turn
from gamay.broker.scatter.connection import UnreachableServerError
from gamay.query.bind.binder import BoundQuery

R = TypeVar("R")

# errors that another replica may not have
_RETRIED = frozenset({ErrorCode.SERVER_SHUTTING_DOWN, ErrorCode.SERVER_OUT_OF_CAPACITY, ErrorCode.SERVER_TABLE_MISSING})


@dataclass(slots=True)  # not frozen: created for each query, and freezing would triple the time
class Part:
    """The query of one typed table; a hybrid table has two parts. asked: server -> segments."""

    route: TableRoute
    bound: BoundQuery
    asked: dict[str, list[str]]
    num_docs: int = 0
    num_pruned: int = 0
    docs_pruned: int = 0


@dataclass(slots=True)
class Ask:
    """Segments of a part requested from one server."""

    part: Part
    server: str
    segments: Sequence[str]


@dataclass(slots=True)
class GatheredAnswers(Generic[R]):
    """Answers of servers to one query.

    results: each with its part and server. missing: segments that no server had. responded, unanswered: the (table, server)
    pairs that answered, and those whose answer is lacking.
    """

    results: list[tuple[Part, str, R]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    problems: list[QueryError] = field(default_factory=list)
    responded: set[tuple[str, str]] = field(default_factory=set)
    unanswered: set[tuple[str, str]] = field(default_factory=set)

    @property
    def num_queried(self) -> int:
        """Number of servers that the answer depends on: a server counts once for each typed table.

        Servers replaced by another replica do not count, so an answer is complete if as many servers responded.
        """
        return len(self.responded | self.unanswered)


class Scatter(Generic[R]):
    """One round of requests. turn: chooses among replicas; the servers that it avoids are asked last."""

    def __init__(self, parts: Sequence[Part], turn: Turn) -> None:
        self.gathered: GatheredAnswers[R] = GatheredAnswers()
        self._parts = parts
        self._turn = turn
        self._tried: dict[tuple[str, str], set[str]] = {}  # (table, segment) -> servers that did not answer for it
        self._unreachable: set[str] = set()

    def begin(self) -> list[Ask]:
        """Return the first requests."""
        return [Ask(part, server, segments) for part in self._parts for server, segments in part.asked.items()]

    def answered(self, ask: Ask, result: R, missing: Sequence[str]) -> list[Ask]:
        """Record an answer and the segments that the server does not have; return further requests."""
        lacking = [segment for segment in missing if segment not in ask.part.route.optional]
        if lacking and ask.part.route.selector is SelectorKind.STRICT_REPLICA_GROUP:
            again = self._instead_of_groups(ask, lacking)
            if again:
                return again
        self.gathered.results.append((ask.part, ask.server, result))
        self.gathered.responded.add((ask.part.route.table, ask.server))
        return self._instead(ask, lacking) if lacking else []

    def failed(self, ask: Ask, error: QueryError) -> list[Ask]:
        """Record a server that failed; return further requests."""
        again: list[Ask] = []
        if isinstance(error, UnreachableServerError):
            self._unreachable.add(ask.server)
        if isinstance(error, UnreachableServerError) or error.code in _RETRIED:
            of_all = self._instead_of_all(ask)
            if of_all is not None:
                return of_all
            missing = len(self.gathered.missing)
            again = self._instead(ask, ask.segments)
            del self.gathered.missing[missing:]  # the server is reported, not its segments
        self.gathered.unanswered.add((ask.part.route.table, ask.server))
        self.gathered.problems.append(error)
        return again

    def _instead_of_groups(self, ask: Ask, lacking: Sequence[str]) -> list[Ask]:
        """Return the requests that replace an answer without some segments; empty if no other server may have them.

        Rows of a group's other segments may be invalidated by rows of the missing ones, so a group, the segments with the
        same candidates, moves as a whole. An answer cannot be divided: the server is asked again for the remaining segments.
        """
        route = ask.part.route
        incomplete = {route.candidates(segment) for segment in lacking if self._left(ask, segment)}
        moving = [segment for segment in ask.segments if route.candidates(segment) in incomplete]
        staying = [segment for segment in ask.segments if route.candidates(segment) not in incomplete]
        if not moving:
            return []
        again = self._instead(ask, moving)
        return [*again, Ask(ask.part, ask.server, staying)] if staying else again

    def _instead_of_all(self, ask: Ask) -> list[Ask] | None:
        """Return requests to other replicas for all segments of a failed request; None if some have none left."""
        if not all(self._left(ask, segment) for segment in ask.segments):
            return None
        return self._instead(ask, ask.segments)

    def _left(self, ask: Ask, segment: str) -> Candidates:
        """Return the servers left to ask for a segment, after one that did not answer for it."""
        route = ask.part.route
        tried = {ask.server, *self._tried.get((route.table, segment), ())}
        left = tuple(server for server in route.candidates(segment) if server not in tried)
        if left or ask.server not in self._unreachable:
            return left
        # servers known to be down are not tried again by each query
        return tuple(one for one in route.spares_of(segment) if one not in tried and one not in self._turn.avoided)

    def _instead(self, ask: Ask, segments: Sequence[str]) -> list[Ask]:
        """Return requests to other replicas for segments; those without any are missing."""
        table = ask.part.route.table
        asked: dict[str, list[str]] = {}
        taken: dict[Candidates, str] = {}  # ranks vary; segments of one server stay together
        for segment in segments:
            left = self._left(ask, segment)
            self._tried.setdefault((table, segment), set()).add(ask.server)
            if left:
                if left not in taken:
                    taken[left] = self._turn.take(left)
                asked.setdefault(taken[left], []).append(segment)
            else:
                self.gathered.missing.append(segment)
        return [Ask(ask.part, server, found) for server, found in asked.items()]
