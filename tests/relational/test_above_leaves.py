"""Expressions above a join equal those of the single-table engine for the same rows."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from gamay.base.errors import QueryError
from gamay.embedded.database import Database, connect

EXPRESSIONS = (
    *("a.n + a.m", "ROUND(a.d, a.n)", "CONCAT(a.k, a.k, '-')", "SUBSTR(a.k, a.n)", "dateTrunc('DAY', a.m)"),
    *("a.tags", "a.tags[1]", "arrayLength(a.tags)", "ARRAYCONCATSTRING(a.tags, a.tags)", "a.price", "a.bits"),
    *("TIMESTAMPADD(DAY, 1, a.m)", "DATEDIFF(hour, 0, a.m)"),
    *("jsonExtractScalar(a.doc, '$.x', 'INT', 0)", "CASE WHEN a.n > 2 THEN a.k ELSE 'few' END", "SHA(a.bits)"),
)
AGGREGATES = (
    *("SUM(a.n)", "FIRSTWITHTIME(a.n, a.m, 'INT')", "LASTWITHTIME(a.k, a.m, 'STRING')", "EXPRMIN(a.k, a.d)"),
    *("COVAR_POP(a.n, a.d)", "DISTINCTCOUNTHLL(a.k)", "PERCENTILE(a.d, 50)", "SUMMV(a.counts)", "COUNTMV(a.tags)"),
    *("FUNNELCOUNT(STEPS(a.n > 0, a.d > 2, a.n), CORRELATE_BY(a.k, a.n))", "FUNNELMAXSTEP(a.n, 10, 2, a.n, a.d > 2)"),
    "FUNNELCOUNT(STEPS(a.n > 0, a.tags = 'q'), CORRELATEBY(a.k), SETTINGS('theta_sketch', 'nominalEntries=64'))",
    *("DISTINCTCOUNTMV(a.tags)", "SUMPRECISION(a.price)", "MODE(a.n)", "HISTOGRAM(a.d, 0, 10, 5)"),
)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder: Path = tmp_path_factory.mktemp("above_leaves")
    with connect(folder) as made:
        made.create_table(
            "t",
            pa.table(
                {
                    "k": ["abc", "bcd", "cde", "abc"],
                    "n": pa.array([1, 2, 3, 4], pa.int32()),
                    "m": pa.array([86400001, 20, 3 * 86400000, 40], pa.int64()),
                    "d": [0.254, 1.255, 2.256, 3.257],
                    "price": pa.array([Decimal("1.10"), Decimal("2.25"), Decimal(3), Decimal(40)], pa.decimal128(10, 2)),
                    "bits": pa.array([b"\x01", b"\x02", b"ab", b""], pa.binary()),
                    "tags": [["p", "q"], ["p"], ["r"], ["q"]],
                    "counts": pa.array([[1, 2], [3], [4, 5, 6], [7]], pa.list_(pa.int32())),
                    "doc": ['{"x": 5}', '{"x": 6}', "{}", '{"y": 1}'],
                }
            ),
        )
        yield made


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT PERCENTILE(a.k, 50)", "Aggregate 'percentile' needs numbers, k is STRING; write CAST(k AS DOUBLE)"),
        ("SELECT MAX(a.tags)", "Aggregate 'max' needs numbers, its argument is STRING; write maxstring(tags)"),
        ("SELECT NULLIF(a.n, a.n, a.n)", "Function 'nullIf': it takes 2 arguments, not 3"),
        ("SELECT CASEWHEN(a.n)", "CASEWHEN takes pairs of a condition and a value"),
        ("SELECT CLPMATCH(a.k, 'x')", "clpMatch reads further columns of its table"),
    ],
)
def test_what_is_wrong_is_told_with_the_names_of_columns(db: Database, sql: str, said: str) -> None:
    with pytest.raises(QueryError, match=re.escape(said)):
        db.sql(f"{sql} FROM t a JOIN t b ON a.n = b.n AND a.m <= b.m")


@pytest.mark.parametrize("name", ["value(joined)", "found(joined)", "lookup(dimension)", "ordered(within group)"])
@pytest.mark.parametrize("source", ["t a", "t a JOIN t b ON a.n = b.n"])
def test_queries_cannot_name_functions_of_the_planner(db: Database, name: str, source: str) -> None:
    with pytest.raises(QueryError, match=re.escape(f"Unknown function '{name}'")):
        db.sql(f"SELECT \"{name}\"('00', 'LONG', a.n) FROM {source}")


def test_windows_do_not_stand_in_conditions_of_joins(db: Database) -> None:
    with pytest.raises(QueryError, match="a window function is not allowed in ON; use QUALIFY to filter by one"):
        db.sql("SELECT 1 FROM t a JOIN t b ON ROW_NUMBER() OVER (ORDER BY a.n) = b.n")
    with pytest.raises(QueryError, match="expected SELECT, found `FROM`"):
        db.sql("FROM t a JOIN t b ON a.n = b.n")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(db: Database, expression: str) -> None:
    alone = db.sql(f"SELECT {expression} FROM t a ORDER BY a.n").rows()
    joined = db.sql(f"SELECT {expression} FROM t a JOIN t b ON a.n = b.n ORDER BY a.n").rows()
    assert joined == alone
    assert len(alone) == 4


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_aggregates(db: Database, aggregate: str) -> None:
    alone = db.sql(f"SELECT a.k, {aggregate} FROM t a GROUP BY a.k ORDER BY a.k").rows()
    joined = db.sql(f"SELECT a.k, {aggregate} FROM t a JOIN t b ON a.n = b.n GROUP BY a.k ORDER BY a.k").rows()
    assert joined == alone
    assert len(alone) == 3


@pytest.mark.parametrize("source", ["t a", "t a JOIN t b ON a.n = b.n"])
def test_conditions_as_texts(db: Database, source: str) -> None:
    sketch = "DISTINCTCOUNTTHETASKETCH({0}n, '', '{0}d > 1.5', '{0}tags = ''p''', '{1}')"
    for sets in ("SET_UNION($1, $2)", "SET_INTERSECT($1, $2)", "SET_DIFF($0, $1)"):
        alone = db.sql(f"SELECT k, {sketch.format('', sets)} FROM t GROUP BY k ORDER BY k").rows()
        sql = f"SELECT a.k, {sketch.format('a.', sets)} FROM {source} GROUP BY a.k ORDER BY a.k"
        assert db.sql(sql, useMultistageEngine=True).rows() == alone
    with pytest.raises(QueryError, match="Unknown columnName 'x'"):
        db.sql(f"SELECT DISTINCTCOUNTTHETASKETCH(a.n, '', 'x = 1', '$1') FROM {source}", useMultistageEngine=True)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("source", ["t a", "t a JOIN t b ON a.n = b.n"])
def test_aggregates_of_a_null(db: Database, source: str, nulls: bool) -> None:
    """No value of a table, it is null with null handling and without."""
    sql = f"SELECT COUNT(NULL), COUNT(DISTINCT NULL), DISTINCTCOUNTHLL(NULL), ARRAYAGG(NULL, 'INT'), COUNT(*) FROM {source}"
    found = db.sql(sql, useMultistageEngine=True, enableNullHandling=nulls).rows()
    assert found == [(0, 0, 0, None, 4)]


def test_funnels_of_windows(db: Database) -> None:
    funnel = "FUNNELCOUNT(STEPS(n > 0, d > 2), CORRELATEBY(n))"
    groups = dict(db.sql(f"SELECT k, {funnel} FROM t GROUP BY k").rows())
    windows = db.sql(f"SELECT k, {funnel} OVER (PARTITION BY k) FROM t").rows()
    assert len(windows) == 4
    assert all(groups[k] == counts for k, counts in windows)


@pytest.mark.parametrize("key", ["a.tags", "arrayToMv(a.tags)"])
def test_multi_value_keys(db: Database, key: str) -> None:
    expected = [("p", 2), ("q", 2), ("r", 1)]
    assert db.sql(f"SELECT {key}, COUNT(*) FROM t a JOIN t b ON a.n = b.n GROUP BY {key} ORDER BY 1").rows() == expected
    assert db.sql(f"SELECT {key}, COUNT(*) FROM (SELECT * FROM t) a GROUP BY {key} ORDER BY 1").rows() == expected


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("SUM(a.k)", "sum(k) needs numbers, but k is STRING"),
        ("AVG(a.bits)", "avg(bits) needs numbers, but bits is BYTES"),
        ("COVAR_POP(a.n, a.k)", "covarpop(n,k) needs numbers, but k is STRING"),
        ("COVAR_POP(a.n, a.tags)", "covarpop(n,tags) needs numbers, but tags is STRING_ARRAY"),
        ("MAX(a.n, a.m)", "MAX takes 1 argument, not 2"),
        ("SUM(a.k) OVER (ORDER BY a.n)", "sum(k) needs numbers, but k is STRING"),
    ],
)
def test_messages_name_columns(db: Database, expression: str, says: str) -> None:
    with pytest.raises(QueryError, match=re.escape(says)):
        db.sql(f"SELECT {expression} FROM t a JOIN t b ON a.n = b.n")


def test_booleans_and_timestamps_are_numbers_to_aggregates(db: Database) -> None:
    joined = "FROM (SELECT n, n > 2 AS many, CAST(m AS TIMESTAMP) AS at FROM t) a JOIN t b ON a.n = b.n"
    assert db.sql(f"SELECT SUM(a.many), AVG(a.many), SUM(a.at) - SUM(b.m) {joined}").rows() == [(2, 0.5, 0)]


@pytest.mark.parametrize(
    "value", ["price", "bits", "d", "n", "FROMEPOCHDAYS(n)", "CAST(m AS TIMESTAMP)", "n > 2", "CAST(m AS DOUBLE)"]
)
def test_texts_of_lists_are_those_of_casts(db: Database, value: str) -> None:
    texts = [text for (text,) in db.sql(f"SELECT CAST({value} AS STRING) FROM t ORDER BY n").rows()]
    assert db.sql(f"SELECT LISTAGG({value}, ';') WITHIN GROUP (ORDER BY n) FROM t").rows() == [(";".join(texts),)]
