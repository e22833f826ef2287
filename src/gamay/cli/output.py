"""Output of commands besides tables (`gamay.shell.formats.table`): colour on a terminal, plain text elsewhere."""

import sys
from collections.abc import Sequence
from typing import Any


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_heading(text: str) -> None:
    """Print the heading of a part."""
    if is_terminal():
        from rich.console import Console

        Console().rule(f"[bold]{text}[/bold]")
    else:
        print(f"\n== {text}", flush=True)


def print_sql(text: str) -> None:
    """Print a query; the terminal wraps long lines."""
    print(f"\033[36m{text}\033[0m" if is_terminal() else text)


def print_statistics(stats: Any) -> None:
    """Print the cost of an answer in one line."""
    pruned = stats.get("numSegmentsPrunedByBroker", 0) + stats.get("numSegmentsPrunedByServer", 0)
    read = stats.get("numSegmentsProcessed", 0)
    scanned, rows = stats.get("numDocsScanned", 0), stats.get("totalDocs", 0)
    print(
        f"{stats.get('timeUsedMs', 0)} ms, {scanned:,} of {rows:,} rows scanned, "
        f"{read} {'segment' if read == 1 else 'segments'} read and {pruned} pruned"
    )


def print_reasons(reasons: Sequence[str]) -> None:
    """Print why an answer is incomplete."""
    for reason in reasons:
        print(f"The answer is partial: {reason}.")
