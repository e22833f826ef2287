"""What each kind of query answers on a small table that a person can check by head."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.types import DataType


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT day, city FROM trips LIMIT 3", [(0, "null"), (0, "Oslo"), (0, "Rome")]),
        ("SELECT day FROM trips LIMIT 2 OFFSET 39", [(3,), (4,)]),
        ("SELECT price * 2 FROM trips ORDER BY price DESC LIMIT 2", [(99.0,), (98.0,)]),
        ("SELECT kind, day FROM trips ORDER BY kind DESC, day DESC LIMIT 3", [(3, 9), (3, 9), (3, 9)]),
        ("SELECT DISTINCT city FROM trips ORDER BY city DESC", [("null",), ("Rome",), ("Oslo",), ("Lima",)]),
        ("SELECT DISTINCT city FROM trips ORDER BY city LIMIT 2 OFFSET 1", [("Oslo",), ("Rome",)]),
        ("SELECT tags FROM trips LIMIT 2", [(["t0", "t0"],), (["t1", "t1"],)]),
        (
            "SELECT tags, COUNT(*) FROM trips WHERE day = 0 GROUP BY tags ORDER BY tags",
            [("t0", 6), ("t1", 5), ("t2", 5), ("t3", 2), ("t4", 2)],
        ),
        ("SELECT COUNT(*) FROM trips WHERE city IS NULL", [(15,)]),
        ("SELECT COUNT(*) FROM trips WHERE city IS NOT NULL AND city <> 'Oslo'", [(57,)]),
        ("SELECT kind, SUM(day) FROM trips GROUP BY kind HAVING SUM(day) > 112 ORDER BY 2 DESC", [(2, 115.0), (3, 115.0)]),
        ("SELECT SUM(day) + COUNT(*) FROM trips", [(550.0,)]),
        ("SELECT day + 1 FROM trips GROUP BY day HAVING day > 7 ORDER BY day DESC", [(10,), (9,)]),
        ("SELECT tags FROM trips GROUP BY tags HAVING tags > 't2' ORDER BY tags", [("t3",), ("t4",)]),
        (
            "SELECT kind FROM trips WHERE day < 2 GROUP BY day, kind HAVING kind <> 1 ORDER BY day DESC, kind LIMIT 2",
            [(0,), (2,)],
        ),
        ("SELECT 'group' FROM trips GROUP BY city", [("group",)] * 4),
        ("SELECT kind FROM trips WHERE day > 99 GROUP BY day, kind", []),
        ("SELECT COUNT(*) FROM trips HAVING COUNT(*) > 1000", []),
        ("SELECT SUM(day) FROM trips HAVING COUNT(*) = 100", [(450.0,)]),
        ("SELECT 'any' FROM trips HAVING COUNT(*) > 5", [("any",)]),
        ("SELECT COUNT(*) AS n FROM trips WHERE at < '1970-01-01 00:00:10'", [(10,)]),
        ("SELECT at FROM trips LIMIT 1", [(datetime(1970, 1, 1, tzinfo=UTC),)]),
        ("SELECT city IS NULL, COUNT(*) FROM trips GROUP BY city IS NULL ORDER BY 2", [(True, 15), (False, 85)]),
        ("SELECT SUM(CASE WHEN city IS NOT NULL THEN 1 ELSE 0 END) FROM trips", [(85.0,)]),
        ("SELECT COUNT(*) FROM trips WHERE CASE WHEN city IS NULL THEN day = 0 ELSE false END", [(2,)]),
        ("SELECT COUNT(*) FROM trips WHERE price BETWEEN 1 AND 2", [(3,)]),
        ("SELECT COUNT(*) FROM trips WHERE price BETWEEN SYMMETRIC 2 AND 1", [(3,)]),
        ("SELECT COUNT(*) FROM trips WHERE price NOT BETWEEN SYMMETRIC 3 AND 1", [(95,)]),
        ("SELECT COUNT(*) FROM trips WHERE day IN (1, 3) OR day = 5", [(30,)]),
        ("SELECT COUNT(*) FROM trips WHERE NOT (tags > 't0')", [(7,)]),
        ("SELECT COUNT(*) FROM trips WHERE tags <> 't0'", [(53,)]),
        ("SELECT COUNT(*) FROM trips WHERE 1 = 1 AND day < 1.5", [(20,)]),
        ("SELECT COUNT(*) FROM trips WHERE day = 1.5", [(0,)]),
        ("SELECT CITY, COUNT(*) FROM trips WHERE trips.DAY = 0 GROUP BY city ORDER BY city LIMIT 1", [("Lima", 3)]),
    ],
)
def test_answers(trips: Any, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert trips.rows(sql) == expected


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


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        (
            "SELECT citi FROM trips",
            ErrorCode.UNKNOWN_COLUMN,
            "Unknown columnName 'citi' found in the query. Did you mean 'city'",
        ),
        ("SELECT day FROM trips WHERE zz = 1", ErrorCode.UNKNOWN_COLUMN, "Unknown columnName 'zz'"),
        ("SELECT day FROM trips ORDER BY tags", ErrorCode.QUERY_VALIDATION, "multi-value"),
        ("SELECT day FROM trips WHERE kind = 'many'", ErrorCode.QUERY_VALIDATION, "'kind' of type INT"),
        ("SELECT day FROM trips WHERE kind + 1", ErrorCode.QUERY_VALIDATION, "condition"),
        ("SELECT day FROM trips WHERE kind", ErrorCode.QUERY_VALIDATION, "'kind' is INT; compare it"),
        ("SELECT day FROM trips WHERE day = 1 AND NOT city", ErrorCode.QUERY_VALIDATION, "'city' is STRING; compare it"),
        ("SELECT day FROM trips WHERE kind = NULL", ErrorCode.QUERY_VALIDATION, "NULL"),
        ("SELECT nosuchfunction(day) FROM trips", ErrorCode.QUERY_VALIDATION, "nosuchfunction"),
    ],
)
def test_errors_say_what_is_wrong(trips: Any, sql: str, code: ErrorCode, words: str) -> None:
    with pytest.raises(QueryError) as raised:
        trips.answer(sql)
    assert raised.value.code is code
    assert words in str(raised.value)


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
