"""The memory and processors that this process may use, which a container or service may limit.

Limits of Linux control groups hold for a group and all below it, so every group from the process's own upwards is read:

    cgroup v2   memory.max, cpu.max ("QUOTA PERIOD" in µs, or "max PERIOD"), below /sys/fs/cgroup
    cgroup v1   memory.limit_in_bytes, cpu.cfs_quota_us and cpu.cfs_period_us, below /sys/fs/cgroup/memory and …/cpu

See the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def usable_memory(root: Path = _ROOT) -> int:
    """Return the bytes of memory that the process may use. root: of the file system, where /proc and /sys are."""
    limits = [
        int(text)
        for group in _groups(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _text(group / name)).isdigit()
    ]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *limits])


def usable_processors(root: Path = _ROOT) -> int:
    """Return the number of processors that the process may use at once, rounded up."""
    # the process's CPU affinity, where the platform has it; macOS does not
    present = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [
        -(-int(quota) // int(period))
        for group in _groups(root, "cpu")
        for quota, period in (
            _pair(_text(group / "cpu.max")),
            (_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")),
        )
        if quota.isdigit() and period.isdigit() and int(period) > 0
    ]
    return max(1, min([present, *quotas]))


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the process's control group and of those above it, by either version; some may not exist."""
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")  # after the number of the hierarchy
        if controllers and controller not in controllers.split(","):
            continue
        top = mounted / controller if controllers else mounted
        group = top / path.lstrip("/")
        yield from (top / folder for folder in (group.relative_to(top), *group.relative_to(top).parents))
    yield mounted  # a container sees its own group as the root, whatever its path is outside
    yield mounted / controller


def _pair(text: str) -> tuple[str, str]:
    first, _, second = text.partition(" ")
    return first, second


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
