"""REST: creating, stopping and deleting maintenance tasks."""

from typing import Annotated, Any

from fastapi import Depends, Query, Request

from gamay.base.errors import InvalidConfigError
from gamay.cluster.tasks.records import Target
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, body_docs, json_body, principal_of, status

_EXAMPLE = {
    "taskType": "UpsertCompactionTask",
    "tableName": "orders_REALTIME",
    "taskName": "by-hand",
    "taskConfigs": {"bufferTimePeriod": "0d", "invalidRecordsThresholdCount": "1"},
}


def task_change_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Task"])
    tasks = services.tasks

    @router.post("/tasks/schedule", summary="Schedule the tasks that table configs demand")
    def schedule(
        task_type: Annotated[str | None, Query(alias="taskType", description="Default: all types")] = None,
        table: Annotated[str | None, Query(alias="tableName", description="Default: all tables")] = None,
        tag: Annotated[
            str | None, Query(alias="minionInstanceTag", description="Tag of the minions that run the tasks")
        ] = None,
    ) -> dict[str, str]:
        tables: list[str | None] = [None] if table is None else [*services.tables.resolve(table)]
        answer: dict[str, str] = {}
        errors: dict[str, list[str]] = {"generationErrors": [], "schedulingErrors": []}
        made: dict[str, list[str]] = {}
        for name in tables:
            if task_type is not None and name is not None and len(tables) > 1 and not _asks(services, name, task_type):
                continue
            done = tasks.scheduler.schedule(task_type, name, tag)
            for kind, jobs in done.jobs.items():
                made.setdefault(kind, []).extend(jobs)
            errors["generationErrors"] += done.generation_errors
            errors["schedulingErrors"] += done.scheduling_errors
        answer |= {kind: ",".join(jobs) for kind, jobs in made.items()}
        return answer | {key: "; ".join(texts) for key, texts in errors.items()}

    @router.post(
        "/tasks/execute",
        summary="Create a task with the settings of the request",
        openapi_extra=body_docs("The task", _EXAMPLE),
    )
    def execute(body: Annotated[dict[str, Any], Depends(json_body)]) -> dict[str, str]:
        task_type, table, given = body.get("taskType"), body.get("tableName"), body.get("taskConfigs") or {}
        name = body.get("taskName") or ""
        if not isinstance(task_type, str) or not isinstance(table, str) or not isinstance(name, str):
            raise InvalidConfigError("taskType and tableName must be strings, and so must taskName, if given")
        if not isinstance(given, dict):
            raise InvalidConfigError("taskConfigs must be an object of strings")
        settings = {str(key): str(value) for key, value in given.items()}
        return {one: tasks.scheduler.execute(task_type, one, name, settings) for one in services.tables.resolve(table)}

    @router.delete("/tasks/lock/forceRelease", summary="Release the lock of a table's task generation")
    def release(table: Annotated[str, Query(alias="tableNameWithType")]) -> dict[str, Any]:
        held = tasks.release_lock(table)
        return status(f"Successfully released lock on table {table}" if held else f"Table {table} was not locked")

    @router.delete("/tasks/task/{name}", summary="Cancel and delete a task")
    def delete_task(
        request: Request, name: str, force: Annotated[bool, Query(alias="forceDelete")] = False
    ) -> dict[str, Any]:
        for table in tasks.queues.find(name).tables:
            principal_of(request).check_table(table)
        tasks.queues.delete_job(name)
        return status(f"Successfully deleted task: {name}")

    @router.delete("/tasks/{task_type}/{table}/metadata", summary="Delete the metadata of a task type about a table")
    def delete_metadata(task_type: str, table: str) -> dict[str, Any]:
        tasks.delete_metadata(table, task_type)
        return status(f"Successfully deleted metadata for table: {table}, task type: {task_type}")

    _add_queue(router, services)
    return router


def _add_queue(router: GuardedRouter, services: Services) -> None:
    queues = services.tasks.queues

    @router.put("/tasks/{task_type}/cleanup", summary="Delete the finished tasks of a type")
    def clean_up(task_type: str) -> dict[str, Any]:
        queues.clean_up(task_type)
        return status(f"Successfully cleaned up tasks for task type: {task_type}")

    @router.put("/tasks/{task_type}/stop", summary="Stop the tasks of a type")
    def stop(task_type: str) -> dict[str, Any]:
        queues.set_target(task_type, Target.STOP)
        return status(f"Successfully stopped tasks for task type: {task_type}")

    @router.put("/tasks/{task_type}/resume", summary="Resume the tasks of a type")
    def resume(task_type: str) -> dict[str, Any]:
        queues.set_target(task_type, Target.START)
        return status(f"Successfully resumed tasks for task type: {task_type}")

    @router.delete("/tasks/{task_type}", summary="Delete the queue of a type with its tasks")
    def delete(
        task_type: str,
        force: Annotated[bool, Query(alias="forceDelete", description="Even while tasks of the queue run")] = False,
    ) -> dict[str, Any]:
        queues.delete(task_type, force=force)
        return status(f"Successfully deleted tasks for task type: {task_type}")


def _asks(services: Services, table: str, task_type: str) -> bool:
    task = services.tables.get(table).task
    return task is not None and task_type in task.task_types
