"""Brokers in a table's stream config: a principal without rights on all tables can only name allowed ones."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from tests.waiting import PATIENCE_S

from gamay.base.errors import InvalidConfigError
from gamay.controller.api.rights import CONTROLLER_RIGHTS
from gamay.embedded import EmbeddedCluster
from gamay.ingest.stream import plugins
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.kafka_settings import broker_addresses, client_settings
from gamay.ingest.stream.log.topic import TopicConfig, create_topic
from gamay.roles.settings import read_access
from gamay.storage.fetchers import Fetchers
from gamay.storage.settings import StorageSettings

ACCESS = """
controller.admin.access.control.factory.class=BasicAuthAccessControlFactory
controller.admin.access.control.principals=root,clerk
controller.admin.access.control.principals.root.password=pw
controller.admin.access.control.principals.clerk.password=pw
controller.admin.access.control.principals.clerk.tables=own
"""
SCHEMA = {
    "schemaName": "own", "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}  # fmt: skip
ALLOWED = "allowed.test:9092"
REFUSED = "gamay.ingest.allowed_uris"
VALIDATE = ("POST /tables/validate", "POST /tableConfigs/validate", "POST /tableConfigs/tune")  # nothing is connected to
ROUTES = (
    *VALIDATE, "POST /tables", "PUT /tables/own", "POST /tableConfigs", "PUT /tableConfigs/own", "POST /inspectTopic",
    "POST /upsert/estimateHeapUsage",
)  # fmt: skip
ACTIONS = (
    "CreateTable", "UpdateTableConfig", "UpdateTableConfigs", "ValidateTableConfigs", "InspectTopic", "EstimateUpsertMemory"
)  # fmt: skip


def kafka(brokers: str, **keys: str) -> dict[str, str]:
    return {
        "streamType": "kafka", "stream.kafka.topic.name": "t", "stream.kafka.decoder.class.name": "json",
        "stream.kafka.broker.list": brokers, **keys,
    }  # fmt: skip


LOG = {"streamType": "log", "stream.log.topic.name": "t", "stream.log.decoder.class.name": "json"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder: Path = tmp_path_factory.mktemp("brokers")
    (folder / "access").write_text(ACCESS)
    access, storage = read_access(folder / "access"), StorageSettings(allowed_uris=("pulsar://allowed.test/",))
    with EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False, access=access, storage=storage) as found:
        httpx.post(f"{found.controller_url}/schemas", json=SCHEMA, auth=("root", "pw")).raise_for_status()
        create_topic(folder / "data" / "streams", "t", TopicConfig(partitions=1))
        httpx.post(f"{found.controller_url}/tables", json=document(LOG), auth=("root", "pw")).raise_for_status()
        yield found


@pytest.fixture
def connected() -> Iterator[tuple[int, socket.socket]]:
    """Yield a port, and the socket that shows whether a client connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server.getsockname()[1], server


def document(keys: Mapping[str, str]) -> dict[str, Any]:
    return {
        "tableName": "own", "tableType": "REALTIME", "segmentsConfig": {"replication": "1", "timeColumnName": "ts"},
        "tenants": {}, "metadata": {}, "tableIndexConfig": {"streamConfigs": dict(keys)},
    }  # fmt: skip


def ask(cluster: EmbeddedCluster, route: str, keys: Mapping[str, str], who: str, **params: str) -> httpx.Response:
    method, path = route.split()
    body: dict[str, Any] = document(keys)
    if path.startswith("/tableConfigs"):
        body = {"tableName": "own", "schema": SCHEMA, "realtime": body}
    elif path.startswith("/upsert"):
        body, params = {"schema": SCHEMA, "tableConfig": body}, {"cardinality": "1", **params}
    elif path == "/inspectTopic":
        body, params = dict(keys), {"tableName": "own"}
    url = f"{cluster.controller_url}{path}"
    return httpx.request(method, url, json=body, params=params, auth=(who, "pw"), timeout=PATIENCE_S)


def test_these_are_all_routes_that_take_the_config_of_a_table() -> None:
    taken = {(method, path) for (method, path), right in CONTROLLER_RIGHTS.items() if right.action in ACTIONS}
    asked = {tuple(route.replace("/own", "/{}").split()) for route in ROUTES}
    assert {(m, p.replace("{table}", "{}").replace("{name}", "{}")) for m, p in taken if m in ("POST", "PUT")} == asked


@pytest.mark.parametrize("route", ROUTES)
def test_an_owner_of_tables_has_nothing_connected_to(
    cluster: EmbeddedCluster, route: str, connected: tuple[int, socket.socket]
) -> None:
    port, server = connected
    here = f"127.0.0.1:{port}"
    for keys in (
        kafka(here), kafka(f"{ALLOWED}, {here}"), kafka(f"PLAINTEXT://{here}"), kafka(f"localhost:{port}"),
        {**kafka(""), "bootstrap.servers": here}, {**kafka(here), "bootstrap.servers": ALLOWED},
    ):  # fmt: skip
        for skip in ({}, {"validationTypesToSkip": "ALL"}):
            answer = ask(cluster, route, keys, "clerk", **skip)
            assert (answer.status_code, REFUSED in answer.text) == (400, True), answer.text
    with pytest.raises(BlockingIOError):
        server.accept()


