"""Load over HTTP: one process with all roles, queried by `wrk` (Debian's package of that name) on the same processors.

Every query has literals of its own, which the Lua of `wrk` draws. Processor time, user and system, is that of the cluster's
process alone, whatever else the machine does.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

_URL = "http://127.0.0.1:18099"
_SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
{headers}
local text = {text}
request = function()
{values}
  local sql = string.gsub(text, "{{([^}}]*)}}", function(name) return tostring(values[name]) end)
  return wrk.format("POST", "/query/sql", nil, '{{"sql":"' .. sql .. '"}}')
end
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Queries per second, the median and 99th percentile of latencies, and the cluster's processor time per query in µs."""

    per_second: float
    p50: str
    p99: str
    cpu_us: float

    def cells(self) -> tuple[str, str, str, str]:
        """Return them as displayed."""
        return f"{self.per_second:,.0f}", self.p50, self.p99, f"{self.cpu_us:.0f}"


def script(sql: str, values: str, headers: str = "") -> str:
    """Return a script that sends a query. values: Lua code that creates `values`, which replace each {name} in the query."""
    return _SCRIPT.format(headers=headers, text=json.dumps(sql), values=values)


@dataclass(frozen=True, slots=True)
class LoadedCluster:
    """A cluster under load for some seconds at a time, on a number of connections."""

    process: "subprocess.Popen[bytes]"
    scratch: Path
    seconds: int
    connections: int

    def measure(self, text: str) -> Measured:
        """Run a script; raises RuntimeError if the broker answers with errors."""
        path = self.scratch / "load.lua"
        path.write_text(text)
        command = ["wrk", "-t1", f"-c{self.connections}", "--latency", "-s", str(path), f"{_URL}/query/sql"]
        subprocess.run([*command, "-d1"], check=True, capture_output=True)
        watched = psutil.Process(self.process.pid)
        before = watched.cpu_times()
        said = subprocess.run([*command, f"-d{self.seconds}"], check=True, capture_output=True, text=True).stdout
        after = watched.cpu_times()
        if "Non-2xx" in said or "Socket errors" in said:
            raise RuntimeError(f"the broker did not answer every query:\n{said}")
        lines = {line.split()[0]: line.split() for line in said.splitlines() if line.split()}
        requests = next(int(line.split()[0]) for line in said.splitlines() if "requests in" in line)
        used_s = after.user + after.system - before.user - before.system
        return Measured(float(lines["Requests/sec:"][1]), lines["50%"][1], lines["99%"][1], used_s / requests * 1e6)


@contextmanager
def loaded_cluster(folder: Path, seconds: int, connections: int) -> Iterator[LoadedCluster]:
    """Start a cluster over a folder in a separate process. Exits the program if `wrk` is missing."""
    if shutil.which("wrk") is None:
        sys.exit("The load comes from wrk, which is not installed (on Debian: apt-get install wrk)")
    command = [sys.executable, "-m", "gamay.cli", "start", "all", "--data-dir", str(folder)]
    ports = ["--controller-port", "19000", "--broker-port", "18099", "--server-port", "18098"]
    process = subprocess.Popen([*command, *ports], stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            _wait_until_ready(process)
            yield LoadedCluster(process, Path(scratch), seconds, connections)
        finally:
            process.terminate()
            process.wait(30)


def _wait_until_ready(process: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        time.sleep(0.1)
        try:
            with urllib.request.urlopen(f"{_URL}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("the cluster did not start; its output says why") from None
    raise RuntimeError("the cluster was not ready after a minute")
