"""Queries on the fast path get the same answers as on the ordinary path, through all changes of the table.

So do those of known shapes that a server in another process answers: here it is one behind a socket.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stages import stages
from tests.waiting import eventually

import gamay
from gamay.base.clock import SystemClock
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.scatter.remote import QueryConnections
from gamay.cluster.access.principals import Principal
from gamay.embedded import Database
from gamay.model.schema.schema import Schema
from gamay.query.answer.response import BrokerResponse, encode_short
from gamay.query.prepared.statements import Statements
from gamay.query.wire.known import KnownQuery
from gamay.query.wire.request import ReceivedStatements
from gamay.server.answering.executor import QueryExecutor
from gamay.server.answering.listener import QueryListener
from gamay.sql.options.option_values import NULLS_ON
from gamay.sql.options.row_limits import RowLimits
from gamay.sql.parser import parse_query

SCHEMA: dict[str, Any] = {
    "schemaName": "t",
    "enableColumnBasedNullHandling": True,
    "dimensionFieldSpecs": [
        {"name": "i", "dataType": "INT"},
        {"name": "big", "dataType": "LONG"},
        {"name": "s", "dataType": "STRING"},
        {"name": "raw", "dataType": "STRING"},
        {"name": "tags", "dataType": "INT", "singleValueField": False},
    ],
    "metricFieldSpecs": [
        {"name": "d", "dataType": "DOUBLE"},
        {"name": "f", "dataType": "FLOAT"},
        {"name": "m", "dataType": "INT"},
    ],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
CONFIG: dict[str, Any] = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {
        "sortedColumn": ["ts"],
        "invertedIndexColumns": ["i", "s", "tags"],
        "bloomFilterColumns": ["big"],
        "compoundInvertedIndexConfigs": [{"columns": ["big", "s"]}, {"columns": ["s", "i"]}],
        "rangeIndexColumns": ["m"],
        "noDictionaryColumns": ["raw", "f"],
        "segmentPartitionConfig": {"columnPartitionMap": {"big": {"functionName": "Modulo", "numPartitions": 4}}},
    },
}
T0 = 1_700_000_000_000
TIMES = ("timeUsedMs", "requestId", "brokerReduceTimeMs")
NUMBERS = st.integers(-2, 45) | st.sampled_from([2**31 - 1, -(2**31), 2**40, 2**63, 5.5, "5e0", "'7'", "'x'"])
TEXTS = st.sampled_from(["'s1'", "'s3'", "'it''s'", "''", "'nowhere'", "5"])
MOMENTS = st.integers(-5, 900).map(lambda n: T0 + n) | st.sampled_from(["'2023-11-14 22:13:20.5'", 0])
COLUMNS = {"i": NUMBERS, "big": NUMBERS, "s": TEXTS, "tags": NUMBERS, "m": NUMBERS, "ts": MOMENTS, "d": NUMBERS}
TESTS = ("{c} = {a}", "{c} >= {a} AND {c} < {b}", "{c} BETWEEN {a} AND {b}", "{c} IN ({a}, {b})", "{c} > -{a}", "{a} >= {c}",
         "{c} >= {a} AND {c} < {a} + 30", "{c} <> {a}", "{c} = {a} AND {c} = {b}")  # fmt: skip
PATTERNS = ("'s%'", "'%s1%'", "'S1'", "'it''s'", "'_'", "'%'", "'zz%'", "''", "'%2'", "5", "'s\\_1' ESCAPE '\\'")
HEADS = (
    "COUNT(*)", "COUNT(*), COUNT(*)", "COUNT(*), SUM(m)", "SUM(d), AVG(d), MIN(m), MAX(f), COUNT(s)",
    "COUNT(*) FILTER (WHERE i > m)", "SUM(m) FILTER (WHERE s = 's1'), COUNT(*) FILTER (WHERE s = 's1')",
    "SUM(big), MINMAXRANGE(i)", "MAX(ts)", "SUM(d + 1)", "SUM(m) + 1", "COUNT(*), DISTINCTCOUNT(s)",
)  # fmt: skip
ROWS = ("i, d", "s, raw, tags", "d, i, s, ts, f", "$docId, m")
ORDERS = (
    "i",
    "d DESC, i",
    "s, ts DESC",
    "raw, m",
    "f DESC, ts",
    "i + 1",
    "big NULLS FIRST, ts",
    "ts DESC, i",
    "ts",
    "d, d DESC",
)
GROUPS = ("s, COUNT(*), SUM(d)", "i, MAX(m)", "s, DISTINCTCOUNT(i)", "raw, SUM(m)", "big, AVG(d), MIN(f), COUNT(m)")
GROUPINGS = ("{0}", "{0}, i", "s, {0}, m", "{0}, ts", "{0} HAVING COUNT(*) > 1 AND MAX(m) > 5", "i + m, {0}")
LIMITS = ("", " LIMIT 3", " LIMIT 0", " LIMIT 4 OFFSET 2", " LIMIT 2000")


def rows(number: int, count: int) -> pa.Table:
    """Return rows of a segment: its values recur in other segments, but its times are unique."""
    rng = np.random.default_rng(number)
    return pa.table(
        {
            "i": rng.integers(0, 40, count).astype(np.int32),
            "big": rng.integers(0, 10, count) * 4 + number % 4,
            "s": rng.choice(["s1", "s2", "s3", "it's", ""], count),
            "raw": rng.choice(["a", "b", "ü"], count),
            "tags": [rng.integers(0, 6, rng.integers(1, 4)).tolist() for _ in range(count)],
            "d": rng.choice([0.1, 0.2, 0.30000000000000004, 1e16, -0.0, 3.25], count),
            "f": rng.choice([1.5, 0.1, -2.0], count).astype(np.float32),
            "m": rng.integers(-5, 40, count).astype(np.int32),
            "ts": T0 + number * 200 + np.sort(rng.integers(0, 250, count)),
        }
    )


class Idle(SystemClock):
    """The clock of a machine whose queries take none of the processor's time.

    Shapes whose queries take long are given up, and on a busy machine all may.
    """

    thread_cpu_ns = staticmethod(lambda: 0)


IDLE = Idle()


def connect(folder: Path) -> Database:
    """Return a database whose broker has that clock, and gives queries without LIMIT what brokers of clusters do."""
    db = gamay.connect(folder, threads=1)
    db._cluster.runner.looks_ahead = False
    db._cluster.runner._fast_path._clock = IDLE
    return db


def fill(db: Database) -> None:
    """Create the table, of four segments."""
    db.create_table("t", rows(0, 150), schema=SCHEMA, config=CONFIG)
    for number, count in enumerate((1, 300, 40), 1):
        db.append("t", rows(number, count))
    some = rows(4, 30)
    for name in ("d", "s", "m"):
        nulls = pa.array([n % 3 == len(name) % 3 for n in range(30)])
        some = some.set_column(some.schema.get_field_index(name), name, pc.if_else(nulls, None, some[name]))
    db.append("t", some)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with connect(tmp_path_factory.mktemp("small") / "data") as db:
        fill(db)
        yield db


class Far:
    """A broker whose server, that of a database, is reached over a socket."""

    def __init__(self, db: Database, clock: SystemClock = IDLE) -> None:
        cluster, self.clock = db._cluster, clock
        self.executor = QueryExecutor(cluster.server, 1)
        self.routing = RoutingTables(cluster.registry)
        self.routing.start()
        self.start()
        self.servers = QueryConnections("b", lambda _: ("127.0.0.1", self.listener.port), clock)
        self.runner = QueryRunner(cluster.runner.broker_id, self.routing, self.servers, clock)

    def start(self, port: int = 0) -> None:
        self.listener = QueryListener("s", self.executor, self.clock, port=port)
        self.listener.start()

    def begun(self, sql: str) -> Any:
        """Return a query whose answer was fetched."""
        pending = self.runner.begin(sql, {})
        self.servers.loop.wait(self.runner.fetch(pending))
        return pending

    def check(self, sql: str, expected: dict[str, Any]) -> bool:
        """Compare the answer with the expected; return whether it came the short way."""
        pending = self.begun(sql)
        assert shown(self.runner.finish(pending)) == expected, sql
        return pending.answered is not None

    def close(self) -> None:
        self.runner.close()
        self.listener.stop()
        self.routing.stop()
        self.executor.close()


@pytest.fixture(scope="module")
def far(filled: Database) -> Iterator[Far]:
    made = Far(filled)
    yield made
    made.close()


def ordinary(runner: QueryRunner, sql: str, nulls: bool = False) -> BrokerResponse:
    return runner.finish(runner.begin(sql, NULLS_ON if nulls else {}))


def shown(response: BrokerResponse) -> dict[str, Any]:
    """Return a response without the parts that vary between runs."""
    document: dict[str, Any] = json.loads(encode_short(response))
    for part in stages(document.get("stageStats") or {}):
        for name in ("executionTimeMs", "selfExecutionTimeMs"):
            part.pop(name, None)
    return {name: value for name, value in document.items() if name not in TIMES and not name.endswith("CpuTimeNs")}


def check(db: Database, sql: str, nulls: bool = False) -> bool:
    """Compare the two ways; return whether there were two. nulls: with null handling."""
    runner = db._cluster.runner
    expected = shown(ordinary(runner, sql, nulls))
    found = runner.fast_answer(sql, null_handling=nulls)
    assert found is None or shown(found) == expected, sql
    assert shown(ordinary(runner, sql, nulls)) == expected, sql
    return found is not None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_answers_are_those_of_the_ordinary_way(filled: Database, far: Far, data: st.DataObject) -> None:
    tests = []
    for name in data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), max_size=2)):
        a, b = data.draw(COLUMNS[name]), data.draw(COLUMNS[name])
        tests.append(data.draw(st.sampled_from(TESTS)).format(c=name, a=a, b=b))
    if data.draw(st.integers(0, 3)) == 0:
        column, pattern = data.draw(st.sampled_from(["s", "s", "raw", "i"])), data.draw(st.sampled_from(PATTERNS))
        tests.insert(0, f"{column} {data.draw(st.sampled_from(['', '', 'NOT ']))}LIKE {pattern}")
    where = f"WHERE {' AND '.join(tests)}" if tests else ""
    kind, limit = data.draw(st.sampled_from(["totals", "ordered", "groups", "rows"])), data.draw(st.sampled_from(LIMITS))
    if kind == "totals":
        sql = f"SELECT {data.draw(st.sampled_from(HEADS))} FROM t {where}{limit}"
    elif kind == "ordered":
        order = data.draw(st.sampled_from(ORDERS))
        sql = f"SELECT {data.draw(st.sampled_from(ROWS))} FROM t {where} ORDER BY {order}{limit}"
    elif kind == "groups":
        head = data.draw(st.sampled_from(GROUPS))
        key = head.partition(",")[0]
        by = data.draw(st.sampled_from(GROUPINGS)).format(key)
        order = data.draw(st.sampled_from(["", f" ORDER BY {key}", " ORDER BY 2 DESC, 1", " ORDER BY SUM(m) + 1, 1 DESC"]))
        sql = f"SELECT {head} FROM t {where} GROUP BY {by}{order}{limit}"
    else:
        sql = f"SELECT {data.draw(st.sampled_from((*ROWS, 'DISTINCT s, i')))} FROM t {where}{limit}"
    for nulls in (False, True):
        check(filled, sql, nulls)
        check(filled, sql, nulls)  # the first may have taught its shape
    expected = shown(ordinary(filled._cluster.runner, sql))
    far.check(sql, expected)
    far.check(sql, expected)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t WHERE ts = 1700000000{:03}",
        "SELECT COUNT(*) FROM T_offline WHERE i = {}",
        "SELECT COUNT(*), SUM(d) FROM t WHERE i = {}",
        "SELECT AVG(m), MAX(m) FROM t WHERE s = 's1' AND ts BETWEEN 1700000000200 AND 1700000000200 + {}",
        "SELECT i, d, raw FROM t WHERE ts >= 1700000000{0:03} AND ts < 1700000000{0:03} + 20 ORDER BY i DESC, d LIMIT 3",
        "SELECT s FROM t WHERE ts >= 1700000000{0:03} AND ts < 1700000000{0:03} + 20 ORDER BY s LIMIT 2 OFFSET 1",
        "SELECT s, COUNT(*), SUM(d), SUM(m) FROM t WHERE i = {} GROUP BY s",
        "SELECT raw, d, ts FROM t WHERE i = {} ORDER BY ts DESC, raw LIMIT 4 OFFSET 1",
        "SELECT tags, s, ts, raw FROM t WHERE i = {}",
        "SELECT COUNT(*), SUM(m) FROM t WHERE s LIKE '%{}'",
        "SELECT big, big FROM t WHERE i = {} LIMIT 3 OFFSET 2",
        "SELECT s, i, MAX(f) - MIN(m) FROM t WHERE ts >= 1700000000{0:03} AND ts < 1700000000{0:03} + 90 AND i IN (1, 2, 3) "
        "GROUP BY s, i HAVING COUNT(*) > 0 ORDER BY 3, 1, 2",
    ],
)
@pytest.mark.parametrize("nulls", [False, True])
def test_small_queries_of_known_shapes_are_answered_at_once(filled: Database, sql: str, nulls: bool) -> None:
    check(filled, sql.format(3), nulls)
    # with null handling, those that find a null are left to the ordinary way
    assert sum(check(filled, sql.format(n), nulls) for n in range(4, 40)) >= (10 if nulls else 30)


def test_patterns_are_looked_for_in_few_entries_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns on large dictionaries use the ordinary path, on which they can be interrupted."""
    texts = [f"host{n % 600:03}.example.com/{n % 600}" for n in range(1200)]
    indexes = {"fieldConfigList": [{"name": name, "indexes": {"inverted": {}}} for name in ("plain", "found")]}
    indexes["fieldConfigList"][1]["indexes"]["fst"] = {}
    with connect(tmp_path) as db:
        db.create_table("t", {"plain": texts, "found": texts}, config=indexes)

        def at_once(condition: str) -> bool:
            sql = f"SELECT COUNT(*) FROM t WHERE {condition}"
            expected = sum(bool(re.search(condition.split("'")[1].replace("%", ".*") + "$", text)) for text in texts)
            assert ordinary(db._cluster.runner, sql).table.columns[0].values[0] == expected  # type: ignore[union-attr]
            return check(db, sql)

        for few in (600, 9):
            monkeypatch.setattr("gamay.query.prepared.lookup._ENTRIES_MAX", few)
            monkeypatch.setattr("gamay.query.filter.entries.FEW_ENTRIES", 0)
            assert at_once("plain LIKE '%e.com/37'") == (few == 600)
            assert at_once("found LIKE '%e.com/37'") == (few == 600)  # substrings that every entry contains select nothing
            assert at_once("found LIKE '%host037%'")
            assert at_once("plain LIKE 'host03%'") == (few == 600)  # ten of them
        assert not at_once(f"found LIKE '%host037{'%' * 60}'")
        monkeypatch.setattr("gamay.query.filter.entries._ENTRY_BYTES", 1)
        assert not at_once("found LIKE '%host037%'")


