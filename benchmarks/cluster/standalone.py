"""A standalone Spark on this machine, with its own processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cluster.ports import free_port


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Yield the URL of a master with two workers of a core each."""
    import pyspark

    home, port = Path(pyspark.__file__).parent, free_port()
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    master = f"spark://127.0.0.1:{port}"
    first = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())]
    commands = [first]
    for number in range(2):
        place = ["--host", "127.0.0.1", "--work-dir", str(folder / f"worker{number}"), "--webui-port", str(free_port())]
        commands.append(["worker.Worker", master, "-c", "1", "-m", "1g", *place])
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name, *rest in commands:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *rest]
            with (folder / f"{name}{len(started)}.log").open("wb") as log:
                started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        yield master
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()
