"""maxRowsInJoin etc. apply above the leaves: as an error, or by dropping rows, which the answer reports."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.embedded.database import Database, connect
from gamay.embedded.result import Result
from gamay.sql.options.hints import hint_options
from gamay.sql.parser import parse_query

JOIN = "SELECT a.k, b.k FROM t a JOIN t b ON a.g = b.g"
WINDOW = "SELECT k, COUNT(*) OVER (PARTITION BY g) FROM t"
GROUPS = "SELECT a.k, COUNT(*) FROM t a JOIN t b ON a.k = b.k AND a.g <= b.k GROUP BY a.k"
CASES = (
    # text, the option, its mode, rows without a limit, the flag of the answer
    (JOIN, "maxRowsInJoin", "joinOverflowMode", 500, "max_rows_in_join_reached"),
    ("SELECT 1 FROM t a, t b", "maxRowsInJoin", "joinOverflowMode", 10_000, "max_rows_in_join_reached"),
    (WINDOW, "maxRowsInWindow", "windowOverflowMode", 100, "max_rows_in_window_reached"),
)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder: Path = tmp_path_factory.mktemp("bounds")
    with connect(folder) as made:
        made.create_table("t", pa.table({"k": list(range(100)), "g": [row // 5 for row in range(100)]}))
        yield made


def found(db: Database, sql: str, **options: Any) -> tuple[int, Result]:
    result = db.sql(sql, **options)
    return len(result.rows()), result


@pytest.mark.parametrize(("sql", "option", "mode", "num_rows", "key"), CASES)
def test_rows_that_are_too_many(db: Database, sql: str, option: str, mode: str, num_rows: int, key: str) -> None:
    for most in (num_rows, num_rows + 1):
        count, result = found(db, sql, **{option: most})
        assert (count, getattr(result.stats, key), result.partial) == (num_rows, False, False)
    with pytest.raises(
        QueryError, match=f"reached number of rows limit: {num_rows - 1}. Raise the option {option}"
    ) as caught:
        db.sql(sql, **{option: num_rows - 1})
    assert caught.value.code is ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED
    count, result = found(db, sql, **{option: num_rows - 1, mode: "break"})
    assert (count, getattr(result.stats, key)) == (num_rows - 1, True)
    assert result.partial is (option == "maxRowsInJoin")
    assert option in result.reasons[0]
    assert found(db, sql)[0] == num_rows


def test_the_right_side_counts(db: Database) -> None:
    with pytest.raises(QueryError, match="limit: 99"):
        db.sql("SELECT b.k FROM (VALUES (1)) a(k) JOIN t b ON a.k = b.k", maxRowsInJoin=99)
    semi = "SELECT COUNT(*) FROM t a SEMI JOIN (SELECT g FROM t WHERE k < 20) b ON a.g = b.g"
    assert db.sql(semi, maxRowsInJoin=20).rows() == [(20,)]


def test_groups(db: Database) -> None:
    count, result = found(db, GROUPS, numGroupsLimit=7)
    assert (count, result.stats.num_groups_limit_reached, result.partial) == (7, True, True)
    with pytest.raises(QueryError, match="NUM_GROUPS_LIMIT has been reached"):
        db.sql(GROUPS, numGroupsLimit=7, errorOnNumGroupsLimit=True)
    assert not found(db, GROUPS, numGroupsLimit=100)[1].partial


def test_many_groups_are_told(db: Database) -> None:
    count = found(db, GROUPS)[0]
    for limit in (1, count, count + 1):
        result = found(db, GROUPS, numGroupsWarningLimit=limit)[1]
        assert (result.stats.num_groups_warning_limit_reached, result.partial) == (limit <= count, False)


def test_hints_are_options_and_come_first(db: Database) -> None:
    text = JOIN.replace("SELECT", "SELECT /*+ joinOptions(max_rows_in_join = '30', join_overflow_mode='BREAK') */")
    assert found(db, text, maxRowsInJoin=5)[0] == 30
    assert found(db, f"SET maxRowsInJoin = 5; {text}")[0] == 30
    plain = "SELECT '/*+ joinOptions(max_rows_in_join='' 30'') */', a.k FROM t a JOIN t b ON a.g = b.g -- /*+ x(y='1') */"
    assert hint_options(plain) == {}
    assert found(db, plain)[0] == 500
    with pytest.raises(QueryError, match="maxRowsInJoin must be a whole number greater than 0, not 'x'"):
        parse_query(text.replace("'30'", "'x'"))


@pytest.mark.parametrize(
    "hint",
    [
        *(
            "joinOptions(max_rows_in_join=3)",
            "joinOptions(max_rows_in_join='3'",
            "joinOptions('3' '4')",
            "joinOptions max_rows='3'",
        ),
        *("joinOptions(max_rows_in_join='3' join_overflow_mode='BREAK')", "joinOptions(max_rows_in_join='3))", "a.b(c='d')"),
    ],
)
def test_what_is_no_hint_is_refused(hint: str) -> None:
    with pytest.raises(QueryError, match=re.escape("a hint is written name(key='value', …), at line 1, column")):
        parse_query(JOIN.replace("SELECT", f"SELECT /*+ {hint} */"))


def test_hints_may_be_several_and_bare() -> None:
    text = "SELECT /*+ a(b='(,)', c = '') , d */ 1 FROM t /*+ windowOptions(max_rows_in_window='7')e */"
    assert hint_options(text) == {"a.b": "(,)", "a.c": "", "d": "", "maxRowsInWindow": "7", "e": ""}
    assert hint_options("SELECT /*+ full(t, 'x', 3) */ 1") == {"full": ""}
    assert hint_options("SELECT /*+ */ 1 /*+*/") == {}


def test_hints_without_effect_are_told(db: Database) -> None:
    text = JOIN.replace("SELECT", "SELECT /*+ joinOptions(join_strategy='hash', strategi='x') */")
    with pytest.warns(UserWarning, match="joinOptions") as told:
        assert found(db, text)[0] == 500
    assert [str(each.message) for each in told] == [
        "The query option 'joinOptions.join_strategy' has no effect",
        "Unknown query option 'joinOptions.strategi'. Did you mean 'joinOptions.join_strategy'?",
    ]
