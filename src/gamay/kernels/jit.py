"""The one decorator of all kernels: compiled on first use, without the GIL, and cached on disk."""

import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import event

from gamay.kernels.cache import KernelCache
from gamay.kernels.symbol_names import use_own_names

use_own_names()
F = TypeVar("F", bound=Callable[..., Any])


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


def kernel_needing(*features: str) -> Callable[[F], F]:
    """Do what `kernel` does, for processors with these features alone: others can neither run nor compile it."""

    def decorate(function: F) -> F:
        dispatcher: Any = kernel(function)
        dispatcher.needs = features
        return cast(F, dispatcher)

    return decorate


def inlined(function: F) -> F:
    """Compile a part of kernels, which is copied into each: a call counts references to its arrays, 5 ns for each."""
    return cast(F, njit(nogil=True, error_model="numpy", inline="always")(function))
