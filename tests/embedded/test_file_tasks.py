"""Tasks that build segments from files: new files once, refreshed files as replacements, and runs on request."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.conftest import SCHEMA, T0, TABLE, Api, polled
from tests.waiting import eventually

from gamay.client.controller import ControllerClient
from gamay.minion import replacing
from gamay.minion.tasks import segment_generation_and_push

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


def test_refreshed_files_take_the_place_of_what_they_were(fed: Fed) -> None:
    fed.write("a.csv", 1, 2)
    fed.write("b.csv", 3)
    fed.create("REFRESH")
    fed.ended(fed.schedule())
    eventually(lambda: fed.numbers() == [1, 2, 3])
    fed.write("a.csv", 7, 8, 9)
    with polled(fed.numbers) as seen:
        fed.ended(fed.schedule())
        eventually(lambda: seen[-1] == [3, 7, 8, 9])
    assert seen == [[1, 2, 3], [3, 7, 8, 9]]


def test_a_consistent_refresh_is_seen_whole_or_not_at_all(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        fed.write(f"{name}.csv", 1, 2)
    fed.create("REFRESH", consistent=True)
    fed.ended(fed.schedule())
    eventually(lambda: fed.numbers() == [1, 1, 1, 2, 2, 2])
    (fed.folder / "c.csv").unlink()
    for name in "ab":
        fed.write(f"{name}.csv", 5)
    seen: list[list[int]] = []
    ends = [RuntimeError("the connection is lost"), None]

    def poll(client: ControllerClient, *given: Any, **more: Any) -> None:
        seen.append(fed.numbers())
        if failure := ends.pop(0):
            raise failure
        end(client, *given, **more)

    end = ControllerClient.end_replaces
    monkeypatch.setattr(ControllerClient, "end_replaces", poll)
    fed.api.controller.post("/cluster/configs", json={f"{TYPE}.maxAttemptsPerTask": "2"})
    fed.ended(fed.schedule())
    assert seen == [[1, 1, 1, 2, 2, 2]] * 2  # all new segments were there, twice, and were not shown
    eventually(lambda: fed.numbers() == [5, 5])


def test_what_a_dead_attempt_left_open_is_given_up(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the table was empty, so that nothing is replaced twice; open replacements of other users stay."""
    for name in "ab":
        fed.write(f"{name}.csv", 1, 2)
    fed.create("REFRESH", consistent=True)
    other = {"segmentsFrom": [], "segmentsTo": ["trips_x"]}
    fed.api.controller.post("/segments/trips/startReplaceSegments", params={"type": "OFFLINE"}, json=other)
    end, ends = ControllerClient.end_replaces, [RuntimeError("killed"), None]

    def end_or_die(client: ControllerClient, *given: Any, **more: Any) -> None:
        if failure := ends.pop(0):
            raise failure
        end(client, *given, **more)

    monkeypatch.setattr(ControllerClient, "end_replaces", end_or_die)
    monkeypatch.setattr(replacing, "_undo", lambda *_: True)  # the dead undo nothing
    fed.api.controller.post("/cluster/configs", json={f"{TYPE}.maxAttemptsPerTask": "2"})
    fed.ended(fed.schedule())
    eventually(lambda: fed.numbers() == [1, 1, 2, 2])
    lineage = fed.api.controller.get("/segments/trips/lineage", params={"type": "OFFLINE"}).json()
    states = sorted(entry["state"] for entry in lineage["lineageEntries"].values())
    assert (states, ends) == (["COMPLETED", "IN_PROGRESS", "REVERTED"], [])


