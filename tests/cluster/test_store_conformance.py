"""The contract of every metadata store."""

import threading
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.waiting import PATIENCE_S

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError
from gamay.cluster.store.store import (
    MAX_VALUE_BYTES,
    FencedError,
    MetadataStore,
    StoreUnavailableError,
    VersionConflictError,
    update,
)


class Recorder:
    """A watcher that records its notifications, and for which a test can wait."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, path: str) -> None:
        with self._changed:
            self.paths.append(path)
            self._changed.notify_all()

    def wait_for(self, path: str, timeout_s: float = 60) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: path in self.paths, timeout_s), f"{path} not among {self.paths}"


def test_a_missing_node_is_none_without_children(store: MetadataStore) -> None:
    assert store.get("/a") is None
    assert store.children("/a") == []


def test_create_then_get(store: MetadataStore) -> None:
    assert store.create("/a/b/c", b"value") == "/a/b/c"
    node = store.get("/a/b/c")
    assert node is not None
    assert (node.value, node.version, node.ephemeral_owner, node.num_children) == (b"value", 0, 0, 0)
    parent = store.get("/a")
    assert parent is not None
    assert (parent.value, parent.num_children) == (b"", 1)


def test_create_twice_conflicts_and_keeps_the_first(store: MetadataStore) -> None:
    store.create("/a", b"1")
    with pytest.raises(ConflictError):
        store.create("/a", b"2")
    node = store.get("/a")
    assert node is not None
    assert node.value == b"1"


def test_set_counts_versions(store: MetadataStore) -> None:
    store.create("/a", b"0")
    assert store.set("/a", b"1", 0) == 1
    assert store.set("/a", b"2", None) == 2
    with pytest.raises(VersionConflictError):
        store.set("/a", b"3", 1)
    node = store.get("/a")
    assert node is not None
    assert (node.value, node.version) == (b"2", 2)


def test_set_of_a_missing_node(store: MetadataStore) -> None:
    with pytest.raises(NotFoundError):
        store.set("/a", b"", None)


def test_a_node_created_anew_begins_at_version_0(store: MetadataStore) -> None:
    store.create("/a", b"0")
    store.set("/a", b"1", None)
    store.delete("/a")
    store.create("/a", b"2")
    node = store.get("/a")
    assert node is not None
    assert node.version == 0


def test_delete(store: MetadataStore) -> None:
    store.create("/a/b", b"")
    store.delete("/missing")
    with pytest.raises(ConflictError):
        store.delete("/a")
    with pytest.raises(VersionConflictError):
        store.delete("/a/b", 7)
    store.delete("/a/b", 0)
    store.delete("/a")
    assert store.get("/a") is None


def test_recursive_delete_takes_only_what_is_below(store: MetadataStore) -> None:
    for path in ("/a/b/c/d", "/a/b/e", "/a/b-sibling/c", "/a/b0", "/a/c"):
        store.create(path, b"")
    store.delete("/a/b", recursive=True)
    assert store.children("/a") == ["b-sibling", "b0", "c"]
    assert store.children("/a/b-sibling") == ["c"]


def test_children_are_sorted_names_of_one_level(store: MetadataStore) -> None:
    for name in ("zz", "a", "é", "B", "a_b/deeper"):
        store.create(f"/top/{name}", b"")
    assert store.children("/top") == sorted(["zz", "a", "é", "B", "a_b"])


def test_sequence_numbers_grow_per_parent(store: MetadataStore) -> None:
    first = store.create("/queue/item-", b"1", sequence=True)
    second = store.create("/queue/item-", b"2", sequence=True)
    store.delete(second)
    third = store.create("/queue/other-", b"3", sequence=True)
    assert first < second
    assert third.removeprefix("/queue/other-") > second.removeprefix("/queue/item-")
    assert len(first.removeprefix("/queue/item-")) == 10


@pytest.mark.parametrize("path", ["", "a", "/", "/a/", "//a", "/a//b", "/a/./b", "/a/..", "/a\0b"])
def test_malformed_paths_are_refused(store: MetadataStore, path: str) -> None:
    with pytest.raises(InvalidConfigError):
        store.create(path, b"")


def test_values_have_a_largest_size(store: MetadataStore) -> None:
    largest = bytes(MAX_VALUE_BYTES)
    store.create("/a", largest)
    node = store.get("/a")
    assert node is not None
    assert node.value == largest
    with pytest.raises(InvalidConfigError):
        store.create("/b", largest + b"x")
    with pytest.raises(InvalidConfigError):
        store.set("/a", largest + b"x", None)


def test_persistent_nodes_survive_a_restart_and_ephemeral_ones_do_not(open_store: Callable[[], MetadataStore]) -> None:
    before = open_store()
    before.create("/a", b"kept")
    before.set("/a", b"kept, too", None)
    before.create("/live/me", b"", ephemeral=True)
    before.close()
    after = open_store()
    node = after.get("/a")
    assert node is not None
    assert (node.value, node.version) == (b"kept, too", 1)
    assert after.children("/live") == []
    after.close()


def test_ephemeral_nodes_belong_to_their_session(store: MetadataStore) -> None:
    session = store.new_session()
    assert session.session_id != store.session_id != 0
    session.create("/live/one", b"", ephemeral=True)
    store.create("/live/two", b"", ephemeral=True)
    node = store.get("/live/one")
    assert node is not None
    assert node.ephemeral_owner == session.session_id
    with pytest.raises(ConflictError):
        store.create("/live/one/child", b"")
    session.close()
    assert store.children("/live") == ["two"]


def test_watchers_hear_of_changes_at_and_below_a_path(store: MetadataStore) -> None:
    recorder = Recorder()
    store.watch("/tables", recorder)
    store.create("/tablesX", b"")
    store.create("/tables", b"")
    store.create("/tables/t/s", b"")
    store.set("/tables/t", b"1", None)
    store.delete("/tables/t/s")
    store.create("/tables/end", b"")
    recorder.wait_for("/tables/end")
    assert "/tablesX" not in recorder.paths
    assert set(recorder.paths) == {"/tables", "/tables/t", "/tables/t/s", "/tables/end"}


def test_watchers_hear_of_other_sessions_and_of_their_end(store: MetadataStore) -> None:
    recorder = Recorder()
    store.watch("/live", recorder)
    session = store.new_session()
    session.create("/live/x", b"", ephemeral=True)
    recorder.wait_for("/live/x")
    recorder.paths.clear()
    session.close()
    recorder.wait_for("/live/x")
    assert store.get("/live/x") is None


def test_a_watcher_sees_at_least_the_state_it_is_told_of(store: MetadataStore) -> None:
    """A read inside a watcher never returns a state older than the notified change."""
    seen: list[int] = []
    done = threading.Event()

    def read(path: str) -> None:
        node = store.get(path)
        assert node is not None
        seen.append(node.version)
        if node.version == 20:
            done.set()

    store.create("/a", b"")
    store.watch("/a", read)
    for i in range(20):
        store.set("/a", str(i).encode(), None)
    assert done.wait(PATIENCE_S)
    assert seen == sorted(seen)


def test_a_cancelled_watch_is_silent(store: MetadataStore) -> None:
    cancelled, other = Recorder(), Recorder()
    cancel = store.watch("/a", cancelled)
    store.watch("/a", other)
    cancel()
    store.create("/a", b"")
    other.wait_for("/a")
    assert cancelled.paths == []


def test_a_failing_watcher_does_not_silence_the_others(store: MetadataStore, caplog: pytest.LogCaptureFixture) -> None:
    def fail(path: str) -> None:
        raise RuntimeError("defect")

    recorder = Recorder()
    store.watch("/a", fail)
    store.watch("/a", recorder)
    store.create("/a", b"")
    recorder.wait_for("/a")


def test_updates_of_many_threads_are_all_applied(store: MetadataStore) -> None:
    def add() -> None:
        for _ in range(20):
            update(store, "/counter", lambda value: str(int(value or b"0") + 1).encode())

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    node = store.get("/counter")
    assert node is not None
    assert node.value == b"80"


def test_update_can_delete_and_can_leave_alone(store: MetadataStore) -> None:
    update(store, "/a", lambda _: b"1")
    update(store, "/a", lambda value: value)
    node = store.get("/a")
    assert node is not None
    assert node.version == 0
    update(store, "/a", lambda _: None)
    assert store.get("/a") is None
    assert update(store, "/a", lambda _: None) is None


def test_many_nodes_at_once(store: MetadataStore) -> None:
    names = [f"/many/{i}" for i in range(2500)]
    for name in names[::2]:
        store.create(name, name.encode())
    found = store.get_many(names)
    assert [None if node is None else node.value for node in found] == [
        name.encode() if i % 2 == 0 else None for i, name in enumerate(names)
    ]
    assert found[0] == store.get(names[0])
    assert store.get_many([]) == []
    store.delete("/many", recursive=True)
    assert store.get("/many") is None


def test_the_clusters_own_names_come_back(store: MetadataStore) -> None:
    recorder = Recorder()
    store.watch("/PinotCluster", recorder)
    for path in ("/PinotCluster/CONFIGS/CLUSTER/PinotCluster", "/PinotCluster/LIVEINSTANCES/a", "/PinotClusterX/b"):
        assert store.create(path, path.encode()) == path
        assert store.get(path) is not None
    assert store.children("/PinotCluster/CONFIGS/CLUSTER") == ["PinotCluster"]
    recorder.wait_for("/PinotCluster/LIVEINSTANCES/a")
    recorder.wait_for("/PinotCluster/CONFIGS/CLUSTER/PinotCluster")


def test_a_fenced_writer_writes_until_the_fence_changes(store: MetadataStore) -> None:
    store.create("/epoch", b"me")
    epoch = store.set("/epoch", b"me", None)
    fenced = store.fenced("/epoch", epoch)
    assert fenced.create("/new/deep/node", b"1") == "/new/deep/node"
    assert fenced.create("/queue/item-", b"1", sequence=True) == "/queue/item-0000000000"
    assert fenced.set("/new/deep/node", b"2", 0) == 1
    with pytest.raises(VersionConflictError):
        fenced.set("/new/deep/node", b"3", 0)
    with pytest.raises(ConflictError):
        fenced.create("/new/deep/node", b"")
    with pytest.raises(NotFoundError):
        fenced.set("/missing", b"", None)
    fenced.delete("/queue", recursive=True)
    fenced.delete("/missing")
    update(fenced, "/new/deep/node", lambda value: (value or b"") + b"!")

    store.new_session().set("/epoch", b"another", epoch)
    for write in (
        lambda: fenced.create("/other", b""),
        lambda: fenced.create("/not/there/yet", b""),
        lambda: fenced.set("/new/deep/node", b"4", None),
        lambda: fenced.delete("/new/deep/node"),
        lambda: fenced.delete("/new", recursive=True),
        lambda: update(fenced, "/new/deep/node", lambda _: b"5"),
    ):
        with pytest.raises(FencedError):
            write()
    node = fenced.get("/new/deep/node")
    assert node is not None
    assert node.value == b"2!"
    assert store.get("/not") is None
    store.set("/new/deep/node", b"6", None)


def test_a_fence_that_is_gone_lets_nothing_pass(store: MetadataStore) -> None:
    store.create("/epoch", b"")
    fenced = store.fenced("/epoch", 0)
    store.delete("/epoch")
    with pytest.raises(FencedError):
        fenced.create("/a", b"")
    assert store.get("/a") is None


PATHS = st.sampled_from(["/a", "/b", "/a/b", "/a/c", "/a/b/c"])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), PATHS, st.binary(max_size=3)),
        st.tuples(st.just("set"), PATHS, st.binary(max_size=3), st.none() | st.integers(0, 2)),
        st.tuples(st.just("delete"), PATHS, st.none() | st.integers(0, 2), st.booleans()),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_random_histories_agree_with_a_dictionary(store: MetadataStore, operations: list[tuple[object, ...]]) -> None:
    model: dict[str, tuple[bytes, int]] = {}
    for path in ("/a", "/b"):
        store.delete(path, recursive=True)
    for operation in operations:
        assert _outcome(lambda op=operation: _on_store(store, op)) == _outcome(lambda op=operation: _on_model(model, op))
    for path in ("/a", "/b", "/a/b", "/a/c", "/a/b/c"):
        node = store.get(path)
        assert (None if node is None else (node.value, node.version)) == model.get(path)


def _outcome(action: Callable[[], object]) -> object:
    try:
        return action()
    except (ConflictError, NotFoundError) as error:
        return type(error)


def _on_store(store: MetadataStore, operation: tuple[object, ...]) -> object:
    match operation:
        case ("create", str(path), bytes(value)):
            return store.create(path, value)
        case ("set", str(path), bytes(value), version):
            return store.set(path, value, version)  # type: ignore[arg-type]
        case ("delete", str(path), version, bool(recursive)):
            return store.delete(path, version, recursive=recursive)  # type: ignore[arg-type]
    raise AssertionError(operation)


def _on_model(model: dict[str, tuple[bytes, int]], operation: tuple[object, ...]) -> object:
    match operation:
        case ("create", str(path), bytes(value)):
            if path in model:
                raise ConflictError(path)
            parts = path.split("/")
            for i in range(2, len(parts)):
                model.setdefault("/".join(parts[:i]), (b"", 0))
            model[path] = (value, 0)
            return path
        case ("set", str(path), bytes(value), version):
            if path not in model:
                raise NotFoundError(path)
            if version not in (None, model[path][1]):
                raise VersionConflictError(path)
            model[path] = (value, model[path][1] + 1)
            return model[path][1]
        case ("delete", str(path), version, bool(recursive)):
            if path not in model:
                return None
            if version not in (None, model[path][1]):
                raise VersionConflictError(path)
            below = [p for p in model if p.startswith(path + "/")]
            if below and not recursive:
                raise ConflictError(path)
            for p in [*below, path]:
                del model[p]
            return None
    raise AssertionError(operation)


def test_a_closed_store_says_so(store: MetadataStore) -> None:
    store.create("/a", b"1")
    store.close()
    for use in (
        lambda: store.get("/a"),
        lambda: store.get_many(["/a"]),
        lambda: store.children("/a"),
        lambda: store.create("/b", b""),
        lambda: store.set("/a", b"2", None),
        lambda: store.delete("/a"),
    ):
        with pytest.raises(StoreUnavailableError, match="closed"):
            use()
    store.close()  # once more does nothing
