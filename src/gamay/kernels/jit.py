"""The one decorator of all kernels: compiled on first use, without the GIL, and cached on disk.

The cache lies in the first writable of $GAMAY_CACHE_DIR, $XDG_CACHE_HOME/gamay, ~/.cache/gamay and the temporary
folder, never in the installation, which may be read-only. Numba writes each entry under a temporary name and renames it,
so processes that compile the same kernel at once cost each other time, never correctness.
"""

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def _candidates() -> Iterator[Path]:
    if named := os.environ.get("GAMAY_CACHE_DIR"):
        yield Path(named)
    if cache_home := os.environ.get("XDG_CACHE_HOME"):
        yield Path(cache_home) / "gamay"
    if os.path.expanduser("~") != "~":
        yield Path("~/.cache/gamay").expanduser()
    yield Path(tempfile.gettempdir()) / f"gamay-{os.getuid()}"


def cache_dir() -> Path:
    """Return the folder of compiled kernels, made if need be; raises OSError when no candidate can be written.

    Warns (UserWarning) where $GAMAY_CACHE_DIR cannot be.
    """
    tried = []
    for candidate in _candidates():
        folder = candidate / "kernels"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            tried.append(f"{folder} ({reason.strerror})")
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            if tried and "GAMAY_CACHE_DIR" in os.environ:
                warnings.warn(f"GAMAY_CACHE_DIR: {tried[0]}; compiled kernels are kept in {folder}", stacklevel=2)
            return folder
        tried.append(f"{folder} (not writable)")
    raise OSError(f"no folder for compiled kernels can be written: {', '.join(tried)}; set GAMAY_CACHE_DIR to one")


# Numba reads it when it is first imported, so it must be set before.
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_dir()))

from numba import njit  # noqa: E402
from numba.core import event  # noqa: E402

from gamay.kernels.cache import KernelCache  # noqa: E402


class _CompilerWatch(event.Listener):
    """Adds up the time of compiling: one thread at a time does it, and within a kernel those that it calls."""

    def __init__(self) -> None:
        self._depth = 0
        self._since_s = 0.0
        self._ended_s = 0.0

    def on_start(self, event: event.Event) -> None:
        if self._depth == 0:
            self._since_s = time.monotonic()
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._ended_s += time.monotonic() - self._since_s

    def total_s(self) -> float:
        under_way_s = time.monotonic() - self._since_s if self._depth else 0.0
        return self._ended_s + under_way_s


_WATCH = _CompilerWatch()
event.register("numba:compile", _WATCH)  # type: ignore[no-untyped-call]


def compiling_s() -> float:
    """Return the seconds that this process has spent on compiling kernels so far."""
    return _WATCH.total_s()


def kernel(function: F) -> F:
    """Compile a function of arrays and numbers for each combination of argument types it is called with."""
    dispatcher: Any = njit(nogil=True, error_model="numpy")(function)
    dispatcher._cache = KernelCache(function)  # what `cache=True` does, loaded with less
    return cast(F, dispatcher)


def inlined(function: F) -> F:
    """Compile a part of kernels, which is copied into each: a call counts references to its arrays, 5 ns for each."""
    return cast(F, njit(nogil=True, error_model="numpy", inline="always")(function))
