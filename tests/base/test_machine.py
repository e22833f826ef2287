"""The processors and memory available to a process, by Linux control groups."""

import os
from pathlib import Path

import pytest

from gamay.base.machine import usable_memory, usable_processors

ALL_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MB = 1 << 20


def laid_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({}, ALL_MEMORY),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": str(512 * MB)}, 512 * MB),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "max"}, ALL_MEMORY),
        (
            {"proc/self/cgroup": "0::/a.slice/b.service", "sys/fs/cgroup/a.slice/b.service/memory.max": str(300 * MB)},
            300 * MB,
        ),
        (
            {
                "proc/self/cgroup": "0::/a.slice/b.service",
                "sys/fs/cgroup/a.slice/memory.max": str(200 * MB),
                "sys/fs/cgroup/a.slice/b.service/memory.max": str(300 * MB),
            },
            200 * MB,
        ),
        # of a container, inside which the outer path is meaningless
        ({"proc/self/cgroup": "0::/docker/8f2a", "sys/fs/cgroup/memory.max": str(256 * MB)}, 256 * MB),
        (
            {
                "proc/self/cgroup": "9:memory:/docker/8f2a\n3:cpu,cpuacct:/docker/8f2a\n1:name=systemd:/x",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": str(128 * MB),
            },
            128 * MB,
        ),
        (
            {
                "proc/self/cgroup": "9:memory:/docker/8f2a",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": str((1 << 63) - 4096),
                "sys/fs/cgroup/memory/docker/8f2a/memory.limit_in_bytes": str(96 * MB),
            },
            96 * MB,
        ),
        ({"proc/self/cgroup": "nonsense\n\n::", "sys/fs/cgroup/memory.max": "-5"}, ALL_MEMORY),
    ],
)
def test_memory_is_that_of_the_narrowest_group(tmp_path: Path, files: dict[str, str], memory: int) -> None:
    assert usable_memory(laid_out(tmp_path, files)) == min(memory, ALL_MEMORY)


@pytest.mark.parametrize(
    ("files", "processors"),
    [
        ({}, 64),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, 64),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"}, 2),
        ({"proc/self/cgroup": "0::/x", "sys/fs/cgroup/x/cpu.max": "20000 100000"}, 1),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "20000 0"}, 64),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000",
            },
            64,
        ),
    ],
)
def test_processors_are_those_of_the_quota(
    tmp_path: Path, files: dict[str, str], processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert usable_processors(laid_out(tmp_path, files)) == processors


def test_of_this_machine() -> None:
    assert 64 * MB < usable_memory() <= ALL_MEMORY
    assert 1 <= usable_processors() <= (os.cpu_count() or 1)
