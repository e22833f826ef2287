"""Unreadable records are listed and repaired, over REST and on the command line."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from benchmarks.attack.records import overwrite
from tests.waiting import eventually
from typer.testing import CliRunner

import gamay
from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError
from gamay.cli.app import app
from gamay.client.controller import ControllerClient
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.tasks.queue import TaskQueues
from gamay.cluster.tasks.records import Job, SubtaskLimits, Target, job_name
from gamay.embedded import EmbeddedCluster

ROWS = pa.table({"id": [1, 2, 3], "city": ["a", "b", "c"]})
ROOT = "/PinotCluster/"
CONFIG, SCHEMA = f"{ROOT}PROPERTYSTORE/CONFIGS/TABLE/first_OFFLINE", f"{ROOT}PROPERTYSTORE/SCHEMAS/first"
IDEAL, SEGMENTS = f"{ROOT}IDEALSTATES/first_OFFLINE", f"{ROOT}PROPERTYSTORE/SEGMENTS/first_OFFLINE"
GARBAGE = (b"garbage", b"{}", b"null", b'{"id": "x", "simpleFields": {}, "mapFields": {}, "listFields": {}}')


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A database with two segments, and the documents of its table."""
    folder = tmp_path_factory.mktemp("repaired") / "db"
    with gamay.connect(folder) as db:
        db.create_table("first", ROWS)
        db.append("first", ROWS)
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as cluster, httpx.Client() as client:
        url = cluster.controller_url
        return folder, {
            CONFIG: client.get(f"{url}/tables/first").json()["OFFLINE"],
            SCHEMA: client.get(f"{url}/schemas/first").json(),
            "segments": sorted(client.get(f"{url}/segments/first").json()[0]["OFFLINE"]),
        }


