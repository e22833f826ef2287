"""Giving memory back that only starting up needed.

A server compiles, or loads, its kernels when it starts. What that leaves behind is not needed to serve: free lists of the
allocators, and above all code, of LLVM most (70 MiB), that nothing runs again. Pages of code are those of the library's
file: the system may use their memory for other things as soon as no process maps them, and maps them anew where they run.
"""

import ctypes
import gc
from collections.abc import Callable, Iterator

import pyarrow as pa

from gamay.base.allocator import trim_heap
from gamay.base.history import STEP_S
from gamay.controller.health.periodic import PeriodicTask

TRIM_S = 10.0
"""Seconds between two calls of `trim`."""

_RELEASE_S = 600.0
_COMPILER = "/libllvmlite"
_MADV_DONTNEED = 4


def use_one_allocator() -> None:
    """Let Arrow take memory where everything else does, so what its texts leave free serves other arrays.

    Arrow's own allocator keeps what each thread has freed until that thread asks again. For processes that are a role.
    """
    pa.set_memory_pool(pa.system_memory_pool())


def release() -> None:
    """Give back what is free or no longer needed; nothing happens where the system has no way to do it.

    What is left is there to stay. Python's collector is told so, for looking at all of it again and again would take a
    twentieth of the time of small queries.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    trim()
    _release_code(ctypes.CDLL(None), "")


def trim() -> None:
    """Give back what large queries have freed, and the compiler's code: work of a millisecond, in any process.

    Nothing else of a process of which Gamay is only a part is touched.
    """
    pa.default_memory_pool().release_unused()
    trim_heap()
    _release_code(ctypes.CDLL(None), _COMPILER)


def process_tasks(sample: Callable[[], object]) -> list[PeriodicTask]:
    """Return what a process that is all Gamay's does from time to time. sample: remembers what it measures."""
    return [
        PeriodicTask("MemoryTrim", TRIM_S, trim),
        PeriodicTask("MemoryRelease", _RELEASE_S, release),
        PeriodicTask("MetricsHistory", STEP_S, sample),
    ]


def _release_code(libc: ctypes.CDLL, library: str) -> None:
    if hasattr(libc, "madvise"):
        for start, size in _code(library):
            # A refusal leaves things as they are, which is no failure.
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _MADV_DONTNEED)


def _code(library: str) -> Iterator[tuple[int, int]]:
    """Yield address and size of the code of each library in this process whose path has `library` in it.

    Code only: other parts of a library that are not writable may hold addresses that the linker wrote into them at the
    start, which would be lost.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            lines = [line.split(maxsplit=5) for line in maps if "/" in line and library in line]
    except OSError:
        return  # not a Linux
    for addresses, permissions, *_ in lines:
        start, _, end = addresses.partition("-")
        if permissions == "r-xp":
            yield int(start, 16), int(end, 16) - int(start, 16)
