"""Releasing memory changes no answer."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

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


def test_a_query_that_was_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    """Without waiting for Python's collector of cycles, which counts objects, not the bytes of arrays."""
    rows = 100_000
    with gamay.connect(tmp_path, threads=2) as db:
        for number in range(4):
            keys = [f"user {i}" for i in range(number * rows, (number + 1) * rows)]
            data = pa.table({"s": keys, "n": range(rows), "g": [i % 7 for i in range(rows)]})
            config = {"tableIndexConfig": {"noDictionaryColumns": ["s", "n"]}}
            db.append("t", data) if number else db.create_table("t", data, config=config)
        queries = [
            "SELECT DISTINCTCOUNT(s) FROM t",
            "SELECT s, n, COUNT(*) FROM t GROUP BY s, n ORDER BY 3 LIMIT 10",
            "SELECT s, n FROM t ORDER BY n, s LIMIT 400000",
            "SELECT g, ARRAYAGG(s, 'STRING') FROM t GROUP BY g",
            "SELECT DISTINCT s, g FROM t LIMIT 1000000",
        ]
        for query in queries:  # so that what is loaded once is loaded
            with pytest.raises(gamay.QueryError):
                db.sql(query, maxQueryMemoryBytes=2_000_000)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            before, allocated = tracemalloc.get_traced_memory()[0], pa.total_allocated_bytes()
            for query in queries:
                with pytest.raises(gamay.QueryError, match="maxQueryMemoryBytes"):
                    db.sql(query, maxQueryMemoryBytes=2_000_000)
                assert pa.total_allocated_bytes() - allocated < 100_000, query
                assert tracemalloc.get_traced_memory()[0] - before < 1_000_000, query
        finally:
            tracemalloc.stop()
            gc.enable()
