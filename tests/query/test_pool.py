"""The pool runs every task once, raises the errors of tasks, and never deadlocks on itself."""

import threading
import time

import pytest
from tests.waiting import PATIENCE_S

from gamay.query.pool import WorkPool


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("tasks", [0, 1, 2, 50])
def test_results_come_in_order(threads: int, tasks: int) -> None:
    with WorkPool(threads) as pool:
        assert pool.run([lambda i=i: i * i for i in range(tasks)]) == [i * i for i in range(tasks)]


def test_tasks_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)
    with WorkPool(2) as pool:
        assert sorted(pool.run([both.wait, both.wait])) == [0, 1]


def test_a_single_task_stays_in_the_thread() -> None:
    with WorkPool(3) as pool:
        assert pool.run([threading.get_ident]) == [threading.get_ident()]


def test_tasks_within_tasks_run_inline() -> None:
    with WorkPool(2) as pool:

        def outer() -> list[int]:
            assert pool.usable_threads == 1
            return pool.run([threading.get_ident] * 3)

        for idents in pool.run([outer] * 8):
            assert len(set(idents)) == 1
        assert pool.usable_threads == 2


def test_the_first_error_is_raised_and_the_rest_is_not_begun() -> None:
    begun: list[int] = []

    def task(i: int) -> None:
        begun.append(i)
        time.sleep(0.001)
        if i == 3:
            raise KeyError(i)

    with WorkPool(2) as pool:
        with pytest.raises(KeyError):
            pool.run([lambda i=i: task(i) for i in range(500)])
        assert len(begun) < 20
        assert pool.run([lambda: 1, lambda: 2]) == [1, 2]


def test_many_callers_share_the_threads() -> None:
    with WorkPool(2) as pool:
        results: list[list[int]] = []
        callers = [
            threading.Thread(target=lambda: results.append(pool.run([lambda i=i: i for i in range(200)]))) for _ in range(6)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(PATIENCE_S)
        assert results == [list(range(200))] * 6


def test_a_pool_needs_a_thread() -> None:
    with pytest.raises(ValueError, match="at least one"):
        WorkPool(0)
