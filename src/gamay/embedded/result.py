"""The answer to a query in a form for people and notebooks."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from gamay.query.response import BrokerResponse, ResultTable

_ROWS_SHOWN = 20


class Result:
    """Rows of an answer, and what it cost.

    columns: the names, types: the wire types (`LONG`, `STRING_ARRAY`, …), stats: the counters of the query. partial:
    whether a limit has left something out; `reasons` tells which.
    """

    def __init__(self, response: BrokerResponse) -> None:
        self._table = response.table or ResultTable((), (), ())
        self.columns: tuple[str, ...] = tuple(self._table.names)
        self.types: tuple[str, ...] = tuple(self._table.types)
        self.stats = response.stats
        self.time_used_ms = response.time_used_ms
        self.partial = response.is_partial

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

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame; whole numbers and booleans with nulls have pandas' nullable types."""
        from gamay.client.frames import pandas_frame

        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """Return the rows as a Polars DataFrame."""
        from gamay.client.frames import polars_frame

        return polars_frame(self.to_arrow())

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def _repr_html_(self) -> str:
        """Show the first rows as a table; notebooks call this."""
        from gamay.client.show import html_table  # here, for a process that shows nothing needs no client

        shown = html_table(self.columns, self.rows()[:_ROWS_SHOWN], len(self), self.time_used_ms)
        return f"{shown}<p>The answer is partial: {'; '.join(self.reasons)}.</p>" if self.partial else shown

    def __repr__(self) -> str:
        from gamay.client.show import format_table

        shown = format_table(self.columns, self.rows()[:_ROWS_SHOWN], len(self), self.time_used_ms)
        return f"{shown}\nThe answer is partial: {'; '.join(self.reasons)}." if self.partial else shown
