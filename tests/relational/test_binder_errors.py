"""Statements refused before any row is read, at any nesting."""

import pytest

import gamay
from gamay.base.errors import ErrorCode


@pytest.fixture(scope="module")
def db():
    with gamay.connect(":memory:", threads=1) as database:
        database.create_table("t", {"i": [1, 2], "s": ["a", "b"]})
        yield database


@pytest.mark.parametrize(
    ("sql", "loose"),
    [
        ("SELECT COUNT(*) FROM t HAVING (SELECT i) > 0", "i"),
        ("SELECT (SELECT (SELECT i)), COUNT(*) FROM t", "i"),
        ("SELECT (SELECT MAX(x.i) FROM t x WHERE x.s = t.s), COUNT(*) FROM t", "s"),
        ("SELECT s, COUNT(*) FROM t GROUP BY s ORDER BY (SELECT i)", "i"),
        ("SELECT s, SUM(i) OVER () FROM t GROUP BY s", "i"),
        ("SELECT s, SUM(i) FILTER (WHERE s = 'a') OVER () FROM t GROUP BY s", "i"),
        ("SELECT i, SUM(i) FILTER (WHERE s = 'a') OVER () FROM t GROUP BY i", "s"),
        ("SELECT s, SUM(COUNT(*)) OVER (PARTITION BY i) FROM t GROUP BY s", "i"),
        ("SELECT s, RANK() OVER (ORDER BY i + 1) FROM t GROUP BY s", "i"),
        ("SELECT s, RANK() OVER (ORDER BY (SELECT MAX(x.i) FROM t x WHERE x.i = t.i)) FROM t GROUP BY s", "i"),
        ("SELECT s FROM t GROUP BY s QUALIFY ROW_NUMBER() OVER (ORDER BY s) = i", "i"),
        ("SELECT DISTINCT ON (i) s FROM t GROUP BY s", "i"),
    ],
)
def test_columns_are_grouped_wherever_they_stand(db, sql, loose):
    with pytest.raises(gamay.QueryError, match=f"Expression '{loose}' is not being grouped") as raised:
        db.sql(sql)
    assert raised.value.code is ErrorCode.QUERY_VALIDATION


@pytest.mark.parametrize("levels", [20, 110, 150, 195, 2000])
@pytest.mark.parametrize(
    ("opens", "inner", "rows"),
    [("SELECT (", "1", [(1,)]), ("SELECT COUNT(*) FROM t HAVING COUNT(*) > (", "0", None), ("SELECT * FROM (", "t", None)],
)
def test_deep_nesting_is_answered_or_refused(db, opens, inner, rows, levels):
    inside = "SELECT * FROM (" if opens == "SELECT * FROM (" else "SELECT ("
    sql = opens + inside * levels + inner + ")" * (levels + 1)
    try:
        found = db.sql(sql).rows()
    except gamay.QueryError as error:
        assert error.code is ErrorCode.SQL_PARSING, error  # noqa: PT017
        assert levels > 100
    else:
        assert rows is None or found == rows
