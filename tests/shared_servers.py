"""Servers shared by all workers of a run: the first worker that needs one starts it, and it ends with the run."""

import fcntl
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class SharedServers:
    """Addresses and process ids of the servers of one run, in files of a folder that all workers see."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def address_of(self, name: str, start: Callable[[Path], tuple[str, int]]) -> str:
        """Return the address of a server; `start` gets a separate folder and returns the address and the process id."""
        found, own = self._folder / f"{name}.json", self._folder / name
        with (self._folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not found.exists():
                own.mkdir()
                found.write_text(json.dumps(start(own)))
        address: str = json.loads(found.read_text())[0]
        return address

    def stop(self) -> None:
        """End all of them."""
        for path in self._folder.glob("*.json"):
            with suppress(ProcessLookupError):
                os.kill(json.loads(path.read_text())[1], signal.SIGKILL)
