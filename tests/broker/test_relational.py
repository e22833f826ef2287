"""Queries of several tables over servers in other processes: rows, access rights, deadlines, failing servers."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Cluster, NewCluster, rows_of
from tests.stages import leaves

import gamay
from gamay.base.errors import ErrorCode
from gamay.broker.answer import pending as pending_queries
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.query.answer.response import BrokerResponse, to_json

JOIN = (
    "SELECT a.k, COUNT(*) c, MAX(b.total) t FROM t a JOIN (SELECT k, SUM(n) total FROM t GROUP BY k) b ON a.k = b.k "
    "GROUP BY a.k ORDER BY a.k"
)


def answered(cluster: Cluster, sql: str, principal: Principal = ANYONE, **options: str) -> BrokerResponse:
    """Answer as the HTTP interface does."""
    pending = cluster.runner.begin(sql, options, principal=principal)
    cluster.remote.loop.wait(cluster.runner.fetch(pending))
    return cluster.runner.finish(pending)


def rows(response: BrokerResponse) -> list[tuple[Any, ...]]:
    assert not response.exceptions, response.exceptions
    assert response.table is not None
    return response.table.rows()


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    made = new_cluster(2)
    segments = {f"s{i}": rows_of(60 * i, 60, day=10 + i) for i in range(4)}
    made.create("t_OFFLINE", segments, {name: (i % 2,) for i, name in enumerate(segments)})
    assert made.routing.wait_until(lambda: bool(made.routing.find("t")), 60)
    return made


def test_rows_of_both_servers_are_joined(cluster: Cluster) -> None:
    counts = dict(rows(answered(cluster, "SELECT k, COUNT(*) FROM t GROUP BY k LIMIT 1000")))
    totals = dict(rows(answered(cluster, "SELECT k, SUM(n) FROM t GROUP BY k LIMIT 1000")))
    response = answered(cluster, JOIN)
    assert rows(response) == [(k, counts[k], totals[k]) for k in sorted(counts)]
    found = to_json(response)
    assert found["tablesQueried"] == ["t"]
    assert found["numServersQueried"] == found["numServersResponded"] == 4  # two for each leaf
    assert found["resultTable"]["dataSchema"]["columnDataTypes"] == ("STRING", "LONG", "LONG")


def test_over_http(cluster: Cluster) -> None:
    answer = cluster.http.post("/query/sql", json={"sql": JOIN}).json()
    assert answer["resultTable"]["rows"] == [list(row) for row in rows(answered(cluster, JOIN))]
    answer = cluster.http.post("/query/sql", json={"sql": "SELECT * FROM t a JOIN nowhere b ON a.k = b.k"}).json()
    assert [each["errorCode"] for each in answer["exceptions"]] == [ErrorCode.TABLE_DOES_NOT_EXIST.code]


@pytest.mark.parametrize(
    "sql", [JOIN, "SELECT k FROM t UNION SELECT 'x'", "SELECT 1 FROM (VALUES (1)) v WHERE 1 IN (SELECT n FROM t)"]
)
def test_each_table_needs_its_right(cluster: Cluster, sql: str) -> None:
    stranger = Principal("stranger", "", tables=frozenset({"other"}))
    response = answered(cluster, sql, stranger)
    assert [code for code, _ in response.exceptions] == [ErrorCode.ACCESS_DENIED.code]
    assert response.table is None


def test_only_tables_that_one_may_use_are_shown(cluster: Cluster) -> None:
    stranger = Principal("stranger", "", tables=frozenset({"other"}))
    assert rows(answered(cluster, "SHOW TABLES")) == [("t",)]
    assert rows(answered(cluster, "SHOW TABLES", stranger)) == []
    assert rows(answered(cluster, "SELECT COUNT(*) FROM information_schema.columns", stranger)) == [(0,)]
    refused = answered(cluster, "DESCRIBE t", stranger)
    assert [code for code, _ in refused.exceptions] == [ErrorCode.ACCESS_DENIED.code]


def test_tables_are_those_of_the_database_that_is_named(cluster: Cluster) -> None:
    assert rows(answered(cluster, "SHOW TABLES", database="sales")) == []
    missing = answered(cluster, "SELECT 1 FROM t a JOIN t b ON a.k = b.k", database="sales")
    assert [message for _, message in missing.exceptions if "'sales.t' does not exist" in message]
    assert rows(answered(cluster, "SHOW TABLES", database="default")) == [("t",)]


def test_row_filters_hold_for_each_table(cluster: Cluster) -> None:
    few = Principal("few", "", tables=frozenset({"t"}), row_filters={"t": ("k = 'key1'",)})
    response = answered(cluster, JOIN, few)
    written = JOIN.replace("FROM t a", "FROM (SELECT * FROM t WHERE k = 'key1') a").replace(
        "FROM t GROUP", "FROM t WHERE k = 'key1' GROUP"
    )
    assert response.rls_filters_applied
    assert [row[0] for row in rows(response)] == ["key1"]
    assert rows(response) == rows(answered(cluster, written))


def test_a_query_that_takes_too_long_is_ended(cluster: Cluster) -> None:
    heavy = "SELECT COUNT(*) FROM t a, t b, t c, t d WHERE a.n + b.n + c.n + d.n = -1"
    response = answered(cluster, heavy, timeoutMs="700")
    assert [code for code, _ in response.exceptions] == [ErrorCode.EXECUTION_TIMEOUT.code]
    assert response.time_used_ms < 20_000
    assert rows(answered(cluster, "SELECT COUNT(*) FROM (SELECT n FROM t) x")) == [(240,)]


def test_a_query_is_cancelled_in_the_middle_of_a_join(cluster: Cluster) -> None:
    heavy = "SELECT COUNT(*) FROM t a, t b, t c, t d WHERE a.n + b.n + c.n + d.n = -1"
    pending = cluster.runner.begin(heavy, {"timeoutMs": "60000"})
    threading.Timer(0.7, pending.deadline.cancel).start()
    response = cluster.runner.finish(pending)
    assert [code for code, _ in response.exceptions] == [ErrorCode.QUERY_CANCELLATION.code]


def test_a_server_that_is_gone_makes_the_answer_partial(cluster: Cluster) -> None:
    cluster.servers[1].stop()
    response = answered(cluster, JOIN)
    assert response.exceptions
    assert {code for code, _ in response.exceptions} <= {
        ErrorCode.SERVER_NOT_RESPONDING.code,
        ErrorCode.BROKER_REQUEST_SEND.code,
        ErrorCode.SEGMENTS_UNAVAILABLE.code,
    }


def test_memory_of_a_join_is_bounded(cluster: Cluster) -> None:
    wide = (
        "SELECT a.k || b.k || c.k || d.k long, COUNT(*) FROM t a, t b, t c, (SELECT * FROM t LIMIT 8) d "
        "GROUP BY long, a.n, b.n, c.n LIMIT 1"
    )
    response = answered(cluster, wide, maxQueryMemoryBytes="20000000", timeoutMs="3000")
    assert {code for code, _ in response.exceptions} <= {
        ErrorCode.EXECUTION_TIMEOUT.code,
        ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED.code,
    }
    assert rows(answered(cluster, "SELECT COUNT(*) FROM (SELECT n FROM t) x")) == [(240,)]


def test_the_multi_stage_engine_may_be_asked_for(cluster: Cluster) -> None:
    sql = "SELECT k, SUM(n), COUNT(*) / 7 FROM t GROUP BY k ORDER BY k LIMIT 2"

    def asked(path: str, text: str) -> Any:
        answer = cluster.http.post(path, json={"sql": text}).json()
        assert answer["exceptions"] == []
        schema = answer["resultTable"]["dataSchema"]
        return schema["columnNames"], schema["columnDataTypes"], answer["resultTable"]["rows"]

    names, types, rows = asked("/query", sql)
    assert (names, types) == (["k", "EXPR$1", "EXPR$2"], ["STRING", "LONG", "LONG"])
    assert asked("/query/sql", f"SET useMultistageEngine = true; {sql}") == (names, types, rows)
    names, types, other = asked("/query", f"SET useMultistageEngine = false; {sql}")
    assert (names, types) == (["k", "sum(n)", "divide(count(*),'7')"], ["STRING", "DOUBLE", "DOUBLE"])
    assert [(k, total, int(share)) for k, total, share in other] == [tuple(row) for row in rows]
    assert len(asked("/query", "SELECT n FROM t")[2]) == 240


def test_calls_that_the_broker_answers_stand_anywhere(cluster: Cluster) -> None:
    chosen = "IN_SUBQUERY(a.n, 'SELECT IDSET(n) FROM t WHERE n < 5')"
    found = rows(
        answered(cluster, f"SELECT a.n, {chosen}, reqId('') <> '' FROM t a JOIN t b ON a.n = b.n ORDER BY 1 LIMIT 9")
    )
    assert [row[1:] for row in found] == [(row[0] < 5, True) for row in found]
    below = f"SELECT COUNT(*) FROM t a JOIN t b ON a.n = b.n WHERE {chosen} = 1"
    assert rows(answered(cluster, below)) == rows(
        answered(cluster, "SELECT COUNT(*) FROM t a JOIN t b ON a.n = b.n WHERE a.n < 5")
    )


def test_rows_of_an_answer_are_limited_for_all_queries(cluster: Cluster) -> None:
    name = "pinot.broker.query.response.limit"
    cluster.registry.update_cluster_config({name: "3"})
    assert cluster.routing.wait_until(lambda: cluster.routing.row_limits.most == 3, 60)
    assert len(rows(answered(cluster, "SELECT a.n FROM t a JOIN t b ON a.n = b.n"))) == 3
    ordered = "SELECT a.n x FROM t a JOIN t b ON a.n = b.n ORDER BY x DESC"
    assert rows(answered(cluster, f"SELECT x FROM ({ordered} LIMIT 100) ORDER BY x LIMIT 3"))
    refused = answered(cluster, f"{ordered} LIMIT 4")
    assert refused.exceptions[0][0] == ErrorCode.QUERY_VALIDATION.code
    assert "exceeds maximum allowed value of 3" in refused.exceptions[0][1]


def test_brokers_read_no_files(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    answer = cluster.http.post("/query/sql", json={"sql": f"SELECT * FROM '{tmp_path}/x.csv'"}).json()
    assert [each["errorCode"] for each in answer["exceptions"]] == [ErrorCode.TABLE_DOES_NOT_EXIST.code]
    joined = f"SELECT COUNT(*) FROM t JOIN '{tmp_path}/x.csv' x ON t.n = x.a"
    assert answered(cluster, joined).exceptions[0][0] == ErrorCode.TABLE_DOES_NOT_EXIST.code


def test_a_small_table_travels_with_the_query_of_the_big_one(cluster: Cluster) -> None:
    small = "(SELECT n AS key, MAX(k) AS name FROM t WHERE n >= 0 GROUP BY n)"
    sql = f"SELECT d.name, COUNT(*), SUM(a.n) FROM t a JOIN {small} d ON a.n = d.key GROUP BY d.name ORDER BY d.name"
    plan = rows(answered(cluster, f"EXPLAIN PLAN FOR {sql}"))[0][1]
    assert "StarGroups" in plan
    # a condition that always holds, but of both sides, so that rows are joined
    joined = sql.replace("a.n = d.key", "a.n = d.key AND a.n <= d.key")
    assert "StarGroups" not in rows(answered(cluster, f"EXPLAIN PLAN FOR {joined}"))[0][1]
    response = answered(cluster, sql)
    assert rows(response) == rows(answered(cluster, joined))
    assert len(rows(response)) > 1
    assert response.stage_stats is not None
    of_big = leaves(dict(response.stage_stats))[0]
    assert (of_big["table"], of_big["emittedRows"]) == ("t", len(rows(response)))
    num_keys = rows(answered(cluster, f"SELECT COUNT(*) FROM {small} d"))[0][0]
    assert num_keys > 64  # more than IN has constants for


@pytest.mark.parametrize(("limit_ns", "expected"), [(1 << 62, True), (-1, False)])
def test_joins_that_took_little_time_take_turns(monkeypatch: pytest.MonkeyPatch, limit_ns: int, expected: bool) -> None:
    monkeypatch.setattr(pending_queries, "_TURN_NS_MAX", limit_ns)
    with gamay.connect(":memory:", threads=1) as db:
        db.create_table("t", {"x": [1, 2], "s": ["a", "b"]})
        runner, sql = db._cluster.runner, "SELECT a.s, b.s FROM t a JOIN t b ON a.x = b.x WHERE a.x = {}"
        first = runner.begin(sql.format(1), {})
        assert not first.takes_turns  # nothing is known of it
        runner.finish(first)
        assert runner.begin(sql.format(2), {}).takes_turns is expected
        assert not runner.begin("SELECT s FROM t WHERE x = 1", {}).takes_turns
