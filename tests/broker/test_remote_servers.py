"""Queries over servers in other processes: complete answers while servers fail, or answers reported as partial."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.broker.conftest import DAY_MS, Cluster, NewCluster, replicate, rows_of
from tests.waiting import PATIENCE_S, eventually

from gamay.base.errors import NotFoundError
from gamay.broker.scatter.remote import RemoteServer
from gamay.controller.tables.hybrid_boundary import fix_boundary, release_boundary
from gamay.rpc.peer import ConnectionLimits
from gamay.server.http.app import ServerApp

COUNT = "SELECT COUNT(*), SUM(n), MAX(x) FROM t"
WHOLE = [[300, float(sum(range(300))), 299 / 4]]
QUERIES = {
    COUNT: WHOLE,
    "SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY k LIMIT 3": [["key0", 43], ["key1", 43], ["key2", 43]],
    "SELECT n, k FROM t WHERE n > 290 ORDER BY n DESC LIMIT 2": [[299, "key5"], [298, "key4"]],
    "SELECT DISTINCTCOUNT(n), PERCENTILE(n, 50) FROM t": [[300, 150.0]],
    "SELECT COUNT(*) FROM t WHERE IN_SUBQUERY(n, 'SELECT ID_SET(n) FROM t WHERE n < 10') = 1": [[10]],
    "SELECT 1, 'a'": [[1, "a"]],
}


def check_whole(answer: Any, rows: Any) -> None:
    assert answer["exceptions"] == []
    assert answer["partialResult"] is False
    assert answer["resultTable"]["rows"] == rows
    assert answer["numServersQueried"] == answer["numServersResponded"]


@pytest.mark.parametrize("sql", QUERIES)
def test_answers(replicated: Cluster, sql: str) -> None:
    check_whole(replicated.ask(sql), QUERIES[sql])
    check_whole(replicated.ask(sql), QUERIES[sql])  # plans are known now
    waited = replicated.runner.run(sql)  # by a thread
    assert waited.exceptions == []
    assert waited.table is not None
    assert [list(row) for row in waited.table.rows()] == QUERIES[sql]


def test_statistics_and_traces_come_along(replicated: Cluster) -> None:
    answer = replicated.ask("SELECT COUNT(*) FROM t WHERE n < 500", trace="true")
    assert answer["numDocsScanned"] == answer["totalDocs"] == 300
    assert answer["numSegmentsQueried"] == answer["numSegmentsMatched"] == 6
    assert answer["offlineThreadCpuTimeNs"] > 0
    assert set(answer["traceInfo"]) >= {"Broker_x_1", "Server_s0_1"}


def test_servers_tell_what_came_around_executing(replicated: Cluster) -> None:
    replicated.ask(COUNT)
    replicated.ask(COUNT)
    asked = [counts for s in replicated.servers if (counts := s.hosted.counts.of("t_OFFLINE")).queries]
    assert asked
    for counts in asked:
        assert 0 < counts.pruning_s < counts.total_s
        assert counts.deserialization_s > 0
        assert counts.waiting_s > 0  # the first query of a shape waits for a thread
        assert counts.serialization_s > 0


def test_errors_of_queries_are_told_once(replicated: Cluster) -> None:
    answer = replicated.ask("SELECT CAST(k AS INT) FROM t LIMIT 5")
    assert "resultTable" not in answer
    assert len(answer["exceptions"]) == 1
    assert replicated.ask("SELECT nobody FROM t")["exceptions"][0]["errorCode"] == 710


def test_queries_go_on_while_servers_die_and_come_back(replicated: Cluster) -> None:
    stop = threading.Event()
    wrong: list[Any] = []
    asked = 0

    def ask() -> None:
        nonlocal asked
        while not stop.is_set():
            answer = replicated.ask(COUNT)
            asked += 1
            if answer["exceptions"] or answer["resultTable"]["rows"] != WHOLE:
                wrong.append(answer)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for server in replicated.servers:
        eventually(lambda before=asked: asked > before + 3)
        server.stop()
        eventually(lambda before=asked: asked > before + 10)
        server.start()
        eventually(lambda: not replicated.remote.failures.down)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_nobody_can_answer_is_said(replicated: Cluster) -> None:
    check_whole(replicated.ask(COUNT), WHOLE)
    for server in replicated.servers[:2]:
        server.stop()
    answer = replicated.ask(COUNT)
    # s0 and s3 are on the first two servers alone
    assert answer["partialResult"] is True
    assert answer["resultTable"]["rows"][0][0] == 200
    assert {e["errorCode"] for e in answer["exceptions"]} <= {425, 427}
    assert any("Server_s0_1" in e["message"] or "Server_s1_1" in e["message"] for e in answer["exceptions"])
    assert answer["numServersQueried"] > answer["numServersResponded"] == 1
    replicated.servers[2].stop()
    nothing = replicated.ask(COUNT)
    assert "resultTable" not in nothing
    assert nothing["partialResult"] is True
    assert nothing["numServersResponded"] == 0 < nothing["numServersQueried"]


def test_a_server_that_lost_a_segment_is_replaced(replicated: Cluster) -> None:
    table = replicated.servers[1].hosted.tables["t_OFFLINE"]
    table.swap({}, ["s0", "s1"])
    for _ in range(4):  # whichever replica has its turn
        check_whole(replicated.ask(COUNT), WHOLE)
    replicated.servers[2].hosted.tables["t_OFFLINE"].swap({}, ["s1"])
    answer = replicated.ask(COUNT)
    assert answer["resultTable"]["rows"][0][0] == 250
    assert [e["errorCode"] for e in answer["exceptions"]] == [305]
    assert "s1" in answer["exceptions"][0]["message"]


def test_a_slow_server_is_reported_in_time(replicated: Cluster) -> None:
    check_whole(replicated.ask(COUNT), WHOLE)
    check_whole(replicated.ask("SELECT MIN(n), MIN(x) FROM t"), [[0, 0]])  # what is loaded once is there then
    slow = replicated.servers[0].executor
    slow.released.clear()
    slow.running.clear()
    answers: list[Any] = []

    def is_asked() -> bool:
        # a query of a new shape, which the server gives to a thread, and which it does not answer before it is released;
        # the others need some of the time as well
        columns = ", ".join(["COUNT(*)", *["MIN(x)"] * (len(answers) + 1)])
        answers.append(replicated.ask(f"SELECT {columns} FROM t", timeoutMs="10000"))
        return slow.running.is_set()

    eventually(is_asked)  # another replica may have its turn
    answer = answers[-1]
    assert answer["partialResult"] is True, answer
    assert answer["numServersResponded"] == answer["numServersQueried"] - 1
    assert answer["exceptions"][0]["errorCode"] in (250, 427)
    assert answer["resultTable"]["rows"][0][0] < 300
    assert not replicated.remote.failures.down  # slow is not down
    slow.released.set()
    check_whole(replicated.ask(COUNT), WHOLE)


def test_cancelling_reaches_the_servers(replicated: Cluster) -> None:
    for server in replicated.servers:
        server.executor.released.clear()
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(replicated.ask(COUNT, timeoutMs="20000")))
    thread.start()
    eventually(lambda: any(server.executor.running.is_set() for server in replicated.servers))
    (request_id,) = replicated.http.get("/queries").json()
    assert replicated.http.delete(f"/query/{request_id}").status_code == 200
    thread.join(PATIENCE_S)
    assert answers[0]["exceptions"][0]["errorCode"] == 503
    busy = [server for server in replicated.servers if server.executor.running.is_set()]
    eventually(lambda: all("cancelled" in text for server in busy for text in server.executor.ended or ["?"]))
    for server in replicated.servers:
        server.executor.released.set()
    check_whole(replicated.ask(COUNT), WHOLE)


def test_a_query_is_ended_at_its_servers(replicated: Cluster) -> None:
    """Checked by the HTTP interface of each server, which lists the running requests of brokers."""
    apps = [
        TestClient(ServerApp(server.hosted, lambda: True, queries=server.running).asgi()) for server in replicated.servers
    ]
    assert [app.get("/queries/id").json() for app in apps] == [[]] * len(apps)
    missing = apps[0].delete("/query/none")
    assert missing.status_code == 404
    assert missing.text == f"Query: none not found on the server: {replicated.servers[0].name}"
    for server in replicated.servers:
        server.executor.released.clear()
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(replicated.ask(COUNT, timeoutMs="20000")))
    thread.start()
    eventually(lambda: any(app.get("/queries/id").json() for app in apps))
    (request_id,) = replicated.http.get("/queries").json()
    used = [query for app in apps for query in app.get("/debug/queries/resourceUsage").json()]
    assert {query["queryId"] for query in used} == {request_id}
    ended = [app.delete(f"/query/{request_id}").text for app in apps]
    assert f"Cancelled query: {request_id}" in ended
    thread.join(PATIENCE_S)
    assert answers[0]["exceptions"][0]["errorCode"] == 503
    eventually(lambda: not any(app.get("/queries/id").json() for app in apps))
    for server in replicated.servers:
        server.executor.released.set()
    check_whole(replicated.ask(COUNT), WHOLE)


def test_a_server_that_stands_still_is_replaced_while_it_does(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated = replicate(new_cluster(3, ConnectionLimits(connect_s=1, silence_s=2)))
    asked: list[str] = []
    ask = RemoteServer.ask

    async def noted(self: RemoteServer, *arguments: Any) -> Any:
        asked.append(self.name)
        return await ask(self, *arguments)

    monkeypatch.setattr(RemoteServer, "ask", noted)
    check_whole(replicated.ask(COUNT), WHOLE)
    listener, goes_on = replicated.servers[0].listener, threading.Event()
    assert listener is not None
    listener._loop.call_soon_threadsafe(goes_on.wait)
    try:
        asked.clear()
        check_whole(replicated.ask(COUNT, timeoutMs="30000"), WHOLE)
        assert "Server_s0_1" in asked
        assert "Server_s0_1" in replicated.remote.failures.down
        asked.clear()
        check_whole(replicated.ask(COUNT, timeoutMs="30000"), WHOLE)
        assert "Server_s0_1" not in asked
    finally:
        goes_on.set()


def test_a_server_that_leaves_is_not_asked_any_more(replicated: Cluster) -> None:
    check_whole(replicated.ask(COUNT), WHOLE)
    listener = replicated.servers[0].listener
    assert listener is not None
    listener.leave()
    eventually(lambda: (replicated.ask(COUNT), replicated.remote.failures.down)[1] == {"Server_s0_1"})
    for _ in range(4):
        check_whole(replicated.ask(COUNT), WHOLE)


def test_strict_replica_groups_are_not_mixed(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2)
    segments = {f"s{i}": rows_of(10 * i, 10) for i in range(4)}
    everywhere = dict.fromkeys(segments, (0, 1))
    cluster.create("t_OFFLINE", segments, everywhere, {"routing": {"instanceSelectorType": "strictReplicaGroup"}})
    for _ in range(3):
        answer = cluster.ask("SELECT COUNT(*) FROM t")
        check_whole(answer, [[40]])
        assert answer["numServersQueried"] == 1
    cluster.servers[0].hosted.tables["t_OFFLINE"].swap({}, ["s2"])  # this server must not be asked for the others either
    for _ in range(4):
        answer = cluster.ask("SELECT COUNT(*), COUNT(*) FROM t")
        check_whole(answer, [[40, 40]])
        assert answer["numServersQueried"] == 1


def test_large_results_are_merged_on_a_thread(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2)
    segments = {f"s{i}": rows_of(30_000 * i, 30_000) for i in range(2)}
    cluster.create("t_OFFLINE", segments, {"s0": (0,), "s1": (1,)})
    answer = cluster.ask("SELECT n, k, x FROM t LIMIT 60000")
    assert sorted(row[0] for row in answer["resultTable"]["rows"]) == list(range(60_000))


# -- hybrid tables


def test_each_row_of_a_hybrid_table_counts_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2)
    offline = {f"o{i}": {"k": ["a"] * 4, "n": [i] * 4, "x": [1.0] * 4, "day": [10 + i] * 4} for i in range(5)}  # days 10-14
    realtime = {f"r{i}": {"k": ["a"] * 4, "n": [i] * 4, "x": [1.0] * 4, "day": [12 + i] * 4} for i in range(5)}  # days 12-16
    cluster.create("t_REALTIME", realtime, {name: (i % 2,) for i, name in enumerate(realtime)})
    check_whole(cluster.ask("SELECT COUNT(*) FROM t"), [[20]])
    cluster.create("t_OFFLINE", offline, dict.fromkeys(offline, (0, 1)))
    # the last offline day is 14: up to 13 from OFFLINE, 14 to 16 from REALTIME
    for _ in range(3):
        answer = cluster.ask("SELECT day, COUNT(*) FROM t GROUP BY day ORDER BY day")
        check_whole(answer, [[day, 4] for day in range(10, 17)])
        assert answer["realtimeThreadCpuTimeNs"] > 0 < answer["offlineThreadCpuTimeNs"]
        assert answer["tablesQueried"] == ["t"]
    check_whole(cluster.ask("SELECT COUNT(*) FROM t WHERE day BETWEEN 13 AND 14"), [[8]])
    check_whole(cluster.ask("SELECT COUNT(*) FROM t_OFFLINE"), [[20]])
    check_whole(cluster.ask("SELECT COUNT(*) FROM t_REALTIME"), [[20]])
    assert cluster.http.get("/debug/timeBoundary/t").json() == {"timeColumn": "day", "timeValue": "13"}
    assert set(cluster.http.get("/debug/routingTable/t").json()) == {"t_OFFLINE", "t_REALTIME"}
    metrics = cluster.http.get("/metrics").text
    assert f'pinot_broker_timeBoundaryDifference{{table="t_OFFLINE"}} {DAY_MS:.2e}' in metrics
    assert 'pinot_broker_timeBoundaryDifference{table="t_REALTIME"}' not in metrics
    assert 'pinot_broker_percentOfReplicas{table="t_REALTIME"} 100.0' in metrics
    assert 'pinot_broker_routingTableUpdateTime_total{table="t_REALTIME"}' in metrics
    plan = cluster.ask("EXPLAIN PLAN FOR SELECT COUNT(*) FROM t")
    assert plan["exceptions"] == []
    # a boundary that is fixed by hand stays when a day is pushed
    assert fix_boundary(cluster.registry, "t").value == 13
    assert cluster.registry.must_get_ideal_state("t_OFFLINE").simple["HYBRID_TABLE_TIME_BOUNDARY"] == str(13 * DAY_MS)
    fixed = {"HYBRID_TABLE_TIME_BOUNDARY": str(11 * DAY_MS)}
    cluster.registry.update_ideal_state("t_OFFLINE", lambda ideal: replace(ideal, simple={**ideal.simple, **fixed}))
    assert cluster.routing.wait_until(lambda: boundary_in(cluster) == 11, 60)
    answer = cluster.ask("SELECT day, COUNT(*) FROM t GROUP BY day ORDER BY day")
    check_whole(answer, [[day, 4] for day in range(10, 17)])
    release_boundary(cluster.registry, "t")
    assert cluster.routing.wait_until(lambda: boundary_in(cluster) == 13, 60)
    with pytest.raises(NotFoundError, match="is not hybrid"):
        fix_boundary(cluster.registry, "nobody")


def boundary_in(cluster: Cluster) -> Any:
    boundary = cluster.routing.find("t")[0].boundary
    return None if boundary is None else boundary.value


def test_a_server_that_moves_and_a_store_that_is_away(replicated: Cluster) -> None:
    check_whole(replicated.ask(COUNT), WHOLE)
    moving = replicated.servers[0]
    moving.stop()
    addresses = replicated.remote._address_of

    def away(name: str) -> tuple[str, int] | None:
        raise OSError("the metadata store is away")

    replicated.remote._address_of = away
    for _ in range(4):
        check_whole(replicated.ask(COUNT), WHOLE)
    assert replicated.remote.failures.down == {moving.name}
    moving.port = 0
    moving.start()
    time.sleep(0.8)  # for probes of the old address
    assert replicated.remote.failures.down == {moving.name}
    replicated.remote._address_of = addresses
    eventually(lambda: not replicated.remote.failures.down)
    for _ in range(4):
        check_whole(replicated.ask(COUNT), WHOLE)
