"""Failures that only a remote store has: lost connections, expired sessions, an unavailable server."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.waiting import eventually

from gamay.base.errors import InvalidConfigError
from gamay.base.zookeeper_login import ZooKeeperLogin
from gamay.cluster.store.store import MetadataStore, StoreUnavailableError, update
from gamay.cluster.store.store_metrics import measure_store
from gamay.cluster.store.zookeeper_store import ZooKeeperAddress, ZooKeeperStore


def _open(hosts: str, patience_s: float = 15) -> ZooKeeperStore:
    return ZooKeeperStore.open(ZooKeeperAddress(hosts, session_timeout_s=2, patience_s=patience_s))


@pytest.fixture
def store(zookeeper_hosts: str) -> Iterator[ZooKeeperStore]:
    opened = _open(zookeeper_hosts)
    yield opened
    opened.close()


def _expire(store: ZooKeeperStore) -> None:
    """End the session on the server, as it does itself when a process is silent for too long."""
    from kazoo.client import KazooClient

    own = store._session.client
    thief = KazooClient(",".join(f"{host}:{port}" for host, port in own.hosts), client_id=own.client_id)
    thief.start()
    thief.stop()
    thief.close()


def test_a_session_that_ended_is_followed_by_another(store: ZooKeeperStore, zookeeper_hosts: str) -> None:
    other = _open(zookeeper_hosts)
    told: list[str] = []
    owners: list[int] = []

    def announce() -> None:
        owners.append(store.session_id)
        store.create("/live/me", b"", ephemeral=True)

    store.create("/tables/t", b"0")
    store.watch("/tables", told.append)
    store.on_new_session(announce)
    announce()
    before = store.session_id
    _expire(store)
    eventually(lambda: len(owners) == 2)
    assert store.session_id == owners[1] != before
    assert [one.value for one in measure_store("broker", store)] == [store.num_reconnects] == [1]
    eventually(lambda: "/tables" in told)  # anything may have changed meanwhile
    node = other.get("/live/me")
    assert node is not None
    assert node.ephemeral_owner == owners[1]
    told.clear()
    other.set("/tables/t", b"1", None)
    eventually(lambda: "/tables/t" in told)
    assert len(owners) == 2
    assert other.num_reconnects == 0
    other.close()


def test_changes_while_the_server_is_away_are_told_when_it_is_back(own_zookeeper: Any) -> None:
    store, other = _open(own_zookeeper.hosts), _open(own_zookeeper.hosts)
    told: list[str] = []
    store.create("/a/b", b"0")
    store.watch("/a", told.append)
    own_zookeeper.stop()
    eventually(lambda: not store.connected)
    answers: list[object] = []
    writer = threading.Thread(target=lambda: answers.append(update(other, "/a/b", lambda value: (value or b"") + b"1")))
    reader = threading.Thread(target=lambda: answers.append(store.get("/a/b")))
    writer.start()
    reader.start()
    own_zookeeper.start()
    writer.join()
    reader.join()
    assert len(answers) == 2
    eventually(lambda: "/a" in told)
    node = store.get("/a/b")
    assert node is not None
    assert node.value in (b"01", b"011")  # at least once: a change may have been made before its answer was lost
    store.close()
    other.close()


def test_calls_end_when_the_server_stays_away(own_zookeeper: Any) -> None:
    store = _open(own_zookeeper.hosts)
    store.create("/a", b"")
    store._session.address = replace(store._session.address, patience_s=1)
    os.kill(own_zookeeper.pid, signal.SIGSTOP)
    for call in (lambda: store.get("/a"), lambda: store.set("/a", b"1", None), lambda: store.create("/b", b"")):
        with pytest.raises(StoreUnavailableError, match="ZooKeeper at"):
            call()
    own_zookeeper.stop()
    store.close()
    with pytest.raises(StoreUnavailableError):
        store.get("/a")


def test_nobody_there() -> None:
    with pytest.raises(StoreUnavailableError, match=r"'127.0.0.1:1' gives no answer for 0.3 s"):
        _open("127.0.0.1:1/path", patience_s=0.3)


@pytest.mark.parametrize("hosts", ["", "/only/a/path", "host:port", "host:2181/", "host:2181//a"])
def test_addresses_that_are_none(hosts: str) -> None:
    with pytest.raises(InvalidConfigError, match="is not an address of ZooKeeper"):
        _open(hosts, patience_s=0.3)


def test_a_storm_of_changes_ends_with_the_last(store: ZooKeeperStore, zookeeper_hosts: str) -> None:
    """A slow watcher is notified late, but of the last change of each node; several changes may be one notification."""
    other: MetadataStore = _open(zookeeper_hosts)
    last = {f"/storm/{i}": str(i).encode() for i in range(300)}
    seen: dict[str, bytes] = {}

    def slow(path: str) -> None:
        node = store.get(path)
        if node is not None:
            seen[path] = node.value

    told: list[str] = []
    store.watch("/storm", slow)
    store.watch("/storm", told.append)
    for path in last:
        other.create(path, b"")
    for path, value in last.items():
        other.set(path, value, None)
    eventually(lambda: seen.items() >= last.items() and set(told) >= last.keys())
    other.close()


def test_two_clusters_at_one_place_do_not_meet(zookeeper_hosts: str) -> None:
    one = ZooKeeperStore.open(ZooKeeperAddress(zookeeper_hosts, "One"))
    two = ZooKeeperStore.open(ZooKeeperAddress(zookeeper_hosts, "Two"))
    one.create("/PinotCluster/IDEALSTATES/t", b"1")
    assert two.get("/PinotCluster/IDEALSTATES/t") is None
    plain = ZooKeeperStore.open(ZooKeeperAddress(zookeeper_hosts))
    node = plain.get("/One/IDEALSTATES/t")
    assert node is not None
    assert node.value == b"1"
    for store in (one, two, plain):
        store.close()


def test_records_of_a_user_are_refused_to_others(zookeeper_hosts: str) -> None:
    address = ZooKeeperAddress(
        zookeeper_hosts, session_timeout_s=2, patience_s=15, login=ZooKeeperLogin(digest="gamay:s3cret")
    )
    assert "s3cret" not in repr(address)
    owner = ZooKeeperStore.open(address)
    try:
        owner.create("/tables/t", b"1")
        owner.create("/tables/live", b"", ephemeral=True)
        for digest in ("", "gamay:guessed"):
            other = ZooKeeperStore.open(replace(address, login=ZooKeeperLogin(digest=digest)))
            try:
                with pytest.raises(InvalidConfigError, match="another user"):
                    other.get("/tables/t")
                with pytest.raises(InvalidConfigError, match="another user"):
                    other.set("/tables/t", b"2", None)
                with pytest.raises(InvalidConfigError, match="another user"):
                    other.create("/tables/mine", b"")
            finally:
                other.close()
        node = owner.get("/tables/t")
        assert node is not None
        assert node.value == b"1"
        again = ZooKeeperStore.open(address)
        again.set("/tables/t", b"3", None)
        again.close()
    finally:
        owner.close()
    with pytest.raises(InvalidConfigError, match="USER:PASSWORD") as raised:
        ZooKeeperStore.open(replace(address, login=ZooKeeperLogin(digest=":s3cret")))
    assert "s3cret" not in str(raised.value)
