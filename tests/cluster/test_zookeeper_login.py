"""A real ZooKeeper with TLS and SASL, for the stores of roles and for the Python client."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cluster.ports import free_port
from benchmarks.cluster.zookeeper import ZooKeeperProcess

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.base.tls import TlsSettings
from gamay.base.zookeeper_login import SaslSettings, ZooKeeperLogin, login_keys, read_login
from gamay.client.connection import Connection
from gamay.client.errors import InterfaceError, OperationalError
from gamay.cluster.store.zookeeper_store import ZooKeeperAddress, ZooKeeperStore

trustme = pytest.importorskip("trustme")

VIEW = b'{"id": "brokerResource", "mapFields": {"trips_OFFLINE": {"Broker_localhost_8099": "ONLINE"}}}'
NODE = "/PinotCluster/EXTERNALVIEW/brokerResource"


@dataclass
class Guarded:
    """A server that knows a user of SASL, with a plain port and an encrypted one."""

    plain: str
    encrypted: str
    ca: Path
    other_ca: Path


@pytest.fixture(scope="module")
def guarded(shared_zookeeper: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    folder = tmp_path_factory.mktemp("guarded")
    authority, ca, other = trustme.CA(), folder / "ca.pem", folder / "other.pem"
    authority.cert_pem.write_to_path(ca)
    trustme.CA().cert_pem.write_to_path(other)
    issued = authority.issue_cert("localhost", "127.0.0.1")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)  # Java reads PKCS 8 alone
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "own.pem").write_bytes(own + b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    (folder / "jaas").write_text(
        'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_gamay="s3cret"; };\n'
    )
    port = free_port()
    server = ZooKeeperProcess(
        folder,
        settings=f"secureClientPort={port}\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        f"ssl.keyStore.location={folder / 'own.pem'}\nssl.keyStore.type=PEM\nssl.clientAuth=none\n"
        f"ssl.trustStore.location={ca}\nssl.trustStore.type=PEM\n"
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n",
        java=(f"-Djava.security.auth.login.config={folder / 'jaas'}",),
    )
    server.start()
    yield Guarded(server.hosts, f"localhost:{port}", ca, other)
    server.stop()


def _store(hosts: str, login: ZooKeeperLogin, **more: float) -> ZooKeeperStore:
    return ZooKeeperStore.open(ZooKeeperAddress(hosts, login=login, **{"patience_s": 15, **more}))  # type: ignore[arg-type]


def _brokers(connection: Connection) -> tuple[str, ...]:
    with connection:
        return connection._selector._directory.list_brokers().all


def test_connections_to_zookeeper_are_encrypted_and_checked(guarded: Guarded) -> None:
    login = ZooKeeperLogin(tls=TlsSettings(authorities=guarded.ca))
    store = _store(f"{guarded.encrypted}/tls", login)
    store.create(NODE, VIEW)
    store.close()
    path = f"{guarded.encrypted}/tls/PinotCluster"
    assert _brokers(Connection.from_zookeeper(path, login=login)) == ("http://localhost:8099",)
    properties = {"zookeeperUrl": path, "zookeeper.tls.ca.path": str(guarded.ca)}
    assert _brokers(Connection.from_properties(properties)) == ("http://localhost:8099",)
    strange = ZooKeeperLogin(tls=TlsSettings(authorities=guarded.other_ca))
    with pytest.raises(GamayError, match="no answer"):
        _store(f"{guarded.encrypted}/tls", strange, patience_s=2)


def test_a_user_of_the_scheme_digest_reads_what_is_for_it_alone(guarded: Guarded) -> None:
    login = ZooKeeperLogin(digest="gamay:other")
    store = _store(f"{guarded.plain}/digest", login)
    store.create(NODE, VIEW)
    store.close()
    path = f"{guarded.plain}/digest/PinotCluster"
    assert _brokers(Connection.from_zookeeper(path, login=login)) == ("http://localhost:8099",)
    assert _brokers(Connection.from_properties({"zookeeperUrl": path, "zookeeper.auth.digest": "gamay:other"}))
    with Connection.from_zookeeper(path) as connection, pytest.raises(OperationalError, match="NoAuthError"):
        connection.execute("SELECT COUNT(*) FROM trips")
    with pytest.raises(InterfaceError, match="USER:PASSWORD") as raised:
        Connection.from_zookeeper(path, login=ZooKeeperLogin(digest="s3cret"))
    assert "s3cret" not in str(raised.value)


def test_sasl_users_read_what_is_for_them_alone(guarded: Guarded) -> None:
    pytest.importorskip("puresasl")
    sasl = SaslSettings("DIGEST-MD5", "gamay", "s3cret")
    login = ZooKeeperLogin(tls=TlsSettings(authorities=guarded.ca), sasl=sasl)
    assert "s3cret" not in repr(login)
    store = _store(f"{guarded.encrypted}/sasl", login)
    store.create(NODE, VIEW)
    store.close()
    assert _brokers(Connection.from_zookeeper(f"{guarded.encrypted}/sasl/PinotCluster", login=login))
    stranger = _store(f"{guarded.plain}/sasl", ZooKeeperLogin())
    with pytest.raises(InvalidConfigError, match="another user"):
        stranger.get(NODE)
    stranger.close()
    guessed = replace(login, sasl=replace(sasl, password="guessed"))
    with pytest.raises(GamayError, match="refuses") as raised:
        _store(f"{guarded.encrypted}/sasl", guessed, patience_s=5)
    assert "guessed" not in str(raised.value)
    path = f"{guarded.encrypted}/sasl/PinotCluster"
    with (
        Connection.from_zookeeper(path, login=guessed) as connection,
        pytest.raises(OperationalError, match=r"AuthFailed|Closed|NoAuth"),
    ):
        connection.execute("SELECT COUNT(*) FROM trips")


def test_what_files_say_of_the_login() -> None:
    said = {"zookeeper.sasl.mechanism": "DIGEST-MD5", "zookeeper.sasl.username": "u", "zookeeper.sasl.password": "p"}
    assert login_keys({**said, "zookeeper.session.timeout": "1", "zookeeper.tls.insecure": "true"}) == {
        *said,
        "zookeeper.tls.insecure",
    }
    assert read_login(said).sasl == SaslSettings("DIGEST-MD5", "u", "p")
    assert read_login({}) == ZooKeeperLogin()
    for wrong, sentence in (
        ({"zookeeper.sasl.username": "u"}, "mechanism' is missing"),
        ({"zookeeper.sasl.mechanisms": "GSSAPI"}, "Did you mean 'mechanism'"),
    ):
        with pytest.raises(InvalidConfigError, match=sentence):
            read_login(wrong)


@pytest.mark.parametrize(
    ("sasl", "sentence"),
    [
        (SaslSettings("PLAIN", "u", "p"), "may be DIGEST-MD5 or GSSAPI"),
        (SaslSettings("DIGEST-MD5", "u"), "a user name and a password"),
    ],
)
def test_logins_that_cannot_be(monkeypatch: pytest.MonkeyPatch, sasl: SaslSettings, sentence: str) -> None:
    monkeypatch.setattr("gamay.base.zookeeper_login.find_spec", lambda name: object())
    with pytest.raises(InvalidConfigError, match=sentence):
        ZooKeeperLogin(sasl=sasl).kazoo_options()


def test_packages_that_sasl_needs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gamay.base.zookeeper_login.find_spec", lambda name: None)
    with pytest.raises(InterfaceError, match="pip install pure-sasl"):
        Connection.from_zookeeper("zk:2181/x", login=ZooKeeperLogin(sasl=SaslSettings("DIGEST-MD5", "u", "p")))
    with pytest.raises(InvalidConfigError, match="pip install pure-sasl"):
        ZooKeeperLogin(sasl=SaslSettings("GSSAPI")).kazoo_options()
