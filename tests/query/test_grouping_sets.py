"""GROUPING SETS, ROLLUP and CUBE: multi-value keys, empty input, limits, counters, GROUPING. Values: tests/oracle."""

from collections import Counter
from typing import Any

import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.query.bind.binder import bind
from gamay.query.execute.grouping_sets import plan_sets
from gamay.sql.parser import parse_query


def test_rolled_up_keys_are_null(trips: Any) -> None:
    found = trips.rows("SELECT kind, count(*), GROUPING(kind) FROM trips GROUP BY ROLLUP(kind) ORDER BY kind")
    assert found == [(0, 25, 0), (1, 25, 0), (2, 25, 0), (3, 25, 0), (None, 100, 1)]
    assert trips.answer("SELECT kind, grouping_id(kind), count(*) FROM trips GROUP BY CUBE(kind)").table.names == (
        "kind",
        "groupingid(kind)",
        "count(*)",
    )


def test_the_first_argument_of_grouping_is_the_most_significant_bit(trips: Any) -> None:
    sql = "SELECT GROUPING(kind, city), GROUPING(city, kind, kind), count(*) FROM trips GROUP BY CUBE(kind, city)"
    found = Counter(row[:2] for row in trips.rows(f"{sql} LIMIT 1000"))
    assert set(found) == {(0, 0b000), (0b01, 0b100), (0b10, 0b011), (0b11, 0b111)}


def test_having_and_order_by_see_rolled_up_keys(trips: Any) -> None:
    sql = "SELECT kind, count(*) AS n FROM trips GROUP BY ROLLUP(kind)"
    assert trips.rows(f"{sql} HAVING GROUPING(kind) = 1") == [(None, 100)]
    assert trips.rows(f"{sql} HAVING kind IS NULL") == [(None, 100)]
    assert len(trips.rows(f"{sql} HAVING kind IS NOT NULL")) == 4
    assert trips.rows(f"{sql} ORDER BY GROUPING(kind) DESC, kind DESC LIMIT 2") == [(None, 100), (3, 25)]
    assert trips.rows(f"{sql} ORDER BY kind DESC NULLS LAST LIMIT 1") == [(3, 25)]


def test_expressions_ordinals_aliases_and_repeated_sets(trips: Any) -> None:
    sql = "SELECT kind + 1 AS k, city, count(*) FROM trips GROUP BY GROUPING SETS ((1), k, (city), ()) LIMIT 100"
    rows = trips.rows(sql)
    assert len(rows) == 4 + 4 + 4 + 1
    assert Counter(rows)[(1.0, None, 25)] == 2
    assert len(trips.rows("SELECT kind, city, count(*) FROM trips GROUP BY kind, ROLLUP(city) LIMIT 100")) == 16 + 4


def test_a_multi_value_key_multiplies_rows_only_where_it_is_a_key(trips: Any) -> None:
    by_tag = Counter(tag for i in range(100) for tag in (f"t{i % 3}", f"t{i % 5}"))
    rows = trips.rows("SELECT tags, kind, count(*) FROM trips GROUP BY CUBE(tags, kind) LIMIT 1000")
    assert {tag: n for tag, kind, n in rows if tag is not None and kind is None} == by_tag
    assert {kind: n for tag, kind, n in rows if tag is None} == {0: 25, 1: 25, 2: 25, 3: 25, None: 100}
    assert sum(n for tag, kind, n in rows if tag is not None and kind is not None) == 200


def test_the_set_without_keys_has_one_group_even_of_no_rows(trips: Any) -> None:
    sql = "SELECT kind, city, count(*), sum(price) FROM trips WHERE {} GROUP BY ROLLUP(kind, city)"
    for condition in ("day > 1000", "price < 0 AND city <> 'x'"):
        assert trips.rows(sql.format(condition)) == [(None, None, 0, 0.0)]
        assert trips.rows(sql.format(condition).replace("ROLLUP", "GROUPING SETS")) == []


def test_rows_are_grouped_by_the_finest_sets_only(trips: Any) -> None:
    def planned(clause: str) -> Any:
        query = parse_query(f"SELECT count(*) FROM trips GROUP BY {clause}")
        return plan_sets(bind(query, trips.schema))

    cube = planned("CUBE(day, city, kind)")
    assert cube.finest == ((0, 1, 2),)
    assert len(cube.sources) == 7
    assert all(set(keys) < set(source) for keys, source in cube.sources.items())
    assert cube.sources[()] in ((0,), (1,), (2,))
    assert planned("GROUPING SETS (day, city, (day, kind))").finest == ((0, 2), (1,))
    assert planned("CUBE(tags, kind)").finest == ((0, 1), (1,))


