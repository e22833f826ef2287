"""Rows as text and HTML, for prompts and notebooks."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

_CELL_WIDTH_MAX = 40


def format_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], num_rows: int, time_used_ms: int) -> str:
    """Return rows as a text table, numbers right-aligned, followed by a line with their number.

    rows: the first ones of `num_rows`.

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
    lines.append(summary_text(num_rows, time_used_ms))
    return "\n".join(lines)


def html_table(
    columns: Sequence[str],
    types: Sequence[str],
    rows: Sequence[Sequence[Any]],
    num_rows: int,
    time_used_ms: int,
    stats: Any = None,
) -> str:
    """Return rows as an HTML table, with the wire types below the names. stats: as for `summary_text`."""
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(columns))]
    head = "".join(
        f"<th>{escape(name)}<br><span style='font-weight:normal;opacity:.6'>{escape(kind.lower())}</span></th>"
        for name, kind in zip(columns, types, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_html_cell, row, right))}</tr>" for row in rows)
    first = f" The first {len(rows)} are shown." if len(rows) < num_rows else ""
    foot = f"{summary_text(num_rows, time_used_ms, stats)}.{first}"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(foot)}</p>"


def summary_text(num_rows: int, time_used_ms: int, stats: Any = None) -> str:
    """Return the number of rows and the cost of a query in one line. stats: has the counters of an answer as attributes.

    >>> summary_text(1, 3)
    '1 row, 3 ms'
    """
    text = f"{num_rows:,} {'row' if num_rows == 1 else 'rows'}, {time_used_ms:,} ms"
    if total := _counted(stats, "total_docs"):
        text += f", {_counted(stats, 'num_docs_scanned'):,} of {total:,} rows scanned"
    pruned = _counted(stats, "num_segments_pruned_by_broker") + _counted(stats, "num_segments_pruned_by_server")
    read = _counted(stats, "num_segments_processed")
    if read or pruned:
        text += f", {read} {'segment' if read == 1 else 'segments'} read and {pruned} pruned"
    return text


def _counted(stats: Any, name: str) -> int:
    return int(getattr(stats, name, 0) or 0)


def _html_cell(value: Any, right: bool) -> str:
    text = "<i style='opacity:.6'>null</i>" if value is None else escape(_cell(value))
    return f"<td style='text-align:{'right' if right else 'left'}'>{text}</td>"


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
    return "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else "null" if value is None else str(value)
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else text
    text = text.replace("\n", "\\n")
    return text if len(text) <= _CELL_WIDTH_MAX else text[: _CELL_WIDTH_MAX - 1] + "…"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
