"""Records of any size, with the same results on both stores."""

import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.errors import ConflictError
from gamay.cluster.records.records import Assignment
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import buckets, paths
from gamay.cluster.store.store import MAX_VALUE_BYTES, MetadataStore
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord

PATH = paths.ideal_state("t_OFFLINE")


def _record(names: range, state: str = "ONLINE") -> ZNRecord:
    maps = {f"segment_{i}": {f"Server_host{i % 7}_8098": state, f"Server_host{(i + 3) % 7}_8098": state} for i in names}
    return ZNRecord("t_OFFLINE", {"REPLICAS": "2"}, maps, {"kept": ["a"]})


def _buckets(store: MetadataStore) -> set[str]:
    folder = f"{paths.BUCKETS}/IDEALSTATES/t_OFFLINE"
    return {f"{folder}/{name}" for name in store.children(folder)}


def test_small_records_are_one_node(store: MetadataStore) -> None:
    buckets.create(store, PATH, _record(range(1000)))
    assert not _buckets(store)
    assert buckets.get(store, PATH) == _record(range(1000))
    with pytest.raises(ConflictError):
        buckets.create(store, PATH, _record(range(1)))
    buckets.delete(store, PATH)
    buckets.delete(store, PATH)
    assert buckets.get(store, PATH) is None


def test_a_hundred_thousand_segments(store: MetadataStore) -> None:
    large = _record(range(100_000))
    buckets.create(store, PATH, large)
    names = _buckets(store)
    assert len(names) == 128
    assert all(node is not None and len(node.value) < MAX_VALUE_BYTES // 2 for node in store.get_many([PATH, *names]))
    assert buckets.get(store, PATH) == large

    def add(record: ZNRecord | None) -> ZNRecord:
        assert record is not None
        return ZNRecord(record.id, record.simple, {**record.maps, "new": {"Server_a_1": "ONLINE"}}, record.lists)

    buckets.update(store, PATH, add)
    assert len(names - _buckets(store)) == 1  # one bucket is another now, the rest was left alone
    assert len(_buckets(store)) == 128
    found = buckets.get(store, PATH)
    assert found is not None
    assert len(found.maps) == 100_001
    buckets.update(store, PATH, lambda _: _record(range(10)))
    assert not _buckets(store)
    buckets.update(store, PATH, lambda _: large)
    buckets.delete(store, PATH)
    assert not _buckets(store)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3000), st.sampled_from(["ONLINE", "OFFLINE"])), max_size=5)
)
def test_any_history_reads_as_it_was_written(store: MetadataStore, steps: list[tuple[int, int, str]]) -> None:
    for start, stop, state in steps:
        wanted = _record(range(min(start, stop), max(start, stop)), state)
        buckets.update(store, PATH, lambda _, wanted=wanted: wanted)
        assert buckets.get(store, PATH) == wanted
    named = store.get(PATH)
    buckets.update(store, PATH, lambda _: None)
    assert store.get(PATH) is None
    assert not _buckets(store), named


def test_writers_and_readers_at_once(open_store: Callable[[], MetadataStore]) -> None:
    store = open_store()
    buckets.create(store, PATH, _record(range(3000)))
    failures: list[Exception] = []

    def write(session: MetadataStore, number: int) -> None:
        def change(record: ZNRecord | None) -> ZNRecord:
            assert record is not None
            added = {f"by_{number}_{len(record.maps)}": {"Server_a_1": "ONLINE"}}
            return ZNRecord(record.id, record.simple, {**record.maps, **added}, record.lists)

        for _ in range(5):
            buckets.update(session, PATH, change)

    def read(session: MetadataStore) -> None:
        for _ in range(20):
            found = buckets.get(session, PATH)
            assert found is not None
            assert len(found.maps) >= 3000

    def guarded(action: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                action()
            except Exception as error:  # noqa: BLE001 - shown by the assertion below
                failures.append(error)

        return run

    sessions = [store.new_session() for _ in range(4)]
    actions = [lambda s=s, n=n: write(s, n) for n, s in enumerate(sessions[:3])] + [lambda: read(sessions[3])]
    threads = [threading.Thread(target=guarded(action)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = buckets.get(store, PATH)
    assert found is not None
    assert len(found.maps) == 3015
    assert len(_buckets(store)) == 4
    for session in sessions:
        session.close()


def test_what_a_dead_writer_left_is_swept(store: MetadataStore) -> None:
    buckets.create(store, PATH, _record(range(3000)))
    left = store.create(f"{paths.BUCKETS}/IDEALSTATES/t_OFFLINE/b", b"x", sequence=True)
    gone = store.create(f"{paths.BUCKETS}/EXTERNALVIEW/gone_OFFLINE/b", b"x", sequence=True)
    assert buckets.sweep(store, before_ms=0) == 0
    assert buckets.sweep(store, before_ms=time.time_ns() // 1_000_000 + 60_000) == 2
    assert store.get(left) is None
    assert store.get(gone) is None
    assert buckets.get(store, PATH) == _record(range(3000))


def test_a_missing_bucket_is_no_short_record(store: MetadataStore) -> None:
    buckets.create(store, PATH, _record(range(3000)))
    store.delete(min(_buckets(store)))
    with pytest.raises(CorruptRecordError, match="missing or damaged"):
        buckets.get(store, PATH)
    buckets.delete(store, PATH)


def test_current_states_end_with_their_session(open_store: Callable[[], MetadataStore]) -> None:
    store = open_store()
    earlier, later = Registry(store.new_session()), Registry(store.new_session())
    states = {f"segment_{i}": "ONLINE" for i in range(5000)}
    earlier.put_current_state("Server_a_1", "t_OFFLINE", states)
    assert later.get_current_state("Server_a_1", "t_OFFLINE") == states
    later.put_current_state("Server_a_1", "t_OFFLINE", {**states, "more": "ERROR"})
    earlier.store.close()
    assert Registry(store).get_current_state("Server_a_1", "t_OFFLINE") == {**states, "more": "ERROR"}
    later.store.close()
    assert Registry(store).get_current_state("Server_a_1", "t_OFFLINE") == {}
    folder = f"{paths.BUCKETS}/INSTANCES/Server_a_1:CURRENTSTATES:t_OFFLINE"
    assert store.children(folder) == []


def test_a_large_table_in_the_registry(store: MetadataStore) -> None:
    registry = Registry(store)
    registry.create_ideal_state(Assignment.new_table("t_OFFLINE", 1))
    added = {f"segment_{i}": {"Server_a_1": "ONLINE"} for i in range(5000)}
    registry.update_ideal_state("t_OFFLINE", lambda ideal: ideal.with_segments(added))
    assert registry.must_get_ideal_state("t_OFFLINE").states == added
    assert "t_OFFLINE" in registry.resources_with_state()
    registry.update_ideal_state("t_OFFLINE", lambda ideal: ideal.with_segments({}, frozenset(added)))
    assert registry.must_get_ideal_state("t_OFFLINE").simple["REPLICAS"] == "1"
