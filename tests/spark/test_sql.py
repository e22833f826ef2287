"""`gamay.spark.sql`: the rows of the broker's answers, reading only the columns and rows that a query needs."""

from zoneinfo import ZoneInfo

import pytest
from pyspark.errors import AnalysisException
from tests.spark.cluster import T0, Cluster
from tests.spark.test_source import OFFLINE, SCHEMA, event_rows

import gamay.spark
from gamay.base.errors import InvalidConfigError, NotFoundError, QueryError
from gamay.model.schema.schema import Schema
from gamay.spark.queries.needs import Need, needs, parse

pytestmark = pytest.mark.spark
UTC = ZoneInfo("UTC")
EVENTS = Schema.from_json(SCHEMA).value


@pytest.fixture(scope="module")
def cluster(spark, tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    running.create(SCHEMA, OFFLINE)
    for number in range(2):
        running.push(SCHEMA, OFFLINE, f"events_{number}", event_rows(100 * number, 100))
    gamay.spark.register(spark, running.url)
    yield running
    running.stop()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT city, COUNT(*), SUM(n) FROM events WHERE n BETWEEN 20 AND 150 GROUP BY city ORDER BY city LIMIT 100",
        "SELECT n, \"city\" FROM events WHERE city IN ('city1', 'city2') AND n > 100 ORDER BY n LIMIT 7",
        f"SELECT COUNT(*) FROM events WHERE ts >= TIMESTAMP '2023-11-15 00:00:00' AND n <> {T0}",
        "WITH big AS (SELECT city, n FROM events WHERE n >= 50) SELECT MAX(a.n), b.city FROM big a JOIN events b "
        "ON a.city = b.city WHERE b.n < 40 AND b.city = 'city3' GROUP BY b.city LIMIT 10",
        "SELECT COUNT(*) FROM events",
    ],
)
def test_rows_are_those_of_the_broker(spark, cluster, text):
    assert [tuple(row) for row in gamay.spark.sql(spark, text).collect()] == cluster.rows(text)


def test_tables_of_the_session_are_joined(spark, cluster):
    names = [("city1", 10), ("city2", 20)]
    spark.createDataFrame(names, "name STRING, people INT").createOrReplaceTempView("people")
    text = "SELECT p.people, COUNT(*), '{it''s}' AS t FROM events e JOIN people p ON e.city = p.name GROUP BY ALL ORDER BY 1"
    counts = dict(cluster.rows("SELECT city, COUNT(*) FROM events GROUP BY city LIMIT 100"))
    rows = [tuple(row) for row in gamay.spark.sql(spark, text, cluster.url).collect()]
    assert rows == [(10, counts["city1"], "{it's}"), (20, counts["city2"], "{it's}")]


@pytest.mark.parametrize(
    ("text", "columns", "where"),
    [
        ("SELECT city FROM events WHERE n > 5", "city,n", '("n" > 5)'),
        ("SELECT COUNT(*) FROM events", "n", ""),
        ("SELECT CITY FROM events WHERE 5 >= N AND city LIKE 'a%' AND small > 3", "city,small,n", '("n" <= 5)'),
        ("SELECT n FROM events WHERE n = 1 UNION ALL SELECT n FROM events WHERE n = 2", "n", '(("n" = 1)) OR (("n" = 2))'),
        ("SELECT n FROM events WHERE n = 1 UNION ALL SELECT n FROM events", "n", ""),
        ("SELECT a.n FROM events a LEFT JOIN events b ON a.n = b.n WHERE b.n = 1 AND a.n < 4", "n", ""),
        ("SELECT a.n FROM events a JOIN events b ON a.n = b.n WHERE a.n < 4 AND b.n < 4", "n", '("n" < 4)'),
        ("SELECT n FROM events WHERE n = 1 OR city = 'x'", "city,n", ""),
        ("SELECT n FROM events WHERE n > 1.5 AND price < 2.5", "n,price", '("price" < 2.5)'),
        ("SELECT n FROM events WHERE ts < '2023-11-15 00:00:00.5' AND ts > 'now'", "n,ts", '("ts" < 1700006400500)'),
        ("SELECT n FROM (SELECT * FROM events) WHERE n IN (1, 2, -3)", "n", ""),
        ("SELECT n FROM events WHERE n IN (1, 2, -3) AND ok = TRUE", "ok,n", '("n" IN (1, 2, -3)) AND ("ok" = TRUE)'),
        ("SELECT n FROM events WHERE n IN (SELECT n FROM events WHERE n < 3)", "n", ""),
    ],
)
def test_what_a_query_needs(text, columns, where):
    found = needs(parse(text), {"events": EVENTS}, {}, UTC)["events"]
    assert found == Need(tuple(columns.split(",")), where)


def test_what_only_spark_understands_reads_all():
    text = "SELECT * FROM events e, LATERAL explode(tags) AS x WHERE e.n = 4"
    assert needs(parse(text), {"events": EVENTS}, {}, UTC) == {"events": Need()}


def test_what_is_wrong_is_told(spark, cluster):
    with pytest.raises(QueryError, match=r"gamay\.spark\.sql runs SELECT and WITH, and not: DROP TABLE events"):
        gamay.spark.sql(spark, "DROP TABLE events")
    with pytest.raises(QueryError, match="this is no query of SQL"):
        gamay.spark.sql(spark, "SELECT FROM WHERE")
    with pytest.raises(NotFoundError, match=r"nor the session has a table 'event'. Did you mean 'events'\?"):
        gamay.spark.sql(spark, "SELECT * FROM event")
    with pytest.raises(AnalysisException, match="nosuch"):
        gamay.spark.sql(spark, "SELECT nosuch FROM events")
    with pytest.raises(InvalidConfigError, match=r"has no option 'tokn' for reading. Did you mean 'token'\?"):
        gamay.spark.sql(spark, "SELECT n FROM events", tokn="x")
    with pytest.raises(InvalidConfigError, match=r"the option 'where' is not for gamay\.spark\.sql: the query says it"):
        gamay.spark.sql(spark, "SELECT n FROM events", where="n = 1")
    with pytest.raises(InvalidConfigError, match=r"which cluster\? Say gamay\.spark\.sql\(spark, text, 'http"):
        gamay.spark.sql(spark.newSession(), "SELECT n FROM events")
