"""Answers to queries: result sets and execution statistics."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

from gamay.base.errors import ErrorCode, nearest
from gamay.client.errors import DataError, InterfaceError
from gamay.client.show import format_table, html_table
from gamay.client.values import python_rows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_ROWS_SHOWN = 20
# why an answer is incomplete, by the response field that reports it
LIMIT_REASONS = {
    "numGroupsLimitReached": "groups beyond numGroupsLimit are left out",
    "groupsTrimmed": "groups were trimmed before they were complete (minServerGroupTrimSize and the like)",
    "maxRowsInJoinReached": "rows of joins beyond maxRowsInJoin are left out",
    "maxRowsInWindowReached": "rows of window functions beyond maxRowsInWindow are left out",
    "maxRowsInDistinctReached": "DISTINCT stopped at maxRowsInDistinct",
    "maxRowsWithoutChangeInDistinctReached": "DISTINCT stopped at maxRowsWithoutChangeInDistinct",
    "maxExecutionTimeInDistinctReached": "DISTINCT stopped after maxExecutionTimeMsInDistinct",
}
_NOT_STATISTICS = ("resultTable", "exceptions", "warnings", "aggregationResults", "selectionResults")


class QueryStatistics(Mapping[str, Any]):
    """The counters of an answer, by their in-process names: `stats.num_docs_scanned`, `stats["total_docs"]`."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        self._values = {snake_name(name): value for name, value in response.items() if name not in _NOT_STATISTICS}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_values":
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"the answer has no statistic {name!r}; it has {', '.join(self._values)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"QueryStatistics({self._values!r})"


@lru_cache(maxsize=512)
def snake_name(name: str) -> str:
    """Return a response field's name as a statistic: `num_groups_limit_reached` for `numGroupsLimitReached`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class ResultSet:
    """Rows of an answer.

    columns, types: names and wire types (`LONG`, `STRING_ARRAY`, …) of the columns. SQL gives one result set, PQL
    one for each aggregate, whose group keys come first in `columns`, `rows()` and frames.
    """

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str],
        wire_rows: Sequence[Sequence[Any]],
        *,
        group_key_length: int = 0,
        time_used_ms: int = 0,
        response: Mapping[str, Any] | None = None,
    ) -> None:
        """wire_rows: the rows as in the JSON. response: the answer that they belong to, for its statistics.

        Raises InterfaceError for rows whose length is not the number of columns.
        """
        self.columns = tuple(columns)
        self.types = tuple(types)
        self.wire_rows = wire_rows
        self.group_key_length = group_key_length
        self.time_used_ms = time_used_ms
        self._response = response or {}
        if not all(isinstance(text, str) for text in (*self.columns, *self.types)) or not isinstance(wire_rows, list):
            raise InterfaceError("the answer's columns are not text, or its rows not a list")
        if len(self.types) != len(self.columns):
            raise InterfaceError(f"the answer has {len(self.columns)} column names, but {len(self.types)} types")
        for i, row in enumerate(wire_rows):
            if not isinstance(row, list) or len(row) != len(self.columns):
                raise InterfaceError(
                    f"row {i} of the answer does not have the {len(self.columns)} values that it should have"
                )

    # -- all at once

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        try:
            return python_rows(self.types, self.wire_rows)
        except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
            raise InterfaceError(f"the answer holds a value that is not of its column's type: {error}") from error

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of Python values; see `gamay.client.values.python_rows`."""
        return list(self._rows)

    def to_arrow(self) -> "pa.Table":
        """Return the rows as an Arrow table; see `gamay.client.frames` for the types."""
        from gamay.client.frames import arrow_table

        return arrow_table(self.columns, self.types, self.wire_rows)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame; whole numbers and booleans with nulls have pandas' nullable types."""
        from gamay.client.frames import pandas_frame

        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """Return the rows as a Polars DataFrame."""
        from gamay.client.frames import polars_frame

        return polars_frame(self.to_arrow())

    def to_numpy(self) -> "dict[str, np.ndarray[Any, np.dtype[Any]]]":
        """Return an array for each column, by name; masked where there are nulls. see `gamay.client.frames` for the
        types."""
        from gamay.client.frames import numpy_columns

        return numpy_columns(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows by Arrow's PyCapsule interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self.wire_rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    def __getitem__(self, key: str | int | slice) -> Any:
        """Return the values of the first column of a name, a row by its index, or a slice of rows."""
        return item(self.columns, self._rows, key)

    def __repr__(self) -> str:
        return format_table(self.columns, self._rows[:_ROWS_SHOWN], len(self), self.time_used_ms)

    def _repr_html_(self) -> str:
        """Show the first rows as a table; notebooks call this."""
        stats = self.stats if self._response else None
        return html_table(self.columns, self.types, self._rows[:_ROWS_SHOWN], len(self), self.time_used_ms, stats)

    @cached_property
    def stats(self) -> QueryStatistics:
        """The counters of the answer."""
        return QueryStatistics(self._response)

    def plot(self, kind: str | None = None, x: str | None = None, y: str | Sequence[str] | None = None) -> Any:
        """Draw the rows: see `gamay.client.plot.plot`."""
        from gamay.client.plot import plot

        return plot(self, kind, x, y)

    # -- value by value; rows, columns and group keys are numbered from 0

    @property
    def row_count(self) -> int:
        return len(self)

    @property
    def column_count(self) -> int:
        """The number of columns, without the group keys."""
        return len(self.columns) - self.group_key_length

    def get_column_name(self, column: int) -> str:
        """Return the name of a column; for an aggregate of PQL, the function."""
        return self.columns[self._column(column)]

    def get_column_type(self, column: int) -> str:
        """Return the wire type of a column."""
        return self.types[self._column(column)]

    def get(self, row: int, column: int = 0) -> Any:
        """Return a value as `rows()` has it."""
        return self._rows[self._row(row)][self._column(column)]

    def get_string(self, row: int, column: int = 0) -> str | None:
        """Return a value as text, as it was sent, lists in brackets; None for null, like all getters."""
        value = self.wire_rows[self._row(row)][self._column(column)]
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, list | dict | bool):
            import json

            return json.dumps(value, ensure_ascii=False)
        return str(value)

    def get_int(self, row: int, column: int = 0) -> int | None:
        """Return a whole number, also from text that is one. Raises DataError for any other value."""
        value = self._number(row, column)
        if value is not None and (value != value or value in (float("inf"), float("-inf")) or int(value) != value):
            raise self._wrong(row, column, "a whole number")
        return None if value is None else int(value)

    get_long = get_int

    def get_double(self, row: int, column: int = 0) -> float | None:
        """Return a number, also from text that is one. Raises DataError for any other value."""
        value = self._number(row, column)
        return None if value is None else float(value)

    get_float = get_double

    def get_boolean(self, row: int, column: int = 0) -> bool | None:
        """Return a truth value, also from the text `true` or `false`. Raises DataError for any other value."""
        value = self.get(row, column)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong(row, column, "true or false")

    def get_group_key_column_name(self, key: int) -> str:
        """Return the name of a group key of a PQL answer."""
        return self.columns[self._key(key)]

    def get_group_key_string(self, row: int, key: int) -> str | None:
        """Return a group key of a row of a PQL answer, as text."""
        value = self.wire_rows[self._row(row)][self._key(key)]
        return None if value is None else str(value)

    def _number(self, row: int, column: int) -> Any:
        value = self.get(row, column)
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                pass
            try:
                return float(value)
            except ValueError:
                raise self._wrong(row, column, "a number") from None
        if value is None or (hasattr(value, "__float__") and not isinstance(value, bool)):
            return value
        raise self._wrong(row, column, "a number")

    def _wrong(self, row: int, column: int, wanted: str) -> DataError:
        shown = self.get_string(row, column)
        return DataError(
            f"the value {shown!r} in row {row} of column '{self.get_column_name(column)}' "
            f"({self.get_column_type(column)}) is not {wanted}",
            ErrorCode.QUERY_VALIDATION,
        )

    def _row(self, row: int) -> int:
        return _index(row, len(self), "rows")

    def _column(self, column: int) -> int:
        return self.group_key_length + _index(column, self.column_count, "columns")

    def _key(self, key: int) -> int:
        return _index(key, self.group_key_length, "group keys")


