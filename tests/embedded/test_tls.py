"""TLS on every listener, with verified connections between all roles."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.waiting import PATIENCE_S, eventually

from gamay.base.errors import InvalidConfigError
from gamay.base.tls import TlsSettings, read_tls
from gamay.cluster.records.records import Role
from gamay.embedded.cluster import EmbeddedCluster
from gamay.roles.process import RoleProcess
from gamay.roles.processes import role_process
from gamay.roles.settings import load_settings, read_limits

trustme = pytest.importorskip("trustme")

SCHEMA: dict[str, Any] = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
TABLE: dict[str, Any] = {
    "tableName": "trips", "tableType": "OFFLINE", "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
    "tenants": {}, "tableIndexConfig": {}, "metadata": {},
}  # fmt: skip


class Certificates:
    """A certificate authority, and the certificates it issued, as PEM files."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.ca, self.cert, self.key, self.both = (folder / name for name in ("ca.pem", "cert.pem", "key.pem", "both.pem"))
        issued = authority.issue_cert("localhost", "127.0.0.1")
        authority.cert_pem.write_to_path(self.ca)
        self.cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(self.key)
        issued.private_key_and_cert_chain_pem.write_to_path(self.both)
        self.other_ca = folder / "other.pem"
        trustme.CA().cert_pem.write_to_path(self.other_ca)

    def client(self, url: str) -> httpx.Client:
        return httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=self.ca), timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture
def start(zookeeper_hosts: str) -> Iterator[Callable[..., RoleProcess]]:
    running: list[RoleProcess] = []

    def run(role: Role, file: Path | None = None, **given: Any) -> RoleProcess:
        given = {"zk": zookeeper_hosts, "port": 0, "drain_s": 0, **given}
        if role is Role.SERVER:
            given |= {"warm_up": False, "query_port": 0}
        process = role_process(load_settings(role, file, {k: v for k, v in given.items() if v is not None}))
        process.start()
        running.append(process)
        return process

    yield run
    for process in reversed(running):
        process.stop()


def test_a_cluster_whose_connections_are_all_encrypted(
    start: Callable[..., RoleProcess], pem: Certificates, tmp_path: Path, make_segment: Callable[..., Path]
) -> None:
    """Segments go to the server through the controller, so every pair of roles that talk have to trust each other."""
    options = {"tls_cert": pem.cert, "tls_key": pem.key, "tls_ca": pem.ca}
    controller = start(Role.CONTROLLER, data_dir=tmp_path / "deep", **options)
    broker = start(Role.BROKER, **options)
    server = start(Role.SERVER, data_dir=tmp_path / "server", **options)
    minion = start(Role.MINION, **options)
    for process in (controller, broker, server, minion):
        assert process.url.startswith("https://localhost:")
        with pem.client(process.url) as http:
            eventually(lambda http=http: http.get("/health").status_code == 200)  # type: ignore[misc]
        with httpx.Client() as plain, pytest.raises(httpx.TransportError):
            plain.get(process.url.replace("https", "http") + "/health")
        with httpx.Client() as stranger, pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            stranger.get(process.url + "/health")
    with pem.client(controller.url) as http, pem.client(broker.url) as queries:
        assert http.post("/schemas", json=SCHEMA).status_code == 200
        assert http.post("/tables", json=TABLE).status_code == 200
        archive = make_segment("trips_0", list(range(100)))
        with archive.open("rb") as file:
            answer = http.post("/v2/segments", params={"tableName": "trips"}, files={"file": (archive.name, file)})
        assert answer.status_code == 200, answer.text

        def count(client: httpx.Client = queries, path: str = "/query/sql") -> Any:
            answer = client.post(path, json={"sql": "SELECT COUNT(*) FROM trips"}).json()
            return answer["resultTable"]["rows"][0][0] if answer.get("resultTable") else answer

        eventually(lambda: count() == 100, count)
        assert count(http, "/sql") == 100  # controller to broker
        eventually(lambda: http.get("/tables/trips/size").json()["reportedSizeInBytes"] > 0)  # controller to server
        record = http.get("/segments/trips/trips_0/metadata").json()
        assert record["segment.download.url"].startswith("https://")
    # a broker that trusts others cannot ask the server
    wary = start(Role.BROKER, tls_cert=pem.cert, tls_key=pem.key, tls_ca=pem.other_ca)
    with pem.client(wary.url) as queries:
        answer = queries.post("/query/sql", json={"sql": "SELECT COUNT(*) FROM trips"}).json()
    assert answer["exceptions"]
    assert "was not asked" in answer["exceptions"][0]["message"]


