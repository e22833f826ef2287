"""Confinement of a process on Linux, as in a container: read-only root, no capabilities, little memory."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from benchmarks.cluster.ports import free_port
from benchmarks.cluster.processes import until

_START_S = 120
_END_S = 60

_MEMORY = Path("/sys/fs/cgroup/memory")
# the folder becomes a file system of its own, which stays writable when the root is mounted anew
_SCRIPT = """
mount --bind "$0" "$0" && mount -o remount,ro,bind / && cd "$0" && exec setpriv --bounding-set=-all --no-new-privs "$@"
"""


def confined(folder: Path, command: list[str]) -> list[str]:
    """Return a command that runs another one with write access below a folder only, and without superuser capabilities."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, str(folder), *command]


def what_is_missing() -> str | None:
    """Return what `confined` lacks on this machine, or None if it works."""
    if absent := [name for name in ("unshare", "setpriv") if shutil.which(name) is None]:
        return f"{absent[0]} is not installed"
    done = subprocess.run(confined(Path("/tmp"), ["true"]), capture_output=True, text=True, check=False)
    return done.stderr.strip() or None


class MemoryGroup:
    """Control group (version 1) whose processes may have so many bytes together; the kernel ends those that take more."""

    def __init__(self, name: str, num_bytes: int) -> None:
        """Raises OSError where there can be none."""
        self._folder = _MEMORY / f"gamay-{os.getpid()}-{name}"
        self._folder.mkdir()
        (self._folder / "memory.limit_in_bytes").write_text(str(num_bytes))

    def command(self, command: list[str]) -> list[str]:
        """Return a command that runs another one in the group."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self._folder), *command]

    @property
    def most_bytes(self) -> int:
        """The most that its processes, and the files that they read, took at once."""
        return int((self._folder / "memory.max_usage_in_bytes").read_text())

    def remove(self) -> None:
        """Remove the group, which must be empty."""
        self._folder.rmdir()


class ConfinedRole:
    """A `gamay start …` that can write below its folder only; memory: its limit in bytes, None for no limit."""

    def __init__(self, role: str, folder: Path, zk: str, memory: int | None, *more: str) -> None:
        self.role = role
        self._folder = folder / role
        self._folder.mkdir()
        (self._folder / "tmp").mkdir()
        self._group = None if memory is None else MemoryGroup(role, memory)
        port = free_port()
        self.http = httpx.Client(base_url=f"http://localhost:{port}", timeout=60, trust_env=False)
        arguments = [
            sys.executable,
            "-c",
            "from gamay.cli import main; main()",
            "start",
            role,
            "--zk",
            zk,
            "--port",
            str(port),
            *more,
        ]
        command = confined(self._folder, arguments)
        if self._group is not None:
            command = self._group.command(command)
        environment = {**os.environ, "TMPDIR": str(self._folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
        with (folder / f"{role}.log").open("wb") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    @property
    def most_bytes(self) -> int:
        """The most memory that it took at once, with the files that it read."""
        assert self._group is not None
        return self._group.most_bytes

    def wait_ready(self) -> None:
        """Wait until `/health` answers 200. Raises WaitedInVainError."""
        until(self._is_ready, _START_S, f"the {self.role} is ready")

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, f"the {self.role} ended with status {self._process.returncode}"
        try:
            return self.http.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> tuple[int, float]:
        """End it by SIGTERM; return its status (negative for a signal) and the seconds it took."""
        self.http.close()
        begun_s = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if self._group is not None:
            self._group.remove()
        return status, time.monotonic() - begun_s
