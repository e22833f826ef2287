"""The answer to a statement, from whichever place it came."""

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
    """Rows and what is said beside them.

    show: returns the rows as people read them: times of number columns as dates, where the schema says how. result: the rows
    with all their types, for files and for Python. summary: what it cost, in a line. notes: what it lacks and why,
    and warnings about the statement.
    """

    sql: str
    result: Rows
    show: Callable[[], Sequence[Sequence[Any]]]
    summary: str
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @cached_property
    def shown_rows(self) -> Sequence[Sequence[Any]]:
        """The rows as people read them; programs need not wait for the catalog that this takes."""
        return self.show()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.result.columns

    @property
    def types(self) -> tuple[str, ...]:
        return self.result.types
