"""REST: maintenance tasks and their progress."""

from typing import Annotated, Any

from fastapi import Query, Request

from gamay.base.errors import NotFoundError
from gamay.cluster.tasks.records import Job, Subtask
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, principal_of
from gamay.controller.tasks import views

Verbosity = Annotated[int, Query(description="Above 0: all subtasks; otherwise those that run or failed")]
SubtaskNames = Annotated[str, Query(alias="subtaskNames", description="Separated by commas; default: all")]


def task_router(services: Services) -> GuardedRouter:
    """Return the routes. Routes with a fixed word in place of a task type come first."""
    router = GuardedRouter(tags=["Task"])
    tasks = services.tasks

    @router.get("/tasks/tasktypes", summary="List the task types that have a queue")
    def types() -> list[str]:
        return tasks.queues.types()

    @router.get("/tasks/summary", summary="Count the running and the waiting subtasks")
    def summary(tenant: Annotated[str | None, Query(description="Tag of the minions")] = None) -> dict[str, Any]:
        return tasks.summary(tenant)

    _add_scheduler(router, services)
    _add_task(router, services)
    _add_subtask(router, services)
    _add_queue(router, services)
    _add_table(router, services)
    return router


def _add_scheduler(router: GuardedRouter, services: Services) -> None:
    tasks = services.tasks

    @router.get("/tasks/scheduler/information", summary="Show the scheduler and its jobs")
    def information() -> dict[str, Any]:
        details = [_schedule_of(*entry) for entry in tasks.schedules()]
        return {
            "Version": None,
            "SchedulerName": "TaskLead",
            "SchedulerInstanceId": services.context.instance_id,
            "getThreadPoolClass": None,
            "getThreadPoolSize": 1,
            "SchedulerRunningSince": None,
            "NumOfJobsExecuted": None,
            "Summary": f"{len(details)} schedules",
            "JobDetails": details,
        }

    @router.get("/tasks/scheduler/jobKeys", summary="List the schedules")
    def job_keys(request: Request) -> list[dict[str, str]]:
        may_use = principal_of(request).may_use
        return [{"name": table, "group": task_type} for table, task_type, *_ in tasks.schedules() if may_use(table)]

    @router.get("/tasks/scheduler/jobDetails", summary="Show one schedule")
    def job_details(
        table: Annotated[str, Query(alias="tableName")], task_type: Annotated[str, Query(alias="taskType")]
    ) -> dict[str, Any]:
        for entry in tasks.schedules():
            if entry[0] == table and entry[1] == task_type:
                return _schedule_of(*entry)
        raise NotFoundError(f"Unable to find job detail for table name - {table}, task type - {task_type}")

    @router.get("/tasks/generator/{table}/{task_type}/debug", summary="Show when a table's tasks were generated, and errors")
    def generator(table: str, task_type: str) -> list[dict[str, Any]]:
        return [tasks.generator_debug(table, task_type)]


def _schedule_of(
    table: str, task_type: str, expression: str, next_ms: int | None, previous_ms: int | None
) -> dict[str, Any]:
    return {
        "JobKey": f"{task_type}.{table}",
        "Description": None,
        "JobClass": "CronJobScheduleJob",
        "JobDataMap": {},
        "Triggers": [
            {
                "TriggerType": "CronTriggerImpl",
                "CronExpression": expression,
                "NextFireTime": None if next_ms is None else views.readable(next_ms),
                "PreviousFireTime": None if previous_ms is None else views.readable(previous_ms),
            }
        ],
    }


def _add_task(router: GuardedRouter, services: Services) -> None:
    tasks = services.tasks

    @router.get("/tasks/task/{name}/state", summary="Show the state of a task")
    def state(request: Request, name: str) -> str:
        return str(tasks.queues.state(_found(services, request, name)).value)

    @router.get("/tasks/task/{name}/config", summary="List the configs of a task's subtasks")
    def config(request: Request, name: str) -> list[dict[str, Any]]:
        job = _found(services, request, name)
        return [views.config_of(job, subtask) for subtask in tasks.queues.subtasks(job)]

    @router.get(
        "/tasks/task/{name}/runtime/config", summary="Show the limits and settings under which a task's subtasks run"
    )
    def runtime_config(request: Request, name: str) -> dict[str, str]:
        return views.runtime_config(_found(services, request, name).limits)

    @router.get("/tasks/task/{name}/debug", summary="Show a task with its subtasks")
    def debug(
        request: Request,
        name: str,
        verbosity: Verbosity = 0,
        table: Annotated[str | None, Query(alias="tableName")] = None,
    ) -> dict[str, Any]:
        return tasks.debug(_found(services, request, name), verbosity, table)


