"""Profiles of a table's columns: nulls, distinct values, ranges, common values, histograms.

For n columns this takes at most 2 + 2 * ceil(n / 20) + n queries, each over all rows that the filter selects.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import Any

from gamay.base.errors import InvalidConfigError, NotFoundError, nearest
from gamay.base.sql_names import quoted
from gamay.client.tables.expression import Expression
from gamay.client.tables.table import Ask, Table, table_name
from gamay.client.values import EPOCH

_TOGETHER = 20  # columns profiled by one query
_TOP = 5
_BINS = 12
_COLUMNS_MAX = 200
_NUMBERS = ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "TIMESTAMP")
_WHOLE = ("INT", "LONG", "TIMESTAMP")
_WITHOUT_VALUES = ("BYTES", "MAP")
_SPARKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """Profile of one column.

    nulls: rows without a value; distinct: the number of distinct values, exact up to 100,000 for single-value columns, else
    approximate, None where values cannot be compared; least, most: the range; mean: of numbers; top: the most common values
    with their row counts; histogram: row counts of bins of equal width from the least value to the largest, empty for
    non-numeric columns.
    """

    name: str
    type: str
    nulls: int
    distinct: int | None
    least: Any
    most: Any
    mean: float | None
    top: tuple[tuple[Any, int], ...]
    histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """Profiles of a table's columns, as of the time of the call. Printed as a table, in notebooks as HTML."""

    table: str
    num_rows: int
    columns: tuple[ColumnProfile, ...]

    def __getitem__(self, name: str) -> ColumnProfile:
        """Return the profile of a column. Raises KeyError."""
        found = next((one for one in self.columns if one.name == name), None)
        if found is None:
            raise KeyError(f"there is no column '{name}'.{nearest(name, [one.name for one in self.columns])}")
        return found

    def __str__(self) -> str:
        cells = [_HEADER, *(self._cells(one) for one in self.columns)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADER))]
        cells.insert(1, ["-" * width for width in widths])
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join([f"{self.table}: {self.num_rows:,} rows", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th style='text-align:left'>{name}</th>" for name in _HEADER)
        rows = "".join(f"<tr>{''.join(map(_html_cell, self._cells(one)))}</tr>" for one in self.columns)
        title = f"<p><b>{escape(self.table)}</b>: {self.num_rows:,} rows</p>"
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def _cells(self, one: ColumnProfile) -> list[str]:
        share = f" ({one.nulls / self.num_rows:.0%})" if one.nulls and self.num_rows else ""
        common = ", ".join(f"{_short(value)} ({rows:,})" for value, rows in one.top[:3] if rows > 1)
        return [
            one.name,
            one.type,
            f"{one.nulls:,}{share}",
            "" if one.distinct is None else f"{one.distinct:,}",
            _short(one.least),
            _short(one.most),
            "" if one.mean is None else f"{one.mean:,.4g}",
            _sparks(one.histogram),
            common,
        ]


_HEADER = ["column", "type", "nulls", "distinct", "least", "most", "mean", "histogram", "common values"]


def profile(ask: Ask, table: str, columns: Sequence[str] | None = None, where: Expression | None = None) -> Profile:
    """Return the profile of a table; nulls are counted where the table stores them.

    columns: the columns to profile; by default all, up to 200. where: a filter. Raises NotFoundError, QueryError.
    """
    known = Table(ask, table).columns
    chosen = list(known)[:_COLUMNS_MAX] if columns is None else list(columns)
    for name in chosen:
        if name not in known:
            raise NotFoundError(f"table '{table}' has no column '{name}'.{nearest(name, known)}")
    if not chosen:
        raise InvalidConfigError("a profile needs at least one column")
    condition = "" if where is None else f" WHERE {where.sql}"
    profiler = _Profiler(ask, f"FROM {table_name(table)}{condition}", {name: known[name] for name in chosen})
    num_rows = int(profiler.ask("COUNT(*)")[0][0])
    return Profile(table, num_rows, tuple(profiler.columns(num_rows)))


class _Profiler:
    def __init__(self, ask: Ask, source: str, types: dict[str, str]) -> None:
        self._ask = ask
        self._source = source
        self._types = types

    def ask(self, items: str, rest: str = "") -> list[tuple[Any, ...]]:
        return self._ask(f"SET enableNullHandling = true; SELECT {items} {self._source}{rest}").rows()

    def columns(self, num_rows: int) -> Iterator[ColumnProfile]:
        every = list(self._types)
        for start in range(0, len(every), _TOGETHER):
            names = every[start : start + _TOGETHER]
            facts = self._facts(names)
            histograms = self._histograms(facts)
            for name in names:
                yield self._profile(name, facts[name], histograms.get(name, ()), num_rows)

    def _facts(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the aggregates of some columns, from one query, by column name."""
        wanted = {name: dict(_aggregates(quoted(name), self._types[name])) for name in names}
        flat = [item for items in wanted.values() for item in items.values()]
        row = iter(self.ask(", ".join(flat))[0])
        return {name: {fact: next(row) for fact in items} for name, items in wanted.items()}

    def _histograms(self, facts: dict[str, dict[str, Any]]) -> dict[str, tuple[int, ...]]:
        """Return the histograms of the columns that have more than one value."""
        calls = {}
        for name, known in facts.items():
            low, high = known.get("least"), known.get("most")
            if "mean" in known and low is not None and high is not None and low < high:
                low, high = float(low), float(high)
                if math.isfinite(high - low):
                    calls[name] = f"HISTOGRAM({quoted(name)}, {low!r}, {high!r}, {_BINS})"
        if not calls:
            return {}
        row = self.ask(", ".join(calls.values()))[0]
        return {name: tuple(map(int, bins)) for name, bins in zip(calls, row, strict=True)}

    def _profile(self, name: str, facts: dict[str, Any], histogram: tuple[int, ...], num_rows: int) -> ColumnProfile:
        kind = self._types[name]
        least, most, mean = facts.get("least"), facts.get("most"), facts.get("mean")
        if kind == "TIMESTAMP":
            least, most, mean = _moment(least), _moment(most), None
        top: list[tuple[Any, ...]] = []
        if kind.removesuffix("[]") not in _WITHOUT_VALUES and facts.get("distinct") and facts["distinct"] < num_rows:
            column = quoted(name)
            top = self.ask(f"{column}, COUNT(*)", f" GROUP BY {column} ORDER BY COUNT(*) DESC, {column} LIMIT {_TOP + 1}")
        common = tuple((value, int(rows)) for value, rows in top if value is not None)[:_TOP]
        distinct = facts.get("distinct")
        return ColumnProfile(
            name=name,
            type=kind,
            nulls=num_rows - int(facts["values"]),
            distinct=None if distinct is None else int(distinct),
            least=least,
            most=most,
            mean=None if mean is None or not math.isfinite(mean) else float(mean),
            top=common,
            histogram=histogram,
        )


def _aggregates(column: str, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the aggregates for a column of a type: name and expression."""
    element, suffix = kind.removesuffix("[]"), "MV" if kind.endswith("[]") else ""
    yield "values", f"COUNT({column})"
    if element not in _WITHOUT_VALUES:
        yield "distinct", f"DISTINCTCOUNTHLLMV({column})" if suffix else f"DISTINCTCOUNTSMARTHLL({column})"
    if element in _NUMBERS:
        exact = "LONG" if element in _WHOLE and not suffix else ""
        yield "least", f"MIN{exact or suffix}({column})"
        yield "most", f"MAX{exact or suffix}({column})"
        yield "mean", f"AVG{suffix}({column})"
    elif element == "STRING" and not suffix:
        yield "least", f"MINSTRING({column})"
        yield "most", f"MAXSTRING({column})"


def _moment(millis: Any) -> Any:
    try:
        return None if millis is None else EPOCH + timedelta(milliseconds=int(millis))
    except OverflowError:
        return millis


def _html_cell(text: str) -> str:
    return f"<td style='text-align:left'>{escape(text)}</td>"


def _short(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    text = " ".join(str(value).removesuffix("+00:00").split())
    return text if len(text) <= 24 else f"{text[:23]}…"


def _sparks(histogram: Sequence[int]) -> str:
    most = max(histogram, default=0)
    return "".join(" " if n == 0 else _SPARKS[min(7, n * 8 // (most + 1))] for n in histogram) if most else ""
