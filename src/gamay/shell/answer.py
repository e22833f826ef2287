"""The answer to a statement, from whichever place it came."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Rows(Protocol):
    """What `gamay.embedded.Result` and `gamay.client.results.ResultSet` have in common."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def types(self) -> tuple[str, ...]: ...

    def rows(self) -> list[tuple[Any, ...]]: ...

    def to_arrow(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows and what is said beside them.

    shown_rows: the rows as people read them: times of number columns as dates, where the schema says how. result: the rows
    with all their types, for files and for Python. summary: what it cost, in a line. notes: what it lacks and why,
    and warnings about the statement.
    """

    sql: str
    result: Rows
    shown_rows: Sequence[Sequence[Any]]
    summary: str
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.result.columns

    @property
    def types(self) -> tuple[str, ...]:
        return self.result.types


def summary_of(num_rows: int, time_used_ms: int, stats: Any) -> str:
    """Return in one line how much there is and what it cost. stats: has the counters of an answer as attributes."""
    pruned = _counted(stats, "num_segments_pruned_by_broker") + _counted(stats, "num_segments_pruned_by_server")
    read = _counted(stats, "num_segments_processed")
    text = f"{num_rows:,} {'row' if num_rows == 1 else 'rows'}, {time_used_ms:,} ms"
    if total := _counted(stats, "total_docs"):
        text += f", {_counted(stats, 'num_docs_scanned'):,} of {total:,} rows scanned"
    if read or pruned:
        text += f", {read} {'segment' if read == 1 else 'segments'} read and {pruned} pruned"
    return text


def _counted(stats: Any, name: str) -> int:
    return int(getattr(stats, name, 0) or 0)