def test_an_encrypted_listener_beside_a_plain_one_by_the_older_keys(
    start: Callable[..., RoleProcess], pem: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "controller.conf"
    file.write_text(
        f"controller.data.dir={tmp_path}/deep\ncontroller.access.protocols=https,http\n"
        "controller.access.protocols.https.port=0\ncontroller.access.protocols.http.port=0\n"
        f"controller.tls.keystore.type=PEM\ncontroller.tls.keystore.path={pem.both}\n"
        f"controller.tls.ca.path={pem.ca}\ncontroller.tls.protocols=TLSv1.3\n"
    )
    controller = start(Role.CONTROLLER, file, port=None)
    with pem.client(controller.url) as http:
        eventually(lambda: http.get("/health").status_code == 200)
    assert controller._plain is not None
    assert httpx.get(f"http://localhost:{controller._plain.port}/health").status_code == 200
    old = ssl.create_default_context(cafile=pem.ca)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with httpx.Client(verify=old) as http, pytest.raises(httpx.ConnectError):
        http.get(controller.url + "/health")


def test_clients_must_show_a_certificate_where_that_is_wanted(
    start: Callable[..., RoleProcess], pem: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "minion.conf"
    file.write_text(
        "pinot.minion.adminapi.access.protocols=https\npinot.minion.adminapi.access.protocols.https.port=0\n"
        f"pinot.minion.tls.certificate.path={pem.cert}\npinot.minion.tls.key.path={pem.key}\n"
        f"pinot.minion.tls.ca.path={pem.ca}\npinot.minion.tls.client.auth.enabled=true\n"
    )
    minion = start(Role.MINION, file, port=None)
    own = ssl.create_default_context(cafile=pem.ca)
    with httpx.Client(verify=own) as http, pytest.raises(httpx.TransportError):
        http.get(minion.url + "/health")
    own.load_cert_chain(pem.cert, pem.key)
    with httpx.Client(verify=own) as http:
        assert http.get(minion.url + "/health").status_code == 200


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (
            {"keystore.path": "/x.jks"},
            r"Java's key stores cannot be read; give PEM files by t\.certificate\.path and key\.path",
        ),
        ({"truststore.path": "/x.jks", "truststore.type": "JKS"}, r"give PEM files by t\.ca\.path"),
        ({"certificat.path": "/x"}, "means nothing. Did you mean 'certificate.path'"),
        ({"insecure": "maybe"}, r"'t\.insecure' must be true or false"),
        ({"protocols": "TLSv1.1"}, r"it may have TLSv1\.2, TLSv1\.3"),
    ],
)
def test_keys_that_cannot_be(keys: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem):
        read_tls("t", {f"t.{key}": value for key, value in keys.items()})


def test_files_that_cannot_be_used_are_named(pem: Certificates, tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("hush")
    for settings, problem in (
        (TlsSettings(), "TLS needs a certificate"),
        (TlsSettings(rubbish), "rubbish.pem"),
        (TlsSettings(tmp_path / "missing.pem"), "missing.pem: No such file"),
        (TlsSettings(pem.both, client_auth=True), "needs ca.path"),
        (TlsSettings(pem.cert, pem.key, authorities=rubbish, client_auth=True), "rubbish.pem"),
    ):
        with pytest.raises(InvalidConfigError, match=problem) as caught:
            settings.server_context()
        assert "hush" not in str(caught.value)
    with pytest.raises(InvalidConfigError, match="https needs a certificate"):
        role_process(load_settings(Role.MINION, None, {"zk": "x", "port": 0, "https": True}))
    assert "secret" not in repr(TlsSettings(pem.cert, key_password="secret"))


def test_all_roles_in_one_process_are_encrypted(pem: Certificates, tmp_path: Path) -> None:
    tls = TlsSettings(pem.cert, pem.key, authorities=pem.ca)
    with EmbeddedCluster(tmp_path, 0, 0, 0, 0, warm_up=False, tls=tls) as cluster:
        urls = (cluster.controller_url, cluster.broker_url, cluster.server_url, cluster.minion_url)
        for url in urls:
            assert url.startswith("https://localhost:")
            with pem.client(url) as client:
                eventually(lambda client=client: client.get("/health").status_code == 200)  # type: ignore[misc]
            with pytest.raises(httpx.HTTPError):
                httpx.get(url.replace("https", "http") + "/health", timeout=10)
        with pem.client(cluster.controller_url) as controller, pem.client(cluster.broker_url) as broker:
            assert controller.post("/schemas", json=SCHEMA).status_code == 200
            assert controller.post("/tables", json=TABLE).status_code == 200
            assert all(found.https for found in cluster.core.registry.instances())
            answer = broker.post("/query/sql", json={"sql": "SELECT COUNT(*) FROM trips"}).json()
            assert answer["resultTable"]["rows"] == [[0]], answer
            through = controller.post("/sql", json={"sql": "SELECT COUNT(*) FROM trips"}).json()
            assert through["resultTable"]["rows"] == [[0]], through
    with EmbeddedCluster(tmp_path, 0, 0, 0, 0, warm_up=False) as cluster:
        assert cluster.broker_url.startswith("http://")
        assert not any(found.https for found in cluster.core.registry.instances())


def test_limits_of_requests_hold_for_small_queries_too(tmp_path: Path) -> None:
    file = tmp_path / "all.properties"
    file.write_text("gamay.http.requests.per.second=2\ngamay.http.body.bytes.max=1000\n")
    with EmbeddedCluster(tmp_path / "data", 0, 0, 0, 0, warm_up=False, limits=read_limits(file)) as cluster:
        with httpx.Client(base_url=cluster.broker_url, timeout=PATIENCE_S) as client:
            codes = [client.post("/query/sql", json={"sql": "SELECT 1"}).status_code for _ in range(40)]
        assert codes[0] == 200
        assert 429 in codes
        long = httpx.post(f"{cluster.controller_url}/schemas", content=b" " * 2000, timeout=PATIENCE_S)
        assert long.status_code == 413
    file.write_text("gamay.http.requests.per.second=none\n")
    with pytest.raises(InvalidConfigError, match="cannot be 'none'"):
        read_limits(file)
