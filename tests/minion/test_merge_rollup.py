"""MergeRollupTask in a running cluster: two levels, and unchanged answers at every moment."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from tests.steady import steady
from tests.waiting import PATIENCE_S

from gamay.embedded import EmbeddedCluster

DAY = 86_400_000
T0 = 19_000 * DAY
TYPE = "MergeRollupTask"
TABLE = "t_OFFLINE"
SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}
CONFIG: dict[str, Any] = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {"sortedColumn": ["city"]},
}
LEVELS = {
    "1day.bucketTimePeriod": "1d",
    "1day.bufferTimePeriod": "1d",
    "1day.maxNumRecordsPerSegment": "25",
    "2days.bucketTimePeriod": "2d",
    "2days.bufferTimePeriod": "1d",
    "2days.mergeType": "rollup",
    "2days.roundBucketTimePeriod": "1d",
    "n.aggregationType": "SUM",
}


class Merging:
    """An OFFLINE table t, to which segments are pushed."""

    def __init__(self, folder: Path, tasks: dict[str, str]) -> None:
        self.cluster = EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False).start()
        self.rest("POST", "/schemas", json=SCHEMA)
        self.rest("POST", "/tables", json={**CONFIG, "task": {"taskTypeConfigsMap": {TYPE: tasks}}})

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return httpx.request(method, self.cluster.controller_url + path, timeout=PATIENCE_S, **more)

    def rest(self, method: str, path: str, **more: Any) -> Any:
        answer = self.ask(method, path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def push(self, first_ms: int, last_ms: int, rows: int = 20) -> None:
        """Push a segment whose rows are spread over a stretch of time."""
        step = (last_ms - first_ms) // (rows - 1)
        lines = [{"city": f"c{i % 3}", "n": i, "ts": first_ms + i * step} for i in range(rows)]
        self.rest(
            "POST", "/ingestFromFile",
            params={"tableNameWithType": TABLE, "batchConfigMapStr": '{"inputFormat": "json"}'},
            files={"file": ("rows.json", b"\n".join(map(orjson.dumps, lines)))},
        )  # fmt: skip

    def query(self, sql: str) -> list[list[Any]]:
        answer = httpx.post(self.cluster.broker_url + "/query/sql", json={"sql": sql}, timeout=PATIENCE_S).json()
        assert answer["exceptions"] == [], answer["exceptions"]
        found: list[list[Any]] = answer["resultTable"]["rows"]
        return found

    def segments(self) -> dict[str, Any]:
        """Return the segments that queries read: the records by name."""
        (names,) = self.rest("GET", "/segments/t", params={"excludeReplacedSegments": "true"})
        return {name: self.rest("GET", f"/segments/{TABLE}/{name}/metadata") for name in names["OFFLINE"]}

    def levels(self) -> list[str]:
        """Return the merge level of each segment."""
        custom = [orjson.loads(record.get("custom.map") or "{}") for record in self.segments().values()]
        return sorted(one.get(f"{TYPE}.mergeLevel", "") for one in custom)

    def schedule(self, eventually: Callable[..., None]) -> list[str]:
        """Create tasks, wait for their end, and return the outcomes of the subtasks."""
        answer = self.rest("POST", "/tasks/schedule", params={"taskType": TYPE, "tableName": TABLE})
        assert (answer["generationErrors"], answer["schedulingErrors"]) == ("", "")
        return [one for job in answer.get(TYPE, "").split(",") if job for one in self.outcomes(job, eventually)]

    def outcomes(self, job: str, eventually: Callable[..., None]) -> list[str]:
        """Wait for the end of a task, and return the outcomes of its subtasks."""
        eventually(lambda: self.rest("GET", f"/tasks/task/{job}/state") in ("COMPLETED", "FAILED"))
        infos = self.rest("GET", f"/tasks/task/{job}/debug", params={"verbosity": 1})["subtaskInfos"]
        return [f"{info['state']}: {info['info']}" for info in infos]

    def watermarks(self) -> dict[str, int]:
        """Return the days of the watermarks, counted from the first."""
        record = self.rest("GET", f"/tasks/{TYPE}/{TABLE}/metadata")
        return {level: (int(ms) - T0) // DAY for level, ms in record["mapFields"]["watermarkMap"].items()}

    def gauges(self) -> dict[str, dict[str, int]]:
        """Return the gauges of merging, by the end of their names and the level."""
        found: dict[str, dict[str, int]] = {}
        pattern = r'pinot_controller_mergeRollupTask(\w+){[^}]*mergeLevel="(\w+)"[^}]*} (\d+)'
        for name, level, value in re.findall(pattern, self.ask("GET", "/metrics").text):
            found.setdefault(name, {})[level] = int(value)
        return found


@pytest.fixture
def make_merging(tmp_path: Path) -> Iterator[Callable[..., Merging]]:
    made: list[Merging] = []

    def make(**tasks: str) -> Merging:
        made.append(Merging(tmp_path, tasks))
        return made[-1]

    yield make
    for merging in made:
        merging.cluster.stop()


def test_two_levels_with_the_same_answers_all_the_time(
    make_merging: Callable[..., Merging], eventually: Callable[..., None]
) -> None:
    merging = make_merging(**LEVELS)
    assert merging.schedule(eventually) == []
    for day in range(2):
        for third in range(3):
            begin = T0 + day * DAY + third * DAY // 3
            merging.push(begin, begin + DAY // 3 - 1)
    merging.push(T0 + 2 * DAY - 10, T0 + 2 * DAY + 10)  # of the second day, and the third
    eventually(lambda: merging.query("SELECT COUNT(*) FROM t") == [[7 * 20]])
    before = list(merging.segments())
    with steady(lambda: merging.query("SELECT COUNT(*), SUM(n), MIN(ts), MAX(ts) FROM t")):
        (first,) = merging.schedule(eventually)
        assert first == "COMPLETED: 3 segments with 60 rows became 3 with 60"  # of 25 rows at most
        assert merging.watermarks() == {"1day": 0, "2days": 0}
        assert merging.levels() == ["", "", "", "", *["1day"] * 3]
        assert merging.gauges() == {
            "DelayInNumBuckets": {"1day": 2, "2days": 1},
            "NumBucketsToProcess": {"1day": 3, "2days": 0},
        }
        (second,) = merging.schedule(eventually)
        assert second == "COMPLETED: 4 segments with 80 rows became 4 with 80"  # the third day's rows apart
        assert merging.watermarks() == {"1day": 1, "2days": 0}
        assert set(merging.levels()) == {"1day"}
    with steady(
        lambda: merging.query("SELECT SUM(n), city, FLOOR(ts / 86400000) FROM t GROUP BY 2, 3 ORDER BY 3, 2 LIMIT 100")
    ):
        (third,) = merging.schedule(eventually)
        assert third == "COMPLETED: 6 segments with 130 rows became 1 with 6"
    assert merging.levels() == ["1day", "2days"]
    assert not set(before) & set(merging.segments())
    assert merging.schedule(eventually) == ["COMPLETED: 1 segments with 10 rows became 1 with 3"]
    assert merging.schedule(eventually) == []
    # what comes late is merged with what was merged before
    merging.push(T0 + DAY, T0 + DAY + 100)
    eventually(lambda: merging.query("SELECT SUM(n) FROM t") == [[8 * 190.0]])
    with steady(lambda: merging.query("SELECT SUM(n) FROM t")):
        assert merging.schedule(eventually) == ["COMPLETED: 2 segments with 26 rows became 2 with 26"]
        assert merging.schedule(eventually) == []  # the watermark of the second level is behind it
        body = {"taskType": TYPE, "tableName": "t", "taskName": "all", "taskConfigs": {"mode": "processAll"}}
        job = merging.rest("POST", "/tasks/execute", json=body)[TABLE]
        assert merging.outcomes(job, eventually) == ["COMPLETED: 2 segments with 26 rows became 1 with 6"]
    assert merging.levels() == ["2days", "2days"]
