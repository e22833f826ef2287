"""Roles as separate processes on a real ZooKeeper: joining, answering, crashing, leaving."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from benchmarks.cluster.ports import free_port
from benchmarks.cluster.processes import RoleProcess
from benchmarks.cluster.zookeeper import ZooKeeperProcess
from tests.waiting import PATIENCE_S, eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.client.directory import ZooKeeperDirectory
from gamay.cluster.store import paths
from gamay.cluster.store.zookeeper_store import ZooKeeperAddress, ZooKeeperStore
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic

SCHEMA: dict[str, Any] = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
TABLE: dict[str, Any] = {
    "tableName": "trips",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "2", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}


class Cluster:
    """Processes on one ZooKeeper."""

    def __init__(self, folder: Path, zk: str) -> None:
        self.folder, self.zk = folder, zk
        self.processes: list[RoleProcess] = []

    def add(self, role: str, *more: str) -> RoleProcess:
        # each process would load all kernels: `test_warming.py` has what that is for
        warming = ("--no-warm-up",) if role in ("broker", "server") else ()
        self.processes.append(RoleProcess(role, len(self.processes), self.folder, self.zk, *warming, *more))
        self.processes[-1].start()
        return self.processes[-1]

    def controller(self) -> RoleProcess:
        config = self.folder / "controller.conf"
        config.write_text(f"gamay.ingest.allowed_uris=file://{self.folder}/streams/\n")
        return self.add("controller", "--data-dir", str(self.folder / "deepstore"), "--config-file", str(config))

    def server(self, *more: str) -> RoleProcess:
        number = len(self.processes)
        return self.add(
            "server", "--data-dir", str(self.folder / f"server{number}"), "--query-port", str(free_port()), *more
        )

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.http.close()


@pytest.fixture
def cluster(tmp_path: Path, zookeeper_hosts: str) -> Iterator[Cluster]:
    made = Cluster(tmp_path, zookeeper_hosts)
    yield made
    made.stop()


def _push(controller: RoleProcess, archive: Path) -> None:
    with archive.open("rb") as file:
        answer = controller.http.post("/v2/segments", params={"tableName": "trips"}, files={"file": (archive.name, file)})
    assert answer.status_code == 200, answer.text


def _ask(broker: RoleProcess) -> tuple[int | None, dict[str, Any]]:
    answer = broker.http.post("/query/sql", json={"sql": "SELECT COUNT(*), SUM(n) FROM trips"}).json()
    rows = answer.get("resultTable", {}).get("rows") or [[None, None]]
    return rows[0][0], answer


def _is_whole(controller: RoleProcess) -> bool:
    """Whether both replicas of each segment are online."""
    view = controller.http.get("/tables/trips/externalview").json()["OFFLINE"]
    return all(list(states.values()) == ["ONLINE", "ONLINE"] for states in view.values())


def _subjects(controller: RoleProcess) -> set[str]:
    """What is wrong with something now."""
    return {problem["subject"] for problem in controller.http.get("/cluster/status").json()["problems"]}


@pytest.mark.chaos
def test_machines_are_lost_and_answers_are_not(cluster: Cluster, make_segment: Callable[..., Path]) -> None:
    """Replication 2: the lead controller and a server die, both come back; each answer is exact or says that it is not."""
    # servers and broker first: they wait for nothing but ZooKeeper
    shared = str(cluster.folder / "deepstore")
    servers = [cluster.server(), cluster.server("--deep-store", shared)]
    broker = cluster.add("broker")
    controllers = [cluster.controller(), cluster.controller()]
    for process in cluster.processes:
        process.wait_ready()
    first = controllers[0].http
    assert first.get("/cluster/info").json() == {"clusterName": "Chaos"}
    assert len(first.get("/liveinstances").json()["instances"]) == 5
    leader = first.get("/leader/tables").json()["leadControllerEntryMap"]["leadControllerResource_0"]["leadControllerId"]
    assert first.post("/schemas", json=SCHEMA).status_code == 200
    assert controllers[1].http.post("/tables", json=TABLE).status_code == 200
    for i in range(4):
        _push(controllers[i % 2], make_segment(f"trips_{i}", list(range(100 * i, 100 * i + 100))))
    eventually(lambda: _ask(broker)[0] == 400 and not _ask(broker)[1]["exceptions"], lambda: _ask(broker))
    assert _ask(broker)[1]["resultTable"]["rows"] == [[400, float(sum(range(400)))]]
    eventually(lambda: _is_whole(controllers[0]))
    sizes = first.get("/tables/trips/size").json()
    assert sizes["reportedSizeInBytes"] > 0

    def exact_or_flagged() -> bool:
        count, answer = _ask(broker)
        assert count == 400 or answer["exceptions"] or answer.get("partialResult"), answer
        return count == 400 and not answer["exceptions"]

    old = next(c for c in controllers if str(c.port) in leader)
    other = next(c for c in controllers if c is not old)
    old.kill()
    dead = servers[0]
    dead.kill()
    eventually(exact_or_flagged)
    eventually(other.is_ready, other.log.read_text)  # another leads
    eventually(lambda: f"Server_localhost_{dead.port}" in _subjects(other))
    _push(other, make_segment("trips_4", list(range(400, 500))))
    eventually(lambda: _ask(broker)[0] == 500, lambda: _ask(broker))
    old.start()
    dead.start()
    old.wait_ready()
    dead.wait_ready()
    eventually(lambda: _is_whole(other))
    eventually(lambda: other.http.get("/cluster/status").json() == {"status": "GOOD", "problems": []})
    # now the one that was fetching from a shared folder goes, gracefully: no answer may be less than whole
    answers: list[tuple[int | None, Any]] = []
    leaving = servers[1]
    leaving.send(signal.SIGTERM)
    while not leaving.has_ended:
        count, answer = _ask(broker)
        answers.append((count, answer["exceptions"]))
    assert leaving.kill() == 0, leaving.log.read_text()
    assert answers
    assert all(answer == (500, []) for answer in answers), [a for a in answers if a != (500, [])]
    eventually(lambda: _ask(broker)[0] == 500)


@pytest.mark.chaos
def test_damaged_records_are_mended_through_any_controller(cluster: Cluster, make_segment: Callable[..., Path]) -> None:
    """Through the one that leads and the one that does not: both say the same of the records, and servers follow."""
    cluster.server()
    broker, controllers = cluster.add("broker"), [cluster.controller(), cluster.controller()]
    for process in cluster.processes:
        process.wait_ready()
    http = controllers[0].http
    config = {**TABLE, "segmentsConfig": {**TABLE["segmentsConfig"], "replication": "1"}}
    assert http.post("/schemas", json=SCHEMA).status_code == 200
    assert http.post("/tables", json=config).status_code == 200
    for i in range(2):
        _push(controllers[i], make_segment(f"trips_{i}", list(range(100 * i, 100 * i + 100))))
    eventually(lambda: _ask(broker)[0] == 200, lambda: _ask(broker))
    documents = {paths.schema("trips"): SCHEMA, paths.table_config("trips_OFFLINE"): config}
    remade = [paths.segment("trips_OFFLINE", "trips_0"), paths.ideal_state("trips_OFFLINE")]
    store = ZooKeeperStore.open(ZooKeeperAddress(cluster.zk, "Chaos"))
    try:
        for round_ in range(2):
            for path in (*documents, *remade):
                store.set(path, b"garbage", None)
            for number, path in enumerate((*documents, *remade)):
                mending, other = controllers[(round_ + number) % 2].http, controllers[(round_ + number + 1) % 2].http
                assert path in {one["path"] for one in other.get("/cluster/damage").json()["damaged"]}
                answer = mending.post("/cluster/damage", params={"path": path}, json=documents.get(path))
                assert answer.status_code == 200, answer.text
                assert path not in {one["path"] for one in other.get("/cluster/damage").json()["damaged"]}
            eventually(lambda: _ask(broker)[0] == 200 and not _ask(broker)[1]["exceptions"], lambda: _ask(broker))
    finally:
        store.close()
    eventually(lambda: not _subjects(controllers[0]) | _subjects(controllers[1]))
    _push(controllers[1], make_segment("trips_2", list(range(200, 300))))
    eventually(lambda: _ask(broker)[0] == 300, lambda: _ask(broker))


@pytest.mark.chaos
def test_a_leader_that_was_paused_writes_nothing_more(cluster: Cluster) -> None:
    """A paused leader loses its session; when it resumes, another one leads, and all are ready again."""
    controllers = [cluster.controller(), cluster.controller()]
    for controller in controllers:
        controller.wait_ready()
    leads = controllers[0].http.get("/leader/tables").json()["leadControllerEntryMap"]["leadControllerResource_0"]
    old = next(c for c in controllers if leads["leadControllerId"].endswith(f"_{c.port}"))
    new = next(c for c in controllers if c is not old)
    old.send(signal.SIGSTOP)
    eventually(lambda: f"{new.instance} leads the cluster" in new.log.read_text(), new.log.read_text)
    old.send(signal.SIGCONT)
    eventually(
        lambda: f"Controller_localhost_{old.port} no longer leads the cluster" in old.log.read_text(), old.log.read_text
    )
    eventually(lambda: len(new.http.get("/liveinstances").json()["instances"]) == 2, old.log.read_text)
    eventually(lambda: old.is_ready() and new.is_ready())
    assert old.http.get("/leader/tables").json() == new.http.get("/leader/tables").json()


@pytest.mark.chaos
def test_queries_are_answered_while_zookeeper_is_away(
    tmp_path: Path, own_zookeeper: Any, make_segment: Callable[..., Path]
) -> None:
    """Queries use the known state; changes made afterwards reach every role."""
    cluster = Cluster(tmp_path, f"{own_zookeeper.hosts}/some/path")
    try:
        server, broker, controller = cluster.server(), cluster.add("broker"), cluster.controller()
        for process in cluster.processes:
            process.wait_ready()
        assert controller.http.post("/schemas", json=SCHEMA).status_code == 200
        segments = {**TABLE["segmentsConfig"], "replication": "1"}
        assert controller.http.post("/tables", json={**TABLE, "segmentsConfig": segments}).status_code == 200
        _push(controller, make_segment("trips_0", list(range(100))))
        eventually(lambda: _ask(broker)[0] == 100, lambda: _ask(broker))
        limits = {"gamay.query.memory.max.bytes": "100000000"}
        assert controller.http.post("/cluster/configs", json=limits).status_code == 200
        eventually(lambda: "each 100 MB" in server.log.read_text(), server.log.read_text)
        own_zookeeper.stop()
        eventually(lambda: not controller.is_ready())
        assert "nothing can be changed" in controller.http.get("/cluster/status").json()["problems"][0]["problem"]
        for _ in range(20):
            count, answer = _ask(broker)
            assert (count, answer["exceptions"]) == (100, [])
        assert broker.is_ready()
        assert server.is_ready()
        own_zookeeper.start()
        eventually(controller.is_ready, controller.log.read_text)
        _push(controller, make_segment("trips_1", list(range(100))))
        eventually(lambda: _ask(broker)[0] == 200, lambda: _ask(broker))
        assert len(controller.http.get("/liveinstances").json()["instances"]) == 3
    finally:
        cluster.stop()


@pytest.mark.chaos
def test_streams_are_consumed_while_processes_die(cluster: Cluster) -> None:
    """Replication 2: a server and the lead controller are killed amid commits; every row is counted once in the end."""
    servers = [cluster.server("--no-warm-up"), cluster.server("--no-warm-up")]
    broker = cluster.add("broker")
    controllers = [cluster.controller(), cluster.controller()]
    for process in cluster.processes:
        process.wait_ready()
    streams = cluster.folder / "streams"
    producer = Producer(create_topic(streams, "trips", TopicConfig(2)), SYSTEM_CLOCK)
    sent = 0

    def produce(batches: int) -> None:
        nonlocal sent
        for _ in range(batches):
            lines = [orjson.dumps({"city": "Oslo", "n": sent + i, "ts": 1_700_000_000_000}) for i in range(250)]
            producer.send(pa.array(lines, pa.binary()), partition=sent // 250 % 2)
            sent += 250
            time.sleep(0.02)

    stream = {
        "streamType": "log", "stream.log.topic.name": "trips", "stream.log.folder": str(streams),
        "stream.log.decoder.class.name": "JSONMessageDecoder", "stream.log.consumer.prop.auto.offset.reset": "smallest",
        "realtime.segment.flush.threshold.segment.rows": "2000",
    }  # fmt: skip
    ingestion = {"streamIngestionConfig": {"streamConfigMaps": [stream]}}
    table = {**TABLE, "tableType": "REALTIME", "ingestionConfig": ingestion}
    assert controllers[0].http.post("/schemas", json=SCHEMA).status_code == 200
    answer = controllers[0].http.post("/tables", json=table)
    assert answer.status_code == 200, answer.text

    def all_counted() -> bool:
        count, answer = _ask(broker)
        rows = answer.get("resultTable", {}).get("rows") or [[None, None]]
        return count == sent and rows[0][1] == sent * (sent - 1) / 2 and not answer["exceptions"]

    produce(30)
    eventually(all_counted, lambda: _ask(broker))
    leader = controllers[0].http.get("/leader/tables").json()["leadControllerEntryMap"]["leadControllerResource_0"]
    old = next(c for c in controllers if str(c.port) in leader["leadControllerId"])
    servers[0].kill()
    produce(20)
    old.kill()
    produce(20)
    servers[0].start()
    old.start()
    for process in (servers[0], old):
        process.wait_ready()
    produce(10)
    eventually(all_counted, lambda: _ask(broker))
    producer.close()


def test_clients_find_brokers_in_zookeeper(cluster: Cluster) -> None:
    broker, controller = cluster.add("broker"), cluster.controller()
    for process in cluster.processes:
        process.wait_ready()
    server = {"host": "s", "port": 8098, "type": "SERVER", "tags": ["DefaultTenant_OFFLINE"]}
    assert controller.http.post("/instances", json=server).status_code == 200
    assert controller.http.post("/schemas", json=SCHEMA).status_code == 200
    assert controller.http.post("/tables", json={**TABLE, "segmentsConfig": {"replication": "1"}}).status_code == 200
    eventually(lambda: controller.http.get("/brokers/tables/trips").json())
    found = ZooKeeperDirectory(f"{cluster.zk}/Chaos")
    try:
        eventually(lambda: found.list_brokers().all == (f"http://localhost:{broker.port}",), lambda: found.list_brokers())
        broker.kill()
        eventually(lambda: found.list_brokers().all == (), lambda: found.list_brokers())
    finally:
        found.close()


def test_brokers_answer_for_the_tables_of_their_tenants(cluster: Cluster, make_segment: Callable[..., Path]) -> None:
    ours, theirs = cluster.add("broker"), cluster.add("broker", "--tags", "XLNT_BROKER")
    controller, _ = cluster.controller(), cluster.server()
    for process in cluster.processes:
        process.wait_ready()
    assert controller.http.post("/schemas", json=SCHEMA).status_code == 200
    segments = {**TABLE["segmentsConfig"], "replication": "1"}
    table = {**TABLE, "tenants": {"broker": "XLNT"}, "segmentsConfig": segments}
    assert controller.http.post("/tables", json=table).status_code == 200
    _push(controller, make_segment("trips_0", [1, 2, 3]))
    eventually(lambda: _ask(theirs)[0] == 3, lambda: _ask(theirs))
    assert [e["errorCode"] for e in _ask(ours)[1]["exceptions"]] == [410]
    for _ in range(4):
        assert controller.http.post("/sql", json={"sql": "SELECT count(*) FROM trips"}).json()["exceptions"] == []
    theirs.kill(signal.SIGTERM)
    theirs.start()
    theirs.wait_ready()
    assert _ask(theirs)[1]["exceptions"] == []  # from its first answer on
    name = theirs.instance
    assert controller.http.put(f"/instances/{name}/state", params={"state": "disable"}).status_code == 200
    eventually(lambda: theirs.http.get("/health").status_code == 503)
    assert [e["errorCode"] for e in _ask(theirs)[1]["exceptions"]] == [410]
    assert controller.http.get("/brokers/tables").json() == {"trips": []}
    assert controller.http.put(f"/instances/{name}/state", params={"state": "enable"}).status_code == 200
    eventually(theirs.is_ready)
    assert _ask(theirs)[0] == 3
    assert controller.http.get("/v2/brokers/tables").json()["trips"][0]["instanceName"] == name
    assert "kernels are ready" not in theirs.log.read_text()  # --no-warm-up


def test_servers_answer_who_knows_the_cluster_s_secret(cluster: Cluster, make_segment: Callable[..., Path]) -> None:
    config = cluster.folder / "stranger.conf"
    config.write_text("gamay.cluster.secret=a secret of another cluster\n")
    ours, stranger = cluster.add("broker"), cluster.add("broker", "--config-file", str(config))
    controller, server = cluster.controller(), cluster.server()
    for process in cluster.processes:
        process.wait_ready()
    assert controller.http.post("/schemas", json=SCHEMA).status_code == 200
    table = {**TABLE, "segmentsConfig": {**TABLE["segmentsConfig"], "replication": "1"}}
    assert controller.http.post("/tables", json=table).status_code == 200
    _push(controller, make_segment("trips_0", [1, 2, 3]))
    eventually(lambda: _ask(ours)[0] == 3, lambda: _ask(ours))
    count, answer = _ask(stranger)
    assert count is None
    assert "do not have the same cluster secret: gamay.cluster.secret must be" in str(answer["exceptions"]), answer
    eventually(lambda: "do not have the same cluster secret" in server.log.read_text(), server.log.read_text)
    path = "/Chaos/PROPERTYSTORE/CLUSTER_SECRET"
    assert controller.http.get("/zk/get", params={"path": path}).status_code == 403
    below = controller.http.get("/zk/getChildren", params={"path": "/Chaos/PROPERTYSTORE"})
    assert (below.status_code, below.json()) == (200, [])  # the other nodes have no records of their own
    record = {"id": "CLUSTER_SECRET", "simpleFields": {"secret": "x" * 64}, "mapFields": {}, "listFields": {}}
    assert controller.http.put("/zk/put", params={"path": path}, json=record).status_code == 403
    every = controller.http.put("/zk/putChildren", params={"path": "/Chaos/PROPERTYSTORE"}, json=[record])
    assert every.status_code == 403


def test_a_minion_joins_and_leaves(cluster: Cluster) -> None:
    controller, minion = cluster.controller(), cluster.add("minion", "--tags", "a, b")
    controller.wait_ready()
    minion.wait_ready()
    name = minion.instance
    assert controller.http.get(f"/instances/{name}").json()["tags"] == ["a", "b"]
    assert name in controller.http.get("/liveinstances").json()["instances"]
    assert minion.kill(signal.SIGTERM) == 0
    assert name not in controller.http.get("/liveinstances").json()["instances"]


def test_a_process_that_waits_for_zookeeper_is_alive_and_not_ready(shared_zookeeper: Any, tmp_path: Path) -> None:
    (tmp_path / "zookeeper").mkdir()
    later = ZooKeeperProcess(tmp_path / "zookeeper")
    controller = RoleProcess("controller", 0, tmp_path, later.hosts, "--data-dir", str(tmp_path / "deepstore"))
    controller.start()

    def health(path: str) -> tuple[int, str]:
        try:
            answer = controller.http.get(path)
        except httpx.TransportError:
            return 0, ""
        return answer.status_code, answer.text

    try:
        eventually(lambda: health("/health/liveness") == (200, "OK"), controller.log.read_text)
        assert health("/health") == health("/tables") == (503, "Controller is not ready, status: STARTING")
        later.start()
        controller.wait_ready()
        assert health("/health/liveness") == (200, "OK")
        assert health("/tables")[0] == 200
    finally:
        controller.kill(signal.SIGTERM)
        later.stop()


def test_a_process_that_cannot_start_says_why(cluster: Cluster, tmp_path: Path) -> None:
    controller = cluster.controller()
    controller.wait_ready()
    taken = subprocess.run(
        [sys.executable, "-m", "gamay.cli", "start", "broker", "--zk", cluster.zk, "--port", str(controller.port)],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert taken.returncode == 1
    assert f"the broker cannot listen on port {controller.port}" in taken.stderr
    server = cluster.server()
    server.wait_ready()
    shared = subprocess.run(
        [
            sys.executable, "-m", "gamay.cli", "start", "server", "--zk", cluster.zk, "--port", "0", "--query-port", "0",
            "--data-dir", str(cluster.folder / "server1"),
        ],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert shared.returncode == 1
    assert f", the server at http://localhost:{server.port}: give each server its own folder" in shared.stderr
    nobody = subprocess.run(
        [sys.executable, "-m", "gamay.cli", "start", "broker", "--zk", "localhost:1", "--port", "0", "--wait-s", "0.5"],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert nobody.returncode == 1
    assert "ZooKeeper at 'localhost:1' has not answered for" in nobody.stderr
    assert "Traceback" not in nobody.stderr
    missing = subprocess.run(
        [sys.executable, "-m", "gamay.cli", "start", "server"], capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert missing.returncode == 1
    assert "--zk is missing" in missing.stderr
