"""The answer to a statement, from an in-process database or a cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol


class Rows(Protocol):
    """What `gamay.embedded.Result` and `gamay.client.results.ResultSet` have in common."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def types(self) -> tuple[str, ...]: ...

    def rows(self) -> list[tuple[Any, ...]]: ...

    def to_arrow(self) -> Any: ...


@dataclass(frozen=True)
class Answer:
    """The answer to a statement, with notes on it.

    show: returns the rows for display: times of number columns as dates, where the schema gives the format. result: the rows
    with all their types, for files and for Python. summary: row count and cost, in one line. notes: warnings about the
    statement; reasons: why the answer is incomplete.
    """

    sql: str
    result: Rows
    show: Callable[[], Sequence[Sequence[Any]]]
    summary: str
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @cached_property
    def shown_rows(self) -> Sequence[Sequence[Any]]:
        """The rows for display. May read the catalog, which output for programs avoids."""
        return self.show()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.result.columns

    @property
    def types(self) -> tuple[str, ...]:
        return self.result.types
