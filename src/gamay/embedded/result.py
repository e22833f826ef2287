"""The answer to a query in a form for people and notebooks."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from gamay.query.answer.response import BrokerResponse, ResultTable
from gamay.query.stats import QueryStats

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl

_ROWS_SHOWN = 20


class Result:
    """Rows of an answer, and what it cost.

    columns: the names, types: the wire types (`LONG`, `STRING_ARRAY`, …), stats: the counters of the query. partial:
    whether a limit has left something out; `reasons` tells which. has_more: whether there are more rows than the 10 that a
    query without LIMIT is given. warnings: sentences about the query, such as options without effect.

    `result["city"]` are the values of a column, `result[0]` is a row, `result[:5]` a list of rows. Whatever takes Arrow data
    (`__arrow_c_stream__`: Polars, DuckDB, pyarrow, pandas) takes a result as it is.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    stats: QueryStats
    time_used_ms: int
    partial: bool
    has_more: bool
    warnings: tuple[str, ...]

    def __init__(self, response: BrokerResponse) -> None:
        self._table = response.table or ResultTable((), (), ())
        self.columns = tuple(self._table.names)
        self.types = tuple(self._table.types)
        self.stats = response.stats
        self.time_used_ms = response.time_used_ms
        self.partial = response.is_partial
        self.has_more = response.has_more
        self.warnings = tuple(response.warnings)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the answer lacks, as sentences; empty where it is whole."""
        from gamay.client.results import LIMIT_REASONS, snake_name  # here, as the client is not needed otherwise

        return tuple(text for flag, text in LIMIT_REASONS.items() if getattr(self.stats, snake_name(flag)))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of Python values."""
        return self._table.rows()

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; `gamay.client.frames` tells the types."""
        from gamay.client.frames import typed_columns

        return typed_columns(self._table.to_arrow(), self.types)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the rows as a pandas DataFrame; whole numbers and booleans with nulls have pandas' nullable types."""
        from gamay.client.frames import pandas_frame

        frame: pd.DataFrame = pandas_frame(self.to_arrow())
        return frame

    def to_polars(self) -> "pl.DataFrame":
        """Return the rows as a Polars DataFrame."""
        from gamay.client.frames import polars_frame

        frame: pl.DataFrame = polars_frame(self.to_arrow())
        return frame

    def to_numpy(self) -> "dict[str, np.ndarray[Any, np.dtype[Any]]]":
        """Return an array for each column, by name; masked where there are nulls. `gamay.client.frames` tells the types."""
        from gamay.client.frames import numpy_columns

        return numpy_columns(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to whatever takes Arrow data."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...

    @overload
    def __getitem__(self, key: int) -> tuple[Any, ...]: ...

    @overload
    def __getitem__(self, key: slice) -> list[tuple[Any, ...]]: ...

    def __getitem__(self, key: str | int | slice) -> Any:
        """Return the values of a column by its name, the first of those that have it, a row by its number, or some rows."""
        from gamay.client.results import item

        return item(self.columns, self.rows(), key)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.columns)

    def _notes(self) -> Iterator[str]:
        """Yield what is to be said below the rows."""
        if self.has_more:
            yield f"LIMIT {len(self)} by default; there is more."
        if self.partial:
            yield f"The answer is partial: {'; '.join(self.reasons)}."

    def _repr_html_(self) -> str:
        """Show the first rows as a table; notebooks call this."""
        from gamay.client.show import html_table  # here, for a process that shows nothing needs no client

        rows = self.rows()[:_ROWS_SHOWN]
        shown = html_table(self.columns, self.types, rows, len(self), self.time_used_ms, self.stats)
        return shown + "".join(f"<p>{note}</p>" for note in self._notes())

    def plot(self, kind: str | None = None, x: str | None = None, y: "str | Sequence[str] | None" = None) -> Any:
        """Draw the rows: see `gamay.client.plot.plot`."""
        from gamay.client.plot import plot

        return plot(self, kind, x, y)

    def __repr__(self) -> str:
        from gamay.client.show import format_table

        shown = format_table(self.columns, self.rows()[:_ROWS_SHOWN], len(self), self.time_used_ms)
        return "\n".join([shown, *self._notes()])
