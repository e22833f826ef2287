"""The counters of a response equal the values actually read."""

from typing import Any

import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import ErrorCode, QueryError


def counters(trips: Any, sql: str) -> tuple[int, int, int]:
    """Return documents scanned, and entries scanned in the filter and after it."""
    stats = trips.answer(sql).stats
    return stats.num_docs_scanned, stats.num_entries_scanned_in_filter, stats.num_entries_scanned_post_filter


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT COUNT(*) FROM trips", (100, 0, 0)),
        ("SELECT MIN(day), DISTINCTCOUNT(city), SUM(kind) FROM trips", (100, 0, 0)),
        ("SELECT COUNT(*) FROM trips WHERE kind = 2", (25, 0, 0)),  # inverted index
        ("SELECT COUNT(*) FROM trips WHERE day < 2", (20, 0, 0)),  # sorted index; the second segment is pruned
        ("SELECT SUM(day) FROM trips WHERE kind <> 2", (75, 0, 75)),
        ("SELECT SUM(day), MAX(day) FROM trips WHERE city = 'Oslo'", (28, 100, 28)),  # scan
        ("SELECT SUM(day) FROM trips WHERE city = 'Oslo' AND day = 3", (3, 10, 3)),  # scan of what the index leaves
        (
            "SELECT SUM(day) FROM trips WHERE price < 10",
            (20, 0, 20),
        ),  # raw but sorted, so searched; the second segment is pruned
        ("SELECT COUNT(*) FROM trips WHERE tags = 't4'", (20, 200, 0)),  # two values in each row
        ("SELECT city, SUM(day) FROM trips WHERE kind = 0 GROUP BY city", (25, 0, 50)),
        ("SELECT SUM(day) FROM trips WHERE kind + day > 11", (3, 200, 3)),  # documents times columns
        ("SELECT day, city FROM trips WHERE kind = 3 ORDER BY day DESC LIMIT 2", (15, 0, 15 + 2)),  # the later segment
        ("SELECT COUNT(*) FROM trips WHERE city = 'nowhere'", (0, 0, 0)),
    ],
)
def test_counters_are_exact(trips: Any, sql: str, expected: tuple[int, int, int]) -> None:
    assert counters(trips, sql) == expected


def test_segments_are_counted_by_what_became_of_them(trips: Any) -> None:
    stats = trips.answer("SELECT COUNT(*) FROM trips WHERE day >= 4").stats
    assert (stats.num_segments_queried, stats.num_segments_processed, stats.num_segments_matched) == (2, 1, 1)
    assert (stats.num_segments_pruned_by_server, stats.num_segments_pruned_by_value) == (1, 1)
    assert stats.total_docs == 100


def test_selection_reads_no_more_segments_than_its_limit_needs(trips: Any) -> None:
    stats = trips.answer("SELECT day FROM trips LIMIT 5").stats
    assert (stats.num_segments_pruned_by_limit, stats.num_segments_processed, stats.num_docs_scanned) == (1, 1, 5)
    assert trips.answer("SELECT day FROM trips LIMIT 0").stats.num_segments_processed == 1


@pytest.mark.parametrize(
    ("sql", "processed", "by_limit"),
    [
        # days 0 to 3, 3 to 6 and 7 to 9: by these alone the first two may have the first five, until the first is read
        ("SELECT day, city FROM trips ORDER BY day LIMIT 5", 1, 2),
        ("SELECT day FROM trips ORDER BY day DESC, city LIMIT 5", 1, 2),
        ("SELECT day FROM trips ORDER BY day LIMIT 36", 2, 1),
        ("SELECT day FROM trips ORDER BY day LIMIT 34 OFFSET 2", 2, 1),
        ("SELECT day FROM trips ORDER BY day LIMIT 71", 3, 0),
        ("SELECT day FROM trips ORDER BY kind, day LIMIT 5", 3, 0),
        ("SELECT day FROM trips ORDER BY day + 1 LIMIT 5", 3, 0),
        ("SELECT day FROM trips WHERE kind >= 0 AND city <> 'Rome' ORDER BY day LIMIT 5", 1, 2),
        ("SELECT day FROM trips ORDER BY day LIMIT 0", 1, 2),
    ],
)
def test_ordered_selection_reads_no_segment_behind_its_first_rows(
    build_table: Any, sql: str, processed: int, by_limit: int
) -> None:
    table = build_table((35, 35, 30))
    stats = table.answer(sql).stats
    assert (stats.num_segments_processed, stats.num_segments_pruned_by_limit) == (processed, by_limit)
    assert stats.num_segments_queried == processed + stats.num_segments_pruned_by_server
    every = table.rows(sql.partition(" LIMIT ")[0] + " LIMIT 1000")
    numbers = [int(word) for word in sql.partition(" LIMIT ")[2].split() if word.isdigit()]
    limit, offset = (*numbers, 0)[:2]
    assert table.rows(sql) == every[offset : offset + limit]


def test_nulls_are_not_where_the_bounds_of_a_column_are(build_table: Any) -> None:
    table = build_table((35, 35, 30))
    sql = "SELECT city FROM trips ORDER BY city DESC LIMIT 8"  # each segment has some without a city
    assert table.rows(f"SET enableNullHandling = true; {sql}") == [(None,)] * 8
    assert table.rows(sql) == [("null",)] * 8


def test_empty_segments_are_pruned(build_table: Any) -> None:
    table = build_table((0, 5, 0))
    assert table.rows("SELECT COUNT(*) FROM trips") == [(5,)]
    assert table.answer("SELECT COUNT(*) FROM trips").stats.num_segments_pruned_by_server == 2


def test_no_segments_give_an_empty_answer(build_table: Any) -> None:
    table = build_table((0,))
    assert table.rows("SELECT COUNT(*), SUM(day), DISTINCTCOUNT(city) FROM trips") == [(0, 0.0, 0)]
    assert table.rows("SELECT city, COUNT(*) FROM trips GROUP BY city") == []
    assert table.rows("SELECT DISTINCT city FROM trips") == []
    answer = table.answer("SELECT * FROM trips ORDER BY day")
    assert answer.table is not None
    assert answer.table.types == ("TIMESTAMP", "STRING", "INT", "INT", "DOUBLE", "STRING_ARRAY")


def test_a_passed_deadline_ends_the_query(trips: Any) -> None:
    with pytest.raises(QueryError, match="timeoutMs") as raised:
        trips.answer("SELECT city, SUM(price) FROM trips GROUP BY city", timeout_ms=0, clock=ManualClock())
    assert raised.value.code is ErrorCode.EXECUTION_TIMEOUT


def test_group_limit_is_flagged(trips: Any) -> None:
    stats = trips.answer("SET numGroupsLimit = 2; SELECT city, COUNT(*) FROM trips GROUP BY city").stats
    assert stats.num_groups_limit_reached
    with pytest.raises(QueryError, match="numGroupsLimit"):
        trips.answer("SET numGroupsLimit = 'many'; SELECT city, COUNT(*) FROM trips GROUP BY city")
