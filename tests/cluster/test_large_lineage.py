"""Replacements of more segments than fit in one node of the metadata store."""

import random
from collections.abc import Callable

from gamay.cluster.records.records import Lineage, LineageEntry, LineageState, WriterBatch
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.store import MAX_VALUE_BYTES, MetadataStore

TABLE = "t_OFFLINE"


def test_replacements_of_any_size_are_kept_and_changed(open_store: Callable[[], MetadataStore]) -> None:
    rng = random.Random(1)
    store = open_store()
    registry = Registry(store)
    old, new = (tuple(f"{kind}_{rng.getrandbits(128):032x}" for _ in range(4_000)) for kind in ("old", "new"))
    large = LineageEntry("a-1", old, new, LineageState.IN_PROGRESS, 5)
    small = LineageEntry("b-2", ("x",), (), LineageState.REVERTED, 6)
    assert registry.get_lineage(TABLE).entries == {}
    registry.update_lineage(TABLE, lambda lineage: lineage)
    assert store.get(paths.lineage(TABLE)) is None
    registry.update_lineage(TABLE, lambda lineage: lineage.with_entry(small))
    registry.update_lineage(TABLE, lambda lineage: lineage.with_entry(large))
    found = Registry(open_store()).get_lineage(TABLE)
    assert dict(found.entries) == {"a-1": large, "b-2": small}
    assert found.hidden_segments() == set(new)
    node = store.get(paths.lineage(TABLE))
    assert node is not None
    assert len(node.value) < MAX_VALUE_BYTES
    done = LineageEntry("a-1", old, new, LineageState.COMPLETED, 9)
    registry.update_lineage(TABLE, lambda lineage: lineage.with_entry(done))
    assert registry.get_lineage(TABLE).hidden_segments() == set(old)
    registry.update_lineage(TABLE, lambda lineage: lineage.without(frozenset({"a-1"})))
    assert dict(registry.get_lineage(TABLE).entries) == {"b-2": small}
    registry.update_lineage(TABLE, lambda lineage: lineage.with_entry(large))
    registry.delete_lineage(TABLE)
    assert registry.get_lineage(TABLE).entries == {}
    assert [name for kind in store.children(paths.BUCKETS) for name in store.children(f"{paths.BUCKETS}/{kind}")
            if store.children(f"{paths.BUCKETS}/{kind}/{name}")] == []  # fmt: skip


def test_the_last_batches_of_writers_are_kept_beside_entries(open_store: Callable[[], MetadataStore]) -> None:
    registry = Registry(open_store())
    names = tuple(f"new_{number:08d}" for number in range(200_000))
    for entry_names in (("x",), names):
        entry = LineageEntry("a-1", (), entry_names, LineageState.IN_PROGRESS, 5)
        lineage = Lineage(TABLE).with_entry(entry).with_writer("w", WriterBatch(7, 5))
        registry.update_lineage(TABLE, lambda _, lineage=lineage: lineage)
        assert registry.get_lineage(TABLE) == lineage
    registry.update_lineage(TABLE, lambda found: found.without(frozenset({"a-1"})))
    for number in range(1001):
        batch = WriterBatch(1, 10 + number)
        registry.update_lineage(TABLE, lambda found, number=number, batch=batch: found.with_writer(f"v{number}", batch))
    writers = registry.get_lineage(TABLE).writers
    assert len(writers) == 1000
    assert not {"w", "v0"} & set(writers)
