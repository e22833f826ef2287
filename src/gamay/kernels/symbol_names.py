"""Names in machine code that no two processes give to different functions.

Numba tells functions of one name apart by a number that it counts up in each process: `partition` within `np.sort` and the
one within `np.argsort` are two functions, both of `make_quicksort_impl`. Code of several processes meets where it is loaded
from the cache, and of two functions with one name the first is called for both: a crash, or another result. So each process
begins to count at a number drawn at random.
"""

import itertools
import os
import secrets

from numba.core.bytecode import FunctionIdentity

_NUMBER_BITS = 48


def _count_anew() -> None:
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(_NUMBER_BITS))


def use_own_names() -> None:
    """Count from a number of this process's own, and in processes that are forked from it from theirs."""
    _count_anew()
    os.register_at_fork(after_in_child=_count_anew)
