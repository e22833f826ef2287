"""A repeated statement is planned once, as long as its tables do not change."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from gamay.base.errors import QueryError
from gamay.embedded.database import Database, connect
from gamay.relational import execute

JOIN = "SELECT * FROM one JOIN other ON one.k = other.j"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with connect(tmp_path) as made:
        made.create_table("one", pa.table({"k": pa.array([1, 2], pa.int32())}))
        made.create_table("other", pa.table({"j": pa.array([2, 3], pa.int32())}))
        yield made


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were bound."""
    texts: list[str] = []
    bind = execute.bind
    monkeypatch.setattr(
        execute, "bind", lambda statement, tables, **how: (texts.append(statement.text), bind(statement, tables, **how))[1]
    )
    return texts


def test_a_statement_is_bound_once_for_all_constants(db: Database, bound: list[str]) -> None:
    for _ in range(3):
        assert db.sql(JOIN).rows() == [(2, 2)]
    assert bound == [JOIN]
    assert db.sql(f"{JOIN} WHERE k < 2").rows() == []
    assert db.sql(f"{JOIN} WHERE k < 3").rows() == [(2, 2)]
    assert len(bound) == 2


def test_constants_that_a_plan_depends_on_make_plans_of_their_own(db: Database, bound: list[str]) -> None:
    limited = f"{JOIN} LIMIT"
    assert [len(db.sql(f"{limited} {rows}").rows()) for rows in (1, 0, 5, 1, 0, 5)] == [1, 0, 1, 1, 0, 1]
    assert len(bound) == 3


def test_constants_of_constants_are_computed_each_time(db: Database, bound: list[str]) -> None:
    moved = "SELECT j FROM one JOIN other ON k = j WHERE k < {} + 1"
    assert [db.sql(moved.format(number)).rows() for number in (0, 2, 0)] == [[], [(2,)], []]
    assert len(bound) == 1
    with pytest.raises(QueryError, match="does not fit INT"):
        db.sql(moved.format(2**31 - 1))
    assert db.sql(moved.format(2)).rows() == [(2,)]
    assert len(bound) == 2


def test_constants_that_are_equal_stay_equal(db: Database) -> None:
    grouped = "SELECT k + {} AS a, COUNT(*) FROM one JOIN other ON k = j GROUP BY k + {}"
    for _ in range(2):
        assert db.sql(grouped.format(1, 1)).rows() == [(3, 1)]
        with pytest.raises(QueryError):
            db.sql(grouped.format(1, 2))


def test_a_table_that_grows_is_planned_for_anew(db: Database, bound: list[str]) -> None:
    counted = "SELECT j, COUNT(*) FROM one JOIN other ON k = j GROUP BY j"
    assert db.sql(counted).rows() == [(2, 1)]
    db.create_table("one", pa.table({"k": pa.array([2] * 9, pa.int32())}), if_exists="append")
    assert db.sql(counted).rows() == [(2, 10)]
    assert len(bound) == 2


def test_other_columns_make_another_plan(db: Database, bound: list[str]) -> None:
    assert db.sql(JOIN).rows() == [(2, 2)]
    db.drop_table("one")
    with pytest.raises(QueryError, match="one"):
        db.sql(JOIN)
    db.create_table("one", pa.table({"k": pa.array([3], pa.int64()), "name": ["x"]}))
    assert db.sql(JOIN).rows() == [(3, "x", 3)]
    assert db.sql(JOIN).columns == ("k", "name", "j")
    assert len(bound) == 2


def test_rows_that_come_with_a_query_and_constants_of_the_moment_are_bound_each_time(db: Database, bound: list[str]) -> None:
    sql = "SELECT * FROM one JOIN given ON k = j"
    given = pa.table({"j": [1]})
    assert db.sql(sql).rows() == [(1, 1)]
    given = pa.table({"j": [2], "i": ["y"]})
    assert db.sql(sql).rows() == [(2, 2, "y")]
    assert given.num_rows == 1
    moment = "SELECT NOW() FROM one JOIN other ON k = j"
    assert all(len(db.sql(moment).rows()) == 1 for _ in range(3))
    assert bound.count(moment) == 3


def test_the_plan_of_one_is_not_that_of_another_setting(db: Database) -> None:
    sql = "SELECT SUM(k) FROM one LEFT JOIN other ON k = j WHERE k > 5"
    answers = [db.sql(sql, enableNullHandling=on).rows() for on in (True, False, True)]
    assert answers == [[(None,)], answers[1], [(None,)]]
