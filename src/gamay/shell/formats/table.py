"""Rows for people: boxed and coloured on a terminal, in plain columns elsewhere, or with one line per value."""

import sys
from collections.abc import Sequence
from typing import Any

from gamay.shell.formats.cells import NULL, NUMBERS, format_column

_BOX_WIDTH = 3  # a border and the space on both sides of a cell


def table_text(
    columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], *, width: int | None, color: bool = False
) -> str:
    """Return rows as a table. width: of the terminal, to fit the boxes to; None for plain text."""
    if not columns:
        return ""
    texts, right = _texts(types, rows), _right(types, rows)
    return (
        _plain(columns, texts, right) if width is None else _boxed(columns, texts, right, _nulls(types, rows), width, color)
    )


def line_text(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return each row as lines of `column: value`, with its number above."""
    if not columns:
        return ""
    texts = _texts(types, rows)
    names = max(map(len, columns))
    parts = []
    for i in range(len(rows)):
        parts.append(f"--- row {i + 1:,}")
        parts += [f"{name.rjust(names)}: {text[i]}" for name, text in zip(columns, texts, strict=True)]
    return "\n".join(parts)


def width_needed(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
    """Return the terminal width at which no cell has to wrap."""
    texts = _texts(types, rows)
    return 1 + sum(max(map(len, [name, *cells])) + _BOX_WIDTH for name, cells in zip(columns, texts, strict=True))


def print_table(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows in the table format suited to standard output."""
    if sys.stdout.isatty():
        from rich.console import Console

        text = table_text(columns, types, rows, width=Console().width, color=True)
    else:
        text = table_text(columns, types, rows, width=None)
    if text:
        print(text)


def _texts(types: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [format_column([row[i] for row in rows], kind) for i, kind in enumerate(types)]


def _right(types: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[bool]:
    """Return for each column whether it is right-aligned: numbers, unless shown as dates."""
    dated = [any(isinstance(row[i], str) and "-" in row[i][1:] for row in rows) for i in range(len(types))]
    return [kind in NUMBERS and not is_dated for kind, is_dated in zip(types, dated, strict=True)]


def _nulls(types: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[bool]]:
    return [[row[i] is None for row in rows] for i in range(len(types))]


def _plain(columns: Sequence[str], texts: list[list[str]], right: list[bool]) -> str:
    widths = [max(map(len, [name, *cells])) for name, cells in zip(columns, texts, strict=True)]
    rows = [tuple(columns), tuple("-" * width for width in widths), *zip(*texts, strict=True)]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _boxed(
    columns: Sequence[str], texts: list[list[str]], right: list[bool], nulls: list[list[bool]], width: int, color: bool
) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ROUNDED, header_style="bold")
    for name, is_right in zip(columns, right, strict=True):
        table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold")
    for row, are_null in zip(zip(*texts, strict=True), zip(*nulls, strict=True), strict=True):
        table.add_row(*(Text(NULL, "dim italic") if null else Text(text) for text, null in zip(row, are_null, strict=True)))
    console = Console(width=max(width, 20), force_terminal=color, color_system="standard" if color else None)
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip("\n")
