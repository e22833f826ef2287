"""Files and web servers in a table's stream config are not opened unless the operator allows it."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.waiting import PATIENCE_S

from gamay.embedded import EmbeddedCluster
from gamay.storage.settings import StorageSettings

SCHEMA = {"schemaName": "own", "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}]}
SECRET = "pw-of-admin"
VALIDATE = ("/tables/validate", "/tableConfigs/validate")  # no stream is asked for these
ROUTES = (
    *VALIDATE, "/tables", "/tables?validationTypesToSkip=ALL", "/tables/validate?validationTypesToSkip=ALL", "/tableConfigs",
    "/upsert/estimateHeapUsage?cardinality=1",
)  # fmt: skip


def table(keys: Mapping[str, str]) -> dict[str, Any]:
    base = {"streamType": "log", "stream.log.topic.name": "t", "stream.log.decoder.class.name": "json"}
    return {
        "tableName": "own", "tableType": "REALTIME", "segmentsConfig": {"replication": "1"}, "tenants": {}, "metadata": {},
        "tableIndexConfig": {"streamConfigs": keys if "streamType" in keys else {**base, **keys}},
    }  # fmt: skip


def kafka(keys: Mapping[str, str]) -> dict[str, str]:
    return {
        "streamType": "kafka", "stream.kafka.topic.name": "t", "stream.kafka.broker.list": "127.0.0.1:1",
        "stream.kafka.decoder.class.name": "json", **keys,
    }  # fmt: skip


def named(path: str) -> dict[str, dict[str, str]]:
    """All that names a local file or folder."""
    prop = "stream.log.decoder.prop."
    protobuf = {"stream.log.decoder.class.name": "protobuf", f"{prop}protoClassName": "a.B"}
    return {
        "topics": {"stream.log.folder": path},
        "avro": {"stream.log.decoder.class.name": "avro", f"{prop}schema": path},
        "protobuf": {**protobuf, f"{prop}descriptorFile": path},
        "protobuf URI": {**protobuf, f"{prop}descriptorFile": f"file://{path}"},
        "authority of Kafka": kafka({"ssl.ca.location": path}),
        "key of Kafka": kafka({"stream.kafka.consumer.prop.ssl.key.location": path}),
        "trust store": kafka({"ssl.truststore.location": f"{path}.pem"}),
        "keytab": kafka({"sasl.kerberos.keytab": path}),
        "assertion": kafka({"sasl.oauthbearer.assertion.file": path}),
    }  # fmt: skip


def asked(url: str) -> dict[str, dict[str, str]]:
    """Return the settings that name a URL of a web server, by description."""
    prop = "stream.log.decoder.prop."
    return {
        f"{kind}-registry": {"stream.log.decoder.class.name": f"{kind}-registry", f"{prop}schema.registry.rest.url": url}
        for kind in ("avro", "json", "protobuf")
    } | {"tokens of Kafka": kafka({"sasl.oauthbearer.token.endpoint.url": url})}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("named")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[EmbeddedCluster]:
    (folder / "allowed").mkdir()
    (folder / "auth.properties").write_text(SECRET)
    for name in ("link", "link.pem"):
        (folder / "allowed" / name).symlink_to(folder / "auth.properties")
    allowed = StorageSettings(allowed_uris=(f"file://{folder}/allowed/", "https", "http://registry.test:8081/"))
    with EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False, storage=allowed) as found:
        httpx.post(f"{found.controller_url}/schemas", json=SCHEMA).raise_for_status()
        yield found


def answers(cluster: EmbeddedCluster, keys: Mapping[str, str], routes: Iterable[str] = ROUTES) -> Iterator[httpx.Response]:
    document, url = table(keys), cluster.controller_url
    for route in routes:
        body = document
        if route.startswith("/tableConfigs"):
            body = {"tableName": "own", "schema": SCHEMA, "realtime": document}
        elif route.startswith("/upsert"):
            body = {"schema": SCHEMA, "tableConfig": document}
        yield httpx.post(f"{url}{route}", json=body, timeout=PATIENCE_S)


@pytest.mark.parametrize("what", named(""))
def test_files_are_not_read_unless_they_are_allowed(cluster: EmbeddedCluster, folder: Path, what: str) -> None:
    inside = f"{folder}/allowed/../auth.properties"
    for path in (f"{folder}/auth.properties", inside, f"{folder}/allowed/link", "/proc/self/environ", "auth.properties"):
        for answer in answers(cluster, named(path)[what]):
            assert answer.status_code == 400, (path, answer.url, answer.text)
            assert "gamay.ingest.allowed_uris" in answer.text, (path, answer.url)
            assert SECRET not in answer.text
    for answer in answers(cluster, named(f"{folder}/allowed/none")[what], VALIDATE):
        assert "gamay.ingest.allowed_uris" not in answer.text, answer.url  # there is no such file, or no such stream


@pytest.mark.parametrize("what", asked(""))
def test_web_servers_are_not_asked_unless_their_host_is_allowed(cluster: EmbeddedCluster, what: str) -> None:
    refused = ("http://169.254.169.254/latest", "http://registry.test:9000/", "https://example.com/", "gopher://a/")
    lists = ("http://registry.test:8081, http://127.0.0.1:8081", "http://registry.test:8081@127.0.0.1/")
    for url in (*refused, *lists):
        for answer in answers(cluster, asked(url)[what]):
            assert answer.status_code == 400, (url, answer.url, answer.text)
            assert "Unsupported URI" in answer.text, (url, answer.url)
    for answer in answers(cluster, asked("http://registry.test:8081")[what], VALIDATE):
        assert "gamay.ingest.allowed_uris" not in answer.text, answer.url
