"""Every REST call about tasks: responses and errors."""

from collections.abc import Callable
from typing import Any

TYPE = "UpsertCompactionTask"
TABLE = "orders_REALTIME"
COMPACT = {"bufferTimePeriod": "0d", "invalidRecordsThresholdCount": "1"}


def test_tasks_over_rest(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> None:
    orders = make_orders(segment_rows=50).create(UpsertCompactionTask={**COMPACT, "schedule": "0 0 0 1 1 ?"})
    ask, rest = orders.ask_controller, orders.rest
    assert rest("GET", "/tasks/tasktypes") == []
    assert ask("GET", f"/tasks/{TYPE}/state").status_code == 404
    assert ask("GET", f"/tasks/generator/{TABLE}/{TYPE}/debug").status_code == 404
    orders.produce(300, keys=40)
    eventually(lambda: len(orders.segments()) >= 4 and orders.is_right())
    body = {"taskType": TYPE, "tableName": "orders", "taskName": "mine", "taskConfigs": {"bufferTimePeriod": "0d"}}
    assert rest("POST", "/tasks/execute", json=body) == {TABLE: f"Task_{TYPE}_mine"}
    job = f"Task_{TYPE}_mine"
    eventually(lambda: rest("GET", f"/tasks/task/{job}/state") == "COMPLETED")
    assert ask("POST", "/tasks/execute", json={**body, "taskType": "NoTask"}).status_code == 404
    assert ask("POST", "/tasks/execute", json={**body, "tableName": "nobody"}).status_code == 404
    nothing = {**body, "taskConfigs": {"bufferTimePeriod": "99999d"}}
    answer = ask("POST", "/tasks/execute", json=nothing)
    assert (answer.status_code, "No task was generated" in answer.json()["error"]) == (400, True)
    assert ask("POST", "/tasks/execute", json={**body, "taskConfigs": {"bufferTimePeriod": "x"}}).status_code == 400
    assert rest("GET", "/tasks/tasktypes") == [TYPE]
    assert rest("GET", f"/tasks/{TYPE}/state") == "IN_PROGRESS"
    assert rest("GET", f"/tasks/{TYPE}/tasks") == [job]
    assert rest("GET", f"/tasks/{TYPE}/tasks/count") == 1
    assert rest("GET", f"/tasks/{TYPE}/{TABLE}/state") == rest("GET", f"/tasks/{TYPE}/taskstates") == {job: "COMPLETED"}
    (counts,) = rest("GET", f"/tasks/{TYPE}/taskcounts", params={"state": "COMPLETED", "table": TABLE}).values()
    assert set(counts) == {"total", "completed", "running", "waiting", "error", "unknown", "dropped", "timedOut", "aborted"}
    assert counts["total"] == counts["completed"] > 0
    assert rest("GET", f"/tasks/{TYPE}/taskcounts", params={"state": "FAILED"}) == {}
    assert rest("GET", "/tasks/summary") == {"totalRunningTasks": 0, "totalWaitingTasks": 0, "taskBreakdown": []}
    names = list(rest("GET", f"/tasks/subtask/{job}/state"))
    assert set(rest("GET", f"/tasks/subtask/{job}/state", params={"subtaskNames": names[0]}).values()) == {"COMPLETED"}
    assert rest("GET", f"/tasks/subtask/{job}/config", params={"subtaskNames": names[0]})[names[0]]["taskType"] == TYPE
    assert "rows" in rest("GET", f"/tasks/subtask/{job}/progress")[names[0]]
    (by_minion,) = rest("GET", "/tasks/subtask/workers/progress", params={"subTaskState": "COMPLETED"}).values()
    assert set(names) <= set(by_minion)
    assert len(rest("GET", f"/tasks/task/{job}/config")) == len(names)
    assert rest("GET", f"/tasks/task/{job}/runtime/config")["TaskTimeoutPerTask"] == "3600000"
    assert rest("GET", f"/tasks/{TYPE}/debug")[job]["taskState"] == "COMPLETED"
    assert rest("GET", f"/tasks/{TYPE}/{TABLE}/debug", params={"verbosity": 1})[job]["triggeredBy"] == "ADHOC_TRIGGER"
    assert ask("GET", f"/tasks/{TYPE}/{TABLE}/metadata").status_code == 404
    _change(orders, job)


def _change(orders: Any, job: str) -> None:
    ask, rest = orders.ask_controller, orders.rest
    done = f"tasks for task type: {TYPE}"
    assert rest("PUT", f"/tasks/{TYPE}/stop", json={"stray": 1}) == {"status": f"Successfully stopped {done}"}
    assert rest("GET", f"/tasks/{TYPE}/state") == "STOPPED"
    assert rest("PUT", f"/tasks/{TYPE}/resume") == {"status": f"Successfully resumed {done}"}
    answer = rest("POST", "/tasks/schedule", params={"tableName": "orders"})
    assert (answer["generationErrors"], answer["schedulingErrors"]) == ("", "")
    (info,) = rest("GET", f"/tasks/generator/{TABLE}/{TYPE}/debug")
    assert (len(info["mostRecentSuccessRunTS"]), info["mostRecentErrorRunMessages"]) == (1, {})
    assert ask("POST", "/tasks/schedule", params={"taskType": "NoTask"}).status_code == 404
    assert (
        ask("POST", "/tasks/schedule", params={"taskType": "UpsertCompactMergeTask", "tableName": TABLE}).status_code == 404
    )
    details = rest("GET", "/tasks/scheduler/jobDetails", params={"tableName": TABLE, "taskType": TYPE})
    assert details["Triggers"][0]["CronExpression"] == "0 0 0 1 1 ?"
    assert details["Triggers"][0]["NextFireTime"].endswith("-01-01 00:00:00 UTC")
    assert rest("GET", "/tasks/scheduler/information")["JobDetails"] == [details]
    assert rest("GET", "/tasks/scheduler/jobKeys") == [{"name": TABLE, "group": TYPE}]
    released = rest("DELETE", "/tasks/lock/forceRelease", params={"tableNameWithType": TABLE})
    assert released == {"status": f"Table {TABLE} was not locked"}
    assert rest("DELETE", f"/tasks/task/{job}") == {"status": f"Successfully deleted task: {job}"}
    assert ask("DELETE", f"/tasks/task/{job}").status_code == 404
    assert rest("PUT", f"/tasks/{TYPE}/cleanup") == {"status": f"Successfully cleaned up {done}"}
    assert rest("DELETE", f"/tasks/{TYPE}", params={"forceDelete": "true"}) == {"status": f"Successfully deleted {done}"}
    assert rest("GET", "/tasks/tasktypes") == []


def test_tasks_of_a_deleted_table_are_given_up(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> None:
    orders = make_orders(segment_rows=50).create(UpsertCompactionTask=COMPACT)
    orders.produce(200, keys=10)
    eventually(lambda: len(orders.segments()) >= 3 and orders.is_right())
    first = orders.schedule_one(TYPE)
    eventually(lambda: orders.rest("GET", f"/tasks/task/{first}/state") == "COMPLETED")
    orders.rest("PUT", f"/tasks/{TYPE}/stop")
    orders.produce(200, keys=10)
    eventually(lambda: orders.is_right() and orders.schedule(TYPE))
    (second,) = set(orders.rest("GET", f"/tasks/{TYPE}/tasks")) - {first}
    orders.rest("DELETE", "/tables/orders?ignoreActiveTasks=true")
    assert set(orders.rest("GET", f"/tasks/subtask/{second}/state").values()) == {"TASK_ABORTED"}


def test_a_schedule_makes_tasks(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> None:
    orders = make_orders(segment_rows=50).create(UpsertCompactionTask={**COMPACT, "schedule": "* * * * * ?"})
    orders.produce(200, keys=10)
    eventually(lambda: len(orders.segments()) >= 3 and orders.is_right())
    assert orders.rest("GET", "/tasks/tasktypes") == []
    orders.rest("POST", "/cluster/configs", json={"controller.task.scheduler.enabled": "true"})
    eventually(lambda: orders.rest("GET", "/tasks/tasktypes") == [TYPE] or len(orders.segments()) < 3)
    eventually(lambda: orders.is_right() and orders.all_rows() < 200)


def test_a_minion_tells_of_itself(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> None:
    import httpx

    orders = make_orders()
    minion = httpx.Client(base_url=orders.cluster.minion_url)
    eventually(lambda: minion.get("/health").status_code == 200)
    assert "pinot_minion_numberOfTasks 0.0" in minion.get("/metrics").text
    assert minion.get("/tasks/subtask/progress", params={"subtaskNames": "a,b"}).json() == {}
    assert minion.get("/tasks/subtask/progressStats", params={"subtaskName": "a"}).status_code == 404
    assert minion.get("/tasks/subtask/state/progress").json() == {}
    assert minion.get("/instance/tags").json() == ["minion_untagged"]
