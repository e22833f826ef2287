"""Facts about a process: its start time, versions and threads."""

import os
import platform
import socket
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gamay.base.clock import Clock

VERSION = version("gamay")


def process_name() -> str:
    """Return a name that identifies this process in the cluster; roles may share a process."""
    return f"{socket.gethostname()}/{os.getpid()}"


def thread_usage() -> list[dict[str, Any]]:
    """Return the Python threads with their processor time, None if the system does not provide it."""
    threads = sorted(threading.enumerate(), key=lambda thread: thread.name)
    return [{"threadName": each.name, "cpuTimeNs": _processor_ns(each.native_id)} for each in threads]


def _processor_ns(thread_id: int | None) -> int | None:
    try:  # the name before the numbers may contain spaces and parentheses; the last ')' ends it
        stat = Path(f"/proc/self/task/{thread_id}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except OSError:
        return None


class ProcessInfo:
    """Start time, platform and settings of a process; it counts as started on construction."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_s, self._started_ms = clock.monotonic_s(), clock.now_ms()

    @property
    def uptime_s(self) -> int:
        """The seconds since the process started."""
        return int(self._clock.monotonic_s() - self._started_s)

    @property
    def start_time(self) -> str:
        """The start time of the process, in ISO 8601."""
        started = datetime.fromtimestamp(self._started_ms / 1000, UTC)
        return started.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def to_json(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """Return the platform, versions and settings of the process."""
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
