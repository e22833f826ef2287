"""`gamay spark`: what Spark's machines need."""

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
    python: Annotated[
        Path | None, typer.Option(help="The Python of the cluster's machines, where it has another path.")
    ] = None,
) -> None:
    """Pack this virtual environment, with compiled kernels, for `spark-submit --archives`."""
    from gamay.kernels import prebuilt  # what comes with the wheel is packed with it
    from gamay.kernels.cache_folder import cache_dir
    from gamay.kernels.catalog import compiling
    from gamay.spark.session.packing import pack_environment, submit_options

    kernels = cache_dir() if prebuilt.family() is None else None
    pack_environment(output, python=python, kernels=kernels)
    typer.echo(f"{output}: {output.stat().st_size:,} bytes")
    if kernels is not None and not compiling.is_compiled():
        typer.echo("Kernels are not all compiled, and executors will compile what is missing: run `gamay warmup` before.")
    typer.echo(f"Submit it from {Path(sys.prefix).parent}:")
    typer.echo(" \\\n    ".join(["spark-submit --master ...", *submit_options(output), "..."]))
