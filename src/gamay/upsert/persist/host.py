"""The interface of a table with primary keys to its server."""

from collections.abc import Callable
from dataclasses import dataclass

from gamay.upsert.persist.shared_snapshots import SharedSnapshots


@dataclass(frozen=True, slots=True)
class Host:
    """The parts of a server that one of its tables uses.

    protects: whether forced commits are allowed and rolled back rows must have no effect (PROTECTED of
    `pinot.server.consuming.segment.consistency.mode`). later: runs background jobs, in order. shared: the
    table's snapshots in the deep store, None if that is not accessible. first_unsealed: returns the sequence number of the
    first segment of a partition that is not sealed in the cluster, None if all are.
    """

    protects: Callable[[], bool] = lambda: False
    later: Callable[[Callable[[], None]], object] = lambda job: job()
    shared: SharedSnapshots | None = None
    first_unsealed: Callable[[int], int | None] = lambda _: None


ALONE = Host()
"""A server without a cluster and a deep store."""
