"""`gamay admin tasks`: status and control of maintenance tasks."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from gamay.shell.formats.table import print_table

app = typer.Typer(help="Manage maintenance tasks such as compaction.", no_args_is_help=True)

Controller = Annotated[str, typer.Option(help="The controller to talk to.")]
TaskType = Annotated[str, typer.Argument(metavar="TYPE", help="The task type, such as UpsertCompactionTask.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="The task's name.")]
_LOCAL = "http://localhost:9000"
_COUNTS = ("total", "completed", "running", "waiting", "error", "timedOut", "aborted")


def _client(url: str) -> Any:
    from gamay.client.controller import ControllerClient

    return ControllerClient(url)


@app.command("list")
def list_tasks(
    task_type: Annotated[str | None, typer.Option("--type", help="One type; by default all.")] = None,
    table: Annotated[str | None, typer.Option(help="One table, by its typed name; by default all.")] = None,
    controller: Controller = _LOCAL,
) -> None:
    """List the tasks with their states and their numbers of subtasks in each state."""
    client = _client(controller)
    rows = []
    for kind in client.task_types() if task_type is None else [task_type]:
        states, counts = client.task_states(kind), client.task_counts(kind, table)
        rows += [(name, states.get(name, "gone"), *(found[key] for key in _COUNTS)) for name, found in counts.items()]
    names = ("task", "state", "subtasks", "completed", "running", "waiting", "failed", "timed out", "cancelled")
    print_table(names, ("STRING", "STRING", *("LONG",) * len(_COUNTS)), rows)


@app.command("show")
def show(
    name: TaskName,
    as_json: Annotated[bool, typer.Option("--json", help="Print all details, as JSON.")] = False,
    controller: Controller = _LOCAL,
) -> None:
    """Show a task with its subtasks and their results; status 1 if it has failed."""
    client = _client(controller)
    found = client.task_debug(name)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        _print_task(name, found, client.task_progress(name))
    if found["taskState"] in ("FAILED", "TIMED_OUT", "ABORTED"):
        raise typer.Exit(1)


def _print_task(name: str, found: Mapping[str, Any], progress: Mapping[str, Any]) -> None:
    counts = found["subtaskCount"]
    parts = ", ".join(f"{counts[key]} {key}" for key in _COUNTS[1:] if counts[key]) or "none"
    typer.echo(f"{name}: {found['taskState']}; subtasks: {counts['total']} ({parts})")
    typer.echo(f"  made {found['startTime']} ({found['triggeredBy']}), ended {found['finishTime'] or 'not yet'}")
    for subtask in found["subtaskInfos"]:
        said = subtask["info"] or progress.get(subtask["taskId"]) or ""
        where = subtask["participant"] or "no minion yet"
        typer.echo(f"  {subtask['taskId'].rpartition('_')[2]}: {subtask['state']} ({where}) {said}")


@app.command("schedule")
def schedule(
    task_type: Annotated[str | None, typer.Option("--type", help="One type; by default all.")] = None,
    table: Annotated[str | None, typer.Option(help="One table; by default all.")] = None,
    controller: Controller = _LOCAL,
) -> None:
    """Schedule now the tasks that table configs define; status 1 if some could not be scheduled."""
    answer = _client(controller).schedule_tasks(task_type, table)
    errors = [answer.pop(key, "") for key in ("generationErrors", "schedulingErrors")]
    for kind, names in answer.items():
        for name in names.split(","):
            typer.echo(f"{kind}: {name}")
    if not answer:
        typer.echo("There is nothing to do.")
    for text in filter(None, errors):
        typer.echo(f"failed: {text}", err=True)
    if any(errors):
        raise typer.Exit(1)


@app.command("execute")
def execute(
    task_type: TaskType,
    table: Annotated[str, typer.Argument(help="The table.")],
    name: Annotated[str, typer.Option(help="The last part of the task's name; by default generated.")] = "",
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="key=value, overriding the table's; repeatable.")
    ] = None,
    controller: Controller = _LOCAL,
) -> None:
    """Run one task with the given settings."""
    given = dict(_pair(text) for text in setting or [])
    for made in _client(controller).execute_task(task_type, table, name, given).values():
        typer.echo(made)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise typer.BadParameter(f"--set {text}: expected key=value")
    return key, value


@app.command("stop")
def stop(task_type: TaskType, controller: Controller = _LOCAL) -> None:
    """Stop the tasks of a type; minions abort their running subtasks."""
    typer.echo(_client(controller).change_queue(task_type, "stop"))


@app.command("resume")
def resume(task_type: TaskType, controller: Controller = _LOCAL) -> None:
    """Resume the tasks of a type."""
    typer.echo(_client(controller).change_queue(task_type, "resume"))


@app.command("cleanup")
def cleanup(task_type: TaskType, controller: Controller = _LOCAL) -> None:
    """Delete the tasks of a type that have ended."""
    typer.echo(_client(controller).change_queue(task_type, "cleanup"))


@app.command("cancel")
def cancel(names: Annotated[list[str], typer.Argument(metavar="TASK...")], controller: Controller = _LOCAL) -> None:
    """Cancel tasks and delete them."""
    client = _client(controller)
    for name in names:
        typer.echo(client.delete_task(name))


@app.command("delete")
def delete(
    task_type: TaskType,
    force: Annotated[bool, typer.Option(help="Delete it even while its tasks are running.")] = False,
    controller: Controller = _LOCAL,
) -> None:
    """Delete the queue of a type with its tasks."""
    typer.echo(_client(controller).delete_queue(task_type, force=force))
