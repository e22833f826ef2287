"""Functions that only the broker can answer: reqId(''), sleep(ms) and the like; and queries without a table."""

import time
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import ErrorCode, QueryError
from gamay.embedded import Database


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("answers") / "data") as database:
        database.settings.null_handling = False
        columns = {"a": [1, 2, 3], "tags": [["x"], ["y", "x"], []], "s": ["x", "z", "y"], "m": [[1], [5, 2], []]}
        database.create_table("t", pa.table(columns))
        yield database


def test_a_query_knows_its_ids_and_times(db: Database) -> None:
    before = time.time_ns() // 1_000_000
    first, second = (
        db.sql(
            "SELECT reqId(''), cid(''), brokerId(), queryEngine(''), startTime(''), endTime(''), stageId(''), workerId(''), "
            "count(*) FROM t WHERE startTime('') > 5",
            timeoutMs=4321,
            clientQueryId="mine",
        ).rows()[0]
        for _ in range(2)
    )
    assert first[1:4] == ("mine", "Broker_localhost_0", "sse")
    assert before - 1 <= first[4] <= 1 + time.time_ns() // 1_000_000
    assert first[5] - first[4] == 4321
    assert first[6:] == (-1, -1, 3)
    assert first[0] != second[0]


@pytest.mark.parametrize(
    ("sql", "engine"),
    [
        ("SELECT queryEngine('') FROM t LIMIT 1", "sse"),
        ("SET useMultistageEngine = true; SELECT queryEngine('') FROM t LIMIT 1", "mse"),
        ("SELECT queryEngine('') FROM t x JOIN t y ON x.a = y.a LIMIT 1", "mse"),
    ],
)
def test_a_query_knows_its_engine(db: Database, sql: str, engine: str) -> None:
    assert db.sql(sql).rows() == [(engine,)]


def test_the_same_in_keys_and_inside_other_functions(db: Database) -> None:
    rows = db.sql("SELECT concat('r', reqId('')) AS r, count(*) FROM t GROUP BY r HAVING count(*) > stageId('')").rows()
    assert [count for _, count in rows] == [3]
    assert db.sql("SELECT isUuid(uuidV7()), ARRAY[1, 2], cid('') = ''").rows() == [(True, [1, 2], True)]
    assert uuid.UUID(db.sql("SELECT uuidToString(uuidV4())").rows()[0][0]).version == 4


def test_sleep_takes_its_time_and_ends_at_the_deadline(db: Database) -> None:
    started = time.monotonic()
    assert db.sql("SELECT sleep(60)").rows() == [(60,)]
    assert time.monotonic() - started >= 0.06
    with pytest.raises(QueryError, match="longer than its 50 ms") as raised:
        db.sql("SELECT a FROM t WHERE sleep(60000) > 0", timeoutMs=50)
    assert raised.value.code is ErrorCode.EXECUTION_TIMEOUT


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT sleep(a) FROM t", "argument 1 must be a constant"),
        ("SELECT sleep(-1)", "from 0"),
        ("SELECT sleep('soon')", "from 0"),
        ("SELECT sleep(NULL)", "from 0"),
        ("SELECT sleep()", "1 argument"),
        ("SELECT reqId('', '') FROM t", "0 to 1"),
        ("SELECT reqId(a) FROM t", "argument 1 must be a constant"),
        ("SELECT count(*)", "FROM is missing"),
        ("SELECT a + 1", "FROM is missing"),
        ("SELECT TEXT_MATCH(tags, 'x') FROM t", "can only be searched by a condition in WHERE"),
        ("SELECT a FROM t ORDER BY VECTOR_SIMILARITY(m, ARRAY[1.0], 3)", "write ORDER BY cosineDistance"),
        ("SELECT groovy('{}', 'arg0', a) FROM t", "scripts are not supported"),
        ("SELECT lookUp('t', 'c', 'k', a) FROM t", "is not a dimension table"),
        ("SELECT TIMESERIESAGGREGATE(a) FROM t", "part of time-series queries"),
        ("SELECT avgReduce(a, 1) FROM t", "write AVG"),
        ("SELECT clpEncodedVarsMatch(a) FROM t", "write clpMatch"),
        ("SELECT groovy('{}')", "scripts are not supported"),
        ("SELECT arrayagg(a, 'INT') FROM t GROUP BY tags ORDER BY arrayagg(a, 'INT')", "not defined: arrayagg"),
    ],
)
def test_refusals_say_what_to_do(db: Database, sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        db.sql(sql)


def test_sum0_of_nothing_is_0(db: Database) -> None:
    sql = "SELECT $SUM0(a), sum(a), caseWhen(count(*) > 0, 'some', 'none') FROM t WHERE a > 5"
    assert db.sql(sql).rows() == [(0.0, 0.0, "none")]
    assert db.sql(sql, enableNullHandling=True).rows() == [(0.0, None, "none")]


def test_exact_forms_of_aggregates_by_option(db: Database) -> None:
    sql = "SELECT sum(a), min(A) + 1, max(s), max(m), max(a) FILTER (WHERE a < 3), avg(a) FROM t HAVING max(a) > 2"
    result = db.sql(sql, autoRewriteAggregationType=True)
    assert result.columns == (
        "sumlong(a)", "plus(minlong(A),'1')", "maxstring(s)", "max(m)", "maxlong(a) FILTER(WHERE a < '3')", "avg(a)",
    )  # fmt: skip
    assert result.rows() == [(6, 2, "z", 5.0, 2, 2.0)]
    assert db.sql("SELECT sum(a), sum(arraySum(m)) FROM t").columns == ("sum(a)", "summv(m)")
