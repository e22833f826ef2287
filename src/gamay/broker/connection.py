"""How a broker reaches a server, whether it lives in this process or elsewhere."""

from collections.abc import Sequence
from typing import Protocol

from gamay.query.bind import BoundQuery
from gamay.query.deadline import Deadline
from gamay.query.execute import ServerResult


class ServerConnection(Protocol):
    """One server."""

    def execute(
        self, table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline
    ) -> tuple[ServerResult, Sequence[str]]:
        """Run a query on the named segments of a typed table; return the result and the segments it does not have.

        All segments are read from one snapshot of the table. Raises QueryError.
        """
        ...
