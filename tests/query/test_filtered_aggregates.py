"""`agg(x) FILTER (WHERE condition)`: names, groups without matching rows, counters and plans. Values: tests/oracle."""

from typing import Any

import pytest

from gamay.base.errors import ErrorCode, QueryError


def test_names_and_values(trips: Any) -> None:
    answer = trips.answer(
        "SELECT count(*), sum(price) FILTER (WHERE kind > 1 AND city IN ('Lima', 'Oslo')) AS s, "
        "count(*) FILTER(WHERE NOT kind = 3), max(price) FILTER (WHERE day BETWEEN 2 AND 4), "
        "avg(price) FILTER (WHERE city IS NULL OR kind <> 1) FROM trips"
    )
    assert answer.table.names == (
        "count(*)",
        "s",
        "count(*) FILTER(WHERE (NOT kind = '3'))",
        "max(price) FILTER(WHERE day BETWEEN '2' AND '4')",
        "avg(price) FILTER(WHERE (city IS NULL OR kind != '1'))",
    )
    rows = range(100)
    cities = {i: ("Lima", "Oslo", "Rome")[i % 3] if i % 7 else None for i in rows}
    averaged = [i / 2 for i in rows if cities[i] is None or i % 4 != 1]
    assert answer.table.rows() == [
        (
            100,
            sum(i / 2 for i in rows if i % 4 > 1 and cities[i] in ("Lima", "Oslo")),
            75,
            24.5,
            sum(averaged) / len(averaged),
        )
    ]