def _add_subtask(router: GuardedRouter, services: Services) -> None:
    tasks = services.tasks

    def chosen(request: Request, name: str, names: str) -> list[tuple[Job, Subtask]]:
        job, wanted = _found(services, request, name), _names(names)
        return [(job, s) for s in tasks.queues.subtasks(job) if not wanted or s.name in wanted]

    @router.get("/tasks/subtask/workers/progress", summary="Show the progress of the minions' subtasks, by minion")
    def workers(
        state: Annotated[
            str, Query(alias="subTaskState", description="IN_PROGRESS, or UNKNOWN for all other states")
        ] = "IN_PROGRESS",
        minions: Annotated[str, Query(alias="minionWorkerIds", description="Separated by commas; default: all")] = "",
    ) -> dict[str, Any]:
        return tasks.worker_progress(state, _names(minions))

    @router.get("/tasks/subtask/{name}/state", summary="Show the states of a task's subtasks")
    def state(request: Request, name: str, subtasks: SubtaskNames = "") -> dict[str, str]:
        return {s.name: s.state.value for _, s in chosen(request, name, subtasks)}

    @router.get("/tasks/subtask/{name}/config", summary="Show the configs of subtasks")
    def config(request: Request, name: str, subtasks: SubtaskNames = "") -> dict[str, Any]:
        return {s.name: views.config_of(job, s) for job, s in chosen(request, name, subtasks)}

    @router.get("/tasks/subtask/{name}/progress", summary="Show the progress that minions reported for subtasks")
    def progress(request: Request, name: str, subtasks: SubtaskNames = "") -> dict[str, Any]:
        return tasks.progress(_found(services, request, name), _names(subtasks))


def _add_queue(router: GuardedRouter, services: Services) -> None:
    tasks = services.tasks

    @router.get("/tasks/{task_type}/state", summary="Show the state of the queue of a type")
    def state(task_type: str) -> str:
        return tasks.queue_state(task_type)

    @router.get("/tasks/{task_type}/tasks", summary="List the tasks of a type")
    def names(task_type: str) -> list[str]:
        return [job.name for job in tasks.jobs(task_type)]

    @router.get("/tasks/{task_type}/tasks/count", summary="Count the tasks of a type")
    def count(task_type: str) -> int:
        return len(tasks.jobs(task_type))

    @router.get("/tasks/{task_type}/taskstates", summary="Show the states of the tasks of a type")
    def states(task_type: str) -> dict[str, str]:
        return tasks.states(task_type)

    @router.get("/tasks/{task_type}/taskcounts", summary="Count the subtasks of each task of a type, by state")
    def counts(
        task_type: str,
        state: Annotated[str, Query(description="States of tasks, separated by commas")] = "",
        table: Annotated[str | None, Query(description="Typed name")] = None,
    ) -> dict[str, Any]:
        return tasks.counts(task_type, [one.upper() for one in _names(state)], table)

    @router.get("/tasks/{task_type}/debug", summary="Show all tasks of a type with their subtasks")
    def debug(task_type: str, verbosity: Verbosity = 0) -> dict[str, Any]:
        return {job.name: tasks.debug(job, verbosity) for job in tasks.jobs(task_type)}


def _add_table(router: GuardedRouter, services: Services) -> None:
    tasks = services.tasks

    @router.get("/tasks/{task_type}/{table}/state", summary="Show the states of a table's tasks of a type")
    def state(task_type: str, table: str) -> dict[str, str]:
        return tasks.states(task_type, table)

    @router.get("/tasks/{task_type}/{table}/debug", summary="Show a table's tasks of a type with their subtasks")
    def debug(task_type: str, table: str, verbosity: Verbosity = 0) -> dict[str, Any]:
        return {job.name: tasks.debug(job, verbosity, table) for job in tasks.jobs(task_type, table)}

    @router.get("/tasks/{task_type}/{table}/metadata", summary="Show the metadata of a task type about a table")
    def metadata(task_type: str, table: str) -> dict[str, Any]:
        return tasks.metadata(table, task_type)


def _found(services: Services, request: Request, name: str) -> Job:
    """Return a task. Raises NotFoundError, and ForbiddenError if the sender may not use one of its tables."""
    job = services.tasks.queues.find(name)
    for table in job.tables:
        principal_of(request).check_table(table)
    return job


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