@pytest.mark.parametrize("clause", ["CUBE(kind, city)", "GROUPING SETS (kind, city)", "CUBE(tags, kind)"])
def test_rows_count_once(trips: Any, clause: str) -> None:
    keys = clause.replace("GROUPING SETS", "").replace("CUBE", "").strip(" ()")
    plain = trips.answer(f"SELECT {keys}, sum(price) FROM trips WHERE city <> 'Oslo' GROUP BY {keys} LIMIT 100").stats
    sets = trips.answer(f"SELECT {keys}, sum(price) FROM trips WHERE city <> 'Oslo' GROUP BY {clause} LIMIT 100").stats
    for name in ("num_docs_scanned", "num_entries_scanned_in_filter", "num_entries_scanned_post_filter"):
        assert getattr(sets, name) == getattr(plain, name)


def test_coarser_sets_are_complete_where_the_finest_has_too_many_groups(trips: Any) -> None:
    sql = "SET numGroupsLimit = 5; SELECT at, kind, count(*) FROM trips GROUP BY ROLLUP(kind, at) LIMIT 1000"
    answer = trips.answer(sql)
    rows = answer.table.rows()
    assert answer.stats.num_groups_limit_reached
    assert {kind: n for at, kind, n in rows if at is None} == {0: 25, 1: 25, 2: 25, 3: 25, None: 100}


def test_filters_work_in_every_set(trips: Any) -> None:
    select = "SELECT kind, count(*) FILTER (WHERE day < 2) FROM trips"
    sql = f"{select} GROUP BY GROUPING SETS (kind, (), tags) HAVING GROUPING(tags) = 1"
    assert Counter(trips.rows(sql)) == Counter([(0, 5), (1, 5), (2, 5), (3, 5), (None, 20)])


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT kind, city FROM trips GROUP BY ROLLUP(kind, city)", "need an aggregate"),
        ("SELECT kind, GROUPING(city), count(*) FROM trips GROUP BY kind", "city"),
        ("SELECT kind, GROUPING(day), count(*) FROM trips GROUP BY CUBE(kind)", "day"),
        ("SELECT GROUPING(kind) FROM trips", "it needs GROUP BY"),
        ("SELECT kind, count(*) FROM trips WHERE GROUPING(kind) = 1 GROUP BY kind", "it needs GROUP BY"),
        ("SELECT kind, GROUPING(), count(*) FROM trips GROUP BY CUBE(kind)", "takes 1 to 31"),
        (f"SELECT kind, GROUPING({', '.join(['kind'] * 32)}), count(*) FROM trips GROUP BY CUBE(kind)", "takes 1 to 31"),
        ("SELECT count(*) FROM trips GROUP BY CUBE(" + ", ".join(f"kind + {i}" for i in range(13)) + ")", "4096"),
        ("SELECT count(*) FROM trips GROUP BY " + ", ".join(f"CUBE(kind * {i}, day * {i})" for i in range(2, 9)), "4096"),
        ("SELECT count(*) FROM trips GROUP BY ROLLUP()", "take a list"),
        ("SELECT count(*) FROM trips GROUP BY kind GROUPING SETS (kind)", "separate GROUPING SETS"),
        ("SELECT count(*) FROM trips GROUP BY GROUPING SETS ((), ())", "no column"),
        ("SELECT day, count(*) FROM trips GROUP BY CUBE(kind)", "neither in GROUP BY"),
    ],
)
def test_errors(trips: Any, sql: str, words: str) -> None:
    with pytest.raises(QueryError) as raised:
        trips.rows(sql)
    assert raised.value.code in (ErrorCode.SQL_PARSING, ErrorCode.QUERY_VALIDATION)
    assert words in str(raised.value)


def test_many_sets_are_answered(trips: Any) -> None:
    keys = ", ".join(f"kind * {i + 2}" for i in range(10))
    rows = trips.rows(f"SELECT count(*), GROUPING({keys}) FROM trips GROUP BY CUBE({keys}) LIMIT 100000")
    assert len(rows) == 4 * 1023 + 1
    assert {bits for _, bits in rows} == set(range(1024))


def test_plans_show_the_sets(trips: Any) -> None:
    rows = trips.rows("EXPLAIN PLAN FOR SELECT kind, city, count(*) FROM trips GROUP BY ROLLUP(kind, city)")
    assert any("groupKeys:kind, city, groupingSets:[(kind, city), (kind), ()]" in row[0] for row in rows)


def test_conditions_are_keys_as_well(trips: Any) -> None:
    """Without parentheses, in all forms, nested and beside lists of keys."""
    for written, plain in (
        ("ROLLUP(kind > 1, city)", "ROLLUP((kind > 1), city)"),
        ("CUBE(city, kind IN (1, 2) OR day = 3)", "CUBE(city, (kind IN (1, 2) OR day = 3))"),
        ("GROUPING SETS((kind > 1, city), NOT kind = 2, ROLLUP(kind < 3), ())", None),
    ):
        plain = plain or "GROUPING SETS((kind > 1, city), (NOT kind = 2), ROLLUP((kind < 3)), ())"
        sql = "SELECT count(*) FROM trips GROUP BY {} LIMIT 1000"
        assert sorted(trips.rows(sql.format(written))) == sorted(trips.rows(sql.format(plain)))
        assert len(trips.rows(sql.format(written))) > 5
