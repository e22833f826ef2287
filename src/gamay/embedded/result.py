"""The answer to a query in a form for people and notebooks."""

from collections.abc import Iterator
from html import escape
from typing import Any

import pyarrow as pa

from gamay.broker.runner import BrokerResponse, ResultTable

_ROWS_SHOWN = 20
_CELL_WIDTH_MAX = 40


class Result:
    """Rows of an answer, and what it cost.

    columns: the names, types: the wire types (`LONG`, `STRING_ARRAY`, …), stats: the counters of the query.
    """

    def __init__(self, response: BrokerResponse) -> None:
        self._table = response.table or ResultTable((), (), ())
        self.columns: tuple[str, ...] = tuple(self._table.names)
        self.types: tuple[str, ...] = tuple(self._table.types)
        self.stats = response.stats
        self.time_used_ms = response.time_used_ms
        self.partial = response.is_partial

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of Python values."""
        return self._table.rows()

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self._table.to_arrow()

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a Polars DataFrame."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def _repr_html_(self) -> str:
        """Show the first rows as a table; notebooks call this."""
        rows = self.rows()[:_ROWS_SHOWN]
        right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(self.columns))]
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(map(_html_cell, row, right))}</tr>" for row in rows)
        foot = _summary(len(self), len(rows), self.time_used_ms)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(foot)}</p>"

    def __repr__(self) -> str:
        return format_table(self.columns, self.rows()[:_ROWS_SHOWN], len(self), self.time_used_ms)


def format_table(columns: tuple[str, ...], rows: list[tuple[Any, ...]], num_rows: int, time_used_ms: int) -> str:
    """Return rows as text in columns, numbers to the right, and a line that says how many there are.

    >>> print(format_table(("city", "n"), [("Oslo", 12), ("Lima", 7)], 2, 3))
    city   n
    ----  --
    Oslo  12
    Lima   7
    2 rows, 3 ms
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    right = [all(_is_number(row[i]) for row in rows) and bool(rows) for i in range(len(columns))]
    lines = [_line(list(columns), widths, right), "  ".join("-" * width for width in widths)] if columns else []
    lines += [_line(row, widths, right) for row in cells]
    if num_rows > len(rows):
        lines.append("…")
    lines.append(_summary(num_rows, num_rows, time_used_ms))
    return "\n".join(lines)


def _summary(num_rows: int, shown: int, time_used_ms: int) -> str:
    first = f", the first {shown} shown" if shown < num_rows else ""
    return f"{num_rows} row{'' if num_rows == 1 else 's'}{first}, {time_used_ms} ms"


def _html_cell(value: Any, right: bool) -> str:
    return f"<td style='text-align:{'right' if right else 'left'}'>{escape(_cell(value))}</td>"


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
    return "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else "null" if value is None else str(value)
    text = text.replace("\n", "\\n")
    return text if len(text) <= _CELL_WIDTH_MAX else text[: _CELL_WIDTH_MAX - 1] + "…"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