def test_a_text_that_switches_null_handling_itself_teaches_no_shape(filled: Database) -> None:
    for value in ("true", "false", "true"):
        for nulls in (True, False):
            assert not check(filled, f"SET enableNullHandling='{value}'; SELECT SUM(d) FROM t WHERE i = 100", nulls)


@pytest.mark.parametrize(
    "texts",
    [
        ["SELECT COUNT(*) FILTER (WHERE i > m) FROM t"] * 3,
        ["SELECT COUNT(*) FROM t WHERE 1 = 1", "SELECT COUNT(*) FROM t WHERE 1 = 2"],
        ["SELECT COUNT(*) FROM t WHERE i <> 5000000000", "SELECT COUNT(*) FROM t WHERE i <> 7"],
        ["SELECT COUNT(*) FROM t WHERE i < 5000000000", "SELECT COUNT(*) FROM t WHERE i < 7"],
        ["SELECT COUNT(*) FROM t WHERE NOT i = 5.5", "SELECT COUNT(*) FROM t WHERE NOT i = 5"],
    ],
)
def test_what_holds_for_all_rows_once_need_not_do_so_again(filled: Database, far: Far, texts: list[str]) -> None:
    for sql in texts * 2:
        check(filled, sql)
        far.check(sql, shown(ordinary(filled._cluster.runner, sql)))


