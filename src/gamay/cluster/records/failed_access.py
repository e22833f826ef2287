"""How often the metadata store failed those who asked for a table's records."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gamay.cluster.store.store import StoreUnavailableError, VersionConflictError

# A writer that is fenced off is no failure of the store: another one writes.
_FAILURES = (StoreUnavailableError, VersionConflictError)


@dataclass(frozen=True, slots=True)
class FailedAccess:
    """By typed table: reads, writes of segment records, and changes of the ideal state that failed.

    Two threads that count at once may lose one: metrics are not accounts.
    """

    reads: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    ideal_states: Counter[str] = field(default_factory=Counter)


@contextmanager
def counting(failures: Counter[str], table: str) -> Iterator[None]:
    """Count an access to a typed table's records in `failures` if the store fails it."""
    try:
        yield
    except _FAILURES:
        failures[table] += 1
        raise
