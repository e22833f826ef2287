"""Tasks that rebuild segments: for a new schema or config, without some rows, without dictionaries."""

from collections.abc import Mapping
from copy import deepcopy
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.embedded.conftest import SCHEMA, TABLE, Api, SegmentMaker, polled
from tests.waiting import eventually

from gamay.client.controller import ControllerClient
from gamay.minion import purgers
from gamay.minion.context import TaskContext
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.storage.archive import unpack


def schedule(api: Api, task_type: str) -> str | None:
    answer = api.controller.post("/tasks/schedule", params={"taskType": task_type, "tableName": "trips_OFFLINE"}).json()
    assert (answer["generationErrors"], answer["schedulingErrors"]) == ("", "")
    return answer.get(task_type)


def infos(api: Api, job: str | None, state: str = "COMPLETED") -> list[str]:
    assert job is not None
    eventually(lambda: api.controller.get(f"/tasks/task/{job}/state").json() == state)
    debug = api.controller.get(f"/tasks/task/{job}/debug", params={"verbosity": 1}).json()
    return [info["info"] for info in debug["subtaskInfos"]]


def put(api: Api, path: str, document: dict[str, Any], **params: str) -> None:
    answer = api.controller.put(path, json=document, params=params)
    assert answer.status_code == 200, answer.text


def stored(api: Api, name: str, folder: Path) -> ImmutableSegment:
    """Open the archive of a segment in the deep store."""
    folder.mkdir()
    with ControllerClient(api.cluster.controller_url) as client:
        return open_segment(unpack(client.download_segment("trips_OFFLINE", name, folder / "x.tar.gz"), folder / "opened"))


def config(**tasks: dict[str, str]) -> dict[str, Any]:
    return {**deepcopy(TABLE), "task": {"taskTypeConfigsMap": tasks}}