def test_a_name_shows_the_condition(trips: Any) -> None:
    answer = trips.answer(
        "SELECT sum(price) FILTER (WHERE kind > 2), sum(price) FILTER (WHERE kind < day AND day IN (1, kind)), "
        "sum(price) FILTER (WHERE (kind > 2) IS TRUE) FROM trips"
    )
    rows = range(100)
    assert answer.table.names == (
        "sum(price) FILTER(WHERE kind > '2')",
        "sum(price) FILTER(WHERE (less_than(kind,day) = 'true' AND in(day,'1',kind) = 'true'))",
        "sum(price) FILTER(WHERE kind > '2')",
    )
    wanted = [sum(i / 2 for i in rows if i % 4 > 2), sum(i / 2 for i in rows if i % 4 < i // 10 and i // 10 in (1, i % 4))]
    assert answer.table.rows() == [(wanted[0], wanted[1], wanted[0])]


def test_groups_come_from_where_unless_empty_ones_are_skipped(trips: Any) -> None:
    sql = "SELECT kind, count(*) FILTER (WHERE kind = 1), sum(price) FILTER (WHERE kind = 1) FROM trips GROUP BY kind"
    assert trips.rows(f"{sql} ORDER BY kind") == [(0, 0, 0.0), (1, 25, 612.5), (2, 0, 0.0), (3, 0, 0.0)]
    skip = "SET filteredAggregationsSkipEmptyGroups = true; "
    assert trips.rows(skip + sql) == [(1, 25, 612.5)]
    several = "SELECT kind, count(*) FILTER (WHERE kind = 1), count(*) FILTER (WHERE kind = 2) FROM trips GROUP BY kind"
    assert sorted(trips.rows(skip + several)) == [(1, 25, 0), (2, 0, 25)]
    unfiltered = sql.replace("sum(price) FILTER (WHERE kind = 1)", "count(*)")
    assert len(trips.rows(skip + unfiltered)) == 4


@pytest.mark.parametrize(
    ("select", "docs", "entries"),
    [
        ("count(*) FILTER (WHERE kind = 1)", 25, 0),
        ("count(*) FILTER (WHERE kind = 1), count(*) FILTER (WHERE kind = 2), count(*)", 150, 0),
        ("sum(price) FILTER (WHERE kind = 1)", 25, 25),
        ("sum(price) FILTER (WHERE kind = 1), max(day) FILTER (WHERE kind = 1)", 25, 50),
        ("sum(price) FILTER (WHERE kind = 1), max(day) FILTER (WHERE kind IN (1, 2))", 75, 75),
        ("sum(price) FILTER (WHERE kind = 1), max(price)", 125, 125),
        ("kind, sum(price) FILTER (WHERE kind = 1)", 125, 150),
        ("kind, sum(price) FILTER (WHERE kind = 1), sum(price)", 125, 250),
    ],
)
def test_every_clause_counts_its_rows_and_values(trips: Any, select: str, docs: int, entries: int) -> None:
    group_by = " GROUP BY kind" if select.startswith("kind") else ""
    stats = trips.answer(f"SELECT {select} FROM trips{group_by}").stats
    assert (stats.num_docs_scanned, stats.num_entries_scanned_post_filter) == (docs, entries)
    assert stats.num_entries_scanned_in_filter == 0  # kind has an inverted index


def test_a_scan_counts_the_values_that_it_reads_once(trips: Any) -> None:
    sql = "SELECT count(*) FILTER (WHERE city > 'Lima'), sum(day) FILTER (WHERE city > 'Lima'), count(*) FROM trips"
    assert trips.answer(sql).stats.num_entries_scanned_in_filter == 100


def test_indexes_narrow_what_is_read_when_every_aggregate_has_a_clause(trips: Any) -> None:
    answer = trips.answer("SELECT sum(price) FILTER (WHERE day = 3), sum(price) FILTER (WHERE day = 9) FROM trips")
    assert answer.table.rows() == [(172.5, 472.5)]
    assert answer.stats.num_docs_scanned == 20


def test_no_segment_is_left(trips: Any) -> None:
    assert trips.rows("SELECT count(*) FILTER (WHERE day > 99), sum(price) FILTER (WHERE day < 0) FROM trips") == [(0, 0.0)]
    assert trips.rows("SELECT count(*) FILTER (WHERE 1 = 2), count(*) FILTER (WHERE 1 = 1) FROM trips") == [(0, 100)]


def test_having_and_order_by_take_filtered_aggregates(trips: Any) -> None:
    sql = (
        "SELECT city, count(*) FILTER (WHERE kind = 0) AS zero FROM trips GROUP BY city "
        "HAVING count(*) FILTER (WHERE kind = 0) > 6 ORDER BY sum(price) FILTER (WHERE kind = 0) DESC"
    )
    found = trips.rows(sql)
    zero = [i for i in range(100) if i % 4 == 0]
    sums: dict[str, list[float]] = {}
    for i in zero:
        sums.setdefault(("Lima", "Oslo", "Rome")[i % 3] if i % 7 else "null", []).append(i / 2)
    expected = sorted(((sum(v), k, len(v)) for k, v in sums.items() if len(v) > 6), reverse=True)
    assert found == [(city, count) for _, city, count in expected]


def test_multi_value_keys_and_conditions(trips: Any) -> None:
    filtered = "count(*) FILTER (WHERE tags = 't4'), sum(price) FILTER (WHERE kind = 1)"
    sql = f"SELECT tags, count(*), {filtered} FROM trips GROUP BY tags"
    expected: dict[str, list[float]] = {}
    for i in range(100):
        tags = [f"t{i % 3}", f"t{i % 5}"]
        for tag in tags:
            entry = expected.setdefault(tag, [0, 0, 0.0])
            entry[0] += 1
            entry[1] += "t4" in tags
            entry[2] += i / 2 if i % 4 == 1 else 0
    assert sorted(trips.rows(sql)) == [(tag, *entry) for tag, entry in sorted(expected.items())]


def test_plans_show_a_branch_for_each_clause(trips: Any) -> None:
    sql = "EXPLAIN PLAN FOR SELECT count(*), sum(price) FILTER (WHERE kind = 1) FROM trips WHERE city = 'Oslo'"
    operators = [row[0] for row in trips.rows(sql)]
    assert operators[1:] == [
        "COMBINE_AGGREGATE",
        "PLAN_START(numSegmentsForThisPlan:2)",
        "AGGREGATE_FILTERED(aggregations:count(*), sum(price) FILTER(WHERE kind = '1'))",
        "PROJECT()",
        "DOC_ID_SET",
        "FILTER_FULL_SCAN(operator:EQ,predicate:city = 'Oslo')",
        "PROJECT(price)",
        "DOC_ID_SET",
        "FILTER_AND",
        "FILTER_FULL_SCAN(operator:EQ,predicate:city = 'Oslo')",
        "FILTER_INVERTED_INDEX(indexLookUp:inverted_index,operator:EQ,predicate:kind = '1')",
    ]
    grouped = "EXPLAIN PLAN FOR SELECT city, sum(price) FILTER (WHERE kind = 1) FROM trips GROUP BY city"
    assert any(row[0].startswith("GROUP_BY_FILTERED(groupKeys:city,") for row in trips.rows(grouped))


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        ("SELECT city FILTER (WHERE day = 1) FROM trips", ErrorCode.SQL_PARSING, ""),
        ("SELECT upper(city) FILTER (WHERE day = 1) FROM trips", ErrorCode.SQL_PARSING, "must follow an aggregate"),
        ("SELECT sum(price) FILTER (day = 1) FROM trips", ErrorCode.SQL_PARSING, "expected WHERE"),
        ("SELECT sum(price) FILTER (WHERE) FROM trips", ErrorCode.SQL_PARSING, "expected an expression after `WHERE`"),
        ("SELECT sum(price) FILTER (WHERE sum(day) > 1) FROM trips", ErrorCode.SQL_PARSING, "not allowed inside FILTER"),
        ("SELECT sum(price) FILTER (WHERE nosuch = 1) FROM trips", ErrorCode.UNKNOWN_COLUMN, "nosuch"),
        ("SELECT sum(price) FILTER (WHERE kind + 1) FROM trips", ErrorCode.QUERY_VALIDATION, "condition"),
        ("SELECT sum(price) FILTER (WHERE day = 1), city FROM trips", ErrorCode.SQL_PARSING, "without GROUP BY"),
        ('SELECT "filter(where)"(city) FROM trips', ErrorCode.SQL_PARSING, "Unknown function"),
    ],
)
def test_errors(trips: Any, sql: str, code: ErrorCode, words: str) -> None:
    with pytest.raises(QueryError) as raised:
        trips.rows(sql)
    assert raised.value.code is code
    assert words in str(raised.value)