def test_who_may_use_all_tables_names_brokers_as_before_and_owners_may_keep_them(cluster: EmbeddedCluster) -> None:
    for route in VALIDATE:
        assert (answer := ask(cluster, route, kafka("any.test:1"), "root")).status_code == 200, answer.text
    assert ask(cluster, "PUT /tables/own", kafka("any.test:1,other.test"), "root").status_code == 200
    kept = ask(cluster, "PUT /tables/own", kafka("other.test:9092, any.test:1", **{"fetch.min.bytes": "2"}), "clerk")
    assert kept.status_code == 200, kept.text
    added = ask(cluster, "PUT /tables/own", kafka("any.test:1,more.test"), "clerk")
    assert (added.status_code, "kafka://more.test:9092" in added.text) == (400, True)
    assert ask(cluster, "PUT /tables/own", LOG, "clerk").status_code == 200
    assert ask(cluster, "PUT /tables/own", kafka("any.test:1"), "clerk").status_code == 400


class Telling:
    """A stream type of another package, which reports the addresses it connects to."""

    properties: ClassVar = frozenset({"url"})
    takes_client_properties: ClassVar = True

    @classmethod
    def addresses(cls, config: StreamConfig) -> list[tuple[str, str]]:
        return [(config.property_key("url"), config.properties["url"])]


def test_stream_types_of_others_tell_their_addresses_or_are_allowed_as_a_whole(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    monkeypatch.setattr(plugins, "entry_points", lambda group: found)

    class Entry:
        name = "pulsar"

        def load(self) -> Any:
            return self.kind

    found.append(entry := Entry())
    keys = {"streamType": "pulsar", "stream.pulsar.topic.name": "t", "stream.pulsar.url": "pulsar://allowed.test"}
    for kind, url, who, refused in (
        (Telling, "pulsar://allowed.test", "clerk", False),
        (Telling, "pulsar://other.test", "clerk", True),
        (Telling, "pulsar://other.test", "root", True),  # entries of a type hold for everybody
        (type("Silent", (), {}), "pulsar://allowed.test", "clerk", True),
        (type("Silent", (), {}), "pulsar://allowed.test", "root", True),
    ):
        entry.kind = kind
        answer = ask(cluster, "POST /tables/validate", {**keys, "stream.pulsar.url": url}, who, validationTypesToSkip="ALL")
        assert (REFUSED in answer.text) == refused, (kind, url, who, answer.text)


def test_the_list_names_brokers_or_all_of_a_stream_type() -> None:
    def is_allowed(uri: str, *entries: str, may_name_any: bool) -> bool:
        try:
            Fetchers(StorageSettings(allowed_uris=entries)).check_address("key", uri, may_name_any=may_name_any)
        except InvalidConfigError:
            return False
        return True

    for may_name_any in (False, True):
        assert is_allowed("kafka://a.test:9092", may_name_any=may_name_any) == may_name_any
        assert is_allowed("kafka://a.test:9092", "s3", "https://a.test/", may_name_any=may_name_any) == may_name_any
        for entry in ("kafka", "kafka://a.test:9092", "kafka://A.test/", "kafka://a.test"):
            assert is_allowed("kafka://a.test:9092", entry, may_name_any=may_name_any), entry
        for entry in ("kafka://a.test:9093", "kafka://b.test", "kafka://test"):
            assert not is_allowed("kafka://a.test:9092", entry, may_name_any=may_name_any), entry
    assert is_allowed("kafka://[::1]:1", "kafka://[::1]:1", may_name_any=False)


@pytest.mark.parametrize(
    "brokers",
    ["a b:1", "a:1:2", "a@b:1", "a/b", "::1", "a:70000", "\x00a:1", "http://a:1/x", "a:1;b:2", "ａ:1", "[::1", "$(a)"],
)
def test_what_the_client_might_read_otherwise_is_no_broker(brokers: str) -> None:
    with pytest.raises(InvalidConfigError, match="is no broker"):
        client_settings(StreamConfig.parse(kafka(brokers)), "t")


def test_the_client_is_given_the_brokers_that_were_checked() -> None:
    config = StreamConfig.parse(kafka(" a.test , SSL://[::1]:7,,b_c:1"))
    assert client_settings(config, "t")["bootstrap.servers"] == "a.test:9092,SSL://[::1]:7,b_c:1"
    assert [uri for _, uri in broker_addresses(config)] == ["kafka://a.test:9092", "kafka://[::1]:7", "kafka://b_c:1"]
    for name in ("metadata.broker.list", "stream.kafka.consumer.prop.metadata.broker.list"):
        with pytest.raises(InvalidConfigError, match=r"stream.kafka.broker.list names the brokers"):
            client_settings(StreamConfig.parse(kafka("a.test", **{name: "b.test"})), "t")
