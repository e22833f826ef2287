"""Limit on the bytes of rows that a task holds before it builds a segment from them."""

import resource
from pathlib import Path

_UNLIMITED_BYTES = 1 << 30
_LEAST_BYTES = 16 << 20
_SHARE = 4  # divisor: the rows, the sorted copy of the largest column, the encoded columns, and the archive


def rows_bytes_max() -> int:
    """Return the limit for this process: a GiB, or less if `spark.executor.pyspark.memory` is smaller.

    Spark limits the address space of its Python workers by that setting, which includes loaded libraries.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return _UNLIMITED_BYTES
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    left = limit - pages * resource.getpagesize()
    return min(max(left // _SHARE, _LEAST_BYTES), _UNLIMITED_BYTES)
