"""EXPLAIN PLAN FOR: the operators, their ids and parents."""

from typing import Any

import pytest


def plan(trips: Any, sql: str) -> list[tuple[str, int, int]]:
    """Return the rows of the plan of a query."""
    answer = trips.answer(f"EXPLAIN PLAN FOR {sql}")
    assert answer.table is not None
    assert (answer.table.names, answer.table.types) == (("Operator", "Operator_Id", "Parent_Id"), ("STRING", "INT", "INT"))
    rows: list[tuple[str, int, int]] = answer.table.rows()
    return rows


def test_group_by_with_a_scan(trips: Any) -> None:
    assert plan(trips, "SELECT city, MAX(day) FROM trips WHERE city > 'M' GROUP BY city ORDER BY MAX(day) DESC") == [
        ("BROKER_REDUCE(sort:[max(day) DESC],limit:10)", 1, 0),
        ("COMBINE_GROUP_BY", 2, 1),
        ("PLAN_START(numSegmentsForThisPlan:2)", -1, -1),
        ("GROUP_BY(groupKeys:city, aggregations:max(day))", 3, 2),
        ("PROJECT(city, day)", 4, 3),
        ("DOC_ID_SET", 5, 4),
        ("FILTER_FULL_SCAN(operator:RANGE,predicate:city > 'M')", 6, 5),
    ]


def test_indexes_are_named(trips: Any) -> None:
    rows = plan(trips, "SELECT day, price * 2 FROM trips WHERE kind = 1 AND day < 3 AND NOT (city LIKE 'O%') LIMIT 3")
    assert [text for text, _, _ in rows][3:] == [
        "SELECT(selectList:day, times(price,'2'))",
        "TRANSFORM(day, times(price,'2'))",
        "PROJECT(day, price)",
        "DOC_ID_SET",
        "FILTER_AND",
        "FILTER_INVERTED_INDEX(indexLookUp:inverted_index,operator:EQ,predicate:kind = '1')",
        "FILTER_SORTED_INDEX(indexLookUp:sorted_index,operator:RANGE,predicate:day < '3')",
        "FILTER_NOT",
        "FILTER_FULL_SCAN(operator:REGEXP_LIKE,predicate:like(city,'O%'))",
    ]
    assert [(own, parent) for _, own, parent in rows][-5:] == [(7, 6), (8, 7), (9, 7), (10, 7), (11, 10)]


@pytest.mark.parametrize(
    ("sql", "operator"),
    [
        ("SELECT COUNT(*) FROM trips", "AGGREGATE_NO_SCAN"),
        ("SELECT MIN(day), MAX(day) FROM trips", "AGGREGATE_NO_SCAN"),
        ("SELECT COUNT(*) FROM trips WHERE city > 'M'", "AGGREGATE(aggregations:count(*))"),
        ("SELECT SUM(price) FROM trips WHERE kind = 1", "AGGREGATE(aggregations:sum(price))"),
        ("SELECT DISTINCT city FROM trips", "DISTINCT_DICTIONARY(keyColumns:city)"),
        ("SELECT DISTINCT city FROM trips WHERE kind = 1", "DISTINCT(keyColumns:city)"),
        ("SELECT DISTINCT price FROM trips", "DISTINCT(keyColumns:price)"),
        ("SELECT day FROM trips LIMIT 0", "SELECT_EMPTY(selectList:day)"),
        ("SELECT day FROM trips ORDER BY city", "SELECT_ORDERBY(selectList:day)"),
        ("SELECT day FROM trips WHERE day = 77", "ALL_SEGMENTS_PRUNED_ON_SERVER"),
        (
            "SELECT day FROM trips WHERE TEXT_MATCH(city, 'oslo OR lima')",
            "FILTER_FULL_SCAN(operator:TEXT_MATCH,predicate:text_match(city,'oslo OR lima'))",
        ),
        (
            "SELECT day FROM trips WHERE TEXT_MATCH(tags, 't1', 'slop=1')",
            "FILTER_FULL_SCAN(operator:TEXT_MATCH,predicate:text_match(tags,'t1','slop=1'))",
        ),
        ("SELECT day FROM trips WHERE tags <> 't1'", "FILTER_FULL_SCAN(operator:NOT_EQ,predicate:tags != 't1')"),
        (
            "SELECT day FROM trips WHERE city IS NULL",
            "FILTER_BITMAP(indexLookUp:bitmap,operator:IS_NULL,predicate:city IS NULL)",
        ),
        (
            "SELECT day FROM trips WHERE kind IN (1, 2)",
            "FILTER_INVERTED_INDEX(indexLookUp:inverted_index,operator:IN,predicate:kind IN ('1','2'))",
        ),
        ("SELECT day FROM trips WHERE day = kind", "FILTER_EXPRESSION(operator:EQ,predicate:equals(day,kind) = 'true')"),
        ("SELECT day FROM trips WHERE day + kind > 3", "FILTER_EXPRESSION(operator:RANGE,predicate:plus(day,kind) > '3')"),
        (
            "SELECT day FROM trips WHERE day * kind IN (2, 6)",
            "FILTER_EXPRESSION(operator:IN,predicate:times(day,kind) IN ('2','6'))",
        ),
        (
            "SELECT day FROM trips WHERE UPPER(city) = 'OSLO'",
            "FILTER_EXPRESSION(operator:EQ,predicate:upper(city) = 'OSLO')",
        ),
        ("SELECT day FROM trips WHERE LENGTH(city) = 4", "FILTER_MATCH_ENTIRE_SEGMENT(docs:40)"),
        (
            "SELECT day FROM trips WHERE day + kind BETWEEN 2 AND 6",
            "FILTER_EXPRESSION(operator:RANGE,predicate:plus(day,kind) BETWEEN '2' AND '6')",
        ),
    ],
)
def test_operators(trips: Any, sql: str, operator: str) -> None:
    assert operator in [text for text, _, _ in plan(trips, sql)]


