"""Parsing of PQL: the grammar, and the errors for texts outside it."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.text import to_text
from gamay.sql.parser import parse_query
from gamay.sql.pql.expression import shown_aggregate
from gamay.sql.pql.parser import PqlKind, parse_pql


def filter_of(condition: str) -> str:
    where = parse_pql(f"SELECT a FROM t WHERE {condition}").query.where
    assert where is not None
    return to_text(where)


def error_of(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse_pql(text)
    assert caught.value.code is ErrorCode.SQL_PARSING
    return str(caught.value)


@pytest.mark.parametrize(
    ("pql", "sql"),
    [
        ("foo = 'foo' AND bar BETWEEN 1 AND 20 OR (baz < 42 AND q IN ('x', 'y') AND r NOT IN (42, 69))",) * 2,
        ("a = 1 OR b = 2 AND c = 3 OR d = 4", "a = 1 OR (b = 2 AND c = 3) OR d = 4"),
        ("5 < a AND 6 >= b AND 7 = c", "a > 5 AND b <= 6 AND c = 7"),
        ('a = "x" AND b <> \'it\'\'s\' AND c != "say ""hi"""', "a = 'x' AND b <> 'it''s' AND c <> 'say \"hi\"'"),
        ("a > -5 AND b < +.5 AND c = 5. AND d = 1e3", "a > -5 AND b < 0.5 AND c = 5.0 AND d = 1000.0"),
        ("regexp_like(a, '^U.*')", "regexp_like(a, '^U.*', 'i')"),
        ("timeConvert(a, 'SECONDS', 'DAYS') = 3", "timeconvert(a, 'SECONDS', 'DAYS') = 3"),
        ("((a) = 1) AND (b + 1) * 2 > 5", "a = 1 AND (b + 1) * 2 > 5"),
        ("a + b * c - d / e = 1", "(((a + b) * c) - d) / e = 1"),
        ("a -1 = 2", "a + -1 = 2"),
        ("a = 2 * 3 + 4", "a = 10"),
        ("a = 9223372036854775807 AND b = -9223372036854775808",) * 2,
    ],
)
def test_conditions_mean_what_their_sql_means(pql: str, sql: str) -> None:
    where = parse_query(f"SELECT a FROM t WHERE {sql}").where
    assert where is not None
    assert filter_of(pql) == to_text(where)


def test_a_hyphen_is_part_of_a_name_and_backticks_quote() -> None:
    pql = parse_pql("SELECT sum(a-b), max(`x y`), min(`group`) FROM my-table WHERE `1st` = 2")
    assert pql.functions == ("sum_a-b", "max_x y", "min_group")
    assert pql.query.table == "my-table"
    assert pql.query.where is not None
    assert to_text(pql.query.where) == "equals(1st,'2')"


@pytest.mark.parametrize("quoted", ["'runs'", '"runs"', "runs", "`runs`"])
def test_a_quoted_argument_or_key_is_a_column(quoted: str) -> None:
    pql = parse_pql(f"SELECT sum({quoted}) FROM 'baseballStats' GROUP BY {quoted} TOP 5 LIMIT 0")
    assert (pql.functions, pql.group_columns, pql.top) == (("sum_runs",), ("runs",), 5)
    assert pql.query.table == "baseballStats"


def test_clauses_come_in_any_order() -> None:
    written = [
        "SELECT sum(a), min(b) FROM t WHERE x = 1 GROUP BY k HAVING sum(a) > 3 TOP 7 OPTION(p=q) OPTION(r=s)",
        "SELECT TOP 7 sum(a), min(b) FROM t OPTION(p=q, r='s') HAVING sum(a) > 3 GROUP BY k WHERE x = 1 ;",
        "select sum(a) as s, min(b) as `m` from t.other top 7 group by 'k' where x = 1 option(r=\"s\",p=q) having sum(a)>3",
    ]
    first, *others = [parse_pql(text) for text in written]
    assert first.query.options == {"p": "q", "r": "s"}
    assert all(other == first for other in others)


