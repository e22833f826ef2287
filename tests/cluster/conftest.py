from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gamay.base.clock import ManualClock
from gamay.cluster.embedded_store import EmbeddedStore
from gamay.cluster.store import MetadataStore

Opener = Callable[[], MetadataStore]


@pytest.fixture(params=["embedded"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Return a function that opens the store: again after a close, it finds what was written before."""
    opened: list[EmbeddedStore] = []

    def open_embedded() -> MetadataStore:
        opened.append(EmbeddedStore.open(tmp_path / "metadata.db", ManualClock()))
        return opened[-1]

    return {"embedded": open_embedded}[request.param]


@pytest.fixture
def store(open_store: Opener) -> Iterator[MetadataStore]:
    opened = open_store()
    yield opened
    opened.close()