@pytest.fixture
def damaged(stored: tuple[Path, Any], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A cluster in which records were overwritten before it started: (path, value) each."""
    folder = shutil.copytree(stored[0], tmp_path / "db")
    for path, value in request.param:
        overwrite(folder / "metadata.db", path.replace("<segment>", stored[1]["segments"][0]), value)
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as cluster:
        yield cluster


def found(cluster: EmbeddedCluster) -> Any:
    body = {"sql": "SELECT COUNT(*), SUM(id) FROM first"}
    answer = httpx.post(f"{cluster.broker_url}/query/sql", json=body).json()
    return answer["exceptions"] or answer["resultTable"]["rows"]


PATHS = [CONFIG, SCHEMA, IDEAL, f"{SEGMENTS}/<segment>"]


@pytest.mark.parametrize("damaged", [[(path, value)] for path in PATHS for value in GARBAGE], indirect=True)
def test_a_damaged_record_is_listed_and_mended(damaged: EmbeddedCluster, stored: Any, tmp_path: Path) -> None:
    url = ["--controller", damaged.controller_url]
    assert found(damaged) != [[6, 12.0]]
    listed = CliRunner().invoke(app, ["admin", "repair", *url])
    (one,) = ControllerClient(damaged.controller_url).damaged_records()
    assert listed.exit_code == 1
    assert one["path"] in listed.stdout
    assert one["remedy"] in listed.stdout
    if one["path"] in stored[1]:
        refused = CliRunner().invoke(app, ["admin", "repair", one["path"], *url])
        assert "needs the document that it held, as JSON" in str(refused.exception) + refused.output
        (tmp_path / "document.json").write_text(json.dumps(stored[1][one["path"]]))
        url += ["--file", str(tmp_path / "document.json")]
    repaired = CliRunner().invoke(app, ["admin", "repair", one["path"], *url])
    assert repaired.exit_code == 0, repaired.output
    assert repaired.stdout.endswith("All records can be read.\n")
    assert "/PinotCluster/PROPERTYSTORE/SET_ASIDE/PinotCluster|" in repaired.stdout
    eventually(lambda: found(damaged) == [[6, 12.0]])


BOTH = [(IDEAL, b"{}"), (f"{SEGMENTS}/<segment>", b"{}")]


@pytest.mark.parametrize("damaged", [BOTH], indirect=True)
def test_segments_are_mended_before_what_names_them(damaged: EmbeddedCluster) -> None:
    client = ControllerClient(damaged.controller_url)
    paths = {one["path"] for one in client.damaged_records()}
    with pytest.raises(GamayError, match="Repair the records of the segments of first_OFFLINE first"):
        client.repair_record(IDEAL)
    client.repair_record((paths - {IDEAL}).pop())
    client.repair_record(IDEAL)
    assert client.damaged_records() == []
    eventually(lambda: found(damaged) == [[6, 12.0]])


@pytest.mark.parametrize("damaged", [[(SCHEMA, b"null")]], indirect=True)
def test_what_is_wrong_is_refused_and_changes_nothing(damaged: EmbeddedCluster, stored: Any) -> None:
    client, schema = ControllerClient(damaged.controller_url), stored[1][SCHEMA]
    for path, document, told in (
        (f"{ROOT}PROPERTYSTORE/SCHEMAS/none", None, "There is no record"),
        (CONFIG, None, "can be read, there is nothing to repair"),
        (SCHEMA, {**schema, "schemaName": "second"}, "The document is of schema 'second', not of 'first'"),
        (SCHEMA, {"schemaName": "first", "dimensionFieldSpecs": 7}, "dimensionFieldSpecs"),
    ):
        with pytest.raises(GamayError, match=told):
            client.repair_record(path, document)
    assert [one["path"] for one in client.damaged_records()] == [SCHEMA]


JOB = job_name("UpsertCompactionTask", "1")
QUEUE = f"{ROOT}PROPERTYSTORE/TASKS/UpsertCompactionTask"
PARTITIONS = f"{ROOT}PROPERTYSTORE/INSTANCE_PARTITIONS/first_OFFLINE"
STATE = f"{ROOT}INSTANCES/{{server}}/CURRENTSTATES/first_OFFLINE"


def overwritten(store: MetadataStore, path: str, value: bytes) -> None:
    node = store.get(path)
    if node is None:
        store.create(path, value)
    else:
        store.set(path, value, None)


@pytest.mark.parametrize("value", GARBAGE)
@pytest.mark.parametrize(
    ("path", "left"), [(QUEUE, [JOB]), (f"{QUEUE}/{JOB}", []), (f"{QUEUE}/{JOB}/1", []), (PARTITIONS, [JOB]), (STATE, [JOB])]
)
@pytest.mark.parametrize("damaged", [[]], indirect=True)
def test_records_of_a_running_cluster_are_mended(damaged: EmbeddedCluster, path: str, left: list[str], value: bytes) -> None:
    """Records of tasks, of placement, and of servers' reports."""
    store = damaged.core.registry.store
    queues = TaskQueues(store, SYSTEM_CLOCK)
    of_others = Job(job_name("Other", "2"), "Other", ("first_OFFLINE",), 1, SYSTEM_CLOCK.now_ms())
    mine = Job(JOB, "UpsertCompactionTask", ("first_OFFLINE",), 2, SYSTEM_CLOCK.now_ms(), limits=SubtaskLimits(tag="nobody"))
    queues.submit(mine, [("first_OFFLINE", {})] * 2)
    queues.submit(of_others, [("first_OFFLINE", {})])
    (server,) = (one for one in store.children(f"{ROOT}INSTANCES") if one.startswith("Server_"))
    overwritten(store, path := path.format(server=server), value)
    taken = queues.lease("m", "l", lambda job: True)
    assert taken is not None
    assert taken.job.name in (JOB, of_others.name)
    queues.tend()
    client = ControllerClient(damaged.controller_url)
    assert [one["path"] for one in client.damaged_records()] == [path]
    assert client.repair_record(path)
    assert client.damaged_records() == []
    assert [job.name for job in queues.jobs("UpsertCompactionTask")] == left
    assert queues.target("UpsertCompactionTask") is Target.START
    eventually(lambda: len(damaged.core.registry.get_current_state(server, "first_OFFLINE")) == 2)
    eventually(lambda: found(damaged) == [[6, 12.0]])


@pytest.mark.parametrize("damaged", [[]], indirect=True)
def test_a_message_that_cannot_be_read_holds_up_no_other(damaged: EmbeddedCluster) -> None:
    store = damaged.core.registry.store
    (server,) = (one for one in store.children(f"{ROOT}INSTANCES") if one.startswith("Server_"))
    store.create(f"{ROOT}INSTANCES/{server}/MESSAGES/a", b"garbage")
    eventually(lambda: store.children(f"{ROOT}INSTANCES/{server}/MESSAGES") == [])


LINEAGE = f"{ROOT}PROPERTYSTORE/SEGMENT_LINEAGE/first_OFFLINE"


@pytest.mark.parametrize("damaged", [[]], indirect=True)
def test_a_lineage_is_mended_or_given(damaged: EmbeddedCluster, stored: Any) -> None:
    store, (first, second) = damaged.core.registry.store, stored[1]["segments"]
    client = ControllerClient(damaged.controller_url)

    def lineage(*entry: Any) -> dict[str, Any]:
        return {"id": "first_OFFLINE", "simpleFields": {}, "mapFields": {}, "listFields": {"x": list(entry)}}

    for entry, told in (
        (("gone", first, 7, "1"), None),
        ((first, second, "7", "1"), "the state of entry x cannot be read"),
        ((first, second, "COMPLETED", "soon"), None),
    ):
        overwritten(store, LINEAGE, json.dumps(lineage(*entry)).encode())
        assert [one["path"] for one in client.damaged_records()] == [LINEAGE]
        if told is None:
            assert "was rebuilt from what can be read of it" in client.repair_record(LINEAGE)
            continue
        with pytest.raises(GamayError, match=told):
            client.repair_record(LINEAGE)
        with pytest.raises(GamayError, match="The given document is not a valid record"):
            client.repair_record(LINEAGE, lineage(*entry))
        client.repair_record(LINEAGE, lineage(first, second, "REVERTED", "1"))
        assert client.damaged_records() == []
    eventually(lambda: found(damaged) == [[3, 6.0]])  # the first segment is replaced by the second
