"""The shared heap returns its free end to the system; tested in a separate process, because it cannot be undone."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries keep memory otherwise")

_CODE = """
import ctypes
import threading

from gamay.base import allocator

if {shared}:
    allocator.share_one_arena()
allocator.keep_freed_memory()
import numpy as np


def resident():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) >> 10


def work():
    arrays = [np.ones(1 << 20) for _ in range(6)]
    del arrays


before = resident()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()
kept = resident() - before
allocator.give_back_surplus()
print(kept, resident() - before)
"""


def _grown_mb(*, shared: bool) -> tuple[int, int]:
    done = subprocess.run([sys.executable, "-c", _CODE.format(shared=shared)], capture_output=True, text=True, check=True)
    kept, left = done.stdout.split()
    return int(kept), int(left)


def test_what_threads_have_freed_is_given_back_but_for_a_little() -> None:
    kept, left = _grown_mb(shared=True)
    assert 40 <= kept <= 64  # for each other thread again, not once for each
    assert left <= 12


def test_a_process_that_is_not_all_gamays_keeps_its_heaps() -> None:
    kept, left = _grown_mb(shared=False)
    assert left == kept