def test_segments_are_refreshed_after_changes(
    api: Api, make_segment: SegmentMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = config(RefreshSegmentTask={})
    api.create(SCHEMA, table)
    for number in range(2):
        api.push(make_segment(f"s{number}", [number, 5, number + 3]))
    before = stored(api, "s0", tmp_path / "before").info
    assert sorted(infos(api, schedule(api, "RefreshSegmentTask"))) == [
        f"segment s{number} matches schema and config" for number in range(2)
    ]
    assert schedule(api, "RefreshSegmentTask") is None
    schema = deepcopy(SCHEMA)
    schema["dimensionFieldSpecs"].append({"name": "note", "dataType": "STRING", "defaultNullValue": "none"})
    schema["metricFieldSpecs"][0]["dataType"] = "DOUBLE"
    put(api, "/schemas/trips", schema, force="true")
    table["tableIndexConfig"] = {"invertedIndexColumns": ["city"]}
    put(api, "/tables/trips", table)
    upload = TaskContext.upload
    died: list[str] = []

    def die_once(task: TaskContext, *given: Any, **more: Any) -> None:
        upload(task, *given, **more)
        if not died:
            died.append(task.leased.subtask.name)
            raise OSError("killed")

    monkeypatch.setattr(TaskContext, "upload", die_once)
    api.controller.post("/cluster/configs", json={"RefreshSegmentTask.maxAttemptsPerTask": "2"})
    told = infos(api, schedule(api, "RefreshSegmentTask"))
    assert sum("is rebuilt" in info for info in told) == 1
    assert sum("has CRC" in info for info in told) == 1  # what the attempt that died had pushed is left alone
    for number in range(2):
        segment = stored(api, f"s{number}", tmp_path / f"after{number}")
        assert segment.info.columns["note"].stats.cardinality == 1
        assert segment.info.columns["n"].data_type.value == "DOUBLE"
        assert "inverted" in segment.info.columns["city"].index_sizes()
        segment.close()
    assert stored(api, "s0", tmp_path / "last").info.creation_time_ms == before.creation_time_ms
    eventually(lambda: api.rows("SELECT COUNT(*), SUM(n) FROM trips WHERE note = 'none'") == [[6, 18.0]])
    assert schedule(api, "RefreshSegmentTask") is None


def purge_odd(table: str, told: Mapping[str, str]) -> Any:
    return lambda batch: batch.column("n").to_numpy() % 2 == 1 if table == "trips_OFFLINE" else None


def shout_small(table: str, told: Mapping[str, str]) -> Any:
    def modifier(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        return {"city": pc.if_else(pc.less(batch.column("n"), 2), "SMALL", batch.column("city"))}

    return modifier


class Installed:
    """Entry points of the tests' own package."""

    def __init__(self, **given: Any) -> None:
        self.given = given

    def __call__(self, group: str) -> list[EntryPoint]:
        found = self.given.get(group.removeprefix("gamay.record_"))
        return [EntryPoint("of tests", f"{__name__}:{found.__name__}", group)] if found else []


def test_purgers_and_modifiers(api: Api, make_segment: SegmentMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    api.create(SCHEMA, config(PurgeTask={"lastPurgeTimeThresholdPeriod": "1h"}))
    for name, values in (("s0", [0, 1, 2, 3]), ("s1", [4, 6]), ("s2", [5, 7])):
        api.push(make_segment(name, values))
    assert sorted(infos(api, schedule(api, "PurgeTask"))) == [
        f"segment s{i} has no row to purge or change" for i in range(3)
    ]
    assert schedule(api, "PurgeTask") is None  # all are stamped
    execute = {"taskType": "PurgeTask", "tableName": "trips", "taskConfigs": {"lastPurgeTimeThresholdPeriod": "0d"}}
    monkeypatch.setattr(purgers, "entry_points", Installed(purgers=purge_odd))
    with polled(lambda: api.rows("SELECT SUM(n), COUNT(*) FROM trips")) as seen:
        job = api.controller.post("/tasks/execute", json=execute).json()["trips_OFFLINE"]
        told = infos(api, job)
        eventually(lambda: seen[-1] == [[12.0, 4]])
    # one segment after the other, each in one step
    assert all(answer in ([[28.0, 8]], [[24.0, 6]], [[16.0, 6]], [[12.0, 4]]) for answer in seen)
    assert sorted(told) == [
        "segment s0 has 2 rows, 2 fewer than before",
        "segment s1 has no row to purge or change",
        "segment s2 has 0 rows, 2 fewer than before",
    ]
    eventually(lambda: api.rows("SELECT n, city FROM trips ORDER BY n") == [[n, f"city{n % 3}"] for n in (0, 2, 4, 6)])
    monkeypatch.setattr(purgers, "entry_points", Installed(modifiers=shout_small))
    job = api.controller.post("/tasks/execute", json=execute).json()["trips_OFFLINE"]
    assert len(infos(api, job)) == 2
    assert "s2" not in api.cluster.core.segments.names("trips_OFFLINE")
    expected = [[n, "SMALL" if n < 2 else f"city{n % 3}"] for n in (0, 2, 4, 6)]
    eventually(lambda: api.rows("SELECT n, city FROM trips ORDER BY n") == expected)


def test_rows_are_deleted_on_request(
    api: Api, make_segment: SegmentMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.create()
    for name, values in (("s0", [0, 1, 2]), ("s1", [3, 4, 5]), ("s2", [6])):
        api.push(make_segment(name, values))
    listed = tmp_path / "forget.txt"
    listed.write_text("4\n6\n")

    def execute(**given: str) -> Any:
        return api.controller.post(
            "/tasks/execute", json={"taskType": "PurgeTask", "tableName": "trips", "taskConfigs": given}
        )

    job = execute(purgeColumn="city", purgeValues='["city1", "none"]').json()["trips_OFFLINE"]
    assert len(infos(api, job)) == 3
    eventually(lambda: api.rows("SELECT n FROM trips ORDER BY n") == [[0], [2], [3], [5], [6]])
    job = execute(purgeColumn="n", purgeValuesURI=f"file://{listed}").json()["trips_OFFLINE"]
    infos(api, job)
    eventually(lambda: api.rows("SELECT n FROM trips ORDER BY n") == [[0], [2], [3], [5]])
    for given, problem in (
        ({"purgeColumn": "n", "purgeValues": "x"}, "values of column 'n', which is LONG, cannot be read"),
        ({"purgeColumn": "who", "purgeValues": "x"}, "names the column 'who', which the schema does not have"),
        (
            {"purgeColumn": "n", "purgeValues": "1", "tableMaxNumTasks": "1"},
            "deleted from 2 segments; give tableMaxNumTasks 0",
        ),
        ({"purgeColumn": "n"}, "needs either purgeValues"),
        ({"purgeValues": "1"}, "needs purgeColumn"),
        ({"purgeColumn": "n", "purgeValuesURI": "/etc/passwd"}, "gamay.ingest.allowed_uris"),
        ({"purgeColumn": "n", "purgeValues": "[1,"}, "is no JSON list"),
        ({"lastPurgeTimeThresholdPeriod": "soon"}, "not a period"),
    ):
        answer = execute(**given)
        assert (answer.status_code, problem in answer.text) == (400, True), answer.text
    upload, died = TaskContext.upload, list[str]()

    def die_once(task: TaskContext, *given: Any, **more: Any) -> None:
        upload(task, *given, **more)
        if not died:
            died.append(task.config["segmentName"])
            raise OSError("killed")

    monkeypatch.setattr(TaskContext, "upload", die_once)
    api.controller.post("/cluster/configs", json={"PurgeTask.maxAttemptsPerTask": "2"})
    job = execute(purgeColumn="n", purgeValues="5").json()["trips_OFFLINE"]
    assert "segment s1 has no row to purge or change" in infos(api, job)  # which the attempt that died had done
    assert died == ["s1"]
    eventually(lambda: api.rows("SELECT n FROM trips ORDER BY n") == [[0], [2], [3]])
    api.controller.post("/cluster/configs", json={"PurgeTask.maxAttemptsPerTask": "1"})

    def upload_late(task: TaskContext, *given: Any, **more: Any) -> None:
        api.push(make_segment(task.config["segmentName"], [0, 9]))
        upload(task, *given, **more)

    monkeypatch.setattr(TaskContext, "upload", upload_late)
    job = execute(purgeColumn="n", purgeValues="2").json()["trips_OFFLINE"]
    told = infos(api, job, "FAILED")  # the segment that came meanwhile was not looked at
    assert "segment s0 was replaced or deleted meanwhile" in told
    monkeypatch.undo()
    with ControllerClient(api.cluster.controller_url) as client:
        entry = client.start_replace("trips", ["s0"], ["merged"])
        job = execute(purgeColumn="n", purgeValues="2").json()["trips_OFFLINE"]
        assert "segment s0 is replaced by merged" in infos(api, job, "FAILED")
        client.revert_replace("trips", entry)
    eventually(lambda: api.rows("SELECT n FROM trips ORDER BY n") == [[0], [3], [9]])


def test_columns_lose_their_dictionaries(api: Api, make_segment: SegmentMaker, tmp_path: Path) -> None:
    table = config(ConvertToRawIndexTask={})
    schema = deepcopy(SCHEMA)
    assert api.controller.post("/schemas", json=schema).status_code == 200
    refused = api.controller.post("/tables", json=table)
    assert (refused.status_code, "noDictionaryColumns" in refused.text) == (400, True)
    table["tableIndexConfig"] = {"noDictionaryColumns": ["n"]}
    table["task"]["taskTypeConfigsMap"]["ConvertToRawIndexTask"] = {"columnsToConvert": "n, city"}
    refused = api.controller.post("/tables", json=table)
    assert (refused.status_code, "'city', for which servers would build a dictionary again" in refused.text) == (400, True)
    table["task"]["taskTypeConfigsMap"]["ConvertToRawIndexTask"] = {"columnsToConvert": "n"}
    api.create(schema, table)
    api.push(make_segment("s0", [4, 1, 4]))
    assert infos(api, schedule(api, "ConvertToRawIndexTask")) == ["segment s0 has now no dictionary of n"]
    segment = stored(api, "s0", tmp_path / "after")
    assert [segment.info.columns[name].encoding.name for name in ("n", "city")] == ["RAW", "DICTIONARY"]
    eventually(lambda: api.rows("SELECT SUM(n) FROM trips WHERE n > 1") == [[8.0]])
    assert schedule(api, "ConvertToRawIndexTask") is None
