"""With any content of the records of users, quotas, instances, tasks etc., the cluster starts and serves other tables."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from benchmarks.attack.records import mutants, nodes, overwrite
from tests.seeds import FIRST
from tests.waiting import PATIENCE_S

import gamay
from gamay.base.clock import SYSTEM_CLOCK
from gamay.cluster.access.passwords import basic_token
from gamay.cluster.access.users import StoredUsers
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import Role
from gamay.cluster.store import paths
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.znrecord import encode
from gamay.cluster.tasks.queue import TaskQueues
from gamay.cluster.tasks.records import Job, SubtaskLimits, job_name
from gamay.controller.tasks.history import note_run
from gamay.embedded import EmbeddedCluster

ROUNDS = 8
TASK = "UpsertCompactionTask"
TASK_CALLS = (
    "/tasks/tasktypes",
    "/tasks/summary",
    *(f"/tasks/{TASK}/{what}" for what in ("taskstates", "taskcounts", "debug")),
)
ROOT = {"Authorization": basic_token("root", "toor")}
# the table that is asked, and who asks
UNTOUCHED = ("pay", "pay_OFFLINE", "root_BROKER", "root_CONTROLLER", "root_SERVER")


def started(folder: Path) -> EmbeddedCluster:
    access = dict.fromkeys((Role.CONTROLLER, Role.BROKER, Role.SERVER), StoredUsers("root", "toor"))
    return EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False, access=access)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "db"
    rows = pa.table({"n": [1, 2, 3], "ts": [1_600_000_000_000, 1_600_000_000_001, 1_600_090_000_000]})
    with gamay.connect(folder) as db:
        for name in ("trips", "pay"):
            db.create_table(name, rows, config={"segmentsConfig": {"timeColumnName": "ts", "replication": "1"}})
    with (
        started(folder) as cluster,
        httpx.Client(base_url=cluster.controller_url, headers=ROOT, timeout=PATIENCE_S) as client,
    ):
        user = {"username": "bob", "password": "pw", "component": "BROKER", "tables": ["trips"], "permissions": ["READ"]}
        replaced = {"segmentsFrom": [], "segmentsTo": ["later"]}
        for answer in (
            client.post("/users", json=user),
            client.post("/applicationQuotas/slow", params={"maxQueriesPerSecond": "5"}),
            client.post("/databases/default/quotas", params={"maxQueriesPerSecond": "500"}),
            client.post("/cluster/configs", json={"pinot.broker.timeoutMs": "20000"}),
            client.post("/tables/trips/assignInstances", params={"dryRun": "false"}),
            client.post("/segments/trips/startReplaceSegments", params={"type": "OFFLINE"}, json=replaced),
        ):
            assert answer.is_success, answer.text
    store = EmbeddedStore.open(folder / "metadata.db", SYSTEM_CLOCK)
    # no minion has this tag: the job stays as it is
    job = Job(job_name(TASK, "1"), TASK, ("trips_OFFLINE",), 2, SYSTEM_CLOCK.now_ms(), limits=SubtaskLimits(tag="nobody"))
    TaskQueues(store, SYSTEM_CLOCK).submit(job, [("trips_OFFLINE", {"a": "b"})] * 2)
    partitions = InstancePartitions("trips_OFFLINE", ((("Server_gone",),),)).to_record()
    store.create(paths.instance_partitions("trips_OFFLINE"), encode(partitions))
    note_run(store, "trips_OFFLINE", TASK, SYSTEM_CLOCK.now_ms(), None)
    store.close()
    return folder


def records(folder: Path) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    store = EmbeddedStore.open(folder / "metadata.db", SYSTEM_CLOCK)
    for path, value in list(nodes(store)):
        if not set(UNTOUCHED) & set(path.split("/")):
            yield path, list(mutants(value))
    store.close()


def test_a_cluster_starts_whatever_its_records_hold(stored: Path, tmp_path: Path) -> None:
    damaged = dict(records(stored))
    kinds = {path.split("/")[3] for path in damaged if path.split("/")[2] == "PROPERTYSTORE"}
    assert {"CONFIGS", "SEGMENT_LINEAGE", "TASKS", "TASK_HISTORY", "INSTANCE_PARTITIONS"} <= kinds, sorted(damaged)
    rng = random.Random(FIRST)
    for number in range(ROUNDS):
        folder = shutil.copytree(stored, tmp_path / str(number))
        told = []
        for path, possible in damaged.items():
            what, value = rng.choice(possible)
            overwrite(folder / "metadata.db", path, value)
            told.append(f"{path}: {what}")
        with started(folder) as cluster:
            body = {"sql": "SELECT COUNT(*), SUM(n) FROM pay"}
            answer = httpx.post(f"{cluster.broker_url}/query/sql", json=body, headers=ROOT).json()
            assert not answer["exceptions"], (answer["exceptions"], told)
            assert answer["resultTable"]["rows"] == [[3, 6.0]]
            for path in ("/cluster/status", "/cluster/damage", "/users", "/tables", "/instances", *TASK_CALLS):
                found = httpx.get(cluster.controller_url + path, headers=ROOT, timeout=PATIENCE_S)
                assert "defect of Gamay" not in found.text, (path, found.text, told)
        shutil.rmtree(folder)
