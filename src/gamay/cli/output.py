"""What commands print: boxes and colour on a terminal, plain text in columns elsewhere."""

import csv
import json
import sys
from collections.abc import Sequence
from typing import Any

SEPARATED_FROM = 10_000
"""A column that has a number of five digits is printed with thousands separators; years and hours are not."""


def is_terminal() -> bool:
    """Return whether a person sees standard output as it is printed."""
    return sys.stdout.isatty()


def print_heading(text: str) -> None:
    """Print the heading of a part."""
    if is_terminal():
        from rich.console import Console

        Console().rule(f"[bold]{text}[/bold]")
    else:
        print(f"\n== {text}", flush=True)


def print_sql(text: str) -> None:
    """Print a query; a long line is left to the terminal to wrap."""
    print(f"\033[36m{text}\033[0m" if is_terminal() else text)


def print_answer(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], output: str = "table") -> None:
    """Print rows in one of the output formats. types: the wire types, e.g. `LONG`."""
    if output == "json":
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str, ensure_ascii=False))
    elif output == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) if isinstance(value, dict) else value for value in row] for row in rows)
    elif columns:
        texts = [format_column([row[i] for row in rows], kind) for i, kind in enumerate(types)]
        right = [kind in ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL") for kind in types]
        (_print_boxed if is_terminal() else _print_plain)(columns, texts, right)


def format_column(values: Sequence[Any], kind: str) -> list[str]:
    """Return the values of a column as text, numbers all in one form.

    >>> format_column([1944, 25526, None], "LONG")
    ['1,944', '25,526', 'null']
    >>> format_column([2013, 2014], "INT")
    ['2013', '2014']
    >>> format_column([21.921, 3.0], "DOUBLE")
    ['21.92', '3.00']
    >>> format_column(["2013-01-01 10:00:00.0"], "TIMESTAMP")
    ['2013-01-01 10:00:00']
    """
    if kind in ("INT", "LONG", "FLOAT", "DOUBLE"):
        return _numbers(values)
    if kind == "TIMESTAMP":
        return ["null" if value is None else str(value).removesuffix(".0") for value in values]
    return [_cell(value) for value in values]


def _numbers(values: Sequence[Any]) -> list[str]:
    numbers = [v for v in values if isinstance(v, int | float) and abs(v) < float("inf")]
    largest = max(map(abs, numbers), default=0)
    separator = "," if largest >= SEPARATED_FROM else ""
    if all(float(v).is_integer() for v in numbers):
        form = f"{separator}.0f"
    elif largest >= 1:
        form = f"{separator}.2f"
    else:
        form = ".4g"
    texts = []
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool):
            texts.append(format(value, f"{separator}d"))
        else:
            texts.append(format(value, form) if isinstance(value, float) else _cell(value))
    return texts


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value).replace("\n", "\\n")


def _print_boxed(columns: Sequence[str], texts: list[list[str]], right: list[bool]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ROUNDED)
    for name, is_right in zip(columns, right, strict=True):
        table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold")
    for row in zip(*texts, strict=True):
        table.add_row(*map(Text, row))
    Console().print(table)


def _print_plain(columns: Sequence[str], texts: list[list[str]], right: list[bool]) -> None:
    widths = [max(map(len, [name, *cells])) for name, cells in zip(columns, texts, strict=True)]
    rows = [tuple(columns), tuple("-" * width for width in widths), *zip(*texts, strict=True)]
    for row in rows:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        print("  ".join(cells).rstrip())


def print_statistics(stats: Any) -> None:
    """Print in one line what an answer cost."""
    pruned = stats.get("numSegmentsPrunedByBroker", 0) + stats.get("numSegmentsPrunedByServer", 0)
    read = stats.get("numSegmentsProcessed", 0)
    scanned, rows = stats.get("numDocsScanned", 0), stats.get("totalDocs", 0)
    print(
        f"{stats.get('timeUsedMs', 0)} ms, {scanned:,} of {rows:,} rows scanned, "
        f"{read} {'segment' if read == 1 else 'segments'} read and {pruned} pruned"
    )


def print_reasons(reasons: Sequence[str], output: str = "table") -> None:
    """Say what an answer lacks; beside rows that a program reads, on standard error."""
    for reason in reasons:
        print(f"The answer is partial: {reason}.", file=sys.stdout if output == "table" else sys.stderr)
