"""What a process says of itself: since when it runs, and on what."""

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
    """Return what tells this process from others of the cluster: roles may share one."""
    return f"{socket.gethostname()}/{os.getpid()}"


def thread_usage() -> list[dict[str, Any]]:
    """Return the threads of Python with the processor time that each has had, None where the system does not tell it."""
    threads = sorted(threading.enumerate(), key=lambda thread: thread.name)
    return [{"threadName": each.name, "cpuTimeNs": _processor_ns(each.native_id)} for each in threads]


def _processor_ns(thread_id: int | None) -> int | None:
    try:  # what stands before the numbers, the name, may have spaces in it, but for its end
        stat = Path(f"/proc/self/task/{thread_id}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except OSError:
        return None


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
