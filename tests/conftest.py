"""What all tests share; a real ZooKeeper for those that need one: Debian's package `zookeeper`, run from its jars."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more of the machine than of the code.
settings.register_profile("gamay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gamay")

_JARS = Path("/usr/share/java")
_NEEDED = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-nop",
    "netty-all",
    "metrics-core",
    "snappy-java",
    "commons-cli",
)
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_START_S = 60


class ZooKeeperProcess:
    """One server, with its data in a folder, that can be stopped and started again at the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._config = folder / "zoo.cfg"
        self._config.write_text(
            f"dataDir={folder / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\ntickTime=500\n"
            "minSessionTimeout=1000\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=ruok\nforceSync=no\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        path = ":".join(str(_JARS / f"{jar}.jar") for jar in _NEEDED)
        with (self._folder / "log").open("ab") as log:
            command = [
                "java",
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                path,
                _MAIN,
                str(self._config),
            ]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + _START_S
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, f"ZooKeeper does not answer after {_START_S} s"
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def stop(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None


def _missing() -> str | None:
    if shutil.which("java") is None:
        return "java is not installed"
    absent = [name for name in _NEEDED if not (_JARS / f"{name}.jar").exists()]
    return f"{_JARS} has no {absent[0]}.jar: install Debian's package 'zookeeper'" if absent else None


@pytest.fixture(scope="session")
def shared_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A server for all tests of the run: each uses a path of its own (`zookeeper_hosts`), and leaves it running."""
    if reason := _missing():
        if os.environ.get("GAMAY_REQUIRE_ZOOKEEPER"):
            pytest.fail(f"GAMAY_REQUIRE_ZOOKEEPER is set, but {reason}")
        pytest.skip(f"no ZooKeeper: {reason}")
    pytest.importorskip("kazoo")
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_zookeeper(shared_zookeeper: ZooKeeperProcess, tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    """A server for one test that stops it."""
    (tmp_path / "zookeeper").mkdir()
    server = ZooKeeperProcess(tmp_path / "zookeeper")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def zookeeper_hosts(shared_zookeeper: ZooKeeperProcess, tmp_path: Path) -> str:
    """The address of the shared server with a path that no other test uses."""
    return f"{shared_zookeeper.hosts}/{tmp_path.name}-{os.urandom(4).hex()}"
