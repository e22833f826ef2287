"""Prepared statements and the values bound to them."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gamay.base.clock import Clock
from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.base.ids import Ids
from gamay.client.literals import filled, placeholders
from gamay.cluster.access.principals import Principal

STATEMENTS_MAX = 10_000
SIZE_MAX = 1 << 26
"""Total size of the statements with their bound values, in characters; the last one alone may exceed it."""
UNUSED_S = 3600.0
ROWS_MAX = 1000
# values assumed for unbound parameters; most positions in a query accept one of them
_STAND_INS = (0, "", "00", "1970-01-01")


@dataclass(slots=True)
class Statement:
    """A query with a `?` for each parameter. rows: the bound values, one list for each execution.

    size: approximate size of its text and values, in characters.
    """

    sql: str
    owner: str
    num_parameters: int
    used_s: float
    rows: Sequence[Sequence[Any]] = field(default_factory=tuple)

    @property
    def size(self) -> int:
        values = (value for row in self.rows for value in row)
        return len(self.sql) + sum(len(value) if isinstance(value, str | bytes) else 1 for value in values)

    def parameter_schema(self) -> pa.Schema:
        """Return the parameters as text, which Gamay converts to the type required; values of other types are accepted
        too."""
        return pa.schema([(str(i), pa.string()) for i in range(1, self.num_parameters + 1)])

    def texts(self) -> list[str]:
        """Return the queries to run, with their parameters filled in. Raises InvalidConfigError if none is bound."""
        if not self.num_parameters:
            return [self.sql]
        if not self.rows:
            raise InvalidConfigError(f"the statement has {self.num_parameters} parameters, but none is bound")
        return [filled(self.sql, list(row)) for row in self.rows]

    def shapes(self) -> list[str]:
        """Return queries with the answer's columns, with the bound values or substitutes for them.

        With substitutes some may be invalid, since it depends on the position which values are allowed.
        """
        if not self.num_parameters:
            return [self.sql]
        rows = [list(self.rows[0])] if self.rows else [[value] * self.num_parameters for value in _STAND_INS]
        return [filled(self.sql, row) for row in rows]


class Statements:
    """Store of statements; it drops those unused for an hour, and the least recently used ones beyond its limits."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Statement] = OrderedDict()
        self._size = 0

    def create(self, sql: str, principal: Principal) -> tuple[bytes, Statement]:
        """Create a statement; return its handle and the statement."""
        now_s = self._clock.monotonic_s()
        made = Statement(sql, principal.name, sum(mark == "?" for mark in placeholders(sql).marks), now_s)
        handle = self._ids.new().encode()
        with self._lock:
            self._known[handle] = made
            self._size += made.size
            self._make_room()
        return handle, made

    def _make_room(self) -> None:
        oldest_s = self._clock.monotonic_s() - UNUSED_S
        while len(self._known) > 1 and (
            len(self._known) > STATEMENTS_MAX or self._size > SIZE_MAX or next(iter(self._known.values())).used_s < oldest_s
        ):
            self._size -= self._known.popitem(last=False)[1].size

    def get(self, handle: bytes, principal: Principal) -> Statement:
        """Return a principal's statement. Raises NotFoundError."""
        with self._lock:
            found = self._known.get(handle)
            if found is None or found.owner != principal.name:
                raise NotFoundError(
                    "there is no such prepared statement at this broker: it was closed, not used for an hour, or "
                    "prepared at another one; prepare it again"
                )
            found.used_s = self._clock.monotonic_s()
            self._known.move_to_end(handle)
            return found

    def bind(self, handle: bytes, principal: Principal, rows: Sequence[Sequence[Any]]) -> None:
        """Bind values, one list for each execution. Raises NotFoundError, InvalidConfigError."""
        statement = self.get(handle, principal)
        for row in rows:
            if len(row) != statement.num_parameters:
                raise InvalidConfigError(
                    f"the statement has {statement.num_parameters} parameters, but {len(row)} values are bound"
                )
        if len(rows) > ROWS_MAX:
            raise InvalidConfigError(f"more than {ROWS_MAX} rows of parameters are bound; use IN, or several queries")
        with self._lock:
            if handle in self._known:  # it was used last, so room is made by dropping others
                self._size -= statement.size
                statement.rows = rows
                self._size += statement.size
                self._make_room()

    def close(self, handle: bytes, principal: Principal) -> None:
        """Drop a statement; no effect if it does not exist."""
        with self._lock:
            found = self._known.get(handle)
            if found is not None and found.owner == principal.name:
                self._size -= self._known.pop(handle).size
