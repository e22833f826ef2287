"""RealtimeToOfflineSegmentsTask in a running cluster: each row is in the OFFLINE half once, after any crash."""

from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pytest
from tests.steady import steady

from gamay.client.controller import ControllerClient
from gamay.minion import replacing
from gamay.minion.context import TaskContext
from gamay.minion.tasks import realtime_to_offline_segments as executor

TYPE = "RealtimeToOfflineSegmentsTask"
DAY = 86_400_000
BASE = 19_675 * DAY
PER_DAY = 50
SETTINGS = {"bucketTimePeriod": "1d", "bufferTimePeriod": "2d", "mergeType": "rollup", "roundBucketTimePeriod": "6h"}


class Hybrid:
    """Table t with both halves; of each day there are so many rows in the stream, in segments of 60."""

    def __init__(self, realtime: Any, eventually: Callable[..., None], days: int) -> None:
        self.realtime, self.eventually = realtime, eventually
        realtime.table["task"] = {"taskTypeConfigsMap": {TYPE: SETTINGS}}
        realtime.start()
        realtime.create()
        rows = [{"s": f"v{n % 7}", "p": 0, "n": n, "ts": BASE + n * (DAY // PER_DAY)} for n in range(days * PER_DAY)]
        realtime.producer.send(pa.array(map(orjson.dumps, rows), pa.binary()), partition=0)
        eventually(lambda: len(realtime.segments()) == days * PER_DAY // 60 + 1)
        eventually(lambda: self.total("t") == sum(range(days * PER_DAY)))

    def create_offline(self) -> None:
        keys = ("tableName", "segmentsConfig", "tenants", "tableIndexConfig")
        self.realtime.rest("POST", "/tables", json={**{k: self.realtime.table[k] for k in keys}, "tableType": "OFFLINE"})

    def total(self, table: str) -> float:
        answer = self.realtime.ask(f"SELECT SUM(n) FROM {table}")
        return float(answer["resultTable"]["rows"][0][0]) if "resultTable" in answer else -1.0

    def schedule(self) -> str:
        """Run one subtask, if there is one; return its state and report."""
        rest = self.realtime.rest
        answer = rest("POST", "/tasks/schedule", params={"taskType": TYPE, "tableName": "t_REALTIME"})
        if TYPE not in answer:
            return str(answer["generationErrors"])
        job = answer[TYPE]
        self.eventually(lambda: rest("GET", f"/tasks/task/{job}/state") in ("COMPLETED", "FAILED"))
        (info,) = rest("GET", f"/tasks/task/{job}/debug", params={"verbosity": 1})["subtaskInfos"]
        return f"{info['state']}: {info['info']}"

    def watermark(self) -> float:
        """Return the watermark in days since the first."""
        record = self.realtime.rest("GET", f"/tasks/{TYPE}/t_REALTIME/metadata")
        return float((int(record["simpleFields"]["watermarkMs"]) - BASE) / DAY)


def moved(days: int) -> int:
    """Return the sum of the rows of the first days."""
    return sum(range(days * PER_DAY))


@pytest.fixture
def hybrid(make_realtime: Callable[..., Any], eventually: Callable[..., None]) -> Hybrid:
    return Hybrid(make_realtime(segment_rows=60, start=False), eventually, days=8)


class DiedError(Exception):
    """Stands for the end of a minion."""


def dying(function: Callable[..., Any], after: bool) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        if after:
            function(*given, **named)
        raise DiedError

    return call


def test_windows_are_moved_once_wherever_an_attempt_dies(hybrid: Hybrid, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs the table t_OFFLINE" in hybrid.schedule()
    hybrid.create_offline()
    whole = hybrid.total("t")
    steps: list[tuple[Any, str, bool]] = [
        (ControllerClient, "start_replace", True),
        (TaskContext, "upload", True),
        (ControllerClient, "end_replaces", False),
        (ControllerClient, "end_replaces", True),
        (executor, "write_memory", False),
        (executor, "write_memory", True),
    ]
    with steady(lambda: hybrid.total("t")):
        move_with_deaths(hybrid, monkeypatch, steps)
    # the rest of day 7 is still consumed
    assert hybrid.schedule().startswith("COMPLETED")
    assert (hybrid.schedule(), hybrid.watermark()) == ("", 7)
    # what the task remembers can be lost
    hybrid.realtime.rest("DELETE", f"/tasks/{TYPE}/t_REALTIME/metadata")
    assert (hybrid.schedule(), hybrid.watermark()) == ("", 7)
    assert (hybrid.total("t_OFFLINE"), hybrid.total("t")) == (moved(7), whole)
    rows = hybrid.realtime.ask("SELECT COUNT(*), MIN(ts), MAX(ts) FROM t_OFFLINE")["resultTable"]["rows"]
    assert rows == [[7 * 4 * 7, BASE, BASE + 7 * DAY - DAY // 4]]  # for each day, quarter of it, and s


def move_with_deaths(hybrid: Hybrid, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[Any, str, bool]]) -> None:
    """Move a window for each step, whose first attempt dies before or after it."""
    for day, (owner, name, after) in enumerate(steps):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, dying(getattr(owner, name), after))
            patch.setattr(replacing, "_undo", lambda *_: None)
            assert hybrid.schedule().startswith("TASK_ERROR: DiedError"), (name, after)
        is_shown = (name, after) in (("end_replaces", True), ("write_memory", False), ("write_memory", True))
        assert hybrid.total("t_OFFLINE") == moved(day + is_shown) or (not day and not is_shown)
        assert hybrid.watermark() == day + ((name, after) == ("write_memory", True))
        if hybrid.watermark() == day:
            told = hybrid.schedule()
            assert ("already has the window" in told) == is_shown, told
            assert told.startswith("COMPLETED")
        assert hybrid.watermark() == day + 1
        assert hybrid.total("t_OFFLINE") == moved(day + 1)
