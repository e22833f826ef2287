"""Giving memory back changes no answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import gamay
from gamay.roles.memory import release, trim


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


def test_a_database_goes_on_after_the_compiler_was_given_back(tmp_path: Path) -> None:
    with gamay.connect(tmp_path) as db:
        db.create_table("t", pa.table({"city": ["Oslo", "Lima", "Oslo"], "n": [1, 2, 3]}))
        for query in (
            "SELECT MAX(n) FROM t GROUP BY city ORDER BY city",
            "SELECT AVG(n) FROM t GROUP BY city ORDER BY city",
            "SELECT MODE(n) FROM t",
        ):
            rows = db.sql(query).rows()
            trim()
            assert db.sql(query).rows() == rows
