"""What commands print beside tables (`gamay.shell.formats.table`): colour on a terminal, plain text elsewhere."""

import sys
from collections.abc import Sequence
from typing import Any


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


def print_statistics(stats: Any) -> None:
    """Print in one line what an answer cost."""
    pruned = stats.get("numSegmentsPrunedByBroker", 0) + stats.get("numSegmentsPrunedByServer", 0)
    read = stats.get("numSegmentsProcessed", 0)
    scanned, rows = stats.get("numDocsScanned", 0), stats.get("totalDocs", 0)
    print(
        f"{stats.get('timeUsedMs', 0)} ms, {scanned:,} of {rows:,} rows scanned, "
        f"{read} {'segment' if read == 1 else 'segments'} read and {pruned} pruned"
    )


def print_reasons(reasons: Sequence[str]) -> None:
    """Say what an answer lacks."""
    for reason in reasons:
        print(f"The answer is partial: {reason}.")
