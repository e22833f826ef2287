"""How the C library's allocator keeps memory that was freed: a query takes the same few megabytes again for every block."""

import ctypes
from functools import cache

# the numbers of malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 64 << 20
_MAPPED_BYTES = 32 << 20


@cache
def keep_freed_memory() -> None:
    """Let freed arrays of up to 32 MiB be used again, up to 64 MiB of them in each arena, not given back at once.

    By default glibc gives back what exceeds twice the largest array so far, and each page that is taken again costs a fault:
    a sum over CASE of 20 million rows took 278 ms with that, and 160 without. Nothing happens where the library is another.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