def reload(cluster: Any, name: str) -> None:
    """Have a server load a segment again, and wait until it has."""
    table = cluster.server.table("t_OFFLINE")
    before = table.snapshot()[name]
    cluster.server.reload("t_OFFLINE", [name])
    eventually(lambda: table.snapshot()[name] is not before)


def test_answers_follow_the_table(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*), SUM(m), MAX(d) FROM t WHERE i = {}"
    with connect(tmp_path / "data") as db:
        cluster = db._cluster
        db.create_table("t", rows(0, 400), schema=SCHEMA, config=CONFIG)

        def changed(*, is_known: bool = False) -> list[tuple[Any, ...]]:
            assert (cluster.runner.fast_answer(sql.format(1)) is not None) is is_known
            # the route may be rebuilt once more, by late reports about the segments
            assert any(check(db, sql.format(1)) for _ in range(10))
            assert any(check(db, sql.format(2)) for _ in range(10))
            return db.sql(sql.format(1)).rows()

        first = changed()
        db.append("t", rows(1, 500))
        assert changed()[0][0] > first[0][0]
        name = min(db.segments("t"))
        reload(cluster, name)  # the route stays as it was
        changed(is_known=True)
        before = cluster.routing.find("t")[0]
        wider = {**SCHEMA, "metricFieldSpecs": [*SCHEMA["metricFieldSpecs"], {"name": "more", "dataType": "INT"}]}
        cluster.schemas.replace("t", wider)
        assert cluster.routing.wait_until(lambda: cluster.routing.find("t")[0] is not before, 60)
        changed()
        assert not check(db, "SELECT SUM(more) FROM t WHERE i = 1")
        assert not check(db, "SELECT SUM(more) FROM t WHERE i = 2")  # segments lack the column
        before = cluster.routing.find("t")[0]
        cluster.registry.put_table_config("t_OFFLINE", {**CONFIG, "query": {"timeoutMs": 5000}})
        assert cluster.routing.wait_until(lambda: cluster.routing.find("t")[0] is not before, 60)
        changed()
        db.drop_table("t")
        assert cluster.runner.fast_answer(sql.format(1)) is None
        db.create_table("t", rows(5, 450), schema=SCHEMA, config=CONFIG)
        changed()


