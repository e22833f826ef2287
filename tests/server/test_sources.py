"""The sources of a server's segments, and their order."""

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import CorruptSegmentError, InvalidConfigError, NotFoundError
from gamay.cluster.records.records import Assignment, Instance, SegmentRecord
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.server.loading.sources import ClusterMembers, SegmentSources
from gamay.storage.fetchers import Fetchers
from gamay.storage.local_store import LocalStore
from gamay.storage.retries import Retries
from gamay.storage.settings import StorageSettings, storage_settings

TABLE, SEGMENT = "t_OFFLINE", "a b"
PATH = "segments/t_OFFLINE/a%20b"


class Web(Fetchers):
    """Web servers: the response of each URL, bytes or an error."""

    def __init__(self, pages: Mapping[str, bytes | Exception]) -> None:
        super().__init__()
        self.pages = pages
        self.asked: list[str] = []

    def fetch_member(self, uri: str, destination: Path, headers: Mapping[str, str]) -> None:
        self.asked.append(uri)
        found = self.pages.get(uri, NotFoundError(f"there is no file at {uri}"))
        if isinstance(found, Exception):
            raise found
        destination.write_bytes(found)


class Others:
    def controllers(self) -> list[str]:
        return ["http://c1:9000", "http://c2:9000"]

    def peers(self, table: str, segment: str) -> list[str]:
        return ["http://s1:8098", "http://s2:8098"]


def accept(archive: Path) -> bytes:
    data = archive.read_bytes()
    if data == b"damaged":
        raise CorruptSegmentError("damaged")
    return data


def record(url: str) -> SegmentRecord:
    return SegmentRecord(SEGMENT, crc=1, download_url=url)


def test_the_deep_store_comes_first_then_controllers_then_peers(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "deep")
    store.prepare()
    url = store.put_file(_file(tmp_path, b"deep"), TABLE, "a b__1.tar.gz")
    web = Web({f"http://c2:9000/{PATH}": b"controller", f"http://s2:8098/{PATH}": b"peer"})
    sources = SegmentSources(store, web, Others())
    assert sources.fetch(TABLE, record(url), tmp_path, accept, peers=True) == b"deep"
    assert web.asked == []
    store.discard(url, None)
    assert sources.fetch(TABLE, record(url), tmp_path, accept, peers=True) == b"controller"
    web.pages = {f"http://s2:8098/{PATH}": b"peer", f"http://c1:9000/{PATH}": OSError("away")}
    web.asked.clear()
    assert sources.fetch(TABLE, record(url), tmp_path, accept, peers=True) == b"peer"
    assert web.asked == [f"http://{host}/{PATH}" for host in ("c1:9000", "c2:9000", "s1:8098", "s2:8098")]
    assert sources.peer_failures == {TABLE: 1}


def test_a_damaged_copy_is_passed_over(tmp_path: Path) -> None:
    web = Web({f"http://c1:9000/{PATH}": b"damaged", f"http://c2:9000/{PATH}": b"sound"})
    assert SegmentSources(None, web, Others()).fetch(TABLE, record("deepstore:t/x"), tmp_path, accept) == b"sound"
    web.pages = dict.fromkeys(web.pages, b"damaged")
    with pytest.raises(CorruptSegmentError, match="http://c1:9000: damaged; http://c2:9000: damaged"):
        SegmentSources(None, web, Others()).fetch(TABLE, record("deepstore:t/x"), tmp_path, accept)


def test_without_a_deep_copy_only_peers_are_asked(tmp_path: Path) -> None:
    web = Web({f"http://s1:8098/{PATH}": b"peer"})
    sources = SegmentSources(None, web, Others())
    assert sources.fetch(TABLE, record(""), tmp_path, accept, peers=True) == b"peer"
    with pytest.raises(NotFoundError, match="no controller and no other server is alive"):
        sources.fetch(TABLE, record(""), tmp_path, accept)


def test_a_full_disk_ends_the_search(tmp_path: Path) -> None:
    web = Web({f"http://c1:9000/{PATH}": OSError(errno.ENOSPC, "No space left on device")})
    with pytest.raises(OSError, match="No space left"):
        SegmentSources(None, web, Others()).fetch(TABLE, record("deepstore:t/x"), tmp_path, accept)
    assert len(web.asked) == 1


