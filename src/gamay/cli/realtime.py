"""`gamay admin realtime`: status and control of stream consumption."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from gamay.shell.formats.table import print_table

app = typer.Typer(help="Manage tables that consume streams.", no_args_is_help=True)

Controller = Annotated[str, typer.Option(help="The controller to talk to.")]
_LOCAL = "http://localhost:9000"
_ERRORS_SHOWN = 5


def _client(url: str) -> Any:
    from gamay.client.controller import ControllerClient

    return ControllerClient(url)


@app.command("status")
def status(
    table: str,
    as_json: Annotated[bool, typer.Option("--json", help="Print all details, as JSON.")] = False,
    controller: Controller = _LOCAL,
) -> None:
    """Show offsets, lag, rates, memory, builds and errors of each consuming segment and replica."""
    found = _client(controller).realtime_status(table)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    _print_segments(found)
    _print_servers(found["servers"])
    if found["serversFailingToRespond"]:
        typer.echo(f"No answer from: {', '.join(found['serversFailingToRespond'])}")


def _print_segments(found: Mapping[str, Any]) -> None:
    rows = [
        (
            segment["segmentName"],
            server,
            replica["state"],
            replica["startOffset"],
            replica["currentOffset"],
            replica["recordsLag"],
            replica["numRows"],
            replica["rowsPerSecond"],
            replica["memoryBytes"],
            replica["messagesDropped"],
        )
        for segment in found["consumingSegments"]
        for server, replica in segment["replicas"].items()
    ]
    names = ("segment", "server", "state", "start", "offset", "lag", "rows", "rows/s", "memory", "dropped")
    types = ("STRING", "STRING", "STRING", "STRING", "STRING", "LONG", "LONG", "DOUBLE", "LONG", "LONG")
    print_table(names, types, rows)
    alone = [segment["segmentName"] for segment in found["consumingSegments"] if not segment["replicas"]]
    if alone:
        typer.echo(f"No server consumes: {', '.join(alone)}")
    done = found["completedSegments"]
    mean = f", of {done['meanRows']} rows and {done['meanSizeBytes']} bytes on average" if done["number"] else ""
    typer.echo(f"{done['number'] or 'no'} completed segments{mean}")


def _print_servers(servers: Mapping[str, Any]) -> None:
    for server, known in servers.items():
        builds = known["builds"]
        mean_ms = round(sum(built["buildTimeMs"] for built in builds) / len(builds)) if builds else None
        built = f"{len(builds)} segments built lately in {mean_ms} ms on average" if builds else "no segment built lately"
        dead = ", ".join(f"{number} {kind}" for kind, number in known["deadLetters"].items() if number) or "none"
        typer.echo(f"{server}: {built}; permanent errors: {known['numPermanentErrors']}; dead letters: {dead}")
        for error in known["errors"][-_ERRORS_SHOWN:]:
            kind = "permanent" if error["permanent"] else "temporary"
            typer.echo(f"  {error['segment']}, {kind}: {error['reason']}")


@app.command("dead-letters")
def dead_letters(
    table: str,
    limit: Annotated[int, typer.Option(help="Number of messages to show, the latest ones.")] = 100,
    replay: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTITION:OFFSET", help="Write this message to the stream again; repeatable."),
    ] = None,
    replay_all: Annotated[bool, typer.Option("--replay-all", help="Write all messages again that were not yet.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="With --replay: include messages that were already replayed.")
    ] = False,
    controller: Controller = _LOCAL,
) -> None:
    """List messages that could not become rows, and offsets that the stream had lost: one JSON object a line.

    With --replay or --replay-all, write them to the stream again, and print the outcome of each.
    """
    if replay_all and (replay or again):
        raise typer.BadParameter("it cannot be combined with --replay or --again", param_hint="--replay-all")
    if replay or replay_all:
        _replay(_client(controller), table, None if replay_all else _places(replay or []), again)
        return
    for entry in _client(controller).dead_letters(table, limit):
        typer.echo(json.dumps(entry))


def _places(texts: Sequence[str]) -> list[tuple[int, str]]:
    parts = [text.partition(":") for text in texts]
    if wrong := [
        text for text, (partition, _, offset) in zip(texts, parts, strict=True) if not (partition.isdecimal() and offset)
    ]:
        raise typer.BadParameter(f"'{wrong[0]}' is no PARTITION:OFFSET, such as 0:17", param_hint="--replay")
    return [(int(partition), offset) for partition, _, offset in parts]


def _replay(client: Any, table: str, places: Sequence[tuple[int, str]] | None, again: bool) -> None:
    while True:
        found = client.replay_dead_letters(table, places, again=again)
        for entry in (*found["replayed"], *found["notReplayed"]):
            typer.echo(json.dumps(entry))
        if found["serversFailingToRespond"]:
            typer.echo(f"No answer from: {', '.join(found['serversFailingToRespond'])}", err=True)
        if not found["more"] or not found["replayed"]:
            return


@app.command("pause")
def pause(
    table: str,
    comment: Annotated[str | None, typer.Option(help="Shown in the pause status.")] = None,
    controller: Controller = _LOCAL,
) -> None:
    """Commit the consuming segments, and stop consuming."""
    typer.echo(json.dumps(_client(controller).pause_consumption(table, comment)))


@app.command("resume")
def resume(
    table: str,
    consume_from: Annotated[str | None, typer.Option(help="lastConsumed, smallest or largest.")] = None,
    controller: Controller = _LOCAL,
) -> None:
    """Resume consuming."""
    typer.echo(json.dumps(_client(controller).resume_consumption(table, consume_from)))


@app.command("force-commit")
def force_commit(table: str, controller: Controller = _LOCAL) -> None:
    """Commit all consuming segments as they are."""
    typer.echo(_client(controller).force_commit(table))