def test_an_attempt_that_dies_after_its_push_is_not_repeated(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    fed.write("a.csv", 1, 2)
    fed.create()
    run, done = segment_generation_and_push.push_segments, []

    def push_and_die(*given: Any, **more: Any) -> None:
        run(*given, **more)
        done.append(given[0])
        if len(done) == 1:
            raise OSError("killed")

    monkeypatch.setattr(segment_generation_and_push, "push_segments", push_and_die)
    fed.api.controller.post("/cluster/configs", json={f"{TYPE}.maxAttemptsPerTask": "2"})
    debug = fed.ended(fed.schedule())
    assert "is already in segment trips_OFFLINE_" in debug["subtaskInfos"][0]["info"]
    fed.execute(inputDirURI=str(fed.folder))
    eventually(lambda: fed.numbers() == [1, 1, 2, 2])  # a run requested by a user is always executed
    assert len(done) == 2


def test_archives_may_stay_where_they_are(fed: Fed) -> None:
    fed.create()
    fed.write("a.csv", 1, 2)
    given = {"inputDirURI": str(fed.folder), "inputFormat": "csv", "outputDirURI": "memory://out", "push.mode": "METADATA"}
    ((_, job),) = fed.execute(**given).json().items()
    fed.ended(job)
    eventually(lambda: fed.numbers() == [1, 2])
    (name,) = fed.segments()
    record = fed.api.controller.get(f"/segments/trips/{name}/metadata").json()
    assert record["segment.download.url"] == f"memory://out/{name}.tar.zst"


def test_users_name_files_with_settings_of_their_own(fed: Fed) -> None:
    fed.create()
    (fed.folder / "x.json").write_text(f'{{"city": "Rome", "n": 6, "ts": {T0}}}\n')
    ((_, job),) = fed.execute(inputDirURI=f"file://{fed.folder}/x.json").json().items()
    fed.ended(job)
    eventually(lambda: fed.numbers() == [6])
    (name,) = fed.segments()
    assert name.startswith("trips_OFFLINE_")
    assert name.endswith("_0")
    record = fed.api.controller.get(f"/segments/trips/{name}/metadata").json()
    assert f"{fed.folder}/x.json" in record["custom.map"]


def test_files_are_inserted_by_sql(shared: Fed) -> None:
    api, folder = shared.api, shared.folder
    shared.write("../more/x.csv", 3)
    shared.write("../more/y.tsv", 4)
    more = "SET recordReader.prop.multiValueDelimiter = ';'; -- of the reader\n"
    insert = f"INSERT INTO trips FROM FILE '{folder}', FILE '{folder}/../more/'"
    text = f"SET inputFormat = 'csv'; SET taskName = 'mine'; {more} {insert}"
    answer = api.query(text + "; SET includeFileNamePattern = 'glob:**/*.csv'")
    jobs = [f"Task_{TYPE}_mine{end}" for end in ("", "_1")]
    assert answer["resultTable"]["dataSchema"]["columnNames"] == ["tableName", "taskJobName"]
    assert (int(answer["requestId"]) >= 0, answer["brokerId"][:7]) == (True, "Broker_")
    assert answer["resultTable"]["rows"] == [["trips_OFFLINE", job] for job in jobs]
    for job in jobs:
        shared.ended(job)
    eventually(lambda: shared.numbers() == [1, 3])
    for sql, code, said in (
        (text, 200, "Task_SegmentGenerationAndPushTask_mine already exists"),
        ("INSERT INTO trips FROM FILE '/etc/passwd'", 200, "allowed_uris"),
        ("INSERT INTO nothing FROM FILE 's3://x'", 200, "nothing"),
        ("INSERT INTO trips VALUES (1)", 150, "expected FROM, found `VALUES`"),
        ("INSERT INTO trips FROM FILE x", 150, "expected the URI of a file or folder"),
    ):
        (failed,) = api.query(sql)["exceptions"]
        assert (failed["errorCode"], said in failed["message"]) == (code, True), failed
    (got,) = api.broker.get("/query/sql", params={"sql": text}).json()["exceptions"]
    assert got == {"errorCode": 150, "message": "SQLParsingError: INSERT is accepted from POST requests only"}
    assert api.broker.post("/query/sql", json={"sql": text}, headers={"Origin": "http://other"}).status_code == 403


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"inputDirURI": "/etc"}, "taskConfigs.inputDirURI: Unsupported URI: /etc is a local file of the controller"),
        ({"inputDirURI": "s3://other/in/"}, "begins with nothing that gamay.ingest.allowed_uris names"),
        ({"inputDirURI": "{in}", "outputDirURI": "/tmp/out"}, "outputDirURI is '/tmp/out', a folder of one machine"),
        ({"inputDirURI": "{in}", "outputDirURI": "s3://other/out"}, "gamay.ingest.allowed_uris"),
        ({"inputDirURI": "{in}", "outputDirURI": "http://["}, "outputDirURI: Invalid IPv6 URL"),
        ({"inputDirURI": "{in}", "includeFileNamePattern": "glob:[{"}, "No task was generated"),
        ({"inputDirURI": "{in}", "inputFormat": "thrift"}, "inputFormat 'thrift' cannot be read; it must be one of csv"),
        ({"inputDirURI": "{in}", "includeFileNamePatern": "glob:*"}, "Did you mean 'includeFileNamePattern'"),
        ({"inputDirURI": "{in}", "includeFileNamePattern": "*.csv"}, "must begin with glob: or regex:"),
        (
            {"inputDirURI": "{in}", "excludeFileNamePattern": "regex:(?=x)"},
            "look-around and back references are not supported",
        ),
        ({"inputDirURI": "{in}", "push.attempts": "0"}, "push.attempts is '0'; it must be a whole number, 1 or more"),
        ({"inputDirURI": "{in}/../links"}, "allowed_uris"),
        ({"inputDirURI": "{in}/none"}, "does not exist"),
    ],
)
def test_what_cannot_be_is_refused(shared: Fed, given: dict[str, str], problem: str) -> None:
    answer = shared.execute(**{key: text.replace("{in}", str(shared.folder)) for key, text in given.items()})
    assert answer.status_code in (400, 404), answer.text
    assert problem in answer.json()["error"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fed]:
    folder = tmp_path_factory.mktemp("refused")
    api = Api(folder / "data")
    fed = Fed(api, folder / "in")
    fed.write("a.csv", 1)
    links = folder / "links"
    links.mkdir()
    (links / "passwords.csv").symlink_to("/etc/passwd")
    fed.create()
    yield fed
    api.stop()
