"""Queries without a table: the broker itself evaluates their expressions, once."""

from collections.abc import Mapping
from typing import Any, NoReturn

from gamay.query.bind.binder import BoundQuery
from gamay.query.execute.executor import execute
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.stats import QueryStats

_INLINE = WorkPool(1)


class _OneRow:
    """A segment of one row without columns."""

    name = ""
    num_docs = 1
    column_names: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}

    def column(self, name: str) -> NoReturn:
        raise KeyError(name)


def literal_row(bound: BoundQuery, deadline: Deadline) -> ServerResult:
    """Return the result of a query without a table; its statistics are zero. Raises QueryError."""
    result = execute(bound, [_OneRow()], _INLINE, deadline)
    result.stats = QueryStats()
    return result
