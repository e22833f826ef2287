"""Metrics of every role about its metadata store."""

from collections.abc import Iterator

from gamay.base.metrics import Measured, MetricKind
from gamay.cluster.store.store import MetadataStore


def measure_store(role: str, store: MetadataStore) -> Iterator[Measured]:
    """Yield how often a role's lost connection was restored. role: its name in metrics."""
    name, text = "helixZookeeperReconnects", "Times that the connection to ZooKeeper was lost and restored"
    yield Measured(f"pinot_{role}_{name}", store.num_reconnects, text, kind=MetricKind.COUNTER)
