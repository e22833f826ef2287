"""Tuning of the C library's allocator: a query allocates the same few megabytes again for every block."""

import ctypes
from functools import cache

# the constants of malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEPT_BYTES = 64 << 20
_MAPPED_BYTES = 32 << 20
# a query that leaves more than this free at the heap's end has it trimmed to the size below
_FREE_BYTES_MAX = 20 << 20
_FREE_BYTES_KEPT = 8 << 20


@cache
def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version") else None


@cache
def keep_freed_memory() -> None:
    """Keep up to 64 MiB of freed arrays (of up to 32 MiB each) in each arena for reuse, instead of returning them at once.

    By default glibc returns what exceeds twice the largest array so far, and each page allocated again costs a page fault:
    a sum over CASE of 20 million rows took 278 ms that way, and 160 without. No effect with other C libraries.
    """
    libc = _glibc()
    if libc is not None:
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def share_one_arena() -> None:
    """Make all threads allocate from one heap; to be called before the first of them starts.

    By default each thread has an arena, whose free memory other threads cannot use; `malloc_trim` does not even
    return the end of any arena but the first (glibc 2.36). Queries make few large arrays, so contention is rare. For
    processes that run only Gamay; `give_back_surplus` has an effect only after this call.
    """
    libc = _glibc()
    if libc is not None and libc.mallopt(_ARENA_MAX, 1):
        _heap.is_shared = True


class _Heap:
    is_shared = False


_heap = _Heap()


class _MallInfo(ctypes.Structure):
    """struct mallinfo2; keepcost: the free bytes at the end of the heap."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    )]  # fmt: skip


@cache
def _mallinfo() -> "ctypes._NamedFuncPointer | None":
    libc = _glibc()
    if libc is None or not hasattr(libc, "mallinfo2"):  # since glibc 2.33
        return None
    libc.mallinfo2.restype = _MallInfo
    return libc.mallinfo2


def give_back_surplus() -> None:
    """Return most of the memory that a query has freed to the system, if it is much: only a query as large needs it again.

    Allocating it again costs such a query a twentieth of its time. No effect if threads have separate heaps.
    """
    mallinfo, libc = _mallinfo() if _heap.is_shared else None, _glibc()
    if mallinfo is None or libc is None:
        return
    if mallinfo().keepcost > _FREE_BYTES_MAX:
        libc.malloc_trim(ctypes.c_size_t(_FREE_BYTES_KEPT))


def trim_heap() -> None:
    """Return all free memory of the heap to the system, which takes milliseconds. No effect with other C libraries."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)