def item(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], key: str | int | slice) -> Any:
    """Return the values of the first column of a name, a row by its index, or a slice. Raises KeyError, IndexError."""
    if not isinstance(key, str):
        return rows[key]
    if key not in columns:
        hint = nearest(key, columns) or f" There are: {', '.join(columns)}"
        raise KeyError(f"the answer has no column '{key}'.{hint}")
    place = list(columns).index(key)
    return [row[place] for row in rows]


def _index(number: int, size: int, what: str) -> int:
    if not 0 <= number < size:
        raise InterfaceError(f"there is no number {number} among {size} {what}, numbered from 0")
    return number


class ResultSetGroup:
    """The whole answer to a query.

    response: the broker's JSON; exceptions: `(number, message)` of the errors in spite of
    which the answer was accepted; partial: whether the answer is incomplete, because of an exception, a server that did
    not answer, or a limit; reasons: these causes as sentences; num_servers_lacking: how many servers did not
    answer; time_used_ms: the broker's time; warnings: the broker's, about the query; broker: the address
    that answered.
    """

    def __init__(self, response: Mapping[str, Any], broker: str = "") -> None:
        """Raises InterfaceError unless it is a query response."""
        self.response = response
        self.broker = broker
        self.exceptions = exceptions_of(response)
        self.warnings = tuple(map(str, response.get("warnings") or ()))
        self.time_used_ms = _count(response, "timeUsedMs")
        self.num_servers_lacking = _count(response, "numServersQueried") - _count(response, "numServersResponded")
        self.reasons = tuple(self._reasons())
        self.partial = bool(self.reasons)
        self.result_sets = tuple(_result_sets(response))

    def _reasons(self) -> Iterator[str]:
        yield from (message for _, message in self.exceptions)
        if self.num_servers_lacking > 0:
            queried = self.response["numServersQueried"]
            yield f"{self.num_servers_lacking} of {queried} servers did not answer"
        limits = [text for flag, text in LIMIT_REASONS.items() if self.response.get(flag)]
        yield from limits
        if self.response.get("partialResult") and not (self.exceptions or limits or self.num_servers_lacking > 0):
            yield "the broker does not say why"

    @cached_property
    def stats(self) -> QueryStatistics:
        """The counters of the answer."""
        return QueryStatistics(self.response)

    @property
    def result_set_count(self) -> int:
        return len(self.result_sets)

    def get_result_set(self, number: int = 0) -> ResultSet:
        """Return a result set, numbered from 0."""
        return self.result_sets[_index(number, len(self.result_sets), "result sets")]

    # -- for an answer with one result set, as to SQL

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of the only result set. This and the next five methods raise InterfaceError unless there is
        one."""
        return self._only().rows()

    def to_arrow(self) -> "pa.Table":
        """Return the only result set as an Arrow table."""
        return self._only().to_arrow()

    def to_pandas(self) -> Any:
        """Return the only result set as a pandas DataFrame."""
        return self._only().to_pandas()

    def to_polars(self) -> Any:
        """Return the only result set as a Polars DataFrame."""
        return self._only().to_polars()

    def to_numpy(self) -> "dict[str, np.ndarray[Any, np.dtype[Any]]]":
        """Return the only result set as NumPy arrays by column."""
        return self._only().to_numpy()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the only result set by Arrow's PyCapsule interface."""
        return self._only().__arrow_c_stream__(requested_schema)

    def _only(self) -> ResultSet:
        if len(self.result_sets) != 1:
            raise InterfaceError(f"the answer has {len(self.result_sets)} result sets, not one; see get_result_set")
        return self.result_sets[0]

    def __len__(self) -> int:
        return len(self.result_sets)

    def __getitem__(self, number: int) -> ResultSet:
        return self.result_sets[number]

    def __iter__(self) -> Iterator[ResultSet]:
        return iter(self.result_sets)

    def __repr__(self) -> str:
        shown = "\n\n".join(map(repr, self.result_sets)) or f"no rows, {self.time_used_ms} ms"
        return f"{shown}\nThe answer is partial: {'; '.join(self.reasons)}." if self.partial else shown

    def _repr_html_(self) -> str:
        note = f"<p>The answer is partial: {escape('; '.join(self.reasons))}.</p>" if self.partial else ""
        return "".join(one._repr_html_() for one in self.result_sets) + note


