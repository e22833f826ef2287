"""The roles of a cluster as processes on this machine: started, killed, suspended, restarted."""

import os
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import httpx

from benchmarks.cluster.ports import free_port
from benchmarks.cluster.template import fork_role

_START_S = 300
_END_S = 120


class WaitedInVainError(Exception):
    """Error of a condition that did not hold in time."""


def until(condition: Callable[[], object], timeout_s: float, what: str) -> float:
    """Wait for a condition; return the seconds it took. Raises WaitedInVainError after the timeout."""
    began_s = time.monotonic()
    while not condition():
        if time.monotonic() - began_s > timeout_s:
            raise WaitedInVainError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - began_s


class RoleProcess:
    """A `gamay start …` that keeps its ports across restarts. name: for messages, such as `server 2`."""

    def __init__(self, role: str, number: int, folder: Path, zk: str, *more: str) -> None:
        self.role, self.name, self.port = role, f"{role} {number}", free_port()
        self.instance = f"{role.capitalize()}_localhost_{self.port}"
        self.log = folder / f"{role}{number}.log"
        self.is_up = False
        self._arguments = ["start", role, "--zk", zk, "--cluster-name", "Chaos", "--port", str(self.port), *more]
        self._process: ForkServerProcess | None = None
        self.http = httpx.Client(base_url=f"http://localhost:{self.port}", timeout=30, trust_env=False)

    def start(self) -> None:
        """Start it, without waiting until it is ready."""
        self._process = fork_role(self._arguments, self.log)
        self.is_up = True

    def wait_ready(self) -> float:
        """Wait until `/health` answers 200; return how long that took, in seconds. Raises WaitedInVainError."""
        return until(self.is_ready, _START_S, f"{self.name} is ready")

    def is_ready(self) -> bool:
        """Whether `/health` answers 200. Raises WaitedInVainError if the process has ended on its own."""
        if self._process is not None and self.has_ended:
            raise WaitedInVainError(f"{self.name} ended by itself, with status {self._process.exitcode}; see {self.log}")
        try:
            return self.http.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    @property
    def has_ended(self) -> bool:
        """Whether it ended without a call of `kill`."""
        return self._process is not None and self._process.exitcode is not None

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    def send(self, number: int) -> None:
        """Send a signal: SIGSTOP or SIGCONT; use `kill` to end the process."""
        os.kill(self.pid, number)
        self.is_up = number == signal.SIGCONT

    def kill(self, number: int = signal.SIGKILL) -> int | None:
        """End the process, wait for it, and return its status; None if it was not running."""
        if self._process is None:
            return None
        if not self.has_ended:
            self.send(signal.SIGCONT)
            self.send(number)
        self.is_up = False
        self._process.join(_END_S)
        status, self._process = self._process.exitcode, None
        return status


class Processes:
    """All roles of a cluster on one ZooKeeper, in one folder."""

    def __init__(self, folder: Path, zk: str, controllers: int = 2, brokers: int = 2, servers: int = 4) -> None:
        shared, config = str(folder / "deepstore"), folder / "controller.conf"
        config.write_text(f"gamay.ingest.allowed_uris=file://{folder.absolute()}/streams/\n")
        own = ("--data-dir", shared, "--config-file", str(config))
        self.controllers = [RoleProcess("controller", i, folder, zk, *own) for i in range(controllers)]
        self.brokers = [RoleProcess("broker", i, folder, zk, "--no-warm-up") for i in range(brokers)]
        self.servers = [
            RoleProcess(
                "server", i, folder, zk, "--data-dir", str(folder / f"server{i}"), "--query-port", str(free_port()),
                "--no-warm-up", *(("--deep-store", shared) if i % 2 else ()),
            )
            for i in range(servers)
        ]  # fmt: skip

    @property
    def all(self) -> list[RoleProcess]:
        """Every process; servers first, since they wait for nothing."""
        return [*self.servers, *self.brokers, *self.controllers]

    def start(self) -> None:
        """Start all, and wait until they are ready."""
        for process in self.all:
            process.start()
        for process in self.all:
            process.wait_ready()

    def stop(self) -> None:
        """End all."""
        for process in self.all:
            process.kill()
            process.http.close()

    def call(self, method: str, path: str, timeout_s: float = 30, **more: Any) -> httpx.Response:
        """Send a request to the running controllers in turn until one succeeds; else return the last response.

        Raises httpx.TransportError when none answers.
        """
        answer: httpx.Response | None = None
        failure = httpx.TransportError("no controller runs")
        for controller in self.controllers:
            if not controller.is_up:
                continue
            try:
                answer = controller.http.request(method, path, timeout=timeout_s, **more)
            except httpx.TransportError as error:
                failure = error
            else:
                if answer.is_success:
                    return answer
        if answer is None:
            raise failure
        return answer

    def leader(self) -> RoleProcess | None:
        """Return the lead controller according to the running ones; None if none leads, or none answers."""
        try:
            found = self.call("GET", "/leader/tables", timeout_s=2)
        except httpx.TransportError:
            return None
        if not found.is_success:
            return None
        entries = found.json()["leadControllerEntryMap"]
        name = entries["leadControllerResource_0"]["leadControllerId"] if entries else None
        return next((controller for controller in self.controllers if controller.instance == name), None)
