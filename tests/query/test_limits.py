"""Limits on the search of DISTINCT, and LIMIT."""

from typing import Any

import pytest

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import ErrorCode, QueryError


@pytest.fixture(scope="module")
def long(build_table: Any) -> Any:
    """Three segments; `day` changes every tenth row and is never repeated, `kind` has four values."""
    return build_table((30_000, 20_000, 10_000), no_dictionary_columns=("price",))


class TestDistinct:
    def test_rows_are_bounded(self, long: Any) -> None:
        sql = "SET maxRowsInDistinct = {}; SELECT DISTINCT day, kind FROM trips LIMIT 100000"
        answer = long.answer(sql.format(1005))
        assert answer.stats.max_rows_in_distinct_reached
        assert answer.stats.num_docs_scanned == 1005
        assert set(answer.table.rows()) == {(i // 10, i % 4) for i in range(1005)}
        everything = long.answer(sql.format(60_000))
        assert not everything.stats.max_rows_in_distinct_reached
        assert everything.table.num_rows == 24_000
        assert long.answer(sql.format(59_999)).stats.max_rows_in_distinct_reached

    def test_only_matching_rows_count(self, long: Any) -> None:
        sql = "SET maxRowsInDistinct = 100; SELECT DISTINCT day FROM trips WHERE kind = 1 AND price > 10 LIMIT 1000"
        answer = long.answer(sql)
        assert answer.stats.num_docs_scanned == 100
        matching = [i for i in range(60_000) if i % 4 == 1 and i / 2 > 10][:100]
        assert {row[0] for row in answer.table.rows()} == {i // 10 for i in matching}

    def test_the_search_ends_when_nothing_new_comes(self, long: Any) -> None:
        sql = "SET maxRowsWithoutChangeInDistinct = 500; SELECT DISTINCT {} FROM trips WHERE price >= 0 LIMIT 100000"
        answer = long.answer(sql.format("kind"))
        assert answer.stats.max_rows_without_change_in_distinct_reached
        assert sorted(answer.table.rows()) == [(0,), (1,), (2,), (3,)]
        assert answer.stats.num_docs_scanned == 1000  # the first 500 were new
        assert not long.answer(sql.format("day")).stats.max_rows_without_change_in_distinct_reached

    def test_time_is_bounded(self, long: Any) -> None:
        class Slow(Clock):
            now = 0.0

            def monotonic_s(self) -> float:
                self.now += 0.01
                return self.now

            def now_ms(self) -> int:
                return SYSTEM_CLOCK.now_ms()

            def thread_cpu_ns(self) -> int:
                return 0

        sql = "SET maxExecutionTimeMsInDistinct = 60; SELECT DISTINCT day FROM trips WHERE price >= 0 LIMIT 100000"
        answer = long.answer(sql, clock=Slow())
        assert answer.stats.max_execution_time_in_distinct_reached
        assert 0 < answer.table.num_rows < 6000

    def test_bounds_go_with_an_order(self, long: Any) -> None:
        sql = "SET maxRowsInDistinct = 1000; SELECT DISTINCT day FROM trips ORDER BY day DESC LIMIT 2"
        assert long.rows(sql) == [(99,), (98,)]

    def test_enough_rows_are_no_bound(self, long: Any) -> None:
        answer = long.answer("SET maxRowsInDistinct = 50000; SELECT DISTINCT kind, city FROM trips LIMIT 5")
        assert answer.table.num_rows == 5
        assert not answer.stats.max_rows_in_distinct_reached

    def test_no_rows(self, long: Any) -> None:
        sql = "SET maxRowsInDistinct = 10; SELECT DISTINCT day, kind FROM trips WHERE price < 0 {}"
        assert long.rows(sql.format("")) == []
        assert long.rows(sql.format("ORDER BY day")) == []


@pytest.mark.parametrize(
    ("clause", "days"),
    [
        ("", range(10)),
        ("LIMIT 3", range(3)),
        ("LIMIT 2, 3", range(2, 5)),
        ("LIMIT 3 OFFSET 2", range(2, 5)),
        ("OFFSET 2 ROWS FETCH FIRST 3 ROWS ONLY", range(2, 5)),
        ("FETCH NEXT 1 ROW ONLY", range(1)),
        ("LIMIT 0", range(0)),
        ("LIMIT 5 OFFSET 5998", range(5998, 6000)),
        ("LIMIT 5 OFFSET 6000", range(0)),
    ],
)
def test_forms_of_limit(long: Any, clause: str, days: range) -> None:
    answer = long.answer(f"SELECT day, count(*) FROM trips GROUP BY day ORDER BY day {clause}")
    assert [row[0] for row in answer.table.rows()] == list(days)
    assert answer.table.types == ("INT", "LONG")


@pytest.mark.parametrize("sql", ["SELECT day, city FROM trips LIMIT 0", "SELECT day, city FROM trips ORDER BY day LIMIT 0"])
def test_limit_0_gives_the_schema(long: Any, sql: str) -> None:
    answer = long.answer(sql)
    assert answer.table.rows() == []
    assert answer.table.types == ("INT", "STRING")


def test_a_limit_beyond_32_bits(long: Any) -> None:
    with pytest.raises(QueryError, match="exceeds maximum allowed value of 2147483647") as raised:
        long.rows("SELECT day FROM trips LIMIT 2147483648")
    assert raised.value.code is ErrorCode.QUERY_VALIDATION


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        ("LIMIT 1.5", "must be a whole number"),
        ("LIMIT -1", "whole number"),
        ("LIMIT 1 LIMIT 2", "unexpected"),
        ("FETCH FIRST x ROWS ONLY", "whole number"),
        ("LIMIT", "whole number"),
    ],
)
def test_wrong_limits(long: Any, clause: str, words: str) -> None:
    with pytest.raises(QueryError) as raised:
        long.rows(f"SELECT day FROM trips {clause}")
    assert raised.value.code is ErrorCode.SQL_PARSING
    assert words in str(raised.value)