def test_members_of_a_cluster(tmp_path: Path) -> None:
    store = EmbeddedStore.open(tmp_path / "metadata.db", SYSTEM_CLOCK)
    registry = Registry(store)
    members = ClusterMembers(registry, "Server_me_1", lambda names: names.reverse())
    assert (members.controllers(), members.peers(TABLE, "x")) == ([], [])
    for host in ("c1", "c2"):
        registry.put_instance(Instance(f"Controller_{host}_9000", host, 9000))
    for name in ("me", "s1", "s2", "dead"):
        registry.put_instance(Instance(f"Server_{name}_1", name, 1, admin_port=8098, https=name == "s1"))
    for name in ("Controller_c1_9000", "Controller_c2_9000", "Server_me_1", "Server_s1_1", "Server_s2_1"):
        announce(store, name)
    states = {f"Server_{name}_1": "ONLINE" for name in ("me", "s1", "s2", "dead")} | {"Server_s3_1": "ERROR"}
    registry.put_external_view(Assignment.new_table(TABLE, 1).with_segments({"x": states}))
    assert members.peers(TABLE, "x") == ["http://s2:8098", "https://s1:8098"]
    assert members.peers(TABLE, "y") == []
    assert {tuple(members.controllers()), tuple(members.controllers())} == {
        ("http://c1:9000", "http://c2:9000"), ("http://c2:9000", "http://c1:9000"),
    }  # fmt: skip


# fetchers


class Flaky:
    """A fetcher of a user's own."""

    made: ClassVar[list[Mapping[str, str]]] = []
    failures: ClassVar[list[Exception]] = []

    def __init__(self, told: Mapping[str, str]) -> None:
        self.made.append(told)

    def fetch(self, uri: str, destination: Path) -> None:
        destination.write_bytes(b"half")
        if self.failures:
            raise self.failures.pop(0)
        destination.write_bytes(uri.encode())


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], StorageSettings]:
    Flaky.made.clear()
    Flaky.failures.clear()

    def settings(more: str = "") -> StorageSettings:
        import sys

        monkeypatch.setitem(sys.modules, "users_package", type(sys)("users_package"))
        sys.modules["users_package"].Flaky = Flaky  # type: ignore[attr-defined]
        prefix = "pinot.server.segment.fetcher."
        keys = {f"{prefix}box.class": "users_package:Flaky", f"{prefix}box.region": "north"}
        keys |= dict(line.split("=") for line in more.split())
        found, used = storage_settings("server", keys)
        assert used == set(keys)
        return found

    return settings


def test_a_fetcher_of_a_users_own_is_told_its_keys_and_tried_again(flaky: Any, tmp_path: Path) -> None:
    settings = flaky()
    waits: list[float] = []
    settings = StorageSettings(
        fetchers=settings.fetchers, retries={"box": Retries(4, 1.0, 2.0, waits.append, lambda low, high: high)}
    )
    fetchers = Fetchers(settings)
    assert Flaky.made == [{"region": "north"}]
    Flaky.failures[:] = [OSError("away"), RuntimeError("what a library raises")]
    fetchers.fetch("box://a/b", tmp_path / "x")
    assert ((tmp_path / "x").read_bytes(), waits) == (b"box://a/b", [2.0, 4.0])
    Flaky.failures[:] = [FileNotFoundError()]
    with pytest.raises(NotFoundError, match="box://a/c"):
        fetchers.fetch("box://a/c", tmp_path / "y")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]
    Flaky.failures[:] = [OSError(errno.ENOSPC, "full")]
    with pytest.raises(OSError, match="full"):
        fetchers.fetch("box://a/c", tmp_path / "y")
    assert len(waits) == 2


def test_only_named_protocols_are_fetched_for_users(flaky: Any, tmp_path: Path) -> None:
    fetchers = Fetchers(flaky("pinot.server.segment.fetcher.protocols=http,box"))
    fetchers.fetch_recorded("box://a/b", tmp_path / "x")
    with pytest.raises(InvalidConfigError, match=r"only box, http are in segment.fetcher.protocols"):
        fetchers.fetch_recorded("file:///etc/passwd", tmp_path / "y")


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "source"
    path.write_bytes(data)
    return path
