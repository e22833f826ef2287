"""`gamay spark`: preparation of the environment for a Spark cluster."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Get ready to run on a cluster of Spark.", no_args_is_help=True)


@app.callback()
def spark() -> None:
    """Get ready to run on a cluster of Spark."""


@app.command("pack")
def pack(
    output: Annotated[Path, typer.Argument(help="The archive to write, .tar.gz.")] = Path("environment.tar.gz"),
    python: Annotated[Path | None, typer.Option(help="The path of Python on the cluster's machines, if it differs.")] = None,
) -> None:
    """Pack this virtual environment, with compiled kernels, for `spark-submit --archives`."""
    from gamay.kernels import prebuilt  # kernels prebuilt in the wheel are packed with it
    from gamay.kernels.cache_folder import cache_dir
    from gamay.kernels.catalog import compiling
    from gamay.spark.session.packing import pack_environment, submit_options

    kernels = cache_dir() if prebuilt.family() is None else None
    pack_environment(output, python=python, kernels=kernels)
    typer.echo(f"{output}: {output.stat().st_size:,} bytes")
    if kernels is not None and not compiling.is_compiled():
        typer.echo("Not all kernels are compiled, so executors will compile the missing ones: run `gamay warmup` first.")
    typer.echo(f"Submit it from {Path(sys.prefix).parent}:")
    typer.echo(" \\\n    ".join(["spark-submit --master ...", *submit_options(output), "..."]))
