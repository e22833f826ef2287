"""Counters of failed accesses to tables' records in the metadata store."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gamay.cluster.store.store import StoreUnavailableError, VersionConflictError

# a fenced writer is not a failure of the store: another one writes
_FAILURES = (StoreUnavailableError, VersionConflictError)


@dataclass(frozen=True, slots=True)
class FailedAccess:
    """Counters by typed table of failed reads, writes of segment records, and changes of the ideal state.

    An increment may be lost when two threads count at once, which is acceptable for metrics.
    """

    reads: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    ideal_states: Counter[str] = field(default_factory=Counter)


@contextmanager
def counting(failures: Counter[str], table: str) -> Iterator[None]:
    """Count an access to a typed table's records in `failures` if the store fails."""
    try:
        yield
    except _FAILURES:
        failures[table] += 1
        raise