def test_what_limits_queries_keeps_them_from_being_answered_at_once(filled: Database) -> None:
    sql = "SELECT COUNT(*) FROM t WHERE i = 5 AND ts < 1700000001000"
    runner, routing = filled._cluster.runner, filled._cluster.routing
    check(filled, sql)
    assert check(filled, sql)
    guest = Principal("guest", "", tables=frozenset({"other"}))
    assert runner.fast_answer(sql, guest) is None
    assert runner.fast_answer(sql, Principal("user", "", tables=frozenset({"t"}))) is not None
    routing.default_options = {"enableNullHandling": "true"}
    assert runner.fast_answer(sql) is None
    routing.default_options = {}
    runner.quotas.has_shared = True
    assert runner.fast_answer(sql) is None
    runner.quotas.has_shared = False
    assert check(filled, sql)
    assert runner.run(sql, {"timeoutMs": "7000"}).request_id != runner.run(sql).request_id


def test_a_query_that_is_answered_at_once_can_be_cancelled_and_is_counted(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT COUNT(*) FROM t WHERE s = 's1' AND ts > 1700000000001"
    runner = filled._cluster.runner
    check(filled, sql)
    executor = filled._cluster.executor
    answer = executor.answer_prepared

    def cancelled(*arguments: Any) -> Any:
        ((number, text),) = runner.running.snapshot().items()
        assert text == sql
        assert runner.running.cancel(number)
        return answer(*arguments)

    monkeypatch.setattr(executor, "answer_prepared", cancelled)
    response = runner.fast_answer(sql)
    assert response is not None
    assert [code for code, _ in response.exceptions] == [503]
    assert not runner.running.snapshot()
    monkeypatch.undo()
    counts, served = runner.counters._of("t_OFFLINE"), executor._instance.counts.of("t_OFFLINE")
    before = counts.queries, counts.documents_scanned, served.queries
    response = runner.fast_answer(sql)
    assert response is not None
    after = counts.queries, counts.documents_scanned, served.queries
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, response.stats.num_docs_scanned, 1]


