"""Kafka for tests: fetch its jars with Maven, and run one broker (KRaft, no ZooKeeper) in the foreground.

    python tools/kafka.py fetch
    python tools/kafka.py run --port 19092 --folder /tmp/kafka

`fetch` puts the jars into `$GAMAY_KAFKA_JARS`, or into Gamay's cache folder. Maven and Java 17 or newer must be installed.
"""

import argparse
import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VERSION = "3.9.1"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>gamay.tools</groupId><artifactId>kafka</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=500
log.initial.task.delay.ms=500
"""
_JAVA = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def jars_folder() -> Path:
    """Return the folder of the jars, which may not exist yet."""
    if named := os.environ.get("GAMAY_KAFKA_JARS"):
        return Path(named)
    cache = os.environ.get("GAMAY_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gamay"
    return Path(cache) / f"kafka-{VERSION}"


def missing() -> str | None:
    """Return why no broker can be started here, or None if one can."""
    if shutil.which("java") is None:
        return "no Java on the path"
    if not any(jars_folder().glob("kafka-server-*.jar")):
        return "Kafka's jars are not here: run 'python tools/kafka.py fetch', or set GAMAY_KAFKA_BROKERS=host:port"
    return None


def fetch() -> Path:
    """Fetch the jars from Maven Central unless they exist; return their folder."""
    folder = jars_folder()
    if any(folder.glob("kafka-server-*.jar")):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_POM.format(version=VERSION), encoding="utf-8")
        jars = Path(work) / "jars"
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*command, f"-DoutputDirectory={jars}"], check=True)
        shutil.copytree(jars, folder, dirs_exist_ok=True)
    return folder


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """One broker; its data stay in `folder`, so that it can be stopped and restarted."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """Prepare the folder; `start` starts it."""
        self.folder = folder
        self.port = port or free_port()
        self._properties = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        if not self._properties.exists():
            text = _PROPERTIES.format(folder=folder, port=self.port, controller_port=free_port())
            self._properties.write_text(text, encoding="utf-8")
            cluster = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
            self._java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(self._properties)).wait()

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self, timeout_s: float = 60) -> None:
        """Start it and wait until it accepts connections; raises RuntimeError with its output if it does not."""
        self._process = self._java("kafka.Kafka", str(self._properties))
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        self.kill()
        raise RuntimeError(f"Kafka did not start: {(self.folder / 'output').read_text(encoding='utf-8')[-2000:]}")

    def kill(self) -> None:
        """End it immediately (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait(self) -> None:
        """Wait until it ends."""
        if self._process is not None:
            self._process.wait()

    def _java(self, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [*_JAVA, "-cp", f"{jars_folder()}/*", main, *arguments]
        with (self.folder / "output").open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch")
    run = commands.add_parser("run")
    run.add_argument("--port", type=int, default=9092)
    run.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "fetch":
        print(fetch())
        return
    if reason := missing():
        sys.exit(reason)
    broker = Broker(arguments.folder, arguments.port)
    broker.start()
    print(f"Kafka {VERSION} listens on {broker.address}", flush=True)
    try:
        broker.wait()
    except KeyboardInterrupt:
        broker.kill()


if __name__ == "__main__":
    main()
