"""Row filters of a principal: over every protocol, answers equal those of queries with the filter written out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.embedded.test_small_queries import Far, connect, fill, shown

import gamay
from gamay.base.errors import InvalidConfigError
from gamay.broker.answer.runner import QueryRunner
from gamay.cluster.access.passwords import basic_token
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.embedded import Database, EmbeddedCluster
from gamay.query.answer.response import BrokerResponse
from gamay.roles.settings import read_access
from gamay.sql.pql.parser import parse_pql
from gamay.sql.query import Query

LIMA = Principal("lima", "", tables=frozenset({"t"}), row_filters={"t": ("s = 's1' OR s = 's2'", "i < 25")})
OSLO = Principal("oslo", "", tables=frozenset({"t"}), row_filters={"t": ("s = 's3'",)})
NOBODY = Principal("nobody", "", tables=frozenset({"t"}), row_filters={"t": ("ts < ago('P20000D')",)})
WRITTEN = {
    LIMA.name: "(s = 's1' OR s = 's2') AND i < 25",
    OSLO.name: "s = 's3'",
    NOBODY.name: "1 = 2",
    ANYONE.name: "",
}
GAPFILL = (
    "GAPFILL(ts, '1:MILLISECONDS:EPOCH', '1700000000000', '1700000000600', '100:MILLISECONDS', "
    "FILL(m, 'FILL_PREVIOUS_VALUE'), TIMESERIESON(s))"
)
# `{}` is where WHERE stands: the condition of the query, if any, and the filter
QUERIES = [
    ("SELECT COUNT(*) FROM t {}", ""),
    ("SELECT COUNT(*), SUM(m), MAX(d), MIN(ts) FROM t {}", ""),
    ("SELECT COUNT(*), SUM(d), MAX(m) FROM t {}", "i = 7 OR i = 8"),
    ("SELECT COUNT(*) FROM t {}", "i = 11"),
    ("SELECT COUNT(*), SUM(m), s FROM t {} GROUP BY s ORDER BY s", "s <> 's1' OR s = 's2'"),  # of the filters' column
    ("SELECT s, COUNT(*), AVG(m) FROM t {} GROUP BY s ORDER BY s", ""),
    ("SELECT s, COUNT(*), AVG(m) FROM T_offline {} GROUP BY s HAVING COUNT(*) > 3 ORDER BY s", "m >= 4"),
    ("SELECT DISTINCT s FROM t {} ORDER BY s LIMIT 4", ""),
    ("SELECT DISTINCT i FROM t {} ORDER BY i LIMIT 50", "tags = 3"),
    ("SELECT i, d, raw, tags FROM t {} ORDER BY ts, i, d, raw LIMIT 20", "i >= 3"),
    ("SELECT s FROM t {} ORDER BY ts DESC, s LIMIT 5 OFFSET 2", ""),
    ("SELECT COUNT(*) FILTER (WHERE i > 9), SUM(m) FILTER (WHERE s = 's2'), SUM(m) FILTER (WHERE i > m) FROM t {}", ""),
    ("SELECT COUNT(*), SUM(m) FILTER (WHERE s = 's3') FROM t {}", "m > 2"),
    ("SELECT s, COUNT(*) FILTER (WHERE i > 9) FROM t {} GROUP BY s ORDER BY s", ""),
    ("SELECT s, raw, COUNT(*), GROUPING(s, raw) FROM t {} GROUP BY ROLLUP(s, raw) ORDER BY 4, 1, 2 LIMIT 50", ""),
    ("SELECT DISTINCTCOUNT(s), PERCENTILE(m, 50), MODE(i) FROM t {}", ""),
    ("EXPLAIN PLAN FOR SELECT COUNT(*) FROM t {}", "m = 1"),
    ("SET enableNullHandling = true; SELECT COUNT(*), MAX(m) FROM t {}", ""),
    ("SELECT COUNT(*) FROM t {} LIMIT 3 OPTION(timeoutMs=60000)", "i > 2"),
    (
        "SELECT a.s, COUNT(*), MAX(b.n) FROM (SELECT s, i FROM t {0}) a JOIN (SELECT s, COUNT(*) n FROM t {0} GROUP BY s) b "
        "ON a.s = b.s GROUP BY a.s ORDER BY a.s",
        "i > 1",
    ),
    ("SELECT s, i, RANK() OVER (PARTITION BY s ORDER BY i, d) r FROM t {0} ORDER BY s, i, r LIMIT 30", ""),
    ("SELECT s FROM t {0} UNION SELECT raw FROM t {0} ORDER BY s", ""),
    (f"SELECT {GAPFILL} AS bucket, s, m FROM t {{}} LIMIT 40", "i < 9"),
    (f"SELECT bucket, SUM(m) FROM (SELECT {GAPFILL} AS bucket, s, m FROM t {{}}) GROUP BY bucket ORDER BY bucket", "i < 9"),
    (f"SELECT {GAPFILL} AS bucket, s, m FROM (SELECT ts, s, MAX(m) AS m FROM t {{}} GROUP BY ts, s LIMIT 500) LIMIT 60", ""),
]
SUBQUERY = "SELECT COUNT(*), SUM(m) FROM t {} IN_SUBQUERY(i, 'SELECT IDSET(i) FROM t {}') = 1"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with connect(tmp_path_factory.mktemp("rows") / "data") as db:
        fill(db)
        yield db


@pytest.fixture(scope="module", params=["here", "far"])
def runner(filled: Database, request: pytest.FixtureRequest) -> Iterator[QueryRunner]:
    if request.param == "here":
        yield filled._cluster.runner
        return
    far = Far(filled)
    yield far.runner
    far.close()


def asked(runner: QueryRunner, sql: str, principal: Principal = ANYONE, **begin: Any) -> BrokerResponse:
    """Return the answer of the HTTP interface."""
    if not begin and (found := runner.fast_answer(sql, principal)) is not None:
        return found
    pending = runner.begin(sql, {}, principal=principal, **begin)
    if runner.is_remote:
        runner._gatherer.remote.loop.wait(runner.fetch(pending))  # type: ignore[union-attr]
    return runner.finish(pending)


def pql_query(*arguments: Any) -> Query:
    return parse_pql(*arguments).query


def where(*conditions: str) -> str:
    given = [f"({condition})" for condition in conditions if condition]
    return f"WHERE {' AND '.join(given)}" if given else ""


@pytest.mark.parametrize(("sql", "condition"), QUERIES)
def test_the_filter_is_as_if_it_were_written(runner: QueryRunner, sql: str, condition: str) -> None:
    expected = {
        name: {**shown(asked(runner, sql.format(where(condition, written)))), "rlsFiltersApplied": bool(written)}
        for name, written in WRITTEN.items()
    }
    assert [answer["exceptions"] for answer in expected.values()] == [[]] * 4
    answers = [str(answer["resultTable"]) for answer in expected.values()]
    assert len(set(answers)) == len(answers)  # or the test could not fail
    for _ in range(4):  # whoever comes first, and however the shape is known by then
        for principal in (LIMA, ANYONE, OSLO, NOBODY, OSLO, ANYONE, LIMA):
            found = shown(asked(runner, sql.format(where(condition)), principal))
            assert found == expected[principal.name], principal.name


def test_subqueries_see_no_more(runner: QueryRunner) -> None:
    def both(written: str) -> str:
        quoted = where(written).replace("'", "''")
        return SUBQUERY.format(f"{where(written)} AND" if written else "WHERE", quoted)

    for _ in range(3):
        for principal in (LIMA, ANYONE, OSLO, NOBODY):
            written = WRITTEN[principal.name]
            found = shown(asked(runner, both(""), principal))
            assert found["resultTable"] == shown(asked(runner, both(written)))["resultTable"]
            assert found["rlsFiltersApplied"] is bool(written)


def test_pql_sees_no_more(runner: QueryRunner) -> None:
    pql = "SELECT count(*), sum(m) FROM t {} GROUP BY s TOP 10"
    for _ in range(3):
        for principal in (LIMA, ANYONE, OSLO):
            written = WRITTEN[principal.name]
            found = asked(runner, pql.format(""), principal, parse=pql_query)
            expected = asked(runner, pql.format(where(written)), parse=pql_query)
            assert shown(found)["resultTable"] == shown(expected)["resultTable"]
            assert found.rls_filters_applied is bool(written)


def test_what_is_wrong_with_rows_that_are_kept_away_is_not_told(runner: QueryRunner) -> None:
    sql = "SELECT COUNT(*) FROM t WHERE CAST(raw AS INT) > 5"
    ((code, text),) = asked(runner, sql).exceptions
    assert code == 200
    assert "'ü'" in text or "'a'" in text or "'b'" in text
    ((code, text),) = asked(runner, sql, OSLO).exceptions
    assert code == 200
    assert "withheld" in text
    assert "'" not in text


FILE = """
pinot.broker.enable.row.column.level.auth=true
pinot.broker.access.control.class=BasicAuthAccessControlFactory
pinot.broker.access.control.principals=admin,lima,oslo
pinot.broker.access.control.principals.admin.password=pw
pinot.broker.access.control.principals.lima.password=pw
pinot.broker.access.control.principals.lima.tables=trips,staff
pinot.broker.access.control.principals.lima.trips.rls=city = 'Lima', n < 40
pinot.broker.access.control.principals.lima.staff.rls=n = 1
pinot.broker.access.control.principals.oslo.password=pw
pinot.broker.access.control.principals.oslo.tables=trips,staff
pinot.broker.access.control.principals.oslo.trips.rls=city = 'Oslo'
"""
STAFF = {
    "schemaName": "staff",
    "primaryKeyColumns": ["n"],
    "dimensionFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "name", "dataType": "STRING"}],
}
DIMENSION = {"isDimTable": True, "ingestionConfig": {"batchIngestionConfig": {"segmentIngestionType": "REFRESH"}}}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("rows")
    with gamay.connect(folder / "data") as db:
        db.create_table("trips", pa.table({"n": list(range(90)), "city": ["Lima", "Oslo", "Rome"] * 30}))
        db.create_table("staff", pa.table({"n": [1, 2], "name": ["Ada", "Bo"]}), schema=STAFF, config=DIMENSION)
    (folder / "access.properties").write_text(FILE)
    access = read_access(folder / "access.properties")
    with EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False, access=access) as cluster:
        yield cluster.broker_url


def post(url: str, name: str, path: str = "/query/sql", **body: Any) -> Any:
    headers = {"Authorization": basic_token(name, "pw")}
    return httpx.post(f"{url}{path}", json=body, headers=headers).json()


def test_each_sees_its_rows_by_http(url: str) -> None:
    sums = {"admin": sum(range(90)), "lima": sum(range(0, 40, 3)), "oslo": sum(range(1, 90, 3))}
    for _ in range(4):
        for name in ("lima", "admin", "oslo", "lima"):
            answer = post(url, name, sql="SELECT SUM(n) FROM trips")
            assert answer["resultTable"]["rows"] == [[sums[name]]]
            assert answer["rlsFiltersApplied"] is (name != "admin")
            assert post(url, name, "/query", pql="SELECT sum(n) FROM trips")["aggregationResults"][0]["value"] == (
                f"{sums[name]}.00000"
            )
            headers = {"Authorization": basic_token(name, "pw")}
            got = httpx.get(f"{url}/query/sql", params={"sql": "SELECT SUM(n) FROM trips"}, headers=headers).json()
            assert got["resultTable"]["rows"] == [[sums[name]]]


def test_pages_of_an_answer_are_for_who_asked(url: str) -> None:
    first = post(url, "lima", "/query/sql?getCursor=true&numRows=5", sql="SELECT n FROM trips ORDER BY n LIMIT 50")
    assert first["numRowsResultSet"] == 14
    page = f"{url}/responseStore/{first['requestId']}/results?offset=5"
    assert httpx.get(page, headers={"Authorization": basic_token("oslo", "pw")}).status_code == 404
    rest = httpx.get(page, headers={"Authorization": basic_token("lima", "pw")}).json()["resultTable"]["rows"]
    assert rest == [[n] for n in range(15, 40, 3)]


def test_values_are_not_looked_up_in_rows_that_are_kept_away(url: str) -> None:
    sql = "SELECT lookUp('staff', 'name', 'n', n) AS who, COUNT(*) FROM trips GROUP BY who ORDER BY who LIMIT 3"
    assert post(url, "oslo", sql=sql)["resultTable"]["rows"] == [["Ada", 1], ["null", 29]]
    refused = post(url, "lima", sql=sql)
    assert refused["code"] == 403
    assert "may not look up values in table staff" in refused["error"]
    assert post(url, "lima", sql="SELECT name FROM staff")["resultTable"]["rows"] == [["Ada"]]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            "tables=trips\ntrips.rls=city IN ('Lima', 'Oslo')",
            r"lima\.trips\.rls: 'city IN \('Lima'' is not a condition .*commas",
        ),
        ("tables=trips\ntrips.rls=n = 1 LIMIT 5", "is not a condition of WHERE"),
        ("tables=trips\ntrips.rls=n = 1 GROUP BY n", "is not a condition of WHERE"),
        ("tables=trips\ntrips.rls=sum(n) = 1", "is not a condition of WHERE"),
        ("tables=trips\ntrips.rls=n = 1; SET a = 1", "is not a condition of WHERE"),
        ("tables=trips\ntrips.rls=n = 1) OR (n = 2", "is not a condition of WHERE"),
        ("tables=trips\ntrips.rls=n = 1 OPTION(useStarTree=false)", "is not a condition of WHERE"),
        ("tables=trips\ntrips.rls=", "is empty"),
        ("tables=trips\npay.rls=n = 1", r"pay\.rls has no effect: the principal's `tables` must list the table"),
        ("trips.rls=n = 1", r"trips\.rls has no effect"),
        ("tables=*\n*.rls=n = 1", r"rls has no effect"),
    ],
)
def test_filters_that_are_none_are_told_when_the_broker_starts(tmp_path: Path, lines: str, words: str) -> None:
    prefix = "pinot.broker.access.control.principals"
    file = tmp_path / "broker.properties"
    own = "\n".join(f"{prefix}.lima.{line}" for line in lines.splitlines())
    start = "\n".join(FILE.splitlines()[1:3])
    file.write_text(f"{start}\n{prefix}=lima\n{prefix}.lima.password=pw\n{own}\n")
    with pytest.raises(InvalidConfigError, match=words):
        read_access(file)


def test_filters_need_the_switch(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    switch, rest = FILE.strip().split("\n", 1)
    file.write_text(rest)
    with pytest.raises(InvalidConfigError, match=r"lima\.trips\.rls has no effect without pinot\.broker\.enable\.row"):
        read_access(file)
    file.write_text(f"{switch.replace('true', 'maybe')}\n{rest}")
    with pytest.raises(InvalidConfigError, match="'maybe' must be true or false"):
        read_access(file)
    file.write_text(f"{switch.replace('true', 'false')}\n{rest}")  # as a broker that is to keep no rows away says
    assert all(not p.row_filters for access in read_access(file).values() for p in getattr(access, "principals", None) or ())
