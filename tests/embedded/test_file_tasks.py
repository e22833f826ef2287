"""Tasks that make segments of files: new files once, refreshed ones in place of old ones, and what a user asks for."""

from pathlib import Path
from typing import Any

import pytest
from tests.embedded.conftest import SCHEMA, T0, TABLE, Api
from tests.waiting import eventually

TYPE = "SegmentGenerationAndPushTask"


class Fed:
    """Table trips, fed from the files of a folder."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api, self.folder = api, folder
        folder.mkdir()

    def create(self, kind: str = "APPEND", consistent: bool = False, **more: str) -> None:
        given = {"inputDirURI": str(self.folder), "inputFormat": "csv", "includeFileNamePattern": "glob:**/*.csv", **more}
        batch = {"segmentIngestionType": kind, "consistentDataPush": consistent, "batchConfigMaps": [given]}
        self.api.create(
            SCHEMA,
            {
                **TABLE,
                "ingestionConfig": {"batchIngestionConfig": batch},
                "task": {"taskTypeConfigsMap": {TYPE: {}}},
            },
        )

    def write(self, name: str, *numbers: int) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("city,n,ts\n" + "".join(f"Oslo,{n},{T0 + n}\n" for n in numbers))

    def schedule(self) -> str | None:
        answer = self.api.controller.post("/tasks/schedule", params={"taskType": TYPE, "tableName": "trips_OFFLINE"}).json()
        assert (answer["generationErrors"], answer["schedulingErrors"]) == ("", "")
        return answer.get(TYPE)

    def execute(self, **given: str) -> Any:
        body = {"taskType": TYPE, "tableName": "trips", "taskConfigs": given}
        return self.api.controller.post("/tasks/execute", json=body)

    def ended(self, job: str | None, state: str = "COMPLETED") -> dict[str, Any]:
        assert job is not None
        eventually(lambda: self.api.controller.get(f"/tasks/task/{job}/state").json() == state)
        found: dict[str, Any] = self.api.controller.get(f"/tasks/task/{job}/debug", params={"verbosity": 1}).json()
        return found

    def numbers(self) -> list[int]:
        return [row[0] for row in self.api.rows("SELECT n FROM trips ORDER BY n LIMIT 1000")]

    def segments(self) -> list[str]:
        names: list[str] = self.api.cluster.core.segments.names("trips_OFFLINE", exclude_replaced=True)
        return names


@pytest.fixture
def fed(api: Api, tmp_path: Path) -> Fed:
    return Fed(api, tmp_path / "in")


def test_new_files_are_appended_once(fed: Fed) -> None:
    fed.write("a.csv", 1, 2)
    fed.write("2024/b.csv", 3)
    fed.write("notes.txt", 99)
    fed.create(excludeFileNamePattern="glob:**/skip*")
    fed.write("skip.csv", 98)
    debug = fed.ended(fed.schedule())
    assert debug["subtaskCount"]["total"] == 2
    eventually(lambda: fed.numbers() == [1, 2, 3])
    assert fed.schedule() is None
    fed.write("c.csv", 4)
    fed.write("bad.csv", 5)
    (fed.folder / "bad.csv").write_text("city,n,ts\nOslo,x,1\n")
    debug = fed.ended(fed.schedule(), "FAILED")
    (failed,) = (info["info"] for info in debug["subtaskInfos"] if info["state"] == "TASK_ERROR")
    assert f"{fed.folder}/bad.csv, record 1: column 'n': 'x' is not a valid LONG" in failed
    eventually(lambda: fed.numbers() == [1, 2, 3, 4])  # the file that failed kept none of the others out
    fed.write("bad.csv", 5)
    fed.ended(fed.schedule())
    eventually(lambda: fed.numbers() == [1, 2, 3, 4, 5])
    assert len(fed.segments()) == 4