def test_titles_and_comments_are_skipped() -> None:
    assert parse_pql("/* Top */ SELECT count(*) -- all\r\n\tFROM t").functions == ("count_star",)


@pytest.mark.parametrize(
    ("text", "limit", "offset"),
    [("", 10, 0), ("LIMIT 7", 7, 0), ("LIMIT 50, 100", 100, 50), ("LIMIT 0", 0, 0), ("TOP 3", 10, 0)],
)
def test_rows_of_a_selection(text: str, limit: int, offset: int) -> None:
    pql = parse_pql(f"SELECT a FROM t WHERE b > 20 ORDER BY c DESC, 'd' {text}")
    assert pql.kind is PqlKind.SELECTION
    assert (pql.query.limit, pql.query.offset) == (limit, offset)
    assert [(to_text(key.expression), key.descending) for key in pql.query.order_by] == [("c", True), ("d", False)]


def test_limit_and_order_do_not_matter_to_groups() -> None:
    pql = parse_pql("SELECT max(a) FROM t GROUP BY b ORDER BY b LIMIT 3")
    assert pql.top == pql.query.limit == 10
    assert [(to_text(key.expression), key.descending) for key in pql.query.order_by] == [("max(a)", True)]


def test_groups_as_sql_orders_them() -> None:
    pql = parse_pql("SELECT max(a), sum(c) FROM t GROUP BY b ORDER BY b LIMIT 3", {"groupByMode": "sql"})
    assert pql.one_order
    assert not pql.is_sql_shaped
    assert pql.top == pql.query.limit == 3
    assert [to_text(key.expression) for key in pql.query.order_by] == ["b"]


def test_names_in_results() -> None:
    pql = parse_pql(
        "SELECT COUNT(x), PERCENTILEEST95MV('m'), SUM(ADD( a , b)), MAX(a + 2), MINMAXRANGE(a) FROM t "
        "GROUP BY TIMECONVERT( t , 'SECONDS', \"DAYS\"), dateTimeConvert(d, '1:DAYS:EPOCH', '1:HOURS:EPOCH', '1:HOURS')"
    )
    assert pql.functions == ("count_star", "percentileEst95MV_m", "sum_add(a,b)", "max_add(a,'2')", "minMaxRange_a")
    assert pql.group_columns == (
        "timeconvert(t,'SECONDS','DAYS')",
        "datetimeconvert(d,'1:DAYS:EPOCH','1:HOURS:EPOCH','1:HOURS')",
    )


