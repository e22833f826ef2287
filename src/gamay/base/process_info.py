"""What a process says of itself: since when it runs, and on what."""

import os
import platform
import socket
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from gamay.base.clock import Clock

VERSION = version("gamay")


def process_name() -> str:
    """Return what tells this process from others of the cluster: roles may share one."""
    return f"{socket.gethostname()}/{os.getpid()}"


class ProcessInfo:
    """Of a process that counts as started now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_s, self._started_ms = clock.monotonic_s(), clock.now_ms()

    @property
    def uptime_s(self) -> int:
        """For how many seconds the process has run."""
        return int(self._clock.monotonic_s() - self._started_s)

    @property
    def start_time(self) -> str:
        """When the process started, in ISO 8601."""
        started = datetime.fromtimestamp(self._started_ms / 1000, UTC)
        return started.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def to_json(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """Return what the process runs on and with which settings."""
        return {
            "systemConfig": {"name": platform.system(), "version": platform.release(), "arch": platform.machine()},
            "runtimeConfig": {
                "library": f"Python {sys.version.partition(' ')[0]}",
                "version": VERSION,
                "startTime": self.start_time,
                "uptime": self.uptime_s,
            },
            "pinotConfig": dict(settings),
        }
