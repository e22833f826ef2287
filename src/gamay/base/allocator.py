"""How the C library's allocator keeps memory that was freed: a query takes the same few megabytes again for every block."""

import ctypes
from functools import cache

# the numbers of malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEPT_BYTES = 64 << 20
_MAPPED_BYTES = 32 << 20
# what a query leaves free, from which on only some of it is kept for the next
_FREE_BYTES_MAX = 20 << 20
_FREE_BYTES_KEPT = 8 << 20


@cache
def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version") else None


@cache
def keep_freed_memory() -> None:
    """Let freed arrays of up to 32 MiB be used again, up to 64 MiB of them in each arena, not given back at once.

    By default glibc gives back what exceeds twice the largest array so far, and each page that is taken again costs a fault:
    a sum over CASE of 20 million rows took 278 ms with that, and 160 without. Nothing happens where the library is another.
    """
    libc = _glibc()
    if libc is not None:
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def share_one_arena() -> None:
    """Let all threads take memory from one heap; to be called before the first of them starts.

    By default each thread has its own, and what it has freed there none of the others can use: `malloc_trim` does not even
    give back the end of any but the first (glibc 2.36). Queries make few large arrays, so threads hardly ever meet. For
    processes that are all Gamay's; `give_back_surplus` acts in them.
    """
    libc = _glibc()
    if libc is not None and libc.mallopt(_ARENA_MAX, 1):
        _heap.is_shared = True


class _Heap:
    is_shared = False


_heap = _Heap()


class _MallInfo(ctypes.Structure):
    """struct mallinfo2; keepcost: the free bytes at the heap's end."""

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
    """Give back most of what a query has freed, if that is much: the next needs it again only if it is as large.

    Taking it again costs such a query a twentieth of its time. Nothing happens where threads have heaps of their own.
    """
    mallinfo, libc = _mallinfo() if _heap.is_shared else None, _glibc()
    if mallinfo is None or libc is None:
        return
    if mallinfo().keepcost > _FREE_BYTES_MAX:
        libc.malloc_trim(ctypes.c_size_t(_FREE_BYTES_KEPT))


def trim_heap() -> None:
    """Give back all that is free in the heap, which takes milliseconds; nothing happens where the library is another."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)