def _count(response: Mapping[str, Any], name: str) -> int:
    value = response.get(name, 0)
    if not isinstance(value, int):
        raise InterfaceError(f"the answer's {name} is not a whole number, but {value!r}")
    return value


def exceptions_of(response: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    """Return (number, message) of the exceptions in an answer. Raises InterfaceError if they are malformed."""
    found = response.get("exceptions") or []
    try:
        return tuple((int(one.get("errorCode", ErrorCode.UNKNOWN.code)), str(one.get("message", ""))) for one in found)
    except (AttributeError, TypeError, ValueError) as error:
        raise InterfaceError(f"the answer's exceptions are not a list of codes and messages: {error}") from error


def _result_sets(response: Mapping[str, Any]) -> Iterator[ResultSet]:
    time_used_ms = _count(response, "timeUsedMs")
    try:
        if (table := response.get("resultTable")) is not None:
            schema = table["dataSchema"]
            rows = table.get("rows") or []
            yield ResultSet(
                schema["columnNames"], schema["columnDataTypes"], rows, time_used_ms=time_used_ms, response=response
            )
        elif (selection := response.get("selectionResults")) is not None:
            yield _pql_set(selection["columns"], selection["results"], 0, time_used_ms)
        else:
            for one in response.get("aggregationResults") or []:
                if "groupByResult" in one:
                    keys = one.get("groupByColumns") or []
                    rows = [[*group["group"], group["value"]] for group in one["groupByResult"]]
                    yield _pql_set([*keys, one["function"]], rows, len(keys), time_used_ms)
                else:
                    yield _pql_set([one["function"]], [[one.get("value")]], 0, time_used_ms)
    except (KeyError, TypeError, AttributeError) as error:
        raise InterfaceError(f"the answer does not have the form of a result: {type(error).__name__}: {error}") from error


def _pql_set(columns: list[str], rows: list[list[Any]], group_key_length: int, time_used_ms: int) -> ResultSet:
    """Return a result set of PQL, whose answers have no types: values are text, or lists of text."""
    types = [_pql_type([row[i] for row in rows if i < len(row)]) for i in range(len(columns))]
    return ResultSet(columns, types, rows, group_key_length=group_key_length, time_used_ms=time_used_ms)


def _pql_type(values: list[Any]) -> str:
    if all(value is None or isinstance(value, str) for value in values):
        return "STRING"
    return "STRING_ARRAY" if all(value is None or isinstance(value, list) for value in values) else "OBJECT"
