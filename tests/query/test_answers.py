"""Properties of answers of a small table other than their rows, which are the cases of `tests/sql/answers`."""

from typing import Any

import pytest

from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.types import DataType


def test_virtual_columns(trips: Any) -> None:
    assert trips.rows("SELECT $docId, $segmentName, $hostName FROM trips WHERE day = 4 LIMIT 2") == [
        (0, "trips_1", "host-1"),
        (1, "trips_1", "host-1"),
    ]
    assert trips.rows("SELECT COUNT(*) FROM trips WHERE $docId BETWEEN 5 AND 6") == [(4,)]
    assert trips.rows("SELECT $segmentName, COUNT(*) FROM trips GROUP BY $segmentName ORDER BY $segmentName") == [
        ("trips_0", 40),
        ("trips_1", 60),
    ]
    assert trips.rows("SELECT COUNT(*) FROM trips WHERE $segmentName = 'trips_0'") == [(40,)]
    assert trips.rows("SELECT $partitionId, $totalDocs FROM trips LIMIT 1") == [([""], 40)]
    assert trips.rows("SELECT DISTINCT $totalDocs FROM trips WHERE $crc <> 0 ORDER BY $totalDocs") == [(40,), (60,)]


def test_columns_that_a_segment_does_not_have_read_as_their_default(trips: Any) -> None:
    newer = Schema(
        "trips",
        (
            *trips.schema.fields,
            FieldSpec("zone", DataType.STRING, default_null_value="?"),
            FieldSpec("n", DataType.INT, single_value=False),
        ),
    )
    table = type(trips)(newer, trips.segments, trips.pool)
    assert table.rows("SELECT zone, n, COUNT(*) FROM trips GROUP BY zone, n") == [("?", -(2**31), 100)]
    assert table.rows("SELECT COUNT(*) FROM trips WHERE zone IS NULL AND n < 0") == [(100,)]
    assert table.rows("SELECT zone, n FROM trips WHERE day = 3 ORDER BY zone, day LIMIT 1") == [("?", [-(2**31)])]


def test_results_do_not_depend_on_how_rows_are_divided(build_table: Any) -> None:
    queries = (
        "SELECT city, COUNT(*), SUM(price) FROM trips GROUP BY city ORDER BY city",
        "SELECT day, price FROM trips WHERE kind < 2 ORDER BY kind, price DESC LIMIT 20",
        "SELECT day, city, price FROM trips WHERE kind <> 1 LIMIT 70",
        "SELECT MIN(price), MAX(day), AVG(kind) FROM trips WHERE tags = 't2'",
    )
    whole, parts = build_table((300,)), build_table((1, 99, 100, 7, 93))
    for sql in queries:
        assert whole.rows(sql) == parts.rows(sql)


@pytest.mark.parametrize("days", [2, 5])
def test_some_keys_of_group_by_may_be_selected(trips: Any, days: int) -> None:
    pairs = trips.rows(f"SELECT DISTINCT day, kind FROM trips WHERE day < {days} ORDER BY day, kind LIMIT 100")
    rows = trips.rows(f"SELECT kind FROM trips WHERE day < {days} GROUP BY day, kind ORDER BY day, kind LIMIT 100")
    assert rows == [(kind,) for _, kind in pairs]
    assert len(set(rows)) < len(rows)
