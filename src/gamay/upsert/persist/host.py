"""What a table with primary keys needs of the server that it is on."""

from collections.abc import Callable
from dataclasses import dataclass

from gamay.upsert.persist.shared_snapshots import SharedSnapshots


@dataclass(frozen=True, slots=True)
class Host:
    """A server, as one of its tables sees it.

    protects: whether commits at will are allowed and rolled back rows are to have no effect (PROTECTED of
    `pinot.server.consuming.segment.consistency.mode`). later: does what nothing waits for, one after the other. shared: the
    table's snapshots in the deep store, None where that is out of reach. first_unsealed: the sequence number of the first
    segment of a partition that is not sealed in the cluster, None when all are.
    """

    protects: Callable[[], bool] = lambda: False
    later: Callable[[Callable[[], None]], object] = lambda job: job()
    shared: SharedSnapshots | None = None
    first_unsealed: Callable[[int], int | None] = lambda _: None


ALONE = Host()
"""A server without a cluster and a deep store."""