FAR = [
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*), SUM(d), MAX(m) FROM t WHERE i = {} AND d < 3",
    "SELECT s, COUNT(*), AVG(m) FROM t WHERE m >= {} GROUP BY s ORDER BY s",
    "SELECT DISTINCT s FROM t WHERE m < {} LIMIT 4",
    "SELECT i, d, raw, tags FROM t WHERE i = {} ORDER BY d, ts LIMIT 3",
    "SELECT COUNT(*) FROM t WHERE s IN ('s1', 'it''s') AND big >= {}",
    "SELECT COUNT(*) FROM t WHERE $docId < {}",
]


@pytest.mark.parametrize("sql", FAR)
def test_servers_elsewhere_answer_known_shapes_as_well(filled: Database, far: Far, sql: str) -> None:
    def asked(n: int) -> bool:
        return far.check(sql.format(n), shown(ordinary(filled._cluster.runner, sql.format(n))))

    asked(9)
    assert all(asked(n) for n in range(10, 30))
    served = filled._cluster.server.counts.of("t_OFFLINE").queries
    waited = far.runner.run(sql.format(4))  # by a thread, which goes the ordinary way
    assert shown(waited) == shown(ordinary(filled._cluster.runner, sql.format(4)))
    assert filled._cluster.server.counts.of("t_OFFLINE").queries == served + 2


