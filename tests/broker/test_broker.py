"""The broker with records in a store and fake servers."""

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.http.app import BrokerApp
from gamay.broker.routes.routing import RoutingTables
from gamay.cluster.records.column_stats import ColumnSummary, encode_columns
from gamay.cluster.records.records import ONLINE, Assignment, Instance, Lineage, LineageEntry, LineageState, SegmentRecord
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.store import StoreUnavailableError
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.bind.binder import BoundQuery
from gamay.query.execute.executor import execute
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.queue import QueryQueue
from gamay.query.pool import WorkPool
from gamay.query.stats import QueryStats
from gamay.roles.broker_process import BrokerProcess

SCHEMA = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}]}


class FakeServer:
    """A server that finds no rows, records its requests, and fails or lacks segments on demand."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.fails: Exception | None = None
        self.lacks: set[str] = set()
        self.blocked: threading.Event | None = None

    def execute(
        self, table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline, latest: Collection[str] = ()
    ) -> tuple[ServerResult, Sequence[str]]:
        self.asked.append(tuple(segments))
        if self.blocked is not None:
            while not self.blocked.wait(0.005):
                deadline.check()
        if self.fails is not None:
            raise self.fails
        result = execute(query, [], WorkPool(1), deadline)
        result.stats = QueryStats(num_segments_queried=len(segments))
        return result, [s for s in segments if s in self.lacks]


_WAYS = ("v1Response", "v2Response")


class World:
    """A table `t` with segments 0 … 3, where segment i holds n from 10 i to 10 i + 9, on two servers."""

    def __init__(self, folder: Path) -> None:
        self.store = EmbeddedStore.open(folder / "metadata.db", SYSTEM_CLOCK)
        self.registry = Registry(self.store)
        self.servers = {"Server_a_1": FakeServer(), "Server_b_1": FakeServer()}
        self.registry.put_schema("t", SCHEMA)
        self.registry.create_ideal_state(Assignment.new_table("t_OFFLINE", 1))
        states = {f"s{i}": {f"Server_{'ab'[i % 2]}_1": ONLINE} for i in range(4)}
        for i in range(4):
            n = ColumnSummary(DataType.INT, 10, 10 * i, 10 * i + 9, True, 10, 0, None)
            self.registry.create_segment("t_OFFLINE", SegmentRecord(
                f"s{i}", crc=1, total_docs=10, push_time_ms=SYSTEM_CLOCK.now_ms(), download_url="u",
                column_stats=encode_columns({"n": n}),
            ))  # fmt: skip
        self.registry.update_ideal_state("t_OFFLINE", lambda ideal: ideal.with_segments(states))
        self.registry.put_external_view(Assignment("t_OFFLINE", states))
        for server in self.servers:
            announce(self.store, server)
        self.registry.create_table_config("t_OFFLINE", TableConfig.offline("t").to_json())
        self.routing = RoutingTables(self.registry)
        self.routing.start()
        self.runner = QueryRunner("Broker_x_1", self.routing, self.servers, SYSTEM_CLOCK, request_base=7)
        self.executor = QueryQueue(4)
        self.http = TestClient(BrokerApp(self.runner, self.executor, lambda: True).asgi())

    def close(self) -> None:
        self.http.close()
        self.runner.close()
        self.routing.stop()
        self.store.close()
        self.executor.shutdown()

    def ask(self, sql: str, **headers: str) -> Any:
        return self.http.post("/query/sql", json={"sql": sql}, headers=headers)

    def asked(self) -> set[str]:
        found = {s for server in self.servers.values() for segments in server.asked for s in segments}
        for server in self.servers.values():
            server.asked.clear()
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_segments_are_pruned_and_sent_to_their_servers(world: World) -> None:
    answer = world.ask("SELECT count(*) FROM t WHERE n BETWEEN 15 AND 25").json()
    assert world.servers["Server_a_1"].asked == [("s2",)]
    assert world.servers["Server_b_1"].asked == [("s1",)]
    assert answer["numSegmentsPrunedByBroker"] == 2
    assert answer["numServersQueried"] == answer["numServersResponded"] == 2
    assert answer["numSegmentsQueried"] == 2
    assert answer["tablesQueried"] == ["t"]
    assert answer["requestId"].startswith("7")
    assert answer["brokerId"] == "Broker_x_1"


def test_nothing_left_after_pruning_still_answers(world: World) -> None:
    answer = world.ask("SELECT count(*) FROM t WHERE n > 1000").json()
    assert answer["resultTable"]["rows"] == [[0]]
    # one server takes part, so that clients see that the answer is complete, and has nothing to read
    assert answer["numServersQueried"] == answer["numServersResponded"] == 1
    assert (answer["numSegmentsPrunedByBroker"], answer["totalDocs"]) == (3, 30)  # beside those of the server
    assert answer["numDocsScanned"] == answer["numEntriesScannedInFilter"] == 0
    assert len(world.asked()) == 1
    explained = world.ask("EXPLAIN PLAN FOR SELECT count(*) FROM t WHERE n > 1000").json()
    assert (explained["resultTable"]["rows"][1][0], explained["totalDocs"]) == ("ALL_SEGMENTS_PRUNED_ON_SERVER", 40)
    assert world.asked() == set()
    grouped = world.ask("SELECT n, count(*) FROM t WHERE n > 1000 GROUP BY n").json()
    assert grouped["resultTable"]["dataSchema"]["columnDataTypes"] == ["INT", "LONG"]
    assert grouped["resultTable"]["rows"] == []


def test_what_is_not_even_looked_at_has_an_id_and_is_counted(world: World) -> None:
    answers = [
        world.http.post("/query/sql", json={"sql": "SELECT 1", "queryOptions": options}).json()
        for options in ("a", 5, "a=1;a=2")
    ]
    assert {answer["exceptions"][0]["errorCode"] for answer in answers} == {150}
    assert all(answer["requestId"].startswith("7") and answer["brokerId"] == "Broker_x_1" for answer in answers)
    assert len({answer["requestId"] for answer in answers}) == 3
    world.http.post("/query", json={"pql": "SELECT COUNT(*) FROM t", "queryOptions": "a"})
    assert sum(one.value for one in world.runner.measure() if one.name == "pinot_broker_queries") == 4


@pytest.mark.parametrize("name", ["t", "T", "t_OFFLINE", "T_offline"])
def test_table_names_in_any_case(world: World, name: str) -> None:
    assert world.ask(f"SELECT count(*) FROM {name}").json()["exceptions"] == []


def test_routes_follow_the_records(world: World) -> None:
    entry = LineageEntry("e", ("s0",), ("s1",), LineageState.COMPLETED, 1)
    world.registry.update_lineage("t_OFFLINE", lambda lineage: Lineage.with_entry(lineage, entry))
    world.routing.wait_until(lambda: world.routing.find("t")[0].segments == ("s1", "s2", "s3"), 60)
    world.ask("SELECT count(*) FROM t")
    assert world.asked() == {"s1", "s2", "s3"}
    world.registry.delete_table_config("t_OFFLINE")
    world.routing.wait_until(lambda: not world.routing.find("t"), 60)
    assert world.ask("SELECT count(*) FROM t").json()["exceptions"][0]["errorCode"] == 190


def test_a_failing_server_makes_the_answer_partial(world: World) -> None:
    world.servers["Server_b_1"].fails = QueryError(ErrorCode.SERVER_OUT_OF_CAPACITY, "busy")
    answer = world.ask("SELECT count(*) FROM t").json()
    assert answer["exceptions"] == [{"errorCode": 211, "message": "ServerOutOfCapacity: busy"}]
    assert (answer["numServersQueried"], answer["numServersResponded"], answer["partialResult"]) == (2, 1, True)
    assert answer["resultTable"]["rows"] == [[0]]


def test_segments_that_are_nowhere_are_told(world: World) -> None:
    world.servers["Server_a_1"].lacks = {"s0"}
    answer = world.ask("SELECT count(*) FROM t").json()
    assert answer["exceptions"][0]["errorCode"] == 305
    assert "s0" in answer["exceptions"][0]["message"]
    # asked again after the routes were refreshed
    assert len(world.servers["Server_a_1"].asked) == 2
    ignored = world.ask("SET ignoreMissingSegments = true; SELECT count(*) FROM t").json()
    assert (ignored["exceptions"], ignored["partialResult"]) == ([], False)
    assert ignored["resultTable"] == answer["resultTable"]


def test_a_new_segment_has_time_to_be_loaded(world: World) -> None:
    view = world.registry.get_external_view("t_OFFLINE")
    assert view is not None
    record = SegmentRecord("new", crc=1, total_docs=10, push_time_ms=SYSTEM_CLOCK.now_ms(), download_url="u")
    world.registry.create_segment("t_OFFLINE", record)
    added = {"new": {"Server_a_1": ONLINE}}
    world.registry.update_ideal_state("t_OFFLINE", lambda ideal: ideal.with_segments(added))
    world.routing.wait_until(lambda: world.routing.find("t")[0].unavailable != (), 60)
    assert world.ask("SELECT count(*) FROM t").json()["exceptions"] == []
    failed = Assignment("t_OFFLINE", {**view.states, "new": {"Server_a_1": "ERROR"}})
    world.registry.put_external_view(failed)
    world.routing.wait_until(lambda: world.routing.find("t")[0].unavailable == (("new", 0),), 60)
    assert world.ask("SELECT count(*) FROM t").json()["exceptions"][0]["errorCode"] == 305


def test_a_segment_that_was_there_and_is_gone_is_told_at_once(world: World) -> None:
    view = world.registry.get_external_view("t_OFFLINE")
    assert view is not None
    for server in world.servers.values():
        server.lacks = {"s0"}
    without = Assignment("t_OFFLINE", {s: states for s, states in view.states.items() if s != "s0"})
    world.registry.put_external_view(without)
    world.routing.refresh("t_OFFLINE")
    answer = world.ask("SELECT count(*) FROM t").json()
    assert (answer["exceptions"][0]["errorCode"], answer["partialResult"]) == (305, True)
    disabled = Assignment("t_OFFLINE", {**view.states, "s0": dict.fromkeys(view.states["s0"], "OFFLINE")})
    world.registry.put_external_view(disabled)
    world.routing.wait_until(lambda: "s0" not in world.routing.find("t")[0].segments, 60)
    answer = world.ask("SELECT count(*) FROM t").json()
    assert (answer["exceptions"][0]["errorCode"], answer["partialResult"]) == (305, True)


def test_running_queries_are_listed_and_cancelled(world: World) -> None:
    for server in world.servers.values():
        server.blocked = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        options = {"sql": "SELECT count(*) FROM t", "queryOptions": "clientQueryId=mine;timeoutMs=20000"}
        waiting = executor.submit(lambda: world.http.post("/query/sql", json=options).json())
        while not (listed := world.http.get("/queries").json()):
            pass
        (request_id,) = listed
        assert world.http.delete("/query/x").status_code == 400
        assert world.http.delete("/query/123").status_code == 404
        assert world.http.delete("/query/other", params={"client": "true"}).status_code == 404
        assert world.http.delete(f"/query/{request_id}").text == f"Cancelled query: {request_id}"
        answer = waiting.result(60)
    assert answer["exceptions"][0]["errorCode"] == 503
    assert answer["requestId"] == request_id
    assert world.http.get("/queries").json() == {}


def test_timeouts_are_told(world: World) -> None:
    for server in world.servers.values():
        server.blocked = threading.Event()
    body = {"sql": "SELECT count(*) FROM t", "queryOptions": "timeoutMs=30"}
    assert world.http.post("/query/sql", json=body).json()["exceptions"][0]["errorCode"] == 250


def test_a_defect_is_answered_not_raised(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.servers["Server_a_1"].fails = RuntimeError("boom")  # type: ignore[assignment]
    answer = world.ask("SELECT count(*) FROM t").json()
    assert answer["exceptions"][0]["errorCode"] == 450
    assert "Traceback" not in answer["exceptions"][0]["message"]


def test_http(world: World) -> None:
    ok = world.ask("SELECT 1 AS test_column LIMIT 1")
    assert ok.headers["X-Pinot-Error-Code"] == "-1"
    assert ok.json()["resultTable"] == {
        "dataSchema": {"columnNames": ["test_column"], "columnDataTypes": ["INT"]},
        "rows": [[1]],
    }
    bad = world.ask("SELECT nothing FROM t")
    assert (bad.status_code, bad.headers["X-Pinot-Error-Code"]) == (200, "710")
    assert {"numServersQueried", "numServersResponded", "exceptions"} <= bad.json().keys()
    strict = world.ask("SELECT count(*) FROM nowhere", **{"Pinot-Use-Http-Status-For-Errors": "true"})
    assert strict.status_code == 404
    assert world.http.get("/query/sql", params={"sql": "SELECT count(*) FROM t"}).json()["resultTable"]["rows"] == [[0]]
    assert world.http.post("/query", json={"sql": "SELECT count(*) FROM t"}).status_code == 200
    missing = world.http.post("/query/sql", json={"query": "x"})
    assert (missing.status_code, missing.json()["error"]) == (400, "Payload is missing the query string field 'sql'")
    elsewhere = world.http.post("/query/sql", json={"pql": "SELECT count(*) FROM t"})
    assert (elsewhere.status_code, elsewhere.json()["error"].endswith("'sql'; PQL is answered at /query")) == (400, True)
    assert world.http.post("/query/sql", content=b"{").json()["error"].startswith("Invalid JSON")
    assert world.http.post("/query/sql", content=b"[]").status_code == 400
    no_text = world.http.get("/query/sql?sql=SELECT%20count(*)%20FROM%20t%20WHERE%20s='%FF'")
    assert (no_text.status_code, "not valid UTF-8" in no_text.json()["error"]) == (400, True)
    assert world.http.get("/query/sql?sql=SELECT%20'%C3%A9'").json()["resultTable"]["rows"] == [["é"]]
    assert world.http.get("/nowhere").json()["code"] == 404
    assert world.http.get("/health").text == "OK"
    options = world.http.post("/query/sql", json={"sql": "SELECT 1 FROM t", "queryOptions": "nonsense"})
    assert options.headers["X-Pinot-Error-Code"] == "150"
    starting = TestClient(BrokerApp(world.runner, world.executor, lambda: False).asgi())
    assert starting.get("/health").status_code == 503


def test_what_is_not_offered_is_told(world: World) -> None:
    for method, path in (
        ("POST", "/query/timeseries"),
        ("GET", "/timeseries/api/v1/query_range"),
        ("GET", "/queryWorkloadConfigs"),
    ):
        answer = world.http.request(method, path)
        assert answer.status_code == 501
        assert answer.json()["error"].startswith(f"{path} is not supported: there ")
    assert world.http.get("/timeseries/api/v1/query").json() == {}


def test_two_ways_of_asking_are_compared(world: World) -> None:
    def compared(**body: str) -> tuple[list[str], list[str], list[str]]:
        answer = world.http.post("/query/compare", json=body).json()
        names = [answer[each].get("resultTable", {}).get("dataSchema", {}).get("columnNames") for each in _WAYS]
        return *names, answer["comparisonAnalysis"]

    assert compared(sql="SELECT 7 AS n") == (["n"], ["n"], [])
    named = "The names of columns differ: [7] in v1, [EXPR$0] in v2"
    assert compared(sql="SELECT 7") == (["7"], ["EXPR$0"], [named])
    assert compared(sql="SELECT 7", queryOptions="useMultistageEngine=true;timeoutMs=1000")[2] == [named]
    assert compared(sqlV1="SELECT 1 AS n", sqlV2="SELECT 2 AS n")[2] == ["The rows differ"]
    types = "The types of columns differ: [INT] in v1, [STRING] in v2"
    assert compared(sqlV1="SELECT 1 AS n", sqlV2="SELECT 'x' AS n")[2] == [types, "The rows differ"]
    assert compared(sqlV1="SELECT 1 AS n", sqlV2="SELECT n FROM nowhere")[2] == ["The query failed in v2"]
    for body in ({}, {"sqlV1": "SELECT 1"}, {"sql": 7}):
        assert world.http.post("/query/compare", json=body).status_code == 400
    assert world.http.post("/query/compare", content=b"{").json()["error"].startswith("Invalid JSON")


def test_a_table_of_a_database(world: World) -> None:
    answer = world.http.post("/query/sql", json={"sql": "SELECT count(*) FROM t"}, headers={"database": "sales"}).json()
    assert "sales.t" in answer["exceptions"][0]["message"]
    assert world.ask("SELECT count(*) FROM t", database="default").json()["exceptions"] == []
    for text in ("SELECT count(*) FROM default.t", "SET database='DEFAULT'; SELECT default.t.n FROM default.t LIMIT 1"):
        assert world.ask(text).json()["exceptions"] == []


@pytest.mark.parametrize(
    ("text", "header", "conflict"),
    [
        ("SELECT count(*) FROM sales.t", "other", True),
        ("SELECT count(*) FROM default.t", "sales", True),
        ("SET database=other; SELECT count(*) FROM sales.t", None, True),
        ("SET database=other; SELECT count(*) FROM t", "sales", True),
        ("SET database=SALES; SELECT count(*) FROM Sales.t", "sales", False),
        ("SELECT count(*) FROM sales.t", "default", False),
    ],
)
def test_one_request_names_one_database(world: World, text: str, header: str | None, conflict: bool) -> None:
    headers = {} if header is None else {"database": header}
    failure = world.http.post("/query/sql", json={"sql": text}, headers=headers).json()["exceptions"][0]
    assert failure["errorCode"] == (700 if conflict else 190)
    assert failure["message"].startswith("QueryValidationError: Database conflict: ") == conflict


def test_segments_that_vanish_one_after_the_other_are_not_told_as_lost(world: World) -> None:
    """At each request the server has just dropped one more segment, which the records already show."""
    server = world.servers["Server_a_1"]
    answer_of = server.execute
    to_drop = ["s0", "s2"]

    def execute(
        table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline, latest: Collection[str] = ()
    ) -> tuple[ServerResult, Sequence[str]]:
        if to_drop:
            dropped = to_drop.pop(0)
            server.lacks.add(dropped)
            world.registry.update_ideal_state("t_OFFLINE", lambda ideal: ideal.with_segments({}, frozenset({dropped})))
        return answer_of(table, query, segments, deadline)

    server.execute = execute  # type: ignore[method-assign]
    answer = world.ask("SELECT count(*) FROM t").json()
    assert (answer["exceptions"], answer["partialResult"]) == ([], False)


def test_a_segment_that_stays_away_is_told(world: World) -> None:
    world.servers["Server_a_1"].lacks.add("s0")
    answer = world.ask("SELECT count(*) FROM t").json()
    assert [problem["errorCode"] for problem in answer["exceptions"]] == [305]
    assert len(world.servers["Server_a_1"].asked) == 2


def test_null_handling_can_be_the_default_of_the_cluster(world: World) -> None:
    asked = "SELECT count(n) FROM t WHERE n < 5"
    assert names_of(world.ask(asked).json()) == ["count(*)"]
    world.registry.update_cluster_config({"pinot.broker.query.enable.null.handling": "true"})
    assert world.routing.wait_until(lambda: world.routing.default_options == {"enableNullHandling": "true"}, 60)
    assert names_of(world.ask(asked).json()) == ["count(n)"]
    assert names_of(world.ask(f"SET enableNullHandling = false; {asked}").json()) == ["count(*)"]


def test_the_quota_of_an_application_comes_before_all_else(world: World) -> None:
    settings = {"applicationMaxQueriesPerSecond": "0.001", "databaseMaxQueriesPerSecond": "0.001"}
    world.registry.update_cluster_config(settings)
    assert world.routing.wait_until(lambda: bool(world.runner.quotas.applications and world.runner.quotas.databases), 60)

    def ask(table: str, application: str) -> int:
        sql = f"SET applicationName = '{application}'; SELECT count(*) FROM {table}"
        return int(world.ask(sql).headers["X-Pinot-Error-Code"])

    assert [ask("nowhere", "a"), ask("nowhere", "a"), ask("t", "a")] == [190, 429, 429]
    # what was refused has taken nothing from the database
    assert [ask("t", "b"), ask("nowhere", "c"), ask("t", "d")] == [-1, 190, 429]


def test_options_that_nobody_knows_may_be_refused(world: World, caplog: pytest.LogCaptureFixture) -> None:
    name = "pinot.broker.query.option.validationMode"
    misspelt = "SET timeoutMS = 5000; SET timeotMs = 5; SELECT count(*) FROM t"
    answer = world.ask(misspelt).json()
    assert (answer["exceptions"], answer["partialResult"]) == ([], False)
    assert answer["warnings"] == ["Unknown query option 'timeotMs'. Did you mean 'timeoutMs'?"]
    world.registry.update_cluster_config({name: "reject"})
    assert world.routing.wait_until(lambda: world.routing.option_validation == "REJECT", 60)
    told = "SQLParsingError: Unknown query option 'timeotMs'. Did you mean 'timeoutMs'?"
    for sql in (misspelt, "SELECT count(*) FROM t OPTION(timeotMs=5)"):
        assert world.ask(sql).json()["exceptions"] == [{"errorCode": 150, "message": told}]
    pql = world.http.post("/query", json={"pql": "SELECT COUNT(*) FROM t OPTION(timeotMs=5)"}).json()
    assert [problem["message"] for problem in pql["exceptions"]] == [told]
    beside = {"sql": "SELECT count(*) FROM t", "queryOptions": "timeotMs=5;groupByMode=sql"}
    assert world.http.post("/query/sql", json=beside).json()["exceptions"] == []  # clients send what they like
    world.registry.update_cluster_config({name: "WARN"})
    assert world.routing.wait_until(lambda: world.routing.option_validation == "WARN", 60)
    assert world.ask(misspelt).json()["exceptions"] == []
    assert [record.getMessage() for record in caplog.records] == [told.partition(": ")[2]]


def test_the_response_names_columns_whose_indexes_cannot_be_skipped(world: World) -> None:
    told = "The query option 'skipIndexes' names '{}', which is not a column of t."
    answer = world.ask(
        "SET skipIndexes = 'n=inverted&nn=range&nowhere=fst,json&$n$DAY=range'; SELECT count(*) FROM t"
    ).json()
    assert answer["warnings"] == [f"{told.format('nn')} Did you mean 'n'?", told.format("nowhere")]
    assert answer["exceptions"] == []
    assert "warnings" not in world.ask("SET skipIndexes = 'n=inverted,range'; SELECT count(*) FROM t").json()
    answer = world.ask("SET skipIndexes = 'n=invertd'; SELECT count(*) FROM t").json()
    assert "The query option skipIndexes must be of the form column=kind,kind" in answer["exceptions"][0]["message"]


def test_the_response_names_options_without_effect(world: World) -> None:
    sentences = ["The query option 'stageParallelism' has no effect", "The query option 'useSpools' has no effect"]
    set_in_text = world.ask("SET useSpools = false; SET stageParallelism = 5; SELECT count(*) FROM t").json()
    beside = {"sql": "SELECT count(*) FROM t", "queryOptions": "useSpools=false;stageParallelism=5"}
    for answer in (set_in_text, world.http.post("/query/sql", json=beside).json()):
        assert answer["warnings"] == sentences
        assert (answer["exceptions"], answer["partialResult"]) == ([], False)
    pql = world.http.post("/query", json={"pql": "SELECT COUNT(*) FROM t OPTION(useSpools=false)"}).json()
    assert pql["warnings"] == sentences[1:]
    failed = world.ask("SET useSpools = false; SELECT nothing FROM t").json()
    assert failed["warnings"] == sentences[1:]
    assert failed["exceptions"]
    assert "warnings" not in world.ask("SET timeoutMs = 60000; SELECT count(*) FROM t").json()


def test_limits_of_rows_are_settings_of_the_cluster(world: World) -> None:
    settings = {"pinot.broker.default.query.limit": "2", "pinot.broker.query.response.limit": "3"}
    world.registry.update_cluster_config(settings)
    assert world.routing.wait_until(lambda: world.routing.row_limits.most == 3, 60)
    assert world.routing.row_limits.absent == 2
    for body in (
        {"sql": "SELECT n FROM t LIMIT 4"},
        {"pql": "SELECT n FROM t LIMIT 4"},
        {"pql": "SELECT max(n) FROM t GROUP BY n TOP 4"},
    ):
        problems = world.http.post("/query", json=body).json()["exceptions"]
        assert [problem["errorCode"] for problem in problems] == [700]
        assert "exceeds maximum allowed value of 3" in problems[0]["message"]
    inner = "SELECT count(*) FROM t WHERE IN_SUBQUERY(n, 'SELECT IDSET(n) FROM t LIMIT 4') = 1"
    assert "exceeds maximum allowed value of 3" in world.ask(inner).json()["exceptions"][0]["message"]
    assert world.ask("SELECT n FROM t LIMIT 3").json()["exceptions"] == []
    world.registry.update_cluster_config({"pinot.broker.enable.query.limit.override": "true"})
    assert world.routing.wait_until(lambda: world.routing.row_limits.lowers, 60)
    assert world.ask("SELECT n FROM t LIMIT 4").json()["exceptions"] == []
    world.registry.update_cluster_config({}, frozenset(settings))
    assert world.routing.wait_until(lambda: world.routing.row_limits.absent == 10, 60)
    assert world.ask("SELECT n FROM t LIMIT 4").json()["exceptions"] == []


def names_of(answer: Any) -> list[str]:
    names: list[str] = answer["resultTable"]["dataSchema"]["columnNames"]
    return names


def test_a_full_queue_refuses_and_whoever_waits_can_be_cancelled(world: World) -> None:
    gate = threading.Event()
    for server in world.servers.values():
        server.blocked = gate
    queue = QueryQueue(1, waiting_max=2)
    http = TestClient(BrokerApp(world.runner, queue, lambda: True).asgi())
    headers = {"Pinot-Use-Http-Status-For-Errors": "true"}

    def ask(number: int) -> Any:
        sql = f"SET clientQueryId = 'q{number}'; SELECT SUM(n) FROM t"
        return http.post("/query/sql", json={"sql": sql}, headers=headers)

    with ThreadPoolExecutor(4) as pool:
        asked = []
        for number in range(3):
            asked.append(pool.submit(ask, number))
            while queue.inside <= number:
                time.sleep(0.001)
        refused = ask(3)
        assert (refused.status_code, refused.json()["exceptions"][0]["errorCode"]) == (503, 211)
        assert refused.json()["clientRequestId"] == "q3"
        assert http.get("/health").status_code == 200
        assert len(http.get("/queries").json()) == 3
        assert http.delete("/query/q2?client=true").text == "Cancelled client query: q2"
        assert asked[2].result(60).json()["exceptions"][0]["errorCode"] == 503
        assert http.delete("/query/q2?client=true").status_code == 404
        gate.set()
        assert [future.result(60).status_code for future in asked[:2]] == [200, 200]
    queue.shutdown()
    assert http.get("/queries").json() == {}


def test_whether_a_text_is_a_query_is_told_without_asking_it(world: World) -> None:
    check = "/query/sql/validateSyntax"
    good = world.http.post(check, json={"sql": "SELECT nowhere FROM no_table WHERE x = 'a'"}).json()
    assert good == {"valid": True, "sqlType": "DQL", "errorMessage": None}
    bad = world.http.post(check, json={"sql": "SELECT FROM t"})
    assert bad.status_code == 200
    assert bad.json()["valid"] is False
    assert "SELECT" in bad.json()["errorMessage"]
    dml = world.http.post(check, json={"sql": "INSERT INTO t FROM FILE 's3://in/'"}).json()
    assert dml == {"valid": True, "sqlType": "DML", "errorMessage": None}
    assert not world.http.post(check, json={"sql": "INSERT INTO t FROM"}).json()["valid"]
    assert world.http.post(check, json={"query": "SELECT 1"}).status_code == 400
    assert world.http.post(check, content=b"{").json()["error"].startswith("Invalid JSON")
    assert world.asked() == set()


def test_queries_that_differ_in_constants_have_one_fingerprint(world: World) -> None:
    def of(sql: str) -> dict[str, str]:
        answer = world.http.post("/query/sql/queryFingerprint", json={"sql": sql})
        assert answer.status_code == 200
        found: dict[str, str] = answer.json()
        return found

    first = of("SELECT count(*) FROM t WHERE n > 1 AND s = 'it''s'  LIMIT 5")
    assert first["fingerprint"] == "SELECT count(*) FROM t WHERE n > ? AND s = ? LIMIT ?"
    assert of("SELECT count(*) FROM t\nWHERE n > 22 AND s = '' LIMIT 10;") == first
    assert of("SELECT count(*) FROM t WHERE n > 22 AND s = '' LIMIT 10 OPTION(timeoutMs=5)") == first
    assert of("SELECT count(*) FROM t WHERE n >= 1 AND s = 'x' LIMIT 5")["queryHash"] != first["queryHash"]
    refused = world.http.post("/query/sql/queryFingerprint", json={"sql": "DROP TABLE t"})
    assert refused.status_code == 400
    assert "DROP" in refused.json()["error"]


def test_a_dropped_route_is_there_again_when_it_is_rebuilt(world: World) -> None:
    assert world.http.delete("/routing/t").text == "Success"
    assert world.ask("SELECT count(*) FROM t").json()["exceptions"][0]["errorCode"] == 410
    assert world.http.delete("/routing/t_OFFLINE").status_code == 404
    assert world.http.get("/debug/routingTable/t").status_code == 404
    assert world.http.put("/routing/t").text == "Success"
    assert world.ask("SELECT count(*) FROM t").json()["exceptions"] == []


def test_what_runs_is_told_with_what_it_takes(world: World) -> None:
    pending = world.runner.begin("SELECT count(*) FROM t", {})
    assert pending.deadline.budget is not None
    assert world.http.get("/debug/queries/resourceUsage").json() == []
    with world.runner.running.listed(pending):
        pending.deadline.budget.change("rows", 4096)
        told = world.http.get("/debug/queries/resourceUsage").json()
    assert told == [{"queryId": str(pending.number), "cpuTimeNs": 0, "allocatedBytes": 4096}]
    pending.deadline.budget.close()


def test_routes_can_be_worked_out_on_demand(world: World) -> None:
    for path in ("/routing/t_OFFLINE", "/routing/refresh/t/s1"):
        assert world.http.put(path).text == "Success"
    assert world.http.put("/routing/nothing_OFFLINE").status_code == 404
    world.ask("SELECT count(*) FROM t")
    assert world.asked() == {"s0", "s1", "s2", "s3"}


def test_a_query_for_which_there_is_no_memory_is_refused_and_others_go_on(world: World) -> None:
    world.servers["Server_b_1"].fails = MemoryError("Unable to allocate 1.06 GiB")
    answer = world.ask("SELECT count(*) FROM t WHERE n = 15").json()
    assert [error["errorCode"] for error in answer["exceptions"]] == [ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED.code]
    assert "filter more" in answer["exceptions"][0]["message"]
    assert world.ask("SELECT count(*) FROM t WHERE n = 25").json()["exceptions"] == []


def test_a_server_that_was_never_asked_is_found_while_the_store_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.registry.put_instance(Instance("Server_a_1", "a", 8098, ()))
    world.routing.refresh("t_OFFLINE")

    def away(*_: object, **__: object) -> Any:
        raise StoreUnavailableError("away")

    broker: Any = SimpleNamespace(store=SimpleNamespace(connected=True), registry=world.registry, _routing=world.routing)
    assert BrokerProcess._address_of(broker, "Server_a_1") == ("a", 8098)
    world.registry.put_instance(Instance("Server_a_1", "moved", 9, ()))
    assert BrokerProcess._address_of(broker, "Server_a_1") == ("moved", 9)
    world.routing.refresh("t_OFFLINE")
    broker.store.connected = False
    with monkeypatch.context() as patch:
        patch.setattr(type(world.store), "get", away)
        assert BrokerProcess._address_of(broker, "Server_a_1") == ("moved", 9)
        assert BrokerProcess._address_of(broker, "Server_zz_1") is None
