"""`gamay admin upsert`: tables with primary keys."""

from pathlib import Path
from typing import Annotated

import typer

from gamay.cli.json_file import read_json

app = typer.Typer(help="Plan tables with primary keys.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `estimate` a subcommand."""


@app.command("estimate")
def estimate_memory(
    schema_file: Annotated[Path, typer.Option(help="The schema, as JSON.")],
    table_config_file: Annotated[Path, typer.Option(help="The table config, as JSON.")],
    keys: Annotated[int, typer.Option(help="Number of primary keys per replica.", min=0)],
    key_bytes: Annotated[float, typer.Option(help="Average length of a key that is not hashed, in bytes.", min=0)] = 16,
) -> None:
    """Print the memory that the primary keys of a table will take."""
    from gamay.model.schema.schema import Schema
    from gamay.model.table.table_config import TableConfig
    from gamay.upsert.config.estimate import estimate

    schema = Schema.from_json(read_json(schema_file)).value
    found = estimate(schema, TableConfig.from_json(read_json(table_config_file)).value, keys, key_bytes)
    if found is None:
        typer.echo("The table has neither upsertConfig nor dedupConfig, so it has no key index.")
        raise typer.Exit(1)
    typer.echo(f"bytes a key: {found.entry_bytes + found.key_bytes:.0f} ({found.entry_bytes:.0f} of the index)")
    typer.echo(f"all keys: {found.total_bytes / 1e6:,.0f} MB")
