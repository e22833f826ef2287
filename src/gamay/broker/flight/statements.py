"""Prepared statements between their creation and their end, with the values that were bound to them."""

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
"""Of the statements in all, with the values that are bound, in characters; the last one may be larger alone."""
UNUSED_S = 3600.0
ROWS_MAX = 1000
# what is taken for parameters that have no value yet; most places of a query take one of them
_STAND_INS = (0, "", "00", "1970-01-01")


@dataclass(slots=True)
class Statement:
    """A query with a `?` for each parameter. rows: the values that are bound, a list for each time that it is to run.

    size: of its text and values, about, in characters.
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
        """Return the parameters: text, which Gamay turns into what it is compared with; values of other types are fine."""
        return pa.schema([(str(i), pa.string()) for i in range(1, self.num_parameters + 1)])

    def texts(self) -> list[str]:
        """Return the queries to run, their parameters filled in. Raises InvalidConfigError when none is bound."""
        if not self.num_parameters:
            return [self.sql]
        if not self.rows:
            raise InvalidConfigError(f"the statement has {self.num_parameters} parameters, and none is bound")
        return [filled(self.sql, list(row)) for row in self.rows]

    def shapes(self) -> list[str]:
        """Return queries with the same columns as those that are run: with the values bound, or others in their place.

        Not every one need be a query, for it depends on the place which values may stand there.
        """
        if not self.num_parameters:
            return [self.sql]
        rows = [list(self.rows[0])] if self.rows else [[value] * self.num_parameters for value in _STAND_INS]
        return [filled(self.sql, row) for row in rows]


class Statements:
    """Keeper of statements; it forgets those not used for an hour, and the oldest where there are too many."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Statement] = OrderedDict()
        self._size = 0

    def create(self, sql: str, principal: Principal) -> tuple[bytes, Statement]:
        """Return a new statement and its handle."""
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
        """Bind values: a list for each time that the statement is to run. Raises NotFoundError, InvalidConfigError."""
        statement = self.get(handle, principal)
        for row in rows:
            if len(row) != statement.num_parameters:
                raise InvalidConfigError(
                    f"the statement has {statement.num_parameters} parameters, but {len(row)} values are bound"
                )
        if len(rows) > ROWS_MAX:
            raise InvalidConfigError(f"more than {ROWS_MAX} rows of parameters are bound; ask with IN, or in parts")
        with self._lock:
            if handle in self._known:  # it was used last, so the others make room for its values
                self._size -= statement.size
                statement.rows = rows
                self._size += statement.size
                self._make_room()

    def close(self, handle: bytes, principal: Principal) -> None:
        """Forget a statement; one that there is not is fine."""
        with self._lock:
            found = self._known.get(handle)
            if found is not None and found.owner == principal.name:
                self._size -= self._known.pop(handle).size
