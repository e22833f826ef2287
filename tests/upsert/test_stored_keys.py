"""Files stored beside the segments so that a restart, or a new server, need not read their columns."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyroaring import BitMap
from tests.naive.upsert_histories import Replica, conformed

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.storage.local_store import LocalStore
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.index.key_index import NO_TEXT, Keys
from gamay.upsert.persist.shared_snapshots import PartitionState, SharedSnapshots
from gamay.upsert.rows.key_files import StoredKeys, read_keys, write_keys
from gamay.upsert.rows.valid_docs import SegmentDocs

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "k", "dataType": "STRING"}, {"name": "c", "dataType": "LONG"},
                                {"name": "d", "dataType": "BOOLEAN"}, {"name": "rid", "dataType": "LONG"}],
        "primaryKeyColumns": ["k"],
    }
).value  # fmt: skip


GENERATIONS = {"ttlRemoval": "GENERATIONS"}


def settings_of(**upsert: object) -> UpsertSettings:
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "REALTIME",
            "tenants": {},
            "tableIndexConfig": {},
            "segmentsConfig": {"timeColumnName": "c"},
            "upsertConfig": {"mode": "FULL", "comparisonColumns": ["c"], "deleteRecordColumn": "d", **upsert},
        }
    ).value
    settings = UpsertSettings.of(config, SCHEMA)
    assert settings is not None
    return settings


@pytest.mark.parametrize("has_text", [False, True])
def test_keys_come_back_as_they_were_written(tmp_path: Path, has_text: bool) -> None:
    rng = np.random.default_rng(1)
    hashes, lows = rng.integers(0, 2**64, (2, 1000), np.uint64)
    text = NO_TEXT
    if has_text:
        offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 9, 1000))])
        text = (rng.integers(0, 256, offsets[-1], np.uint8), offsets, rng.integers(0, 2, 1000).astype(np.uint8))
    values = rng.integers(-9, 9, (1000, 2))
    stored = StoredKeys.sorted(np.arange(1000, dtype=np.int32), Keys(3, hashes, lows, *text), values)
    assert (np.diff((stored.keys.hashes >> np.uint64(48)).astype(np.int64)) >= 0).all()
    write_keys(tmp_path / "keys", "mine", stored)
    found = read_keys(tmp_path / "keys", "mine")
    assert found is not None
    np.testing.assert_array_equal(found.docs, stored.docs)
    np.testing.assert_array_equal(found.comparisons, values[stored.docs])
    for name in ("hashes", "lows", "data", "offsets", "is_text"):
        np.testing.assert_array_equal(getattr(found.keys, name), getattr(stored.keys, name))
    assert read_keys(tmp_path / "keys", "other") is None
    assert read_keys(tmp_path / "none", "mine") is None


def test_keys_that_were_damaged_are_not_used(tmp_path: Path) -> None:
    keys = Keys(1, np.arange(100, dtype=np.uint64), np.empty(0, np.uint64), *NO_TEXT)
    path = tmp_path / "keys"
    write_keys(path, "s", StoredKeys(np.arange(100, dtype=np.int32), keys, np.zeros((100, 1), np.int64)))
    written = path.read_bytes()
    for damaged in (b"", written[:9], written[:-8], written[:-3] + b"abc", b"x" + written[1:]):
        path.write_bytes(damaged)
        assert read_keys(path, "s") is None


def history(replica: Replica, rows: int = 60, commits: int = 4) -> None:
    """Consume rows that replace and delete each other, in several segments."""
    rng = random.Random(5)
    replica._begin()
    for commit in range(commits):
        replica.add([
            {"k": f"key-{rng.randrange(25)}", "c": commit * rows + i, "d": rng.random() < 0.1, "rid": commit * rows + i}
            for i in range(rows)
        ])  # fmt: skip
        replica.commit()


def test_segments_are_loaded_by_their_stored_keys_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(settings_of(), tmp_path, random.Random(1), reorders=False)
    history(replica)
    before = replica.visible()
    assert list((tmp_path / "own").glob("*/keys.snapshot"))

    def read(*_: object) -> None:
        raise AssertionError("a column was read")

    with monkeypatch.context() as patched:
        patched.setattr("gamay.upsert.index.keys.KeyEncoder.at", read)
        patched.setattr("gamay.upsert.index.keys.KeyEncoder.of_segment", read)
        replica._open()
        sources = [replica._source(segment) for segment in replica.sealed.values()]
        replica.table.expect(sources)
        for source in sources:
            replica.docs[source.segment.name] = replica.table.load(source, lambda _: None)
    replica.rows = conformed(SCHEMA, [])
    assert replica.visible().sort_by("rid") == before.sort_by("rid")


def restarted(replica: Replica, *, expects: bool) -> tuple[list[int], list[tuple[int, int]]]:
    """Load the sealed segments again; return the `rid` of the visible rows, and the keys of the index: (location, value)."""
    replica._open()
    sources = [replica._source(segment) for segment in replica.sealed.values()]
    if expects:
        replica.table.expect(sources)
    for source in sources:
        replica.docs[source.segment.name] = replica.table.load(source, lambda _: None)
    replica.rows = conformed(SCHEMA, [])
    items = replica.table.partitions()[0]._index.items()
    return sorted(replica.visible().column("rid").to_pylist()), sorted(zip(*(a.tolist() for a in items), strict=True))


@pytest.mark.parametrize("upsert", [{}, {"metadataTTL": 30}, {"metadataTTL": 30, "metadataManagerConfigs": GENERATIONS}])
def test_keys_taken_at_once_are_those_taken_segment_by_segment(tmp_path: Path, upsert: dict[str, object]) -> None:
    replica = Replica(settings_of(**upsert), tmp_path, random.Random(1), reorders=False)
    history(replica)
    before = sorted(replica.visible().column("rid").to_pylist())
    one_by_one = restarted(replica, expects=False)
    assert restarted(replica, expects=True) == one_by_one
    assert one_by_one[0] == before


def test_a_key_that_counts_in_two_snapshots_keeps_its_latest_row(tmp_path: Path) -> None:
    replica = Replica(settings_of(), tmp_path, random.Random(1), reorders=False)
    history(replica)
    before = sorted(replica.visible().column("rid").to_pylist())
    name, segment = next(iter(replica.sealed.items()))
    docs = SegmentDocs(segment.num_docs, has_deletes=True)
    docs.add(np.arange(segment.num_docs - 8, segment.num_docs))  # the server died before it stored that these were replaced
    replica.folder.write(name, segment.num_docs, docs, has_deletes=True)
    found = restarted(replica, expects=True)
    assert found[0] == before
    assert found == restarted(replica, expects=False)


def test_segments_change_between_their_keys_and_themselves(tmp_path: Path) -> None:
    """They are removed, replaced or written over after their keys were taken and before queries see them."""
    replica = Replica(settings_of(), tmp_path, random.Random(1), reorders=False)
    history(replica)
    replica._open()
    sources = [replica._source(segment) for segment in replica.sealed.values()]
    replica.table.expect(sources)
    removed, replaced, *others = sources
    replica.table.remove(removed.segment.name, lambda: None)
    shown: list[str] = []
    replica.docs = {}
    for source in (replace(replaced, crc=7), *others):
        replica.docs[source.segment.name] = replica.table.load(
            source, lambda _, name=source.segment.name: shown.append(name)
        )
    assert shown == [source.segment.name for source in sources[1:]]
    del replica.sealed[removed.segment.name]
    replica._begin()
    key = replica.visible().column("k")[0].as_py()
    replica.add([{"k": key, "c": 10_000, "d": False, "rid": 10_000}])
    found = replica.visible()
    assert found.num_rows == len(set(found.column("k").to_pylist()))
    gone = {removed.segment.name}
    assert {row["rid"] for row in found.to_pylist() if row["k"] == key} == {10_000}
    assert gone.isdisjoint(replica.table.partitions()[0].segments())


@pytest.mark.parametrize("upsert", [{}, {"metadataTTL": 30}])
def test_a_new_server_learns_from_the_deep_store_which_rows_count(tmp_path: Path, upsert: dict[str, object]) -> None:
    replica = Replica(settings_of(**upsert), tmp_path, random.Random(1), reorders=False)
    history(replica)
    before, docs = replica.visible(), {name: found.snapshot().count for name, found in replica.docs.items()}
    fresh = Replica(settings_of(**upsert), tmp_path / "fresh", random.Random(1), reorders=False)
    fresh.host = replace(fresh.host, shared=replica.host.shared)
    fresh._open()
    fresh.sealed, fresh.sequence = replica.sealed, replica.sequence
    fresh.restart(keeps_snapshots=True)
    assert fresh.visible().sort_by("rid") == before.sort_by("rid")
    assert {name: found.snapshot().count for name, found in fresh.docs.items()} == docs
    watermarks = [r.table.partitions()[0].watermark for r in (replica, fresh)]
    assert watermarks[0] == watermarks[1]


def test_a_state_later_than_what_is_sealed_is_not_used(tmp_path: Path) -> None:
    replica = Replica(settings_of(), tmp_path, random.Random(1), reorders=False)
    history(replica)
    assert replica.host.shared is not None
    state = replica.host.shared.get(0)
    assert state is not None
    assert state.sequence == 4
    assert state.rows
    for first_unsealed, is_used in ((4, True), (5, True), (None, True), (3, False)):
        replica.host = replace(replica.host, first_unsealed=lambda _, first=first_unsealed: first)  # type: ignore[misc]
        replica.folder.remove_all()
        replica._open()
        sources = [replica._source(segment) for segment in replica.sealed.values()]
        replica.table.expect(sources)
        assert all(map(replica.table.has_snapshot, sources)) is is_used


def test_states_in_the_deep_store_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    store.prepare()
    shared = SharedSnapshots(store, "t_REALTIME", tmp_path / "scratch")
    assert shared.get(0) is None
    rows = {("a__b", 7): (BitMap([1, 5]), BitMap([5])), ("a", -1): (BitMap(), None)}
    shared.put(0, PartitionState(3, 2.5, rows))
    assert shared.get(0) == PartitionState(3, 2.5, rows)
    path = tmp_path / "store" / "Upsert_Snapshots" / "t_REALTIME" / "0.zip"
    whole = path.read_bytes()
    for damaged in (b"", whole[:40], whole[:-30], b"x" * 100):
        path.write_bytes(damaged)
        assert shared.get(0) is None
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize(
    ("upsert", "at_once"), [({}, True), ({"dropOutOfOrderRecord": True}, False), ({"metadataTTL": 9}, False)]
)
def test_a_new_copy_has_its_snapshot_at_once_where_that_is_safe(
    tmp_path: Path, upsert: dict[str, object], *, at_once: bool
) -> None:
    replica = Replica(settings_of(**upsert), tmp_path, random.Random(1), reorders=False)
    history(replica)
    replica.reload(0, compacts=True)
    name, segment = next(iter(replica.sealed.items()))
    stored = replica.table.stored_rows(name, segment.num_docs, segment.num_docs)
    assert (stored is not None) is at_once
    assert stored is None or stored[0] == replica.docs[name].snapshot(with_deleted=True).bitmap()
