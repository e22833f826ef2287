"""Giving memory back changes no answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gamay.embedded.memory import release


def test_queries_go_on_after_memory_was_given_back(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("a", [1, 2, 3]))
    query = "SELECT city, SUM(n) FROM trips GROUP BY city ORDER BY city"
    before = trips.rows(query)
    for _ in range(3):
        release()
        assert trips.rows(query) == before
    # a kernel that is compiled after that
    assert trips.rows("SELECT PERCENTILE(n, 50), MINMAXRANGE(n) FROM trips") == [[2.0, 2.0]]
    assert trips.controller.get("/periodictask/run", params={"taskname": "MemoryRelease"}).json()["isSuccessful"]
