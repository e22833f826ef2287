"""Discovery of a cluster's brokers: a fixed list, the controller, or ZooKeeper."""

import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from gamay.base.errors import InvalidConfigError
from gamay.base.zookeeper_login import ANYBODY, ZooKeeperLogin
from gamay.client.controller import ControllerClient
from gamay.client.http import NotAnAnswerError, ServiceError, service_url

CLUSTER_NAME = "PinotCluster"
_BROKER_RESOURCE = "EXTERNALVIEW/brokerResource"
_GZIP_MAGIC = b"\x1f\x8b"
_ZOOKEEPER_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Listing:
    """URLs of brokers. by_table: those that serve a table, by its lower-case name, raw and typed."""

    all: tuple[str, ...]
    by_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class BrokerDirectory(Protocol):
    """Source of the list of brokers."""

    changes: bool
    """Whether the list may change."""

    def list_brokers(self) -> Listing:
        """Return the current brokers. Raises GamayError when they cannot be determined."""
        ...

    def close(self) -> None:
        """Release the resources."""
        ...


class FixedBrokers:
    """A fixed list of brokers, given by the user."""

    changes = False

    def __init__(self, hosts: Iterable[str], scheme: str = "http") -> None:
        """hosts: `host:port` or URLs. Raises InvalidConfigError."""
        urls = [_with_credentials(host, scheme) for host in hosts]
        if not urls:
            raise InvalidConfigError("the list of brokers is empty; give at least one, such as localhost:8099")
        self._listing = Listing(tuple(dict.fromkeys(urls)))

    def list_brokers(self) -> Listing:
        """Return the list."""
        return self._listing

    def close(self) -> None:
        """Do nothing."""


class ControllerDirectory:
    """The live brokers that a controller reports."""

    changes = True

    def __init__(self, controller: ControllerClient, scheme: str = "http") -> None:
        """scheme: `http` or `https`, of the brokers' URLs."""
        self._controller = controller
        self._scheme = scheme

    def list_brokers(self) -> Listing:
        """Query the controller. Raises the errors of `HttpService.json`."""
        tenants, tables = self._controller.live_brokers()
        try:
            every = self._urls(broker for brokers in tenants.values() for broker in brokers)
            by_table = {table: self._urls(brokers) for table, brokers in tables.items()}
        except (AttributeError, KeyError, TypeError) as error:
            raise NotAnAnswerError(
                f"{self._controller.url} did not answer with a list of brokers; is it a controller? ({error!r})"
            ) from error
        return Listing(every, _raw_and_typed(by_table))

    def _urls(self, brokers: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_url(self._scheme, str(b["host"]), str(b["port"])) for b in brokers))

    def close(self) -> None:
        """Close the connections to the controller."""
        self._controller.close()


class ZooKeeper(Protocol):
    """The part of a kazoo client that is used."""

    def exists(self, path: str) -> Any:
        """Return a true value if the node exists."""
        ...

    def get(self, path: str) -> tuple[bytes, Any]:
        """Return the content of a node, and its statistics."""
        ...

    def stop(self) -> None:
        """End the session."""
        ...


class ZooKeeperDirectory:
    """The brokers in the external view of `brokerResource`, as Pinot's clients read them: table -> broker -> ONLINE."""

    changes = True

    def __init__(
        self, path: str, client: ZooKeeper | None = None, scheme: str = "http", login: ZooKeeperLogin = ANYBODY
    ) -> None:
        """path: `host:port,host:port/path of the cluster`; the cluster may be omitted if it is called PinotCluster.

        client: a started kazoo client; without one, one is started with `login`. Raises InvalidConfigError where kazoo, or a
        library that the login needs, is not installed.
        """
        self._hosts, slash, cluster = path.partition("/")
        if not self._hosts.strip():
            raise InvalidConfigError(f"{path!r} is no path in ZooKeeper, such as localhost:2181/PinotCluster")
        root = f"/{cluster.strip('/')}" if slash and cluster.strip("/") else ""
        self._paths = [f"{base}/{_BROKER_RESOURCE}" for base in (root, f"{root}/{CLUSTER_NAME}") if base]
        self._client = _kazoo_client(self._hosts, login) if client is None else client
        self._is_own = client is None
        self._scheme = scheme

    def list_brokers(self) -> Listing:
        """Read the node. Raises ServiceError when ZooKeeper does not answer or has no such node."""
        try:
            path = next((path for path in self._paths if self._client.exists(path)), None)
            content = b"" if path is None else self._client.get(path)[0]
        except Exception as error:
            raise ServiceError(
                f"ZooKeeper at {self._hosts} did not answer: {type(error).__name__}: {error}", None
            ) from error
        if path is None:
            raise ServiceError(
                f"ZooKeeper at {self._hosts} has no node {' or '.join(self._paths)}; "
                "the path must name the cluster, as in localhost:2181/PinotCluster",
                None,
            )
        by_table = self._tables_of(path, content)
        return Listing(tuple(dict.fromkeys(url for urls in by_table.values() for url in urls)), _raw_and_typed(by_table))

    def _tables_of(self, path: str, content: bytes) -> dict[str, tuple[str, ...]]:
        try:
            text = gzip.decompress(content) if content.startswith(_GZIP_MAGIC) else content
            states = orjson.loads(text)["mapFields"] or {}
            return {
                table: tuple(
                    _instance_url(name, self._scheme) for name, state in sorted(brokers.items()) if state == "ONLINE"
                )
                for table, brokers in states.items()
            }
        except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise NotAnAnswerError(f"the node {path} in ZooKeeper does not hold an external view: {error!r}") from error

    def close(self) -> None:
        """End the session if it was started here."""
        if self._is_own:
            self._client.stop()


def _kazoo_client(hosts: str, login: ZooKeeperLogin) -> ZooKeeper:
    try:
        from kazoo.client import KazooClient
    except ImportError as error:
        raise InvalidConfigError("finding brokers by ZooKeeper needs kazoo: pip install 'gamay[zookeeper]'") from error
    client = KazooClient(hosts=hosts, read_only=True, timeout=_ZOOKEEPER_TIMEOUT_S, **login.kazoo_options())
    try:
        client.start(timeout=_ZOOKEEPER_TIMEOUT_S)
    except Exception as error:
        client.stop()
        raise ServiceError(f"ZooKeeper at {hosts} did not answer: {type(error).__name__}: {error}", None) from error
    return client  # type: ignore[no-any-return]


def _instance_url(instance: str, scheme: str) -> str:
    """Return the URL of an instance; they are called `Broker_<host>_<port>`."""
    host, _, port = instance.removeprefix("Broker_").rpartition("_")
    if not host or not port.isdecimal():
        raise ValueError(f"{instance!r} is not the name of a broker, Broker_<host>_<port>")
    return _url(scheme, host, port)


def _url(scheme: str, host: str, port: str) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _with_credentials(host: str, scheme: str) -> str:
    service_url(host, scheme)  # raises for an invalid one
    return host if "://" in host else f"{scheme}://{host}"


def _raw_and_typed(by_table: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return brokers by raw and typed lower-case name: for a raw name, those that serve both halves, or else the last
    half's."""
    found: dict[str, tuple[str, ...]] = {}
    for table, urls in by_table.items():
        name = table.lower()
        raw = name.removesuffix("_offline").removesuffix("_realtime")
        for key in {name, raw}:
            both = tuple(url for url in urls if url in found[key]) if key in found else tuple(urls)
            found[key] = both or tuple(urls)
    return found