def test_every_aggregate_of_pql_has_its_spelling() -> None:
    names = "count min max sum avg minMaxRange distinctCount distinctCountHLL fastHLL percentile50 percentileEst95"
    for name in names.split():
        assert shown_aggregate(name.upper()) == name
        assert shown_aggregate(f"{name}MV".upper()) == f"{name}MV"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected SELECT, found the end"),
        ("DELETE FROM t", "expected SELECT, found `DELETE`, at line 1, column 1"),
        ("SELECT a", "expected FROM after the columns"),
        ("SELECT a FROM", "expected the name of a table"),
        ("SELECT a, FROM t", "expected a column, a function or a constant, found `FROM`"),
        ("SELECT 1 FROM t", "not a constant"),
        ("SELECT DISTINCT a FROM t", "no DISTINCT"),
        ("SELECT a FROM t WHERE a = b", "use SQL to compare columns"),
        ("SELECT a FROM t WHERE 'a' = 'b'", "expected a column, but this is a constant"),
        ("SELECT a FROM t WHERE NOT a = 1", "NOT IN"),
        ("SELECT a FROM t WHERE a IS NULL", "use SQL"),
        ("SELECT a FROM t WHERE a LIKE 'x%'", "regexp_like"),
        ("SELECT a FROM t WHERE a", "expected a comparison"),
        ("SELECT a FROM t WHERE a = 1 AND b", "AND takes conditions"),
        ("SELECT a FROM t WHERE sum(a) > 1", "WHERE compares columns"),
        ("SELECT a FROM t WHERE t.a > 1", "without their table"),
        ("SELECT a FROM t WHERE a IN ()", "expected a constant"),
        ("SELECT a FROM t WHERE a BETWEEN 1", "expected AND"),
        ("SELECT a FROM t WHERE a = 'x", "this string is not closed"),
        ("SELECT a FROM t WHERE a = 99999999999999999999", "does not fit 64 bits"),
        ("SELECT a FROM t WHERE a = 1 WHERE b = 2", "WHERE occurs twice"),
        ("SELECT a FROM t WHERE regexp_like(a, b)", "the regular expression, a string"),
        ("SELECT a FROM t LIMIT -1", "a whole number after LIMIT"),
        ("SELECT a FROM t LIMIT 1.5", "a whole number after LIMIT"),
        ("SELECT a FROM t GROUP BY a", "needs an aggregate"),
        ("SELECT a FROM t ORDER BY sum(a)", "cannot be ordered by an aggregate"),
        ("SELECT sum(a) FROM t HAVING sum(a) > 1", "GROUP BY is missing"),
        ("SELECT sum(a) FROM t GROUP BY k HAVING k > 1", "HAVING compares aggregates"),
        ("SELECT sum(a) FROM t GROUP BY k HAVING sum(a) > 'x'", "with a number"),
        ("SELECT sum(a) FROM t GROUP BY sum(b)", "this is an aggregate"),
        ("SELECT sum(a) FROM t GROUP BY 1", "this is a constant"),
        ("SELECT sum(a, b) FROM t", "takes one argument, not 2"),
        ("SELECT sum() FROM t", "takes one argument, not 0"),
        ("SELECT sum(*) FROM t", "only COUNT takes *"),
        ("SELECT sum(max(a)) FROM t", "aggregates cannot be nested"),
        ("SELECT add(sum(a), 1) FROM t", "cannot be an argument"),
        ("SELECT sum(a) + 1 FROM t", "this is an aggregate"),
        ("SELECT minx(a) FROM t", "Unknown function 'minx'"),
        ("SELECT naïve FROM t", "backticks"),
        ("SELECT a FROM t OPTION(timeoutMs=x)", "whole number"),
        ("SELECT a FROM t; SELECT b FROM t", "or the end, found `SELECT`"),
        ("SELECT a FROM t WHERE " + "(" * 5000 + "a = 1" + ")" * 5000, "nested deeper"),
        ("SELECT sum(" + "add(1," * 5000 + "a" + ")" * 5001 + " FROM t", "nested deeper"),
        ("SELECT sum(a" + " + 1" * 5000 + ") FROM t", "at most 100 operators"),
    ],
)
def test_errors_say_what_is_wrong_and_where(text: str, message: str) -> None:
    said = error_of(text)
    assert message in said
    if "timeoutMs" not in text:
        assert "at line 1, column " in said
        assert said.endswith("^")


def test_long_lists_and_chains_are_fine() -> None:
    parse_pql("SELECT a FROM t WHERE a IN (" + ", ".join(map(str, range(20_000))) + ")")
    parse_pql("SELECT a FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(5000)))


_PIECES = """
    SELECT FROM WHERE GROUP BY HAVING ORDER TOP LIMIT OPTION AND OR NOT IN BETWEEN IS NULL AS a b t sum count min( ( ) , *
    + - / = <> < >= 'x' "y" `z` 1 -2 .5 5. regexp_like( add( ; . $docId a-b é '
"""


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(_PIECES.split()), max_size=25).map(" ".join) | st.text(max_size=60))
def test_any_text_is_a_query_or_a_query_error(text: str) -> None:
    for written in (text, f"SELECT {text}", f"SELECT sum(a) FROM t {text}", f"SELECT a FROM t WHERE {text}"):
        with suppress(QueryError):
            parse_pql(written)