class Slow(SystemClock):
    """The clock of a machine on which everything takes 3 ms of processor time."""

    thread_cpu_ns = staticmethod(itertools.count(0, 3_000_000).__next__)


def test_shapes_whose_queries_take_long_are_given_up(filled: Database) -> None:
    far, sql = Far(filled, Slow()), FAR[1]
    try:
        expected = [shown(ordinary(filled._cluster.runner, sql.format(n))) for n in range(10, 40)]
        ways = [far.check(sql.format(n), answer) for n, answer in enumerate(expected, 10)]
        assert ways == [False] + [True] * 8 + [False] * 21
    finally:
        far.close()


class OlderKnownQuery(msgspec.Struct, array_like=True, frozen=True):
    """The message of older brokers, which request the rows as columns."""

    digest: bytes
    limit: int
    offset: int
    filter: Any


def test_rows_of_answers_come_as_text_unless_they_are_long_or_the_other_side_is_older(
    filled: Database, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT s, tags, big, d FROM t WHERE i >= 3 ORDER BY ts, i, d LIMIT 40"
    expected = shown(ordinary(filled._cluster.runner, sql))
    assert len(expected["resultTable"]["rows"]) == 40
    far.check(sql, expected)
    answered = far.begun(sql).answered
    assert (answered.table, answered.encoded.num_rows) == (None, 40)
    assert far.check(sql, expected)
    with monkeypatch.context() as context:
        context.setattr("gamay.query.answer.response.LONG_VALUES", 100)
        assert far.begun(sql).answered.table.num_rows == 40
        assert far.check(sql, expected)
    # a broker that knows no texts, and what it makes of being asked for one
    monkeypatch.setattr("gamay.query.wire.request.KnownQuery", lambda *parts, as_text: OlderKnownQuery(*parts))
    assert far.begun(sql).answered.encoded is None
    assert far.check(sql, expected)
    sent = msgspec.msgpack.encode(KnownQuery(b"x", 1, 0, None, as_text=True))
    assert msgspec.msgpack.decode(sent, type=OlderKnownQuery) == OlderKnownQuery(b"x", 1, 0, None)


def test_a_server_that_does_not_know_a_shape_any_more_is_told(filled: Database) -> None:
    far, sql = Far(filled), FAR[1]
    try:
        expected = shown(ordinary(filled._cluster.runner, sql.format(7)))
        far.check(sql.format(7), expected)
        assert far.check(sql.format(7), expected)
        port = far.listener.port
        far.listener.stop()
        far.start(port)  # a new process knows nothing, and the connection is made again by the ordinary way
        assert any(far.check(sql.format(7), expected) for _ in range(50))
        assert shown(far.runner.run(sql.format(8))) == shown(ordinary(filled._cluster.runner, sql.format(8)))
        far.listener._statements = ReceivedStatements()  # so many others came meanwhile
        assert not far.check(sql.format(9), shown(ordinary(filled._cluster.runner, sql.format(9))))
    finally:
        far.close()


def test_answers_from_elsewhere_follow_the_table(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*), SUM(m), MAX(d) FROM t WHERE i = 1"
    with connect(tmp_path / "data") as db:
        cluster = db._cluster
        db.create_table("t", rows(0, 400), schema=SCHEMA, config=CONFIG)
        far = Far(db)

        def of(routing: RoutingTables) -> list[Any]:
            return [(route.segments, route.schema, route.unavailable) for route in routing.find("t")]

        def changed(change: Callable[[], object]) -> None:
            before = of(cluster.routing)
            change()
            assert cluster.routing.wait_until(lambda: of(cluster.routing) != before, 60)
            assert far.routing.wait_until(lambda: of(far.routing) == of(cluster.routing), 60)
            known()

        def known() -> None:
            """Repeat a query until it takes the fast path; routes may be rebuilt meanwhile."""
            expected = shown(ordinary(cluster.runner, sql))
            assert any(far.check(sql, expected) for _ in range(50))

        try:
            known()
            changed(lambda: db.append("t", rows(1, 500)))
            name = min(db.segments("t"))
            reload(cluster, name)  # the route stays as it was
            assert far.check(sql, shown(ordinary(cluster.runner, sql)))
            wider = {**SCHEMA, "metricFieldSpecs": [*SCHEMA["metricFieldSpecs"], {"name": "more", "dataType": "INT"}]}
            changed(lambda: cluster.schemas.replace("t", wider))
            table = cluster.server.table("t_OFFLINE")
            assert table is not None
            loaded = table.snapshot()[name]
            table.swap({}, [name])  # the server lost it, and the route does not know
            pending = far.begun(sql)
            assert pending.answered is None
            assert [code for code, _ in far.runner.finish(pending).exceptions] == [305]
            table.swap({name: loaded})
            known()
        finally:
            far.close()


def test_a_query_that_another_process_answers_can_be_cancelled(
    filled: Database, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql, runner = FAR[1].format(11), far.runner
    far.check(sql, shown(ordinary(filled._cluster.runner, sql)))
    assert far.check(sql, shown(ordinary(filled._cluster.runner, sql)))
    execute = far.executor.execute

    def cancelled(*arguments: Any) -> Any:
        ((number, text),) = runner.running.snapshot().items()
        assert text == sql
        assert runner.running.cancel(number)
        return execute(*arguments)

    monkeypatch.setattr(far.executor, "execute", cancelled)
    assert [code for code, _ in runner.finish(far.begun(sql)).exceptions] == [503]
    assert not runner.running.snapshot()


@pytest.mark.parametrize("limit", ["maxDocsScanned=100", "maxEntriesScannedPostFilter=150"])
def test_what_was_done_for_a_query_that_failed_elsewhere_is_told(filled: Database, far: Far, limit: str) -> None:
    sql = f"SET {limit}; SELECT s, SUM(d) FROM t WHERE d > -1 GROUP BY s"
    expected = ordinary(filled._cluster.runner, sql)
    assert [int(found["errorCode"]) for found in shown(expected)["exceptions"]] == [246]
    assert expected.stats.num_docs_scanned > 0
    assert far.check(sql, shown(expected)) is False
    waited = shown(far.runner.run(sql))
    assert waited == shown(expected)


def test_a_shape_that_was_given_up_is_tried_again_now_and_then() -> None:
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "i", "dataType": "INT"}]}).value
    statement, _ = Statements(schema).bind(parse_query("SELECT i FROM t WHERE i = 1"))
    assert [statement.is_tried() for _ in range(20)] == [True] * 8 + [False] * 12
    assert sum(statement.is_tried() for _ in range(640)) == 10
    statement.succeeded()
    assert [statement.is_tried() for _ in range(9)] == [True] * 8 + [False]


def test_statements_go_by_the_settings_of_the_cluster(filled: Database) -> None:
    runner, routing, sql = filled._cluster.runner, filled._cluster.routing, "SELECT i, s FROM t WHERE i IN ({}, 7, 8, 9)"

    def num_rows() -> int:
        check(filled, sql.format(1))
        assert check(filled, sql.format(2))
        table = runner.run(sql.format(3)).table
        assert table is not None
        return table.num_rows

    before = routing.row_limits
    assert num_rows() == 10
    try:
        routing.row_limits = RowLimits(absent=4)
        assert num_rows() == 4
        routing.log2m = 9
        assert num_rows() == 4
    finally:
        routing.row_limits, routing.log2m = before, None
    assert num_rows() == 10
    assert check(filled, sql.format(4))
