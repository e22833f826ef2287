"""Cursors of DB-API 2.0 (PEP 249)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from gamay.client.errors import InterfaceError, Warning
from gamay.client.results import QueryStatistics, ResultSet, ResultSetGroup

if TYPE_CHECKING:
    import pyarrow as pa

    from gamay.client.connection import Connection

Parameters = Mapping[str, Any] | Sequence[Any]
Column = tuple[str, str, None, None, None, None, None]


class Cursor:
    """A cursor: sends queries and returns rows as tuples of Python values. Not thread-safe.

    arraysize: the default size of `fetchmany`. messages: (Warning, text) about the last answer.
    """

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._closed = False
        self._group: ResultSetGroup | None = None
        self._results: list[ResultSet] = []  # the current set, as parts whose rows are fetched in order
        self._more: list[list[ResultSet]] = []  # the sets that follow
        self._rows: list[tuple[Any, ...]] | None = None  # converted by the first fetch; data frames do not need them
        self._next = 0
        self.arraysize = 1
        self.messages: list[tuple[type[Warning], Warning]] = []
        self.lastrowid = None

    # -- asking

    def execute(self, operation: str, parameters: Parameters | None = None, **keywords: Any) -> Self:
        """Send a query and return the cursor.

        parameters: a mapping for `%(name)s`, or a list for `%s` or `?`; keywords: as of `Connection.execute`.
        """
        self._check_open()
        self._forget()
        keywords = _renamed(keywords)
        group = self._connection.execute(operation, parameters, **keywords)
        self._take(group, [[one] for one in group.result_sets])
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters], **keywords: Any) -> Self:
        """Send a query once for each of several sets of parameters; fetching gives the rows of all answers, in order."""
        self._check_open()
        self._forget()
        keywords = _renamed(keywords)
        sets: list[list[ResultSet]] = []
        for parameters in seq_of_parameters:
            group = self._connection.execute(operation, parameters, **keywords)
            sets += [[] for _ in group.result_sets[len(sets) :]]
            for results, found in zip(sets, group.result_sets, strict=False):
                results.append(found)
            self._take(group, sets)
        return self

    def _take(self, group: ResultSetGroup, sets: list[list[ResultSet]]) -> None:
        self._group = group
        self._results, self._more = (sets[0], sets[1:]) if sets else ([], [])
        self._rows = None
        self.messages += [(Warning, Warning(f"the answer is partial: {reason}")) for reason in group.reasons]
        self.messages += [(Warning, Warning(sentence)) for sentence in group.warnings]

    def _forget(self) -> None:
        self._group, self._results, self._more, self._rows, self._next = None, [], [], None, 0
        self.messages = []

    # -- the last answer

    @property
    def description(self) -> list[Column] | None:
        """The columns as (name, type code, None, …); None before a query, and after one that returns no result set.

        The type code is the wire type (`LONG`, `STRING_ARRAY`), which equals the type objects of `gamay.client.types`.
        """
        if not self._results:
            return None
        first = self._results[0]
        return [(name, kind, None, None, None, None, None) for name, kind in zip(first.columns, first.types, strict=True)]

    @property
    def rowcount(self) -> int:
        """The number of rows of the answer; -1 before a query."""
        return sum(map(len, self._results)) if self._results else -1

    @property
    def rownumber(self) -> int | None:
        """The index of the next row to fetch, from 0."""
        return self._next if self._results else None

    @property
    def connection(self) -> "Connection":
        return self._connection

    @property
    def stats(self) -> QueryStatistics | None:
        """The execution statistics of the last answer."""
        return None if self._group is None else self._group.stats

    @property
    def partial(self) -> bool:
        """Whether the last answer is incomplete."""
        return self._group is not None and self._group.partial

    # -- fetching

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None when there is none left."""
        rows = self._take_rows(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next `size` (by default `arraysize`) rows, fewer at the end."""
        return self._take_rows(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows that are left."""
        return self._take_rows(None)

    def _take_rows(self, size: int | None) -> list[tuple[Any, ...]]:
        self._check_fetchable()
        if size is not None and size < 0:
            raise InterfaceError(f"{size} rows cannot be fetched")
        if self._rows is None:
            self._rows = [row for one in self._results for row in one]
        taken = self._rows[self._next :] if size is None else self._rows[self._next : self._next + size]
        self._next += len(taken)
        return taken

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def fetch_arrow_table(self) -> "pa.Table":
        """Return the whole answer as an Arrow table, whatever was fetched before."""
        import pyarrow

        self._check_fetchable()
        tables = [one.to_arrow() for one in self._results]
        return tables[0] if len(tables) == 1 else pyarrow.concat_tables(tables, promote_options="permissive")

    def fetch_pandas(self) -> Any:
        """Return the whole answer as a pandas DataFrame."""
        from gamay.client.frames import pandas_frame

        return pandas_frame(self.fetch_arrow_table())

    def fetch_polars(self) -> Any:
        """Return the whole answer as a Polars DataFrame."""
        from gamay.client.frames import polars_frame

        return polars_frame(self.fetch_arrow_table())

    # -- the rest of PEP 249

    def nextset(self) -> bool | None:
        """Move to the rows of PQL's next aggregate; return None if there is none, as always for SQL."""
        self._check_fetchable()
        self.messages = []
        if not self._more:
            return None
        self._results, self._rows, self._next = self._more.pop(0), None, 0
        return True

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing, as PEP 249 allows."""
        self._check_open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows."""
        self._check_open()

    def close(self) -> None:
        """Release the rows; the cursor is unusable afterwards. Closing twice is allowed."""
        self._forget()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_fetchable(self) -> None:
        self._check_open()
        if not self._results:
            raise InterfaceError("there are no rows to fetch: execute a query first")

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self._connection._check_open()


def _renamed(keywords: dict[str, Any]) -> dict[str, Any]:
    """Return keywords with pinotdb's `queryOptions` renamed to `options`."""
    if "queryOptions" in keywords:
        keywords = {**keywords, "options": keywords["queryOptions"]}
        del keywords["queryOptions"]
    return keywords
