from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gamay.base.clock import ManualClock
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.zookeeper_store import ZooKeeperAddress, ZooKeeperStore

Opener = Callable[[], MetadataStore]


@pytest.fixture(params=["embedded", "zookeeper"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Return a function that opens the store; opened again after a close, it has the same contents."""
    opened: list[MetadataStore] = []
    hosts = request.getfixturevalue("zookeeper_hosts") if request.param == "zookeeper" else ""

    def open_embedded() -> MetadataStore:
        opened.append(EmbeddedStore.open(tmp_path / "metadata.db", ManualClock()))
        return opened[-1]

    def open_zookeeper() -> MetadataStore:
        opened.append(ZooKeeperStore.open(ZooKeeperAddress(hosts, "SomeCluster", session_timeout_s=2, patience_s=10)))
        return opened[-1]

    yield {"embedded": open_embedded, "zookeeper": open_zookeeper}[request.param]
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Opener) -> MetadataStore:
    return open_store()
