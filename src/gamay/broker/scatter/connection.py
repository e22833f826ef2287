"""Interface between a broker and its servers, in this process or remote."""

from collections.abc import Collection, Sequence
from typing import Protocol

from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError
from gamay.query.bind.binder import BoundQuery
from gamay.query.bind.predicate import Filter
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import Deadline
from gamay.query.prepared.lookup import PreparedLookup
from gamay.query.reduce.merge import Answer


class UnreachableServerError(QueryError):
    """A server that did not accept or answer a query. is_down: whether other queries should avoid it as well."""

    def __init__(self, code: ErrorCode, message: str, *, is_down: bool) -> None:
        super().__init__(code, message)
        self.is_down = is_down


class ServerConnection(Protocol):
    """One server."""

    def execute(
        self, table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline, latest: Collection[str] = ()
    ) -> tuple[ServerResult, Sequence[str]]:
        """Run a query on the named segments of a typed table; return the result and the segments it does not have.

        latest: the last segments of their partitions in the broker's route. For those among `segments`, the rows that follow
        on this server are read as well. All segments are read from one snapshot of the table. Raises QueryError;
        UnreachableServerError if the server does not answer.
        """
        ...


class AnswersPrepared(Protocol):
    """Interface to queries on the fast path, which have no deadline of their own: `answer_prepared` of a local server."""

    def __call__(
        self, table: str, query: PreparedLookup, filter_: Filter, segments: Sequence[str], clock: Clock
    ) -> Answer | None:
        """Answer a query from the named segments of a typed table; None to leave it to `ServerConnection.execute`.

        Raises GamayError if that method would as well.
        """
        ...


class Connections(Protocol):
    """The servers of a cluster."""

    def get(self, server: str, /) -> ServerConnection | None:
        """Return the connection to a server by its instance id; None if its address is unknown."""
        ...
