"""Fixtures of all tests, including a real ZooKeeper, run from the jars of Debian's package `zookeeper`."""

import gc
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import certifi
import pytest
from benchmarks.cluster.ports import free_port
from benchmarks.cluster.zookeeper import ZooKeeperProcess, what_is_missing
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers as hypothesis_providers
from tests.built_routes import build_routes_once
from tests.kafka_harness import KafkaHarness
from tests.shared_servers import SharedServers
from tools import kafka as kafka_tool

# The duration of an example depends more on the machine than on the code.
_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# Every run draws the same examples, so that more of them are the business of the search.
settings.register_profile("gamay", derandomize=True, database=None, max_examples=50, **_common)
settings.register_profile("search", print_blob=True, database=None, **_common)  # tools/search.py: each run draws others
settings.load_profile("gamay")

# Hypothesis also draws constants that it reads in the modules imported so far, so that examples would depend on where the
# clone is and on the tests that ran before in the same process. `test_same_run.py` holds that they do not.
_imported_constants, _no_constants = hypothesis_providers._get_local_constants, hypothesis_providers.Constants()
hypothesis_providers._get_local_constants = lambda: _no_constants if settings.default.derandomize else _imported_constants()

# A client of httpx, and so each `httpx.get`, reads the certificates of all public authorities, for 20 ms: tests share them.
_new_context, _public_context = ssl.create_default_context, cache(ssl.create_default_context)
_public = [{"cafile": file} for file in (certifi.where(), os.environ.get("SSL_CERT_FILE"))]
ssl.create_default_context = lambda *args, **options: (
    _public_context(**options) if not args and options in _public else _new_context(*args, **options)
)

build_routes_once()

# Spark, Kafka and ZooKeeper run for seconds here: what Java's second compiler makes in that time costs more than it gains.
# Less than half of the processor time is left without it.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Folders whose tests share what is dear to start, a SparkSession above all: one worker runs them all.
_TOGETHER = ("tests/spark/",)

# What takes minutes or half a minute, the longest first: a worker takes whole files, so these must not come last.
_LONGEST = (
    "spark",
    "embedded/test_kill.py",
    "embedded/test_chaos.py",
    "embedded/test_role_processes.py",
    "oracle/test_generated_queries.py",
    "realtime/test_realtime_cluster.py",
    "fuzz/test_fuzz.py",
    "integration/test_quickstart.py",
    "realtime/test_realtime_kill.py",
)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand whole files to workers, as `--dist loadfile` does, and folders of `_TOGETHER` in one piece."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrFolder(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return next((folder for folder in _TOGETHER if file.startswith(folder)), file)

    return ByFileOrFolder(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write anew what comes out of the cases of tests/sql")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order below: xdist would begin with the files that have the most tests."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection() -> None:
    """Collect tests without garbage collection, as the collected objects stay and each full pass would traverse them."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude collected objects from later passes, which took a tenth of the suite's processor time."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, the others as they were found."""
    folder = Path(__file__).parent
    ranks = {folder / name: rank for rank, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, ranks.get(item.path.parent, len(ranks))))


_SERVERS = pytest.StashKey[SharedServers]()


def _servers(config: pytest.Config) -> SharedServers:
    """Return the servers of the run, whichever worker asks; only fixtures of a test or the end of the run may do so."""
    if _SERVERS not in config.stash:
        folder: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        config.stash[_SERVERS] = SharedServers(folder.parent if hasattr(config, "workerinput") else folder)
    return config.stash[_SERVERS]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        _servers(session.config).stop()


@dataclass(frozen=True)
class SharedZooKeeper:
    """A ZooKeeper server for all tests of the run; each test uses a separate path (`zookeeper_hosts`)."""

    hosts: str


@pytest.fixture(scope="session")
def shared_zookeeper(pytestconfig: pytest.Config) -> SharedZooKeeper:
    """Return the server that runs; skips where none can."""
    if reason := what_is_missing():
        if os.environ.get("GAMAY_REQUIRE_ZOOKEEPER"):
            pytest.fail(f"GAMAY_REQUIRE_ZOOKEEPER is set, but {reason}")
        pytest.skip(f"no ZooKeeper: {reason}")
    pytest.importorskip("kazoo")

    def start(folder: Path) -> tuple[str, int]:
        server = ZooKeeperProcess(folder)
        server.start()
        return server.hosts, server.pid

    return SharedZooKeeper(_servers(pytestconfig).address_of("zookeeper", start))


@pytest.fixture
def own_zookeeper(shared_zookeeper: SharedZooKeeper, tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    """A server for one test that stops it."""
    (tmp_path / "zookeeper").mkdir()
    server = ZooKeeperProcess(tmp_path / "zookeeper")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def zookeeper_hosts(shared_zookeeper: SharedZooKeeper, tmp_path: Path) -> str:
    """The address of the shared server with a path that no other test uses."""
    return f"{shared_zookeeper.hosts}/{tmp_path.name}-{os.urandom(4).hex()}"


class S3Service:
    """S3's protocol on this machine, with one bucket; its content outlives a stop."""

    bucket = "bucket"
    key, secret = "user", "very-secret"

    def __init__(self) -> None:
        self._port = free_port()
        self.start()
        boto3 = pytest.importorskip("boto3")
        access = {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret, "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=self.endpoint, **access).create_bucket(Bucket=self.bucket)

    @property
    def endpoint(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of its fsspec file system."""
        client = {"endpoint_url": self.endpoint, "region_name": "us-east-1"}
        return {"key": self.key, "secret": self.secret, "client_kwargs": client}

    def start(self) -> None:
        """Answer again."""
        server = pytest.importorskip("moto.server")
        self._server = server.ThreadedMotoServer(ip_address="127.0.0.1", port=self._port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        """Be away."""
        self._server.stop()


@pytest.fixture(scope="session")
def shared_s3() -> Iterator[S3Service]:
    """One for all tests of the run."""
    pytest.importorskip("s3fs")
    service = S3Service()
    yield service
    service.stop()


@pytest.fixture
def s3(shared_s3: S3Service) -> Iterator[S3Service]:
    """The shared one; it runs again after a test that stopped it."""
    yield shared_s3
    try:
        socket.create_connection(("127.0.0.1", shared_s3._port), timeout=1).close()
    except OSError:
        shared_s3.start()


@pytest.fixture(scope="session")
def kafka_address(pytestconfig: pytest.Config) -> str:
    """Return the broker that GAMAY_KAFKA_BROKERS names, else one started for this run; skips where neither is possible."""
    if address := os.environ.get("GAMAY_KAFKA_BROKERS"):
        return address
    if reason := kafka_tool.missing():
        pytest.skip(f"needs a Kafka broker, and {reason}")

    def start(folder: Path) -> tuple[str, int]:
        broker = kafka_tool.Broker(folder)
        broker.start()
        return broker.address, broker.pid

    return _servers(pytestconfig).address_of("kafka", start)


@pytest.fixture
def kafka(kafka_address: str) -> KafkaHarness:
    """Kafka alone."""
    return KafkaHarness(kafka_address)