def test_having_is_written_as_other_conditions_are(trips: Any) -> None:
    sql = "SELECT city FROM trips GROUP BY city HAVING MAX(day) > 5 AND (COUNT(*) IN (1, 2) OR city <> 'Oslo') LIMIT 3"
    shown = "havingFilter:(max(day) > '5' AND (count(*) IN ('1','2') OR city != 'Oslo'))"
    assert plan(trips, sql)[0][0] == f"BROKER_REDUCE({shown},limit:3)"


def test_bounds_of_a_range_stay_together(trips: Any) -> None:
    operators = [text for text, _, _ in plan(trips, "SELECT day FROM trips WHERE price > 1 AND price <= 4")]
    assert operators[-1].endswith("operator:RANGE,predicate:(price > '1.0' AND price <= '4.0'))")


def test_all_plans_when_verbose(trips: Any) -> None:
    sql = "SELECT day FROM trips WHERE day < 5"
    assert sum(text.startswith("PLAN_START") for text, _, _ in plan(trips, sql)) == 1
    answer = trips.answer(f"SET explainPlanVerbose = true; EXPLAIN PLAN FOR {sql}")
    assert answer.table is not None
    assert sum(row[0].startswith("PLAN_START") for row in answer.table.rows()) == 2


def test_a_count_by_indexes_shows_them(trips: Any) -> None:
    assert plan(trips, "SELECT COUNT(*) FROM trips WHERE kind = 1")[3:] == [
        ("FAST_FILTERED_COUNT", 3, 2),
        ("FILTER_INVERTED_INDEX(indexLookUp:inverted_index,operator:EQ,predicate:kind = '1')", 4, 3),
    ]


DAY = "FILTER_SORTED_INDEX(indexLookUp:sorted_index,operator:RANGE,predicate:day < '5')"
CITY = "FILTER_FULL_SCAN(operator:EQ,predicate:city = 'Oslo')"


@pytest.mark.parametrize(
    ("where", "operators", "empty", "match_all"),
    [
        # days 0 to 3 are in one segment, 4 to 9 in the other
        ("day < 5", [DAY], 0, 1),
        ("day < 5 AND city = 'Oslo'", ["FILTER_AND", DAY, CITY], 0, 0),
        ("day < 5 OR city = 'Oslo'", ["FILTER_OR", DAY, CITY], 0, 1),
        ("NOT (day < 5) OR city = 'Oslo'", ["FILTER_OR", "FILTER_NOT", DAY, CITY], 0, 0),
        ("city = 'Paris' OR city = 'Pisa'", ["FILTER_EMPTY"], 2, 0),
        ("city = 'Paris' AND kind = 1", ["FILTER_EMPTY"], 2, 0),
        ("NOT (city = 'Paris')", ["FILTER_MATCH_ENTIRE_SEGMENT(docs:40)"], 0, 2),
    ],
)
def test_filters_that_decide_something_are_shown_first(
    trips: Any, where: str, operators: list[str], empty: int, match_all: int
) -> None:
    answer = trips.answer(f"EXPLAIN PLAN FOR SELECT price FROM trips WHERE {where} LIMIT 100")
    texts = [row[0] for row in answer.table.rows()]
    assert texts[texts.index("DOC_ID_SET") + 1 :] == operators
    stats = answer.stats
    counted = (stats.explain_plan_num_empty_filter_segments, stats.explain_plan_num_match_all_filter_segments)
    assert counted == (empty, match_all)
