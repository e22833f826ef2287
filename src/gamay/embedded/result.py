"""The result of a query, for Python programs and notebooks."""

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
    """The rows and statistics of an answer.

    columns: the names, types: the wire types (`LONG`, `STRING_ARRAY`, …), stats: the counters of the query. partial:
    whether a limit has made the answer incomplete; see `reasons`. has_more: whether there are more rows than the 10 that a
    query without LIMIT returns. warnings: sentences about the query, such as options without effect.
    `result["city"]` is the list of a column's values, `result[0]` a row, `result[:5]` a list of rows. Libraries that accept
    Arrow data (`__arrow_c_stream__`: Polars, DuckDB, pyarrow, pandas) accept a result directly.
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
        """The reasons why the answer is incomplete, as sentences; empty if it is complete."""
        from gamay.client.results import LIMIT_REASONS, snake_name  # imported here: complete answers do not need the client

        return tuple(text for flag, text in LIMIT_REASONS.items() if getattr(self.stats, snake_name(flag)))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of Python values."""
        return self._table.rows()

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; see `gamay.client.frames` for the types."""
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
        """Return an array for each column, by name; masked where there are nulls. see `gamay.client.frames` for the
        types."""
        from gamay.client.frames import numpy_columns

        return numpy_columns(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows by Arrow's PyCapsule interface."""
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
        """Return the values of the first column of a name, a row by its index, or a slice of rows."""
        from gamay.client.results import item

        return item(self.columns, self.rows(), key)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.columns)

    def _notes(self) -> Iterator[str]:
        """Yield the notes to show below the rows."""
        if self.has_more:
            yield f"LIMIT {len(self)} by default; there is more."
        if self.partial:
            yield f"The answer is partial: {'; '.join(self.reasons)}."

    def _repr_html_(self) -> str:
        """Show the first rows as a table; notebooks call this."""
        from gamay.client.show import html_table  # imported here: only needed to display

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
