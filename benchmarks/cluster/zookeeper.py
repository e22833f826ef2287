"""A real ZooKeeper: Debian's package `zookeeper`, run from its jars."""

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from benchmarks.cluster.ports import free_port

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
_OF_NETTY = ("netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport")
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_START_S = 60


def what_is_missing() -> str | None:
    """Return what is missing to start ZooKeeper on this machine, or None."""
    if shutil.which("java") is None:
        return "java is not installed"
    absent = [name for name in _NEEDED if not (_JARS / f"{name}.jar").exists()]
    return f"{_JARS} has no {absent[0]}.jar: install Debian's package 'zookeeper'" if absent else None


class ZooKeeperProcess:
    """One server, with its data in a folder, that keeps its port across restarts."""

    def __init__(self, folder: Path, *, settings: str = "", java: tuple[str, ...] = ()) -> None:
        """settings: further lines of its configuration. java: options of the virtual machine."""
        self._folder = folder
        self._java = java
        self.port = free_port()
        self._config = folder / "zoo.cfg"
        self._config.write_text(
            f"dataDir={folder / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\ntickTime=500\n"
            "minSessionTimeout=1000\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            f"4lw.commands.whitelist=ruok\nforceSync=no\n{settings}"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        path = ":".join(str(_JARS / f"{jar}.jar") for jar in (*_NEEDED, *_OF_NETTY))
        with (self._folder / "log").open("ab") as log:
            command = [*_JAVA, *self._java, "-cp", path, _MAIN, str(self._config)]
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
        """End it immediately, as a crash would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None
