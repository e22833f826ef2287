"""Charts of an answer's rows, drawn by Altair or else matplotlib, whichever is installed."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from gamay.base.errors import InvalidConfigError, nearest


class Rows(Protocol):
    """What `gamay.embedded.Result` and `gamay.client.ResultSet` have in common."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def types(self) -> tuple[str, ...]: ...

    def rows(self) -> list[tuple[Any, ...]]: ...


KINDS = ("bar", "line", "scatter", "histogram")
_NUMBERS = ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL")
_BARS_MAX = 50


@dataclass(frozen=True, slots=True)
class Chart:
    """Description of a chart: its kind, the column of the x axis, those of the y axis."""

    kind: str
    x: str
    y: tuple[str, ...]


def choose(
    columns: Sequence[str],
    types: Sequence[str],
    rows: Sequence[Sequence[Any]],
    kind: str | None = None,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
) -> Chart:
    """Return a suitable chart: lines over time, bars for a few texts, a scatter plot of two numbers, else a histogram.

    Raises InvalidConfigError for an unknown kind or column, and for rows without numbers.

    >>> choose(["city", "n"], ["STRING", "LONG"], [("Oslo", 2)])
    Chart(kind='bar', x='city', y=('n',))
    """
    if kind is not None and kind not in KINDS:
        raise InvalidConfigError(f"a chart is one of {', '.join(KINDS)}, not {kind!r}.{nearest(kind, KINDS)}")
    asked = [] if y is None else [y] if isinstance(y, str) else list(y)
    for name in [*asked, *([x] if x else [])]:
        if name not in columns:
            hint = nearest(name, columns) or f" There are: {', '.join(columns)}"
            raise InvalidConfigError(f"the answer has no column '{name}'.{hint}")
    kinds = dict(zip(columns, types, strict=True))
    numbers = [name for name in columns if kinds[name] in _NUMBERS]
    if wrong := next((name for name in asked if name not in numbers), None):
        raise InvalidConfigError(f"column '{wrong}' is not numeric but {kinds[wrong]}, so it cannot be y")
    if not numbers:
        raise InvalidConfigError("a chart needs a numeric column, and the answer has none")
    if kind == "histogram" or (kind is None and len(columns) == 1):
        return Chart("histogram", x or (asked or numbers)[0], ())
    along = x or next((name for name in columns if kinds[name] == "TIMESTAMP"), None)
    along = along or next((name for name in columns if name not in numbers and name not in asked), None)
    along = along or next((name for name in columns if name not in asked), columns[0])
    heights = asked or [name for name in numbers if name != along] or [along]
    return Chart(kind or _suiting(along, kinds[along], columns, rows), along, tuple(heights))


def _suiting(along: str, kind: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if kind == "TIMESTAMP":
        return "line"
    if kind not in _NUMBERS:
        return "bar"
    place = list(columns).index(along)
    values = [row[place] for row in rows if row[place] is not None]
    is_ordered = all(a < b for a, b in itertools.pairwise(values))
    return "line" if is_ordered and len(values) > 2 else "scatter"


def plot(result: Rows, kind: str | None = None, x: str | None = None, y: str | Sequence[str] | None = None) -> Any:
    """Return a chart of a result: of Altair, or the axes of matplotlib; notebooks show both.

    kind: bar, line, scatter or histogram; x, y: columns of the axes; the defaults depend on the types.
    Raises InvalidConfigError, also where neither library is installed.
    """
    rows = result.rows()
    chart = choose(result.columns, result.types, rows, kind, x, y)
    records = [dict(zip(result.columns, map(_drawn, row), strict=True)) for row in rows]
    if chart.kind == "bar":
        records = records[:_BARS_MAX]
    try:
        import altair
    except ImportError:
        return _by_matplotlib(chart, records)
    return _by_altair(altair, chart, records, dict(zip(result.columns, result.types, strict=True)))


def _drawn(value: Any) -> Any:
    """Return a value in a form that both libraries accept: no Decimals, no time zones."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    return float(value) if hasattr(value, "as_tuple") else value


def _by_altair(altair: Any, chart: Chart, records: list[dict[str, Any]], types: dict[str, str]) -> Any:
    drawn = altair.Chart(altair.Data(values=records))

    def field(name: str) -> str:
        return name.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")

    if chart.kind == "histogram":
        along = altair.X(field=field(chart.x), type="quantitative", bin=True, title=chart.x)
        return drawn.mark_bar().encode(x=along, y="count()")
    kind = "temporal" if types[chart.x] == "TIMESTAMP" else "quantitative" if types[chart.x] in _NUMBERS else "nominal"
    if chart.kind == "bar":
        kind = "nominal" if kind == "quantitative" else kind
    along = altair.X(field=field(chart.x), type=kind, sort=None, title=chart.x)
    mark = {"bar": "mark_bar", "line": "mark_line", "scatter": "mark_point"}[chart.kind]
    layers = [
        getattr(drawn, mark)().encode(
            x=along,
            y=altair.Y(field=field(name), type="quantitative", title=", ".join(chart.y)),
            **({} if len(chart.y) == 1 else {"color": altair.datum(name)}),
        )
        for name in chart.y
    ]
    return layers[0] if len(layers) == 1 else altair.layer(*layers)


def _by_matplotlib(chart: Chart, records: list[dict[str, Any]]) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise InvalidConfigError("charts are drawn by Altair or matplotlib: pip install 'gamay[notebook]'") from error
    _, axes = pyplot.subplots()
    along = [record[chart.x] for record in records]
    if chart.kind == "histogram":
        axes.hist([value for value in along if value is not None])
    for name in chart.y:
        heights = [record[name] for record in records]
        if chart.kind == "bar":
            axes.bar([str(value) for value in along], heights, label=name)
        elif chart.kind == "line":
            axes.plot(along, heights, label=name)
        else:
            axes.scatter(along, heights, label=name)
    axes.set_xlabel(chart.x)
    if len(chart.y) > 1:
        axes.legend()
    elif chart.y:
        axes.set_ylabel(chart.y[0])
    return axes
