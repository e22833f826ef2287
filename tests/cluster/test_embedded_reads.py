"""Reads of the embedded store during a write: they do not wait, and return only durable data."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gamay.base.clock import ManualClock
from gamay.cluster.store.embedded_store import EmbeddedStore


def test_a_read_does_not_wait_for_a_change_that_is_not_durable_yet(tmp_path: Path) -> None:
    store = EmbeddedStore.open(tmp_path / "metadata.db", ManualClock())
    store.create("/a", b"old")
    store.create("/a/child", b"")
    with ThreadPoolExecutor(1) as other, store._file.change():
        store._file.db.execute("UPDATE node SET value = ? WHERE path = '/a'", (b"new",))
        node = other.submit(store.get, "/a").result(60)
        assert node is not None
        assert node.value == b"old"
        assert other.submit(store.children, "/a").result(60) == ["child"]
        assert [found and found.value for found in other.submit(store.get_many, ["/a", "/b"]).result(60)] == [b"old", None]
    node = store.get("/a")
    assert node is not None
    assert node.value == b"new"
    store.close()
