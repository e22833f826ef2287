"""`gamay admin`: the controller's REST interface on the command line."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gamay.cli import realtime, tasks, upsert
from gamay.cli.json_file import read_json
from gamay.cli.pinot_commands import PinotAware
from gamay.cli.provisioning import realtime_provisioning

app = typer.Typer(help="Administer a cluster over its REST interface.", no_args_is_help=True, cls=PinotAware)
app.add_typer(realtime.app, name="realtime")
app.add_typer(tasks.app, name="tasks")
app.add_typer(upsert.app, name="upsert")
app.command("realtime-provisioning")(realtime_provisioning)

Controller = Annotated[str, typer.Option(help="The controller to talk to.")]
LOCAL = "http://localhost:9000"


cluster_app = typer.Typer(help="Look at the cluster as a whole.", no_args_is_help=True)
app.add_typer(cluster_app, name="cluster")


@cluster_app.command("status")
def cluster_status(controller: Controller = LOCAL) -> None:
    """Print the cluster's problems, each with advice; status 1 when users are affected."""
    status, problems = _client(controller).cluster_status()
    typer.echo(status)
    for problem in problems:
        typer.echo(f"{problem['severity']:<9} {problem['subject']}: {problem['problem']}")
        typer.echo(f"          to do: {problem['advice']}")
    if status == "BAD":
        raise typer.Exit(1)


@app.command("repair")
def repair(
    path: Annotated[str | None, typer.Argument(help="The record to repair; without it, damaged ones are listed.")] = None,
    file: Annotated[Path | None, typer.Option(help="The schema, table config or record that it contained, as JSON.")] = None,
    controller: Controller = LOCAL,
) -> None:
    """List the unreadable records of the metadata store, or repair one; status 1 if some remain."""
    client = _client(controller)
    if path is not None:
        typer.echo(client.repair_record(path, None if file is None else read_json(file)))
    damaged = client.damaged_records()
    for one in damaged:
        typer.echo(f"{one['path']}: {one['problem']}")
        typer.echo(f"    remedy: {one['remedy']}")
    if damaged:
        raise typer.Exit(1)
    typer.echo("All records can be read.")


@app.command("json-schema")
def json_schema(
    name: Annotated[str, typer.Argument(help="table-config, schema, job-spec or role-config.")],
) -> None:
    """Print the JSON Schema of a kind of document, for completion and validation in editors."""
    from gamay.ingest.json_schemas import schema_text

    typer.echo(schema_text(name), nl=False)


def _client(url: str) -> Any:
    from gamay.client.controller import ControllerClient

    return ControllerClient(url)


@app.command("add-table")
def add_table(
    schema_file: Annotated[Path, typer.Option(help="The schema, as JSON.")],
    table_config_file: Annotated[Path, typer.Option(help="The table config, as JSON.")],
    controller: Controller = LOCAL,
) -> None:
    """Create a table: its schema (replaced where it exists) and its table config."""
    client = _client(controller)
    schema, config = read_json(schema_file), read_json(table_config_file)
    typer.echo(client.add_schema(schema))
    typer.echo(client.add_table(config))


@app.command("update-table")
def update_table(
    table_config_file: Annotated[Path, typer.Option(help="The table config, as JSON.")], controller: Controller = LOCAL
) -> None:
    """Replace a table's config."""
    typer.echo(_client(controller).update_table(read_json(table_config_file)))


@app.command("delete-table")
def delete_table(table: str, controller: Controller = LOCAL) -> None:
    """Drop a table and its segments; the schema stays."""
    typer.echo(_client(controller).delete_table(table))


@app.command("tables")
def tables(controller: Controller = LOCAL) -> None:
    """List the tables."""
    for name in _client(controller).list_tables():
        typer.echo(name)


@app.command("segments")
def segments(table: str, controller: Controller = LOCAL) -> None:
    """List the segments of a table."""
    for name in _client(controller).list_segments(table):
        typer.echo(name)


@app.command("upload-segment")
def upload_segment(
    table: str,
    segments: Annotated[
        list[Path], typer.Argument(help="Segment archives (.tar.zst, .tar.gz), unpacked segments, or folders of either.")
    ],
    controller: Controller = LOCAL,
) -> None:
    """Push segments to a table."""
    from gamay.cli.segments import segments_in, with_archive

    client = _client(controller)
    for segment in [found for path in segments for found in segments_in(path)]:
        with with_archive(segment) as archive:
            typer.echo(client.upload_tar(table, archive))


@app.command("delete-segment")
def delete_segment(table: str, segment: str, controller: Controller = LOCAL) -> None:
    """Delete one segment."""
    typer.echo(_client(controller).delete_segment(table, segment))


@app.command("reload")
def reload(
    table: str,
    segment: Annotated[str | None, typer.Option(help="One segment; by default all of the table.")] = None,
    controller: Controller = LOCAL,
) -> None:
    """Have the servers reload segments with the table's current config."""
    typer.echo(_client(controller).reload(table, segment))
