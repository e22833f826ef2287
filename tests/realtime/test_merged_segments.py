"""MergeRollupTask on a consuming table: after any crash every row exists once, and consumption continues."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.steady import steady

from gamay.client.controller import ControllerClient
from gamay.minion import replacing
from gamay.minion.context import TaskContext

TYPE = "MergeRollupTask"
LEVEL = {"1day.bucketTimePeriod": "1d", "1day.bufferTimePeriod": "1d", "1day.maxNumRecordsPerSegment": "150"}


class DiedError(Exception):
    """Stands for the end of a minion."""


def dying(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        function(*given, **named)
        raise DiedError

    return call


def test_segments_of_a_stream_are_merged_wherever_an_attempt_dies(
    make_realtime: Callable[..., Any], eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    realtime = make_realtime(segment_rows=60, start=False)
    realtime.table["task"] = {"taskTypeConfigsMap": {TYPE: LEVEL}}
    realtime.start()
    realtime.create()
    realtime.produce(5 * 60 + 20)
    eventually(lambda: len(realtime.segments()) == 6 and realtime.all_there())
    last = [name for name, state in realtime.segments().items() if state != "CONSUMING"][-1]

    def schedule() -> str:
        answer = realtime.rest("POST", "/tasks/schedule", params={"taskType": TYPE, "tableName": "t_REALTIME"})
        job = answer.get(TYPE)
        if job is None:
            return ""
        eventually(lambda: realtime.rest("GET", f"/tasks/task/{job}/state") in ("COMPLETED", "FAILED"))
        (info,) = realtime.rest("GET", f"/tasks/task/{job}/debug", params={"verbosity": 1})["subtaskInfos"]
        return f"{info['state']}: {info['info']}"

    with steady(realtime.counts):
        for owner, name in ((ControllerClient, "start_replace"), (TaskContext, "upload"), (TaskContext, "upload")):
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, dying(getattr(owner, name)))
                patch.setattr(replacing, "_undo", lambda *_: None)
                assert schedule().startswith("TASK_ERROR: DiedError")
        assert schedule() == "COMPLETED: 4 segments with 240 rows became 2 with 240"
        assert schedule() == ""
    (visible,) = realtime.rest("GET", "/segments/t", params={"excludeReplacedSegments": "true"})
    merged = [name for name in visible["REALTIME"] if name.startswith("merged_1day_")]
    assert (len(merged), len(visible["REALTIME"])) == (2, 4)
    assert last in visible["REALTIME"]
    with monkeypatch.context() as patch:  # it has ended, but was not reported
        (consuming,) = (name for name, state in realtime.segments().items() if state == "CONSUMING")
        realtime.produce(70)
        eventually(lambda: realtime.all_there() and realtime.segments()[consuming] == "ONLINE")
        patch.setattr(ControllerClient, "end_replaces", dying(ControllerClient.end_replaces))
        assert schedule().startswith("TASK_ERROR: DiedError")
    assert realtime.all_there()
    assert schedule() == ""
    # what was replaced, and what the dead ones have pushed, goes
    assert realtime.rest("GET", "/periodictask/run", params={"taskname": "RetentionManager"})["isSuccessful"]
    realtime.stop()
    realtime.start()
    eventually(realtime.all_there)
