"""Works of one subtask, done by some threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], works: Sequence[T], at_once: int) -> list[R]:
    """Return what a function makes of each, in their order; the first failure ends what has not begun, and is raised."""
    with ThreadPoolExecutor(at_once, "task-works") as pool:
        try:
            return list(pool.map(function, works))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
