"""Tasks that store segments anew: as schema and config say, without some rows, without dictionaries."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.conftest import SCHEMA, TABLE, Api, SegmentMaker
from tests.waiting import eventually

from gamay.client.controller import ControllerClient
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
    """Open what the deep store has of a segment."""
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
        f"segment s{number} is as schema and config say" for number in range(2)
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
    assert sum("is stored anew" in info for info in told) == 1
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
