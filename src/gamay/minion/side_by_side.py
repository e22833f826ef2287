"""Parallel execution of the works of one subtask."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], works: Sequence[T], at_once: int) -> list[R]:
    """Return the results of a function in order; after the first failure, which is raised, no further call starts."""
    with ThreadPoolExecutor(at_once, "task-works") as pool:
        try:
            return list(pool.map(function, works))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
