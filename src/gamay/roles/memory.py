"""Release of memory that only the start needed.

A server compiles, or loads, its kernels when it starts. The remains are not needed to serve: free lists of the
allocators, and above all code that does not run again, most of it LLVM's (70 MiB). Code pages are backed by the library's
file: the system can reuse their memory as soon as no process maps them, and maps them again when they run.
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
    """Make Arrow use the system allocator, so that memory freed by its strings serves other arrays.

    Arrow's own allocator keeps memory that a thread freed until that thread allocates again. For role processes.
    """
    pa.set_memory_pool(pa.system_memory_pool())


def release() -> None:
    """Release memory that is free or no longer needed, where the system supports it.

    The remaining objects are long-lived and are frozen in Python's garbage collector, since scanning them repeatedly
    would take 5 % of the time of small queries.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    trim()
    _release_code(ctypes.CDLL(None), "")


def trim() -> None:
    """Release memory freed by large queries, and the compiler's code.

    It takes a millisecond, and is safe in processes that merely embed Gamay.
    """
    pa.default_memory_pool().release_unused()
    trim_heap()
    _release_code(ctypes.CDLL(None), _COMPILER)


def process_tasks(sample: Callable[[], object]) -> list[PeriodicTask]:
    """Return the periodic tasks of a role process. sample: samples its metrics history."""
    return [
        PeriodicTask("MemoryTrim", TRIM_S, trim),
        PeriodicTask("MemoryRelease", _RELEASE_S, release),
        PeriodicTask("MetricsHistory", STEP_S, sample),
    ]


def _release_code(libc: ctypes.CDLL, library: str) -> None:
    if hasattr(libc, "madvise"):
        for start, size in _code(library):
            # a refusal changes nothing and is not a failure
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
        return  # not Linux
    for addresses, permissions, *_ in lines:
        start, _, end = addresses.partition("-")
        if permissions == "r-xp":
            yield int(start, 16), int(end, 16) - int(start, 16)
