"""Tasks interrupted by the loss of a minion, of the whole cluster, or of the segment being processed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.ids import RANDOM_IDS
from gamay.cluster.records.records import Instance
from gamay.cluster.store.zookeeper_store import ZooKeeperAddress, ZooKeeperStore
from gamay.cluster.tasks.queue import Leased, TaskQueues
from gamay.cluster.tasks.records import Job, JobState, SubtaskState
from gamay.minion import rebuild
from gamay.minion.context import TaskContext
from gamay.minion.progress import AttemptProgress
from gamay.minion.worker import TaskWorker

TYPE = "UpsertCompactionTask"
COMPACT = {"bufferTimePeriod": "0d", "invalidRecordsThresholdCount": "1"}


def prepared(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> Any:
    orders = make_orders(segment_rows=60).create(UpsertCompactionTask=COMPACT)
    orders.produce(500, keys=100)
    eventually(lambda: len(orders.segments()) >= 6 and orders.is_right())
    return orders


def test_a_restart_in_the_middle_goes_on_with_what_was_begun(
    make_orders: Callable[..., Any], eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = prepared(make_orders, eventually)
    before = orders.all_rows()
    held: list[str] = []

    def wait_for_the_end(task: TaskContext, *_: Any, **__: Any) -> None:
        held.append(task.leased.subtask.name)
        eventually(task.progress.check)  # raises once the minion ends

    with monkeypatch.context() as patch:
        patch.setattr(TaskContext, "upload", wait_for_the_end)
        job = orders.schedule_one(TYPE)
        eventually(lambda: held)
        orders.stop()
    orders.start()
    eventually(lambda: orders.rest("GET", f"/tasks/task/{job}/state") == "COMPLETED")
    eventually(lambda: orders.is_right() and orders.all_rows() < before)


def test_a_segment_that_is_replaced_meanwhile_is_left_alone(
    make_orders: Callable[..., Any], eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = prepared(make_orders, eventually)
    uploads: list[str] = []
    upload = TaskContext.upload

    def upload_twice(task: TaskContext, built: Any, custom: Any, **options: Any) -> None:
        uploads.append(built.archive)
        upload(task, built, custom, **options)  # another one was faster
        upload(task, built, custom, **options)

    monkeypatch.setattr(TaskContext, "upload", upload_twice)
    job = orders.schedule_one(TYPE)
    eventually(lambda: orders.rest("GET", f"/tasks/task/{job}/state") == "COMPLETED")
    infos = orders.rest("GET", f"/tasks/task/{job}/debug", params={"verbosity": 1})["subtaskInfos"]
    assert uploads
    assert any("replaced or deleted meanwhile" in info["info"] for info in infos)
    eventually(orders.is_right)


def test_a_failing_task_says_why(
    make_orders: Callable[..., Any], eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = prepared(make_orders, eventually)
    monkeypatch.setattr(rebuild, "write_kept", lambda *_: 1 / 0)
    orders.rest("POST", "/cluster/configs", json={f"{TYPE}.maxAttemptsPerTask": "2"})
    job = orders.schedule_one(TYPE)
    eventually(lambda: orders.rest("GET", f"/tasks/task/{job}/state") == "FAILED")
    info = orders.rest("GET", f"/tasks/task/{job}/debug")["subtaskInfos"][0]
    assert (info["state"], "ZeroDivisionError" in info["info"]) == (SubtaskState.TASK_ERROR.value, True)
    assert orders.is_right()


WORKER = """
import sys, threading
from pathlib import Path
from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.ids import RANDOM_IDS
from gamay.cluster.records.records import Instance
from gamay.cluster.store.zookeeper_store import ZooKeeperAddress, ZooKeeperStore
from gamay.minion.worker import TaskWorker

store = ZooKeeperStore.open(ZooKeeperAddress(sys.argv[1], "Test", session_timeout_s=2, patience_s=20))

def run(leased, progress, folder):
    print(leased.subtask.name, flush=True)
    threading.Event().wait()

me = Instance("Minion_doomed_1", "doomed", 1, ("minion_untagged",))
TaskWorker(me.id, store, lambda: me, run, ["PurgeTask"], Path(sys.argv[2]), SYSTEM_CLOCK, RANDOM_IDS).start()
threading.Event().wait()
"""


def test_another_minion_does_what_a_killed_one_had(
    zookeeper_hosts: str, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    store = ZooKeeperStore.open(ZooKeeperAddress(zookeeper_hosts, "Test", session_timeout_s=5, patience_s=20))
    queues = TaskQueues(store, SYSTEM_CLOCK)
    queues.submit(Job("Task_PurgeTask_x", "PurgeTask", ("t",), 0, SYSTEM_CLOCK.now_ms()), [("t", {"segmentName": "s"})])
    arguments = [sys.executable, "-c", WORKER, zookeeper_hosts, str(tmp_path / "doomed")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline().strip() == "Task_PurgeTask_x_0"
        doomed.kill()
    me = Instance("Minion_other_1", "other", 1, ("minion_untagged",))
    done: list[str] = []

    def run(leased: Leased, progress: AttemptProgress, folder: Path) -> str:
        done.append(leased.subtask.name)
        return "done at last"

    types, folder = ["PurgeTask"], tmp_path / "other"
    worker = TaskWorker(me.id, store, lambda: me, run, types, folder, SYSTEM_CLOCK, RANDOM_IDS, poll_s=0.2)
    worker.start()
    try:

        def ended() -> bool:
            queues.tend()
            return queues.find("Task_PurgeTask_x").ended is JobState.COMPLETED

        eventually(ended)
        (subtask,) = queues.subtasks(queues.find("Task_PurgeTask_x"))
        assert (subtask.worker, subtask.losses, subtask.attempts, subtask.info) == (me.id, 1, 1, "done at last")
        assert done == [subtask.name]
        assert worker.counts.completed == {"PurgeTask": 1}
    finally:
        worker.stop()
        store.close()
